"""The paper run's part of a dry run: rows, and seconds from timed pieces of it."""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from ingest.model.models import Model
from ingest.paper import N_ITEMS, N_TRIGGERS
from ingest.recorders.clusters import complete_linkage, n_blocks, unit
from ingest.recorders.controls import next_token_rows
from ingest.recorders.removal import read_ends
from ingest.recorders.values import CHUNK, N_TOKENS
from ingest.request import Request
from ingest.text.sequences import Sequence
from ingest.text.survey import Survey
from schema.terms import CLUSTER_SPACES, REMOVALS

LINKED = 1024
"""Values of the probe's clustering."""


def n_reread(model: Model, request: Request, seen: Survey) -> int:
    """Triggers of a layer that are read again, at most: those with one token before them are left out."""
    return min(request.paper_keys, model.d_ffn) * min(N_TRIGGERS, request.triggers, seen.n_positions)


def paper_rows(model: Model, request: Request, seen: Survey) -> dict[str, int]:
    """Rows each table will have, at most: short prefixes and the ends of documents have none."""
    items = N_ITEMS + min(N_ITEMS, len(seen.sample))
    return {
        "removal": model.n_layers * n_reread(model, request, seen) * len(REMOVALS),
        "next_token_rank": model.n_layers * model.d_ffn if request.triggers else 0,
        "control_token": model.n_layers * items * min(N_TOKENS, model.d_vocab),
        "value_cluster": model.n_layers * model.d_ffn * len(CLUSTER_SPACES),
    }


def probe_paper(model: Model, sequences: list[Sequence], request: Request, seen: Survey) -> float:
    """Seconds of the whole run: forward passes, projections of the values, and clustering, each from a piece of it."""
    texts = {tuple(s.token_ids.tolist()) for s in sequences[: request.batch_size]}
    batch_tokens, last = request.batch_size * request.context, model.n_layers - 1
    forward = fastest(lambda: read_ends(model, last, texts, [0], batch_tokens, lambda _: None)) / sum(map(len, texts))
    few = np.arange(min(CHUNK, model.d_ffn))
    project = fastest(partial(next_token_rows, model, 0, 0, few, np.zeros(len(few)))) / len(few) if request.triggers else 0.0
    linked = unit(model.values(0)[:LINKED].double().cpu().numpy())
    pair = fastest(partial(complete_linkage, linked, len(linked) // 2)) / len(linked) ** 2
    values = model.n_layers * model.d_ffn
    return (
        forward * reread_tokens(n_reread(model, request, seen), seen) * (model.n_layers + 1) / 2
        + project * values
        + pair * values**2 / n_blocks(values) * len(CLUSTER_SPACES)
    )


def reread_tokens(n: int, seen: Survey) -> float:
    """Tokens of a layer's forward passes for n triggers, in the mean half-way through their sequences. All prefixes of a sequence share
    the passes without their first and their last token; those without a random one share none."""
    of_each = n * seen.n_positions / seen.n_sequences / 2
    return of_each + 2 * min(of_each, seen.n_positions)


def fastest(action: Callable[[], object]) -> float:
    """Seconds of the faster of two runs: the first may fill caches and grow the heap."""
    return min(timed(action), timed(action))


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
