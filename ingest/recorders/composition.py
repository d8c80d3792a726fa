"""Head composition: for every two heads of different layers, how much of what the later head reads was written by the earlier one.

It is a ratio of Frobenius norms, computed without d_model × d_model matrices.
Source: Elhage et al. 2021, composition, as its erratum of 2023 corrects it: the norm is that of W_Qᵀ·W_K·W_O·W_V itself. A cyclic shift of its factors has the
same eigenvalues, but another norm.
"""

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.folding import FoldedHeads, folded_heads
from ingest.model.models import Model
from ingest.model.score_positions import rotate_pairs
from ingest.model.token_states import TokenStates
from ingest.recorders.distances import Distances, averaged_rotation
from ingest.recorders.spectra import eigenvalues, ratio
from schema.terms import COMPOSITIONS

N_MATCHED = 32
"""Number of earlier heads through which the matching of each reader is computed: those with the largest K-composition."""


def root(factor: Tensor) -> Tensor:
    """Compute R with ‖factor·x‖ = ‖R·x‖ for every x: factors [..., d_model, d_head] to [..., d_head, d_head]. Computed in float64, returned as float32."""
    return torch.linalg.qr(factor.double(), mode="r").R.float()


def readings(heads: FoldedHeads, w_q: Tensor, w_k: Tensor) -> dict[str, Tensor]:
    """Build a factor for what each head's keys, queries and values read from the stream, [n_heads, d_head, d_model] each.

    The product of a factor with a matrix has the same norm as that of the head's whole circuit with it. w_q, w_k: rotated or not.
    """
    return {"k": root(heads.w_q.mT) @ w_k, "q": root(heads.w_k.mT) @ w_q, "v": root(heads.w_o) @ heads.w_v}


def ov_write_factor(heads: FoldedHeads) -> Tensor:
    """Build a factor F of what W_OV writes to the stream, [n_heads, d_model, d_head]: for any matrix M, M·F has the same norm as M·W_OV."""
    return heads.w_o @ root(heads.w_v.mT).mT


def squares(x: Tensor) -> Tensor:
    """Sum the squares of each matrix, [n, …, …] to [n] float64."""
    return x.double().square().sum((-1, -2))


def scores(reading: Tensor, written: Tensor) -> np.ndarray:
    """Compute ‖reading·written‖ / (‖reading‖·‖written‖) of each reader and writer, [n_heads (reader), n_heads (writer)] float32; 0 if a norm is 0."""
    product = (reading.flatten(0, 1) @ written.movedim(1, 0).flatten(1)).view(*reading.shape[:2], *written.shape[::2])
    scale = (squares(reading)[:, None] * squares(written)).sqrt()
    found = product.double().square().sum((1, 3)).sqrt() / scale.clamp_min(torch.finfo(torch.float64).tiny)
    return found.float().cpu().numpy()


def averaged_readings(model: Model, layer: int, heads: FoldedHeads, distances: Distances | None) -> dict[str, Tensor]:
    """Build the readings of a layer's keys and queries with RoPE averaged over distances; none without RoPE. Values have none, since RoPE leaves them alone."""
    rotary, turn = model.attention(layer).rotary, averaged_rotation(model, layer, distances)
    if rotary is None or turn is None:
        return {}
    cosine, sine = turn
    # q·R(Δ)k: a source lies behind, so k turns back; or q turns forth, and k stays
    w_k = rotate_pairs(heads.w_k.mT, cosine, -sine, rotary.is_adjacent).mT
    w_q = rotate_pairs(heads.w_q.mT, cosine, sine, rotary.is_adjacent).mT
    return {"k": readings(heads, heads.w_q, w_k)["k"], "q": readings(heads, w_q, heads.w_k)["q"]}


def composition_scores(model: Model, layer: int, distances: Distances | None) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Compute the composition scores of a layer's heads by kind, first without a rotation, then with RoPE averaged.

    Each array is [n_heads, layer, n_heads]: the reader, the writer's layer and the writer.
    """
    heads = folded_heads(model, layer)
    both = readings(heads, heads.w_q, heads.w_k), averaged_readings(model, layer, heads, distances)
    found: tuple[dict[str, list[np.ndarray]], ...] = tuple({kind: [] for kind in read} for read in both)
    for earlier in range(layer):
        written = ov_write_factor(folded_heads(model, earlier))
        for into, read in zip(found, both, strict=True):
            for kind, reading in read.items():
                into[kind].append(scores(reading, written))
    plain, averaged = ({kind: np.stack(each, axis=1) for kind, each in part.items()} for part in found)
    return plain, averaged


def matching_through_heads(model: Model, layer: int, states: TokenStates, chosen: np.ndarray) -> np.ndarray:
    """Compute the matching of each head of the layer through each earlier head, [head, earlier layer, earlier head] float32, NaN where not `chosen`."""
    heads, found = folded_heads(model, layer), np.full(chosen.shape, np.nan, np.float32)
    sought = [states.alike[own][states.source_kind(layer)] @ heads.w_q.double().mT for own in (0, 1)]
    for earlier in range(layer):
        source = folded_heads(model, earlier)
        for reader, writer in np.argwhere(chosen[:, earlier]):
            look = heads.w_k[reader].double() @ source.w_o[writer].double()
            match = source.w_v[writer].double() @ sought[states.source_kind(earlier)][reader]
            found[reader, earlier, writer] = ratio(eigenvalues(look @ match))
    return found


def strongest(found: np.ndarray, n: int) -> np.ndarray:
    """Mark, for each reader, the writers with the n largest scores: [n_heads, layer, n_heads] bool."""
    flat = found.reshape(len(found), -1)
    place = np.argsort(np.argsort(-flat, axis=1, kind="stable"), axis=1)
    return (place < n).reshape(found.shape)


def composition_rows(model: Model, layer: int, states: TokenStates, distances: Distances | None) -> pa.Table:
    """Compute the rows of `composition` whose readers are in one layer. The first layer has none."""
    if layer == 0:
        return EMPTY
    plain, averaged = composition_scores(model, layer, distances)
    matching = matching_through_heads(model, layer, states, strongest(plain["k"], N_MATCHED))
    return pa.concat_tables(kind_rows(layer, kind, plain[kind], averaged.get(kind), matching if kind == "k" else None) for kind in COMPOSITIONS)


EMPTY = pa.schema(
    [
        ("kind", pa.string()), ("layer", pa.int16()), ("head", pa.int16()), ("from_layer", pa.int16()), ("from_head", pa.int16()),
        ("score", pa.float32()), ("score_averaged", pa.float32()), ("matching", pa.float32()),
    ]
).empty_table()  # fmt: skip


def kind_rows(layer: int, kind: str, found: np.ndarray, averaged: np.ndarray | None, matching: np.ndarray | None) -> pa.Table:
    n = found.size
    reader, earlier, writer = (index.astype(np.int16).ravel() for index in np.indices(found.shape))

    def maybe(numbers: np.ndarray | None) -> pa.Array:
        return pa.nulls(n, pa.float32()) if numbers is None else pa.array(numbers.ravel(), mask=np.isnan(numbers.ravel()))

    columns = [pa.array([kind] * n), np.full(n, layer, np.int16), reader, earlier, writer, found.ravel(), maybe(averaged), maybe(matching)]
    return pa.table(dict(zip(EMPTY.column_names, map(pa.array, columns), strict=True)))
