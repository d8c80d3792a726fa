"""What the weights alone tell of every head: rows of `head` and `head_eigenvalue`."""

import numpy as np
import pyarrow as pa
from torch import Tensor

from ingest.model.folding import folded_heads
from ingest.model.models import Model
from ingest.model.token_states import TokenStates
from ingest.recorders.composition import ov_write_factor, readings, squares
from ingest.recorders.spectra import eigenvalue_rows, own_first_shares, ratio, spectra
from schema.terms import HEAD_SPECTRA

N_SOURCES = 500
"""Tokens over which head.own_first_share is taken."""


LARGEST = 2**31 - 1
"""Of what an INTEGER holds: a wider window sees as much."""


def head_tables(model: Model, layer: int, states: TokenStates) -> dict[str, pa.Table]:
    """Rows of `head` and `head_eigenvalue` of one layer."""
    heads = folded_heads(model, layer)
    found = spectra(heads, states, layer)
    n, window = model.n_heads, model.architecture.attention.window(model.hf.config, layer)
    ratios = {name: ratio(values).astype(np.float32) for name, values in found.items()}
    columns = {
        "layer": np.full(n, layer, np.int16),
        "head": np.arange(n, dtype=np.int16),
        "kv_head": (np.arange(n) // (n // model.n_kv_heads)).astype(np.int16),
        "window_size": pa.array([window and min(window, LARGEST)] * n, pa.int32()),
        "qk_norm": lengths(readings(heads, heads.w_q, heads.w_k)["k"]),
        "ov_norm": lengths(ov_write_factor(heads)),
        "bias_norm": heads.constant.norm(dim=-1).cpu().numpy(),
        "copying_token": ratios["ov_token"],
        "copying_effective": ratios["ov_effective"],
        "copying_uncentred": ratios["uncentred"],
        "stream_ratio": ratios["stream"],
        "matching": ratios["matching"],
        "own_first_share": own_first_shares(heads, states, layer, N_SOURCES),
    }
    return {"head": pa.table(columns), "head_eigenvalue": eigenvalue_rows(layer, {name: found[name] for name in HEAD_SPECTRA})}


def lengths(products: Tensor) -> np.ndarray:
    """Frobenius norm of each, [n, …, …] to [n] float32."""
    return squares(products).sqrt().float().cpu().numpy()
