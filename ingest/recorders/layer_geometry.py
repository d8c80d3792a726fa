"""How states lie in each layer: how narrow their cone is, and how alike one token's states are in different contexts.

Source: Ethayarajh 2019, "How Contextual are Contextualized Word Representations?".
"""

import numpy as np
import pyarrow as pa

COUNTS = {"n_states": pa.int32(), "n_pairs": pa.int64(), "n_tokens": pa.int32()}
MEASURES = ("mean_cosine", "mean_norm", "top_dimension_share", "first_component_share", "self_similarity")
LAYER_GEOMETRY = pa.schema({"corpus_id": pa.int32(), "layer": pa.int16(), "site": pa.string(), **COUNTS, **dict.fromkeys(MEASURES, pa.float64())})


def geometry_rows(corpus_id: int, states: np.ndarray, token_of: np.ndarray, units: np.ndarray, counts: np.ndarray) -> pa.Table:
    """Rows of `layer_geometry`. Of the first layer's resid_pre, then of each layer's resid_post: states [places, n, d_model] of the tokens [n], and the sum
    of each frequent token's states of length 1, [places, tokens, d_model]; counts [tokens]: how many each sum is of."""
    places = [(0, "resid_pre"), *((layer, "resid_post") for layer in range(len(states) - 1))]
    rows = [{"corpus_id": corpus_id, "layer": layer, "site": site, **geometry(states[i], token_of, units[i], counts)} for i, (layer, site) in enumerate(places)]
    return pa.Table.from_pylist(rows, LAYER_GEOMETRY)


def geometry(states: np.ndarray, token_of: np.ndarray, units: np.ndarray, counts: np.ndarray) -> dict[str, object]:
    """What a row says of the states of one place: [n, d_model], [n], [tokens, d_model], [tokens]."""
    unit = states / np.linalg.norm(states, axis=1, keepdims=True).clip(1e-30)
    is_pair = np.triu(token_of[:, None] != token_of[None, :], 1)
    n_pairs = int(is_pair.sum())
    squares, spread = (states**2).sum(0), states - states.mean(0)
    variance = float((spread**2).sum())
    first = float(np.linalg.norm(spread, 2)) ** 2
    # of n states of length 1 the pairs' cosines sum to half of ‖sum‖² - n
    alike = ((units**2).sum(1) - counts) / (counts * (counts - 1)) if len(counts) else np.zeros(0)
    return {
        "n_states": len(states),
        "n_pairs": n_pairs,
        "mean_cosine": float((unit @ unit.T)[is_pair].mean()) if n_pairs else None,
        "mean_norm": float(np.linalg.norm(states, axis=1).mean()),
        "top_dimension_share": float(squares.max() / squares.sum()),
        "first_component_share": first / variance if variance else 0.0,
        "n_tokens": len(counts),
        "self_similarity": float(alike.mean()) if len(alike) else None,
    }
