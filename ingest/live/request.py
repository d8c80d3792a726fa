"""A request to the model process: one JSON object, whose size is limited before it is parsed."""

from dataclasses import dataclass
from typing import Any

from schema.errors import AtlasError
from schema.interventions.intervention import Arm
from schema.interventions.parse import MOST_SEEDS, arm_of
from schema.live import MOST_ARMS, MOST_FORWARDS, MOST_NEW_TOKENS, MOST_PROMPT_TOKENS
from schema.reading import read_json, read_whole_number, shorten_json

NEEDED = {"text", "weights_sha256"}
KEYS = NEEDED | {"arms", "n_new", "seed", "is_traced", "apart", "is_narrow", "is_chat"}


@dataclass(frozen=True)
class LiveRequest:
    """A prompt to trace, as it is and under arms. weights_sha256: of the atlas that its answer is joined with.

    n_new: tokens to continue with, the likeliest at each step, or drawn if there is a seed. is_traced: return the trace too, and not only the predictions.
    apart: index of the token whose prediction is attributed, from the end if negative; None for no attribution.
    is_narrow: return states and coefficients of that token alone. is_chat: the text is a user message, or a JSON list of messages.
    """

    text: str
    arms: tuple[Arm, ...]
    weights_sha256: str
    n_new: int = 0
    seed: int | None = None
    is_traced: bool = True
    apart: int | None = None
    is_narrow: bool = False
    is_chat: bool = False


def parse_request(body: bytes) -> LiveRequest:
    """Parse the body of a request. Raises AtlasError, with a message of one line, for an invalid request."""
    given = read_json(body, "requests")
    if not isinstance(given, dict) or not given.keys() <= KEYS or not given.keys() >= NEEDED:
        raise AtlasError(f"a request is an object with {', '.join(sorted(KEYS))}, not {shorten_json(given)}")
    arms, n_new, seed = arms_of(given.get("arms", [])), given.get("n_new", 0), given.get("seed")
    if not isinstance(is_traced := given.get("is_traced", True), bool):
        raise AtlasError(f"is_traced is {shorten_json(is_traced)}; it is true or false")
    if not isinstance(is_chat := given.get("is_chat", False), bool):
        raise AtlasError(f"is_chat is {shorten_json(is_chat)}; it is true or false")
    if read_whole_number(n_new, "n_new", MOST_NEW_TOKENS + 1) * (1 + len(arms)) > MOST_FORWARDS:
        raise AtlasError(f"{n_new} new tokens under {len(arms)} arms were asked for; new tokens times prompts are at most {MOST_FORWARDS:,}")
    if (is_narrow := given.get("is_narrow", False)) not in (True, False) or (is_narrow and given.get("apart") is None):
        raise AtlasError("is_narrow is true or false, and true only with apart, the token that it is narrowed to")
    seed = None if seed is None else read_whole_number(seed, "seed", MOST_SEEDS)
    return LiveRequest(text_of(given["text"]), arms, str(given["weights_sha256"]), n_new, seed, is_traced, index_of(given.get("apart")), is_narrow, is_chat)


def index_of(given: Any) -> int | None:
    if given is not None and (not isinstance(given, int) or isinstance(given, bool) or not -MOST_PROMPT_TOKENS <= given < MOST_PROMPT_TOKENS):
        raise AtlasError(f"apart is {shorten_json(given)}; it is the index of a token, from the end below 0")
    return given


def text_of(given: Any) -> str:
    if not isinstance(given, str):
        raise AtlasError(f"text is {shorten_json(given)}; it is a prompt")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise AtlasError(f"character {error.start} of the prompt is half of a pair (U+{ord(given[error.start]):04X}), and no text") from None
    return given


def arms_of(given: Any) -> tuple[Arm, ...]:
    if not isinstance(given, list):
        raise AtlasError(f"arms are {shorten_json(given)}; they are a list of arms, each a list of interventions")
    if len(given) > MOST_ARMS:
        raise AtlasError(f"{len(given):,} arms were given; at most {MOST_ARMS} are read at once")
    found = []
    for place, arm in enumerate(given):
        try:
            found.append(arm_of(arm))
        except AtlasError as error:
            raise AtlasError(f"arm {place + 1} of {len(given)}: {error}") from None
    return tuple(found)
