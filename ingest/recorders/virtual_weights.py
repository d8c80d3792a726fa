"""Virtual weights: how strongly each neuron's key reads each neuron's value of an earlier layer, k̂·v, with the norm before the key folded in.

There is one for each pair of neurons. Only the largest of each neuron are stored, and the sum of the squares of all of its virtual weights.
Source: Elhage et al. 2021, "virtual weights and the residual stream as a communication channel".
"""

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from ingest.model.folding import folded_gate_keys, folded_keys
from ingest.model.models import Model
from ingest.model.ranking import top_k

N_KEPT = 10
ROWS = 256
"""Neurons of a layer whose virtual weights with another layer are in memory at once."""


def readers(model: Model, layer: int) -> dict[str, Tensor]:
    """Collect a layer's folded keys, and its gate keys if it has any, [d_ffn, d_model] each, by their names in `virtual_weight.side`."""
    gate = folded_gate_keys(model, layer)
    return {"key": folded_keys(model, layer)} | ({} if gate is None else {"gate": gate})


class Largest:
    """Each neuron's N_KEPT virtual weights of largest modulus, with the other neuron of each, and the sum of the squares of all, for one layer."""

    def __init__(self, mine: Tensor) -> None:
        self.mine = mine
        self.weights = mine.new_zeros(len(mine), 0)
        self.others = torch.zeros(len(mine), 0, dtype=torch.int64, device=mine.device)
        self.cosines = mine.new_zeros(len(mine), 0)
        self.squares = torch.zeros(len(mine), dtype=torch.float64, device=mine.device)
        self.n = 0

    def add(self, layer: int, others: Tensor) -> None:
        """Add the weights with another layer's vectors `others`, [d_ffn, d_model], and keep the largest. Layers must come in ascending order."""
        parts = [self.largest_weights(part, layer, others) for part in torch.arange(len(self.mine)).split(ROWS)]
        weights, indices, cosines = (torch.cat(part) for part in zip(*parts, strict=True))
        self.weights, self.others, self.cosines = (
            torch.cat(both, dim=1) for both in ((self.weights, weights), (self.others, indices), (self.cosines, cosines))
        )
        _, kept = top_k(self.weights.abs(), N_KEPT)
        self.weights, self.others, self.cosines = (x.gather(1, kept) for x in (self.weights, self.others, self.cosines))
        self.n += len(others)

    def largest_weights(self, rows: Tensor, layer: int, others: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Find the largest weights of the neurons `rows` with another layer's vectors: weights, flat indices and cosines, [rows, N_KEPT] each."""
        mine = self.mine[rows.to(self.mine.device)]
        found = mine @ others.T
        self.squares[rows.to(self.mine.device)] += found.square().sum(1, dtype=torch.float64)
        _, index = top_k(found.abs(), N_KEPT)
        weights = found.gather(1, index)
        lengths = mine.norm(dim=1, keepdim=True) * others.norm(dim=1)[index]
        return weights, index + layer * len(others), torch.where(lengths > 0, weights / lengths, 0.0)


def virtual_weight_tables(model: Model, layer: int) -> dict[str, pa.Table]:
    """Compute the rows of one layer: the largest weights of its keys with earlier values, and of its values with later keys."""
    values, own = model.values(layer), readers(model, layer)
    found = {side: Largest(rows) for side, rows in own.items()} | {f"read_by_{side}": Largest(values) for side in own}
    for earlier in range(layer):
        written = model.values(earlier)
        for side in own:
            found[side].add(earlier, written)
    for later in range(layer + 1, model.n_layers):
        for side, rows in readers(model, later).items():
            found[f"read_by_{side}"].add(later, rows)
    cosines = {side: cosine_similarity(rows, values).cpu().numpy() for side, rows in own.items()}
    return {
        "virtual_weight": pa.concat_tables(weight_rows(layer, side, each, model.d_ffn) for side, each in found.items()),
        "virtual_weight_total": pa.concat_tables(total_rows(layer, side, each, cosines.get(side)) for side, each in found.items()),
    }


def weight_rows(layer: int, side: str, found: Largest, d_ffn: int) -> pa.Table:
    n, k = found.weights.shape
    others = found.others.cpu().numpy().ravel()
    return pa.table(
        {
            "layer": np.full(n * k, layer, np.int16),
            "neuron": np.repeat(np.arange(n, dtype=np.int32), k),
            "side": pa.array([side]).take(pa.array(np.zeros(n * k, np.int8))),
            "rank": np.tile(np.arange(1, k + 1, dtype=np.int16), n),
            "other_layer": (others // d_ffn).astype(np.int16),
            "other_neuron": (others % d_ffn).astype(np.int32),
            "weight": found.weights.cpu().numpy().ravel(),
            "cosine": found.cosines.cpu().numpy().ravel(),
        }
    )


def total_rows(layer: int, side: str, found: Largest, cosines: np.ndarray | None) -> pa.Table:
    n = len(found.mine)
    return pa.table(
        {
            "layer": np.full(n, layer, np.int16),
            "neuron": np.arange(n, dtype=np.int32),
            "side": pa.array([side]).take(pa.array(np.zeros(n, np.int8))),
            "n": np.full(n, found.n, np.int64),
            "sum_squares": found.squares.cpu().numpy(),
            "folded_cosine": pa.nulls(n, pa.float32()) if cosines is None else cosines,
        }
    )
