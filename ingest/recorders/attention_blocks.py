"""Attention of heads over whole sequences, from the queries and keys that a forward pass computed.

The weights of a sequence are computed for some destinations and some heads at a time: all at once would be n_heads·seq² numbers. The forward pass itself runs
unchanged, on attention code that returns no weights.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from ingest.model.heads import attention_scores, behind_norms, by_head, for_each_head, rotate_queries_and_keys
from ingest.model.hooks import PROJECTED, LayerRecord
from ingest.model.models import Model
from ingest.recorders.attention_sums import N_OTHER, Places, first_moved_evenly, sum_attention
from ingest.recorders.value_norms import lengths, products

ROWS = 128
"""Destinations whose attention weights are in memory at once. Sources after the last of these destinations are left out."""

AT_ONCE = 2**21
"""Attention weights of several heads that are in memory at once; intermediate results take a few times as many numbers."""

TOKENS = 4096
"""Tokens of several sequences, padding included, whose queries, keys and values by head are in memory at once."""


def n_bytes(model: Model, context: int) -> int:
    """Estimate the bytes that head statistics take beside a forward pass over sequences of `context` tokens. Shorter sequences take less.

    These are the bytes of attention weights and intermediate results, queries, keys and values by head, sums at each distance, and the matrix of equal tokens.
    """
    weights, vectors = max(AT_ONCE, ROWS * context), max(TOKENS, context) * model.n_heads * model.d_head
    return 4 * (7 * weights + 8 * vectors) + 8 * model.n_layers * model.n_heads * context + 3 * context**2


def layer_sums(model: Model, layer: int, record: LayerRecord, batch: tuple[Places, ...]) -> tuple[Tensor, Tensor]:
    """Sum `sum_attention`, [n_heads, N_OTHER + seq], and `first_moved_evenly`, [n_heads], over the destinations of a batch; float64."""
    seq = record["q"].shape[1]
    found = torch.zeros(model.n_heads, N_OTHER + seq, dtype=torch.float64, device=model.device)
    evenly = torch.zeros_like(found[:, 0])
    window, of_heads = model.attention(layer).window(model.hf.config, layer), products(model, layer)
    for some in torch.arange(len(batch)).split(max(1, TOKENS // seq)):
        q, k, v = (by_head(model, record[part][some], part) for part in PROJECTED)
        q, k = rotate_queries_and_keys(model, layer, *behind_norms(model, layer, q, k), torch.arange(seq, device=model.device))
        moved = lengths(for_each_head(model, v), of_heads)
        for i, at in enumerate(some.tolist()):
            add_sequence(found, model, layer, q[:, i], k[:, i], moved[:, i], batch[at])
            evenly += first_moved_evenly(moved[:, i, : batch[at].n], window)
    return found, evenly


def add_sequence(found: Tensor, model: Model, layer: int, q: Tensor, k: Tensor, moved: Tensor, there: Places) -> None:
    """Add the sums of one sequence to `found`. q, k: [n_heads, seq, d_head], with padding at the end; moved: ‖W_O·v‖ of each source, [n_heads, seq]."""
    for heads, first, end in blocks(len(q), there.n):
        destinations = torch.arange(first, end, device=q.device)
        scores = attention_scores(model, layer, q[heads, None, first:end], k[heads, None, :end], destinations, heads)[:, 0]
        found[heads, : N_OTHER + end] += sum_attention(scores, moved[heads, :end], first, there)


def blocks(n_heads: int, n: int) -> Iterator[tuple[slice, int, int]]:
    """Yield a sequence's blocks of heads and destinations: the heads, the first destination and the end. Index 0 sees only itself, and is no destination."""
    for first in range(1, n, ROWS):
        end = min(first + ROWS, n)
        step = max(1, AT_ONCE // ((end - first) * end))
        for head in range(0, n_heads, step):
            yield slice(head, min(head + step, n_heads)), first, end
