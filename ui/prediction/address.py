"""Address parameters of the Prediction page: read as a view of a prediction, and written from a view. Pure functions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from atlas.address import Head, parse_head
from schema.errors import AtlasError
from schema.interventions.short import intervention_from

MOST_PROMPT = 600
"""Maximum characters of a prompt."""

MOST_SWITCHES = 16

MOST_SWITCH = 60
"""Maximum characters of a switch."""


ALL = "all"
"""Value of `parts` in an address that shows every part of a sum by itself."""


@dataclass(frozen=True)
class View:
    """A position of a corpus, or a prompt, and what is opened of it.

    index: number of the prompt's token, counted from the end if negative. off: switches, each an address (set to 0) or a short form such as L29N44=max*1.
    token, rival: texts of the tokens in question (`for`, `against`). layer: the opened layer. head: the head whose attention row is shown. is_whole: show every
    part of the sum by itself, and not only the largest.
    """

    position: int | None = None
    prompt: str | None = None
    index: int = -1
    off: tuple[str, ...] = ()
    token: str | None = None
    rival: str | None = None
    layer: int | None = None
    head: Head | None = None
    is_whole: bool = False

    def parameters(self) -> dict[str, str]:
        """Write the view's parameters as they are in an address, without those that have their default."""
        given = {
            "position": self.position, "prompt": self.prompt, "index": None if self.index == -1 else self.index, "off": ",".join(self.off) or None,
            "for": self.token, "against": self.rival, "open": None if self.layer is None else f"L{self.layer}", "head": self.head,
            "parts": ALL if self.is_whole else None,
        }  # fmt: skip
        return {name: str(value) for name, value in given.items() if value is not None}

    def with_changes(self, **changes: Any) -> "View":
        return replace(self, **changes)

    def with_switch(self, address: str, form: str | None) -> "View":
        """Copy the view with another switch of a neuron or head. form: the text that follows its address, '' for 0; None removes the switch."""
        kept = tuple(switch for switch in self.off if address_of(switch) != address)
        return self.with_changes(off=kept if form is None else (*kept, address + form))


def read_view(parameters: Mapping[str, str]) -> View:
    """Read the view from an address's parameters.

    Raises AtlasError for parameters that cannot be read, for a prompt that is too long, and for a position and a prompt at once.
    """
    if parameters.get("position") and parameters.get("prompt"):
        raise AtlasError("the address asks for a position and for a prompt: give one of them")
    prompt, head = parameters.get("prompt") or None, parameters.get("head")
    if prompt is not None and len(prompt) > MOST_PROMPT:
        raise AtlasError(f"the prompt has {len(prompt):,} characters; these pages take {MOST_PROMPT:,}, and `atlas trace` longer ones")
    return View(
        position=position(parameters.get("position", "").strip()),
        prompt=prompt,
        index=index(parameters.get("index") or "-1"),
        off=switches(parameters.get("off", "")) if prompt is not None else (),
        token=parameters.get("for") or None,
        rival=parameters.get("against") or None,
        layer=layer(parameters.get("open", "")),
        head=parse_head(head) if head else None,
        is_whole=parts(parameters.get("parts", "")),
    )


def position(asked: str) -> int | None:
    if asked and not re.fullmatch(r"[0-9]{1,15}", asked):
        raise AtlasError(f"no position {asked[:40]}: positions are whole numbers from 0; the page lists the traced ones if no position is given")
    return int(asked) if asked else None


def index(asked: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,5}", asked):
        raise AtlasError(f"{asked[:40]} is not the number of a token: the tokens of a prompt are counted from 0, or from the end by negative numbers")
    return int(asked)


def layer(asked: str) -> int | None:
    if asked and not re.fullmatch(r"[lL][0-9]{1,5}", asked):
        raise AtlasError(f"{asked[:40]!r} is not a layer: write L and its number, such as L28")
    return int(asked[1:]) if asked else None


def parts(asked: str) -> bool:
    if asked not in ("", ALL):
        raise AtlasError(f"parts={asked[:40]} is unknown: parts={ALL} shows all parts; without it, the largest are shown")
    return asked == ALL


def switches(asked: str) -> tuple[str, ...]:
    """Read the switches; the last counts if there are two of one component. Raises AtlasError for a text that is no switch, and for too many switches."""
    parts = [part.strip() for part in asked[: MOST_SWITCH * MOST_SWITCHES + MOST_SWITCHES].split(",") if part.strip()]
    if len(parts) > MOST_SWITCHES or len(asked) > MOST_SWITCH * MOST_SWITCHES:
        raise AtlasError(f"more than {MOST_SWITCHES} switches are in the address; `atlas trace --arm FILE` takes more")
    found: dict[str, str] = {}
    for part in parts:
        intervention_from(short_form(part), 0)
        found.pop(address_of(part), None)
        found[address_of(part)] = part
    return tuple(found.values())


def short_form(switch: str) -> str:
    """Write a switch as the model process takes it: an address alone means 0."""
    return switch if "=" in switch else f"{switch}=0"


def address_of(switch: str) -> str:
    return re.split(r"[*+]?=", switch, maxsplit=1)[0].upper()
