"""Attribution of a prediction to the tokens of a prompt: gradient × input, integrated gradients and occlusion, of one score."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from ingest.acting.answers import Answer, Prompt, answer_logits, with_runner_up
from ingest.acting.changes import CPU_TOKENS, Progress
from ingest.acting.integral import Integral, Scores, gradients, integrated_gradients
from ingest.acting.places import acting_place, module_at
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.terms import ATTRIBUTION_SCORES

ATTRIBUTION = pa.schema(
    [
        pa.field("method", pa.string(), nullable=False),
        pa.field("score", pa.string(), nullable=False),
        pa.field("baseline", pa.string(), nullable=False),
        pa.field("index", pa.int32(), nullable=False),
        pa.field("attribution", pa.float32()),
    ]
)
ATTRIBUTION_TOTAL = pa.schema(
    [
        *(ATTRIBUTION.field(name) for name in ("method", "score", "baseline")),
        pa.field("n_steps", pa.int32()),
        pa.field("at_input", pa.float32(), nullable=False),
        pa.field("at_baseline", pa.float32()),
        pa.field("sum", pa.float32(), nullable=False),
        pa.field("completeness_error", pa.float32()),
    ]
)


def default_baseline(model: Model) -> int:
    """Choose the end-of-text token as the baseline. Raises AtlasError if the tokenizer has none.

    A zero or mean vector would be no token's embedding, and the score of a model that begins with a norm jumps at zero.
    """
    found = model.tokenizer.eos_token_id
    if not isinstance(found, int):
        raise AtlasError(f"model {model.name}: its tokenizer has no end-of-text token; name another token as the baseline")
    return found


def saliency(model: Model, prompt: Prompt, score: str, baseline: int, progress: Progress) -> tuple[pa.Table, pa.Table]:
    """Compute the rows of `attribution` and of `attribution_total`, in units of the score, for the prompt's tokens by all three methods.

    baseline: the token that replaces others; gradient × input uses none. Integrated gradients keep index 0 at its own embedding and give it no attribution
    (use occlusion's): many models have a state there whose gradient is not smooth on the path to another embedding. They keep the answer's tokens too. A
    completeness error above BOUND means that MOST_STEPS steps were not enough. progress: counts the steps of each method separately. Raises AtlasError for an
    unknown score or token.
    """
    if score not in ATTRIBUTION_SCORES:
        raise AtlasError(f"score '{score}' is unknown; there are {', '.join(ATTRIBUTION_SCORES)}")
    if not 0 <= baseline < model.n_embeddings:
        raise AtlasError(f"token {baseline} was asked for as the baseline; {model.name} reads tokens 0 to {model.n_embeddings - 1}")
    answer = with_runner_up(answer_logits(model, prompt), prompt)
    scores, n = embedding_scores(model, prompt, answer, score), len(prompt.token_ids)
    own, theirs = embed_tokens(model, prompt.input_ids), embed_tokens(model, torch.full_like(prompt.input_ids, baseline))
    held = torch.arange(len(own), device=own.device)
    theirs = torch.where(((held == 0) | (held >= n))[:, None], own, theirs)
    at_input, gradient = gradients(scores, own[None])
    by_gradient = (gradient[0].double() * own.double()).sum(-1)[:n]
    integral = integrated_gradients(scores, own, theirs, progress)
    occluded = occlude(model, prompt, answer, score, baseline, progress)
    name = model.tokenizer.convert_ids_to_tokens([baseline])[0] or f"token {baseline}"
    found = {
        ("gradient_input", "none"): by_gradient.tolist(),
        ("integrated_gradients", name): [None, *integral.attribution[1:n].tolist()],
        ("occlusion", name): (at_input.cpu() - occluded).tolist(),
    }
    rows = [(method, score, token, index, value) for (method, token), values in found.items() for index, value in enumerate(values)]
    totals = [(method, score, token, float(at_input), values) for (method, token), values in found.items()]
    return table(ATTRIBUTION, rows), table(ATTRIBUTION_TOTAL, [total_row(*total, integral) for total in totals])


def total_row(method: str, score: str, baseline: str, at_input: float, values: list[float | None], integral: Integral) -> tuple[Any, ...]:
    """Build a method's row of `attribution_total`; only integrated gradients have a score at the baseline and a completeness error."""
    found = sum(value or 0.0 for value in values)
    if method != "integrated_gradients":
        return method, score, baseline, None, at_input, None, found, None
    return method, score, baseline, integral.n_steps, at_input, integral.at_baseline, found, integral.error


def table(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table(dict(zip(schema.names, zip(*rows, strict=True), strict=True)), schema=schema)


def answer_scores(answer: Answer, score: str, logits: Tensor) -> Tensor:
    """Compute the score with the name `score` from logits: [rows, tokens, d_vocab] → [rows] float64."""
    if score == "logit_difference":
        return answer.logit_difference(logits)
    logprob = answer.logprob(logits)
    return logprob.exp() if score == "prob" else logprob


def embed_tokens(model: Model, token_ids: Tensor) -> Tensor:
    """Compute the output of the embedding module for token ids: [...] to [..., width] in the model's dtype."""
    with torch.no_grad():
        found: Tensor = module_at(model, acting_place(model, ("embedding", None)))(token_ids.to(model.input_device))
    return found


@contextmanager
def embedding_as(model: Model, x: Tensor) -> Iterator[None]:
    """Make the embedding module return x, [rows, seq, width], for any input within the context."""
    handle = module_at(model, acting_place(model, ("embedding", None))).register_forward_hook(lambda *_: x, prepend=True)
    try:
        yield
    finally:
        handle.remove()


def embedding_scores(model: Model, prompt: Prompt, answer: Answer, score: str) -> Scores:
    """Build the score as a function of the prompt's embeddings; gradients pass through the model's own output head."""

    def scores(x: Tensor) -> Tensor:
        token_ids = prompt.input_ids.expand(len(x), -1).to(model.input_device)
        with embedding_as(model, x):
            found = model.hf(input_ids=token_ids, use_cache=False, logits_to_keep=len(prompt.answer))
        return answer_scores(answer, score, found.logits)

    return scores


def occlude(model: Model, prompt: Prompt, answer: Answer, score: str, baseline: int, progress: Progress) -> Tensor:
    """Compute the score with each prompt token in turn replaced by the baseline, [tokens] float64. No token is removed: the others keep their positions."""
    n, found = len(prompt.token_ids), []
    scores = embedding_scores(model, prompt, answer, score)
    replaced = prompt.input_ids.repeat(n, 1).fill_diagonal_(baseline)
    for rows in replaced.split(max(1, CPU_TOKENS // replaced.shape[1])):
        with torch.no_grad():
            found.append(scores(embed_tokens(model, rows)))
        progress(sum(map(len, found)), n)
    return torch.cat(found).cpu()
