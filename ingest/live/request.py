"""What is asked of the model process: one JSON object, bounded before it is parsed."""

from dataclasses import dataclass
from typing import Any

from schema.errors import AtlasError
from schema.interventions.intervention import Arm
from schema.interventions.parse import arm_of
from schema.interventions.reading import read_json, shown
from schema.live import MOST_ARMS

KEYS = {"text", "arms", "weights_sha256"}


@dataclass(frozen=True)
class Asked:
    """A prompt to trace, as it is and under arms. weights_sha256: of the atlas that its answer is joined with."""

    text: str
    arms: tuple[Arm, ...]
    weights_sha256: str


def parse_request(body: bytes) -> Asked:
    """Raises AtlasError, one line, for what is no request."""
    given = read_json(body, "requests")
    if not isinstance(given, dict) or not given.keys() <= KEYS or not given.keys() >= KEYS - {"arms"}:
        raise AtlasError(f"a request is an object with {', '.join(sorted(KEYS))}, not {shown(given)}")
    return Asked(text_of(given["text"]), arms_of(given.get("arms", [])), str(given["weights_sha256"]))


def text_of(given: Any) -> str:
    if not isinstance(given, str):
        raise AtlasError(f"text is {shown(given)}; it is a prompt")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise AtlasError(f"character {error.start} of the prompt is half of a pair (U+{ord(given[error.start]):04X}), and no text") from None
    return given


def arms_of(given: Any) -> tuple[Arm, ...]:
    if not isinstance(given, list):
        raise AtlasError(f"arms are {shown(given)}; they are a list of arms, each a list of interventions")
    if len(given) > MOST_ARMS:
        raise AtlasError(f"{len(given):,} arms were given; at most {MOST_ARMS} are read at once")
    found = []
    for place, arm in enumerate(given):
        try:
            found.append(arm_of(arm))
        except AtlasError as error:
            raise AtlasError(f"arm {place + 1} of {len(given)}: {error}") from None
    return tuple(found)
