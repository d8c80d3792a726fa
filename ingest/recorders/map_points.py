"""Rows of the map: values, and states of traced positions, placed in the plane."""

import numpy as np
import pyarrow as pa
import torch
from torch.nn.functional import normalize

from ingest.model.models import Model
from ingest.recorders.layout import placed, principal
from ingest.recorders.values import nearest


def value_rows(model: Model, run_id: int, seed: int, indices: np.ndarray, cosines: np.ndarray) -> pa.Table:
    """All values, by their neighbours, [values, neighbours]; the values of one layer are held at a time."""
    xy = placed(indices, cosines, principal(model.values, model.n_layers), seed)
    neurons = np.tile(np.arange(model.d_ffn, dtype=np.int32), model.n_layers)
    columns = {"neuron": neurons, "position_id": pa.nulls(len(xy), pa.int64())}
    return point_rows("value", run_id, np.repeat(np.arange(model.n_layers), model.d_ffn), columns, xy)


def state_rows(model: Model, site: str, run_id: int, seed: int, positions: np.ndarray, states: np.ndarray) -> pa.Table:
    """The states at a site of every layer, [n_layers, positions, d_model] float32, all in one plane."""
    n_layers = len(states)
    units = torch.stack([normalize(torch.from_numpy(layer), dim=1) for layer in states]).to(model.device)
    cosines, indices = (np.concatenate(part) for part in zip(*(nearest(layer, [units]) for layer in range(n_layers)), strict=True))
    xy = placed(indices, cosines, principal(units.__getitem__, n_layers), seed)
    columns = {"neuron": pa.nulls(len(xy), pa.int32()), "position_id": np.tile(positions, n_layers)}
    return point_rows(site, run_id, np.repeat(np.arange(n_layers), len(positions)), columns, xy)


def point_rows(layout: str, run_id: int, layers: np.ndarray, columns: dict[str, object], xy: np.ndarray) -> pa.Table:
    shared = {"run_id": np.full(len(xy), run_id, np.int32), "layout": pa.repeat(layout, len(xy)), "layer": layers.astype(np.int16)}
    return pa.table({**shared, **columns, "x": xy[:, 0].copy(), "y": xy[:, 1].copy()})
