"""Skip-trigrams of a head: source … destination → out, from its QK and OV circuits over the vocabulary, and never from all triples.

The score of a triple is f(source, destination)·g(source, out). Of one source, the triple of the i-th best destination and the j-th best out has i·j - 1
before it, so that the k best of all triples lie among those with i·j ≤ k of the sources.
Source: Elhage et al. 2021, one-layer attention-only transformers: skip-trigrams, and the bugs that come of the product.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.folding import folded_heads, layer_norm, over_scale
from ingest.model.heads import attention_input, for_each_head, score_scale, unturned
from ingest.model.models import Model
from ingest.model.positions import mean_rotation, turned
from ingest.model.ranking import top_k
from ingest.model.token_states import n_tokens, states_before
from schema.terms import HEAD_CIRCUITS, TAILS

N_KEPT = 10
"""Destinations and outs kept of each source."""

N_LARGEST = 100
"""Triples kept of each head and pair of tails."""

CHUNK = 256
"""Sources whose scores over the vocabulary are held at once."""


@dataclass(frozen=True, eq=False)
class TokenCircuits:
    """What the heads of a layer make of tokens, as factors. They take four times the memory of the embedding."""

    queries: Tensor
    """[n_heads, n_tokens, d_head]"""
    keys: Tensor
    """The same, times the score scale, turned back by RoPE's mean over distances, and less their mean over tokens."""
    sources: Tensor
    """X̂, [n_tokens, d_model]"""
    readers: Tensor
    """Û, [n_tokens, d_model]"""
    w_v: Tensor
    """[n_heads, d_head, d_model], folded as the next."""
    w_o: Tensor
    """[n_heads, d_model, d_head]"""

    def factors(self, head: int) -> dict[str, tuple[Tensor, Tensor]]:
        """Circuit → factors of its scores, [n_tokens, d_head] each: rows for sources, and for destinations or outs."""
        return {"qk": (self.keys[head], self.queries[head]), "ov": (self.sources @ self.w_v[head].T, self.readers @ self.w_o[head])}


def token_circuits(model: Model, layer: int) -> TokenCircuits:
    """Queries have their bias, and so the pull that it gives each source. What a head writes wherever it looks tells sources not apart, and is left out."""
    attention, states = model.architecture.attention, states_before(model, layer)
    heads, read = folded_heads(model, layer), attention_input(model, layer, states)
    queries, keys = (x[:, 0] for x in unturned(model, layer, read[None], torch.arange(len(read), device=read.device)))
    if attention.rotary is not None:
        cosine, sine = mean_rotation(model, attention.rotary, layer)
        # a source lies behind, so k turns back
        keys = turned(keys, cosine, -sine, attention.rotary.is_adjacent)
    keys = for_each_head(model, (keys - keys.double().mean(1, keepdim=True).float()) * score_scale(model, layer))
    sources = over_scale(states, layer_norm(model, layer, attention.norm))
    return TokenCircuits(queries, keys, sources, model.logit_readers(torch.arange(n_tokens(model), device=model.device)), heads.w_v, heads.w_o)


