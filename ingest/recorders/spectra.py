"""Eigenvalues of a head's circuits, and the ratio that tells copying from its opposite.

The circuits' matrices have a side of d_vocab or d_model, and rank d_head. Since λ(AB) = λ(BA), all of their eigenvalues but zeros are those of products of
size d_head × d_head. Source: Elhage et al. 2021, "copying heads" and its eigenvalue summary Σλ/Σ|λ|.
"""

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.folding import FoldedHeads
from ingest.model.token_states import TokenStates


def eigenvalues(products: Tensor) -> np.ndarray:
    """Compute the eigenvalues of products [..., d_head, d_head] float64, by descending modulus, then descending real part: [..., d_head] complex."""
    found = np.linalg.eigvals(products.cpu().numpy()).astype(np.complex128)
    return np.take_along_axis(found, np.lexsort((-found.imag, -found.real, -np.abs(found))), axis=-1)


def ratio(found: np.ndarray) -> np.ndarray:
    """Compute Σ Re λ / Σ |λ|, [..., d_head] to [...] in [-1, 1]; 0 if all eigenvalues are 0."""
    total = np.abs(found).sum(-1)
    return np.divide(found.real.sum(-1), total, out=np.zeros_like(total), where=total > 0)


def spectra(heads: FoldedHeads, states: TokenStates, layer: int) -> dict[str, np.ndarray]:
    """Compute the eigenvalues of every head, [n_heads, d_head], for each value of `head_eigenvalue.spectrum`, and for `uncentred`, which is not stored."""
    w_q, w_k, w_v, w_o = (w.double() for w in (heads.w_q, heads.w_k, heads.w_v, heads.w_o))
    own = states.source_kind(layer)
    return {
        "ov_token": eigenvalues(w_v @ states.copying[0] @ w_o),
        "ov_effective": eigenvalues(w_v @ states.copying[own] @ w_o),
        "stream": eigenvalues(w_v @ w_o),
        "matching": eigenvalues(w_k @ states.alike[own][own] @ w_q.mT),
        "uncentred": eigenvalues(w_v @ states.copying_uncentred @ w_o),
    }


def eigenvalue_rows(layer: int, found: dict[str, np.ndarray]) -> pa.Table:
    """Build the rows of `head_eigenvalue`. found: spectrum → [n_heads, d_head]."""
    values = np.stack(list(found.values()), axis=1)
    n_heads, n_spectra, d_head = values.shape
    return pa.table(
        {
            "layer": np.full(values.size, layer, np.int16),
            "head": np.repeat(np.arange(n_heads, dtype=np.int16), n_spectra * d_head),
            "spectrum": pa.array(np.tile(np.repeat(list(found), d_head), n_heads)),
            "rank": np.tile(np.arange(1, d_head + 1, dtype=np.int16), n_heads * n_spectra),
            "real": values.real.ravel().copy(),
            "imaginary": values.imag.ravel().copy(),
        }
    )


def own_first_shares(heads: FoldedHeads, states: TokenStates, layer: int, n: int) -> np.ndarray:
    """Compute, for each head, the share of tokens whose own logit W_OV raises more than the logit of any other token: [n_heads].

    n tokens are tried, spread evenly over the vocabulary.
    """
    sources = states.sources(layer)
    tokens = torch.linspace(0, len(sources) - 1, min(n, len(sources)), device=sources.device).round().long()
    moved = [sources[tokens] @ w_v.T for w_v in heads.w_v]
    own, others = (sources.new_full((len(moved), len(tokens)), -torch.inf) for _ in range(2))
    for ids, readers in states.readers():
        here = torch.nonzero((tokens >= ids.start) & (tokens < ids.stop))[:, 0]
        columns = tokens[here] - ids.start
        for head, w_o in enumerate(heads.w_o):
            scores = moved[head] @ (readers @ w_o).T
            own[head, here] = scores[here, columns]
            scores[here, columns] = -torch.inf
            others[head] = torch.maximum(others[head], scores.amax(1))
    # a head that writes nothing raises no token above another
    return (own > others).double().mean(1).float().cpu().numpy()
