"""Singular directions of a head's circuits, and the tokens at both of their ends: rows of `head_direction` and `head_direction_token`.

A circuit is a product of two thin factors, left·rightᵀ. Its singular values are those of a d_head × d_head matrix: the product of the R matrices of the
factors' QR decompositions.
Source: Elhage et al. 2021, OV and QK circuits as low-rank matrices; Millidge and Black 2022, their singular vectors in the vocabulary.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.folding import FoldedHeads, folded_heads
from ingest.model.models import Model
from ingest.model.ranking import top_k
from ingest.model.token_states import TokenStates
from schema.terms import HEAD_CIRCUITS, TAILS

N_DIRECTIONS = 8
ROUNDING = 1e-6
"""Singular values below this share of the largest count as 0, since weights are float32. A norm that centres queries makes one singular value 0."""

N_ENDS = 10
"""Tokens stored at each end of a direction."""

AT_ONCE = 64
"""Directions whose products with the whole vocabulary are in memory at once."""


def factors(heads: FoldedHeads) -> dict[str, tuple[Tensor, Tensor]]:
    """Factor W_OV and W_QK (unrotated) into left and right, [n_heads, d_model, d_head] each.

    Left is the side that is written (ov) or the query's (qk); right is the side that is read (ov) or the key's (qk).
    """
    return {"ov": (heads.w_o, heads.w_v.mT), "qk": (heads.w_q.mT, heads.w_k.mT)}


def singular(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Decompose left·rightᵀ into singular values [n, d_head], descending, and the left and right directions, [n, d_model, d_head] each; float64.

    The two directions of a pair may flip sign together. The sign is chosen so that the left direction's component of largest modulus is positive.
    """
    (q_left, r_left), (q_right, r_right) = torch.linalg.qr(left.double()), torch.linalg.qr(right.double())
    u, sigma, vh = torch.linalg.svd(r_left @ r_right.mT)
    written, read = q_left @ u, q_right @ vh.mT
    largest = written.gather(-2, written.abs().argmax(-2, keepdim=True))
    sign = torch.where(largest < 0, -1.0, 1.0)
    return torch.where(sigma > ROUNDING * sigma[:, :1], sigma, 0.0), written * sign, read * sign


def direction_tables(model: Model, layer: int, states: TokenStates) -> dict[str, pa.Table]:
    """Compute the rows of `head_direction` and `head_direction_token` for one layer."""
    found = {circuit: singular(*both) for circuit, both in factors(folded_heads(model, layer)).items()}
    sources = states.sources(layer)

    def source_scores(directions: Tensor) -> Tensor:
        return directions @ sources.T

    # circuit → side → what its directions are to every token, and the directions
    sides = {
        "ov": {"read": (source_scores, found["ov"][2]), "write": (states.centred_logits, found["ov"][1])},
        "qk": {"query": (source_scores, found["qk"][1]), "key": (source_scores, found["qk"][2])},
    }
    tokens = [token_rows(layer, circuit, side, *both) for circuit in HEAD_CIRCUITS for side, both in sides[circuit].items()]
    return {
        "head_direction": pa.concat_tables(direction_rows(layer, circuit, found[circuit][0].cpu().numpy()) for circuit in HEAD_CIRCUITS),
        "head_direction_token": pa.concat_tables(tokens),
    }


def direction_rows(layer: int, circuit: str, sigma: np.ndarray) -> pa.Table:
    """Build the rows of `head_direction`. sigma: all singular values of each head, [n_heads, d_head]."""
    n_heads, n = len(sigma), min(N_DIRECTIONS, sigma.shape[1])
    total, following = (sigma**2).sum(1, keepdims=True), np.pad(sigma, ((0, 0), (0, 1)))[:, 1 : n + 1]
    kept = sigma[:, :n]
    zeros = np.zeros_like(kept)
    share = np.divide(kept**2, total, out=zeros.copy(), where=total > 0)
    gap = np.divide(kept - following, kept, out=zeros.copy(), where=kept > 0)
    return pa.table(
        {
            "layer": np.full(kept.size, layer, np.int16),
            "head": np.repeat(np.arange(n_heads, dtype=np.int16), n),
            "circuit": pa.array([circuit] * kept.size),
            "direction_rank": np.tile(np.arange(1, n + 1, dtype=np.int16), n_heads),
            **{name: x.astype(np.float32).ravel() for name, x in (("sigma", kept), ("share", share), ("gap", gap))},
        }
    )


def ends(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Find the N_ENDS largest and smallest scores of each row [n, n_tokens], less the row's mean, and their tokens: [n, tails, N_ENDS] each.

    Overwrites `scores`.
    """
    scores.sub_(scores.mean(1, keepdim=True))
    largest, of_largest = top_k(scores, N_ENDS)
    smallest, of_smallest = top_k(scores.neg_(), N_ENDS)
    found = {"max": (largest, of_largest), "min": (-smallest, of_smallest)}
    return torch.stack([found[tail][0] for tail in TAILS], dim=1), torch.stack([found[tail][1] for tail in TAILS], dim=1)


def token_rows(layer: int, circuit: str, side: str, meet: Callable[[Tensor], Tensor], directions: Tensor) -> pa.Table:
    """Build the rows of `head_direction_token`.

    meet: maps directions [n, d_model] to their products with every token, [n, n_tokens]. directions: [n_heads, d_model, d_head]; only the first
    N_DIRECTIONS of each head are used.
    """
    kept = directions[..., :N_DIRECTIONS].mT
    n_heads, n = kept.shape[:2]
    found = [ends(meet(some)) for some in kept.flatten(0, 1).float().split(AT_ONCE)]
    values, ids = (torch.cat(each) for each in zip(*found, strict=True))
    size, k = ids.numel(), ids.shape[-1]
    return pa.table(
        {
            "layer": np.full(size, layer, np.int16),
            "head": np.repeat(np.arange(n_heads, dtype=np.int16), n * len(TAILS) * k),
            "circuit": pa.array([circuit] * size),
            "direction_rank": np.tile(np.repeat(np.arange(1, n + 1, dtype=np.int16), len(TAILS) * k), n_heads),
            "side": pa.array([side] * size),
            "tail": pa.array(np.tile(np.repeat(TAILS, k), n_heads * n)),
            "rank": np.tile(np.arange(1, k + 1, dtype=np.int16), n_heads * n * len(TAILS)),
            "token_id": ids.cpu().numpy().astype(np.int32).ravel(),
            "score": values.cpu().numpy().ravel(),
        }
    )