def spread(rows: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of rows·othersᵀ along the others: [n, d_head] and [m, d_head] to [n] float64 each, and never a matrix of n × m."""
    rows, others = rows.double(), others.double()
    mean = others.mean(0)
    covariance = (others - mean).T @ (others - mean) / len(others)
    return rows @ mean, ((rows @ covariance) * rows).sum(1).clamp_min(0).sqrt()


def both_ends(scores: Tensor, k: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Tail → scores and indices of the k largest, or smallest, of each row. The scores given are negated."""
    largest = top_k(scores, k)
    smallest, indices = top_k(scores.neg_(), k)
    return {TAILS[0]: largest, TAILS[1]: (-smallest, indices)}


class Largest:
    """The k largest products, in modulus, of a destination's and an out's score of one source, of the sources seen so far."""

    def __init__(self, k: int, n: int) -> None:
        """n: scores that there are of a source."""
        self.k = k
        pairs = [(i, j) for i in range(min(k, n)) for j in range(min(k // (i + 1), n))]
        self.i, self.j = (torch.tensor(part) for part in zip(*pairs, strict=True))
        self.rows: dict[str, Tensor] = {}

    def add(self, first: int, f: tuple[Tensor, Tensor], g: tuple[Tensor, Tensor]) -> None:
        """Sources from `first` on, in their order: scores and token_ids of the first ends of their rows, [n, k] each."""
        (one, destinations), (other, outs) = f, g
        i, j = self.i.to(one.device), self.j.to(one.device)
        found = {
            "source": (first + torch.arange(len(one), device=one.device))[:, None].expand(-1, len(i)),
            "destination": destinations[:, i],
            "out": outs[:, j],
            "f": one[:, i],
            "g": other[:, j],
        }
        merged = {name: torch.cat([*([self.rows[name]] if self.rows else []), x.flatten()]) for name, x in found.items()}
        # exact: a product of two float32 fits in float64
        _, best = top_k((merged["f"].double() * merged["g"].double()).abs()[None], self.k)
        self.rows = {name: x[best[0]] for name, x in merged.items()}


def head_tables(circuits: TokenCircuits, layer: int, head: int, n_sources: int, progress: Callable[[float], None]) -> dict[str, pa.Table]:
    """Rows of `circuit_token`, `circuit_source` and `skip_trigram` of one head and its first sources. progress: called with the share done since."""
    factors = {circuit: (rows[:n_sources], others) for circuit, (rows, others) in circuits.factors(head).items()}
    centred = {circuit: (rows, others - others.mean(0) if circuit == "ov" else others) for circuit, (rows, others) in factors.items()}
    n = len(factors["qk"][0])
    largest = {(of_f, of_g): Largest(N_LARGEST, len(circuits.sources)) for of_f in TAILS for of_g in TAILS}
    kept: dict[str, list[tuple[Tensor, Tensor]]] = {circuit: [] for circuit in HEAD_CIRCUITS}
    for start in range(0, n, CHUNK):
        ends = {circuit: both_ends(rows[start : start + CHUNK] @ others.T, N_LARGEST) for circuit, (rows, others) in centred.items()}
        for (of_f, of_g), into in largest.items():
            into.add(start, signed(ends["qk"][of_f], of_f), signed(ends["ov"][of_g], of_g))
        for circuit, first in kept.items():
            scores, tokens = ends[circuit][TAILS[0]]
            first.append((scores[:, :N_KEPT], tokens[:, :N_KEPT]))
        progress(min(CHUNK, n - start) / n)
    of = {"layer": layer, "head": head}
    return {
        "circuit_token": pa.concat_tables(token_rows(of, circuit, *map(torch.cat, zip(*kept[circuit], strict=True))) for circuit in HEAD_CIRCUITS),
        "circuit_source": pa.concat_tables(source_rows(of, circuit, *spread(*factors[circuit])) for circuit in HEAD_CIRCUITS),
        "skip_trigram": pa.concat_tables(trigram_rows(of, *tails, found.rows) for tails, found in largest.items()),
    }


def signed(end: tuple[Tensor, Tensor], tail: str) -> tuple[Tensor, Tensor]:
    """The end of each row with 0 where a score has the sign of the other end."""
    scores, indices = end
    return (scores.clamp_min(0) if tail == TAILS[0] else scores.clamp_max(0)), indices


def token_rows(of: dict[str, int], circuit: str, scores: Tensor, token_ids: Tensor) -> pa.Table:
    """Rows of `circuit_token`. of: layer and head; scores, token_ids: [n_tokens, k]."""
    n, k = scores.shape
    return pa.table(
        {
            **{name: np.full(n * k, number, np.int16) for name, number in of.items()},
            "circuit": pa.array([circuit] * (n * k)),
            "source_token_id": np.repeat(np.arange(n, dtype=np.int32), k),
            "rank": np.tile(np.arange(1, k + 1, dtype=np.int16), n),
            "token_id": token_ids.cpu().numpy().astype(np.int32).ravel(),
            "score": scores.cpu().numpy().ravel(),
        }
    )


def source_rows(of: dict[str, int], circuit: str, mean: Tensor, std: Tensor) -> pa.Table:
    """Rows of `circuit_source`."""
    n = len(mean)
    return pa.table(
        {
            **{name: np.full(n, number, np.int16) for name, number in of.items()},
            "circuit": pa.array([circuit] * n),
            "source_token_id": np.arange(n, dtype=np.int32),
            "mean": mean.float().cpu().numpy(),
            "std": std.float().cpu().numpy(),
        }
    )


def trigram_rows(of: dict[str, int], destination_tail: str, out_tail: str, found: dict[str, Tensor]) -> pa.Table:
    """Rows of `skip_trigram` of two tails; fewer than N_LARGEST where fewer triples have their signs."""
    kept = {name: x[(found["f"] != 0) & (found["g"] != 0)].cpu().numpy() for name, x in found.items()}
    n = len(kept["f"])
    return pa.table(
        {
            **{name: np.full(n, number, np.int16) for name, number in of.items()},
            "destination_tail": pa.array([destination_tail] * n, pa.string()),
            "out_tail": pa.array([out_tail] * n, pa.string()),
            "rank": np.arange(1, n + 1, dtype=np.int16),
            **{f"{name}_token_id": kept[name].astype(np.int32) for name in ("source", "destination", "out")},
            "destination_score": kept["f"],
            "out_score": kept["g"],
        }
    )
