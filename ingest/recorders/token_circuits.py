"""What the heads of a layer make of tokens: factors of their QK and OV circuits over the vocabulary.

Source: Elhage et al. 2021, one-layer attention-only transformers.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ingest.model.folding import folded_heads, layer_norm, over_scale
from ingest.model.heads import attention_input, for_each_head, score_scale, unrotated_queries_and_keys
from ingest.model.models import Model
from ingest.model.positions import rotate_pairs
from ingest.model.token_states import n_tokens, states_before
from ingest.recorders.distances import Distances, averaged_rotation


@dataclass(frozen=True, eq=False)
class TokenCircuits:
    """They take four times the memory of the embedding."""

    counts: np.ndarray
    """How often the text has each token, [n_tokens] int64."""
    common: Tensor
    """Tokens that the text has often enough, [m] ascending."""
    queries: Tensor
    """[n_heads, n_tokens, d_head]"""
    keys: Tensor
    """The same, times the score scale, turned back by RoPE's mean over distances, and less their mean over the tokens of the text; no soft-cap is in them."""
    sources: Tensor
    """X̂, [n_tokens, d_model]"""
    readers: Tensor
    """Û, [n_tokens, d_model]"""
    w_v: Tensor
    """[n_heads, d_head, d_model], folded as the next."""
    w_o: Tensor
    """[n_heads, d_model, d_head]"""

    def factors(self, head: int) -> dict[str, tuple[Tensor, Tensor]]:
        """Map each circuit to the factors of its scores, [n_tokens, d_head] each: rows for sources, and for destinations or outs."""
        return {"qk": (self.keys[head], self.queries[head]), "ov": (self.sources @ self.w_v[head].T, self.readers @ self.w_o[head])}


def token_circuits(model: Model, layer: int, counts: np.ndarray, least: int, distances: Distances | None) -> TokenCircuits:
    """Compute the factors of the QK and OV circuits of a layer's heads over the vocabulary.

    Queries have their bias, and so the pull that it gives each source. What a head writes wherever it looks does not tell sources apart, and is left out.
    counts: how often the text has each token, [n_tokens]; where it has none, all weigh the same. least: how often it has a common one.
    distances: what RoPE is averaged over; None without RoPE. A soft-cap (Gemma-2) bends each score by its own size, so that none of it factorises.
    """
    attention, states = model.architecture.attention, states_before(model, layer)
    heads, read = folded_heads(model, layer), attention_input(model, layer, states)
    queries, keys = (x[:, 0] for x in unrotated_queries_and_keys(model, layer, read[None], torch.arange(len(read), device=read.device)))
    weights = torch.from_numpy(counts if counts.any() else np.ones(len(counts))).to(keys.device).double()
    mean = torch.einsum("n,hnd->hd", weights / weights.sum(), keys.double())
    keys = for_each_head(model, (keys - mean[:, None].float()) * score_scale(model, layer))
    if attention.rotary is not None and (turn := averaged_rotation(model, layer, distances)) is not None:
        # a source lies behind, so k turns back
        keys = rotate_pairs(keys, turn[0], -turn[1], attention.rotary.is_adjacent)
    return TokenCircuits(
        counts,
        torch.from_numpy(np.flatnonzero(counts >= least)).to(model.device),
        queries,
        keys,
        over_scale(states, layer_norm(model, layer, attention.norm)),
        model.logit_readers(torch.arange(n_tokens(model), device=model.device)),
        heads.w_v,
        heads.w_o,
    )


def spread(rows: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """Compute mean and std of rows·othersᵀ along the others: [n, d_head] and [m, d_head] to [n] float64 each, and never a matrix of n × m."""
    rows, others = rows.double(), others.double()
    mean = others.mean(0)
    covariance = (others - mean).T @ (others - mean) / len(others)
    return rows @ mean, ((rows @ covariance) * rows).sum(1).clamp_min(0).sqrt()
