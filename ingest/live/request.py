"""A request to the model process: one JSON object, whose size is limited before it is parsed."""

from dataclasses import dataclass
from typing import Any

from schema.errors import AtlasError
from schema.fields import read_fields, setting
from schema.interventions.intervention import Arm
from schema.interventions.parse import arm_of
from schema.live import MOST_ARMS, MOST_FORWARDS, MOST_NEW_TOKENS, MOST_PROMPT_TOKENS
from schema.reading import read_json, read_list


def arms_of(given: Any) -> tuple[Arm, ...]:
    return read_list(given, "arms must be a list of arms, each a list of interventions", "arm", MOST_ARMS, arm_of)


@dataclass(frozen=True)
class LiveRequest:
    """A prompt to trace, unchanged and under arms."""

    text: str = setting(help="the prompt")
    weights_sha256: str = setting(help="SHA-256 of the weights of the atlas with which the answer is joined")
    arms: tuple[Arm, ...] = setting((), help="arms, each a list of interventions", read=arms_of)
    n_new: int = setting(0, help="number of tokens to generate: the likeliest at each step, or drawn by the seed", least=0, most=MOST_NEW_TOKENS)
    seed: int | None = setting(None, help="seed by which tokens are drawn", least=0)
    is_traced: bool = setting(True, help="whether to return the trace too, and not only the predictions")
    apart: int | None = setting(
        None, help="index of the token whose prediction is attributed, counted from the end if negative", least=-MOST_PROMPT_TOKENS, most=MOST_PROMPT_TOKENS - 1
    )
    is_narrow: bool = setting(False, help="whether to return states and coefficients of that token alone")
    is_chat: bool = setting(False, help="whether the text is a user message, or a JSON list of messages")


def parse_request(body: bytes) -> LiveRequest:
    """Parse the body of a request. Raises AtlasError, with a message of one line, for an invalid request."""
    asked: LiveRequest = read_fields(LiveRequest, read_json(body, "requests"), "the request")
    if asked.n_new * (1 + len(asked.arms)) > MOST_FORWARDS:
        raise AtlasError(f"{asked.n_new} new tokens under {len(asked.arms)} arms were asked for; new tokens times (1 + arms) may be at most {MOST_FORWARDS:,}")
    if asked.is_narrow and asked.apart is None:
        raise AtlasError("is_narrow may be true only if apart is given, the token whose states are returned")
    return asked
