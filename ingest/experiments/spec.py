"""The complete specification of an experiment, as TOML: its kind, title, seed, settings and prompts."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ingest.experiments.kinds import kind_named
from schema import fields as reading
from schema.errors import AtlasError
from schema.reading import MOST_BYTES, shorten_json

MOST_PROMPTS = 4096

MOST_DEPTH = 8
"""Maximum depth of nested brackets, and maximum number of parts of a dotted key."""

STRINGS = re.compile("|".join((r'"""(?:\\.|[^\\])*?(?:"""|\Z)', r"'''.*?(?:'''|\Z)", r'"(?:\\.|[^"\\\n])*+"?', r"'[^'\n]*+'?", r"#[^\n]*+")), re.DOTALL)
DOTTED = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MOST_DEPTH}}}")
"""STRINGS and DOTTED never take quadratic time: an unclosed string is matched to where it would end, and a dotted key only from the start of a word."""


@dataclass(frozen=True)
class Spec:
    """A specification. settings and prompts: instances of the kind's dataclasses."""

    kind: str
    title: str
    seed: int
    settings: Any
    prompts: tuple[Any, ...]

    def settings_and_prompts(self) -> dict[str, Any]:
        """Return the settings and the prompts as JSON values, defaults included; kind, title and seed are left out."""
        return {"settings": given_fields(self.settings), "prompts": [given_fields(one) for one in self.prompts]}


@dataclass(frozen=True)
class SpecHeader:
    """The fields that specs of every kind have."""

    kind: str = reading.setting(help="the kind of experiment")
    title: str = reading.setting(help="the experiment's title")
    seed: int = reading.setting(0, help="seed of the random draws", least=0)


def given_fields(one: Any) -> dict[str, Any]:
    """Collect the fields of a dataclass that are not None: TOML has no null."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(one).items() if value is not None}


def read_file(path: Path) -> Spec:
    """Read a spec from a file; at most MOST_BYTES + 1 bytes are read. Raises AtlasError, with the file's name, for an unreadable file or an invalid spec."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise AtlasError(f"{path} cannot be read: {error.strerror}") from error
    try:
        return of_toml(data)
    except AtlasError as error:
        raise AtlasError(f"{path}: {error}") from None


def of_toml(data: bytes) -> Spec:
    """Read a spec from TOML. Raises AtlasError for data that is too long or not TOML, and as `spec_of` does."""
    if len(data) > MOST_BYTES:
        raise AtlasError(f"it has more than {MOST_BYTES:,} bytes, the most that are read")
    try:
        text = data.decode()
        require_shallow(text)
        return spec_of(tomllib.loads(text))
    except UnicodeDecodeError as error:
        raise AtlasError(f"it must be TOML in UTF-8, but byte {error.start} is not UTF-8") from None
    except ValueError as error:
        raise AtlasError(f"it is not valid TOML: {error}") from None


def require_shallow(text: str) -> None:
    """Raise AtlasError for TOML that would take long to parse, before it is parsed: dotted keys of many parts, and deeply nested brackets."""
    bare = STRINGS.sub("s", text)
    depth = deepest = 0
    for bracket in re.findall(r"[\[\]{}]", bare):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    if deepest > MOST_DEPTH or DOTTED.search(bare):
        raise AtlasError(f"it is nested deeper than {MOST_DEPTH}, which no experiment needs")


def spec_of(given: Mapping[str, Any]) -> Spec:
    """Build a spec from a TOML table or a JSON object. Raises AtlasError for an unknown kind or key, and for a value that is missing or not allowed."""
    own = {"settings", "prompts"}
    names = [f.name for f in fields(SpecHeader)]
    if unknown := [key for key in given if key not in {*own, *names}]:
        raise AtlasError(f"{shorten_json(unknown[0])} is unknown; an experiment has {', '.join((*names, 'settings', 'prompts'))}")
    head: SpecHeader = reading.read_fields(SpecHeader, {key: value for key, value in given.items() if key not in own}, "the experiment")
    kind = kind_named(head.kind)
    prompts = given.get("prompts", kind.usual or [])
    prompts = kind.shipped[prompts]() if isinstance(prompts, str) and prompts in kind.shipped else prompts
    if not isinstance(prompts, list | tuple) or not prompts:
        named = "".join(f", or '{name}' for those that come with the atlas" for name in kind.shipped)
        raise AtlasError(f"prompts is {shorten_json(prompts)}; it must be a list of one prompt or more{named}")
    if len(prompts) > MOST_PROMPTS:
        raise AtlasError(f"{len(prompts):,} prompts were given; at most {MOST_PROMPTS:,} are read")
    settings = reading.read_fields(kind.settings, given.get("settings", {}), "settings")
    return Spec(head.kind, head.title, head.seed, settings, tuple(reading.read_fields(kind.prompt, one, f"prompt {i}") for i, one in enumerate(prompts)))


def to_toml(spec: Spec) -> str:
    """Write a spec as TOML, from which `of_toml` reads the same spec."""
    asked = spec.settings_and_prompts()
    parts = [lines({"kind": spec.kind, "title": spec.title, "seed": spec.seed})]
    parts += ["[settings]\n" + lines(asked["settings"])]
    parts += ["[[prompts]]\n" + lines(one) for one in asked["prompts"]]
    return "\n".join(parts)


def lines(found: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {toml_value(value)}\n" for name, value in found.items())


def toml_value(value: Any) -> str:
    """Write a value as JSON, which is valid TOML except for the character DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
