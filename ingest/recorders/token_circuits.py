"""Factors of the QK and OV circuits of a layer's heads over the vocabulary.

Source: Elhage et al. 2021, one-layer attention-only transformers.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ingest.model.folding import folded_heads, layer_norm, over_scale
from ingest.model.heads import attention_input, for_each_head, score_scale, unrotated_queries_and_keys
from ingest.model.models import Model
from ingest.model.score_positions import rotate_pairs
from ingest.model.token_states import n_tokens, states_before
from ingest.recorders.distances import Distances, averaged_rotation


@dataclass(frozen=True, eq=False)
class TokenCircuits:
    """Factors of a layer's QK and OV circuits over the vocabulary. They take four times the memory of the embedding."""

    counts: np.ndarray
    """How often the text has each token, [n_tokens] int64."""
    common: Tensor
    """Tokens that are frequent enough in the text, [m] ascending."""
    queries: Tensor
    """Queries of every token, unrotated, [n_heads, n_tokens, d_head]."""
    keys: Tensor
    """Keys of every token, [n_heads, n_tokens, d_head]: less their mean over the tokens of the text, times the score scale, and rotated back by RoPE's mean
    over distances. A soft-cap is not part of them."""
    sources: Tensor
    """X̂: state of every token, divided by its scale in the norm before attention, [n_tokens, d_model]."""
    readers: Tensor
    """Û: the reader of every token's logit (`Model.logit_readers`), [n_tokens, d_model]."""
    w_v: Tensor
    """Folded value matrix of each head, [n_heads, d_head, d_model]."""
    w_o: Tensor
    """Folded output matrix of each head, [n_heads, d_model, d_head]."""

    def factors(self, head: int) -> dict[str, tuple[Tensor, Tensor]]:
        """Map each circuit to the two factors of its scores, [n_tokens, d_head] each: one for sources, and one for destinations (qk) or outs (ov)."""
        return {"qk": (self.keys[head], self.queries[head]), "ov": (self.sources @ self.w_v[head].T, self.readers @ self.w_o[head])}


def token_circuits(model: Model, layer: int, counts: np.ndarray, least: int, distances: Distances | None) -> TokenCircuits:
    """Compute the factors of the QK and OV circuits of a layer's heads over the vocabulary.

    Queries include their bias, which adds to the score of each source. The part of a head's output that is the same wherever the head looks is left out,
    since it does not tell sources apart. A soft-cap (Gemma-2) is left out too: it depends on the size of each score, so it does not factorise.
    counts: how often the text has each token, [n_tokens]; if all counts are 0, all tokens have the same weight. least: the count from which a token is
    common. distances: RoPE is averaged over them; None without RoPE.
    """
    attention, states = model.attention(layer), states_before(model, layer)
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
        over_scale(model, states, layer_norm(model, layer, attention.norm)),
        model.logit_readers(torch.arange(n_tokens(model), device=model.device)),
        heads.w_v,
        heads.w_o,
    )


def spread(rows: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """Compute mean and std of rows·othersᵀ along the others: [n, d_head] and [m, d_head] to [n] float64 each, without an n × m matrix."""
    rows, others = rows.double(), others.double()
    mean = others.mean(0)
    covariance = (others - mean).T @ (others - mean) / len(others)
    return rows @ mean, ((rows @ covariance) * rows).sum(1).clamp_min(0).sqrt()
