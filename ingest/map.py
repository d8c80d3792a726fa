"""The run of kind `map`: every value, and every traced state, placed in two dimensions. One run a layout, each of one shard."""

import duckdb
import numpy as np
import pyarrow as pa
import torch
from torch.nn.functional import normalize

from ingest.model.models import Model
from ingest.recorders.layout import EPOCHS, placed, principal
from ingest.recorders.values import N_NEIGHBOURS, nearest
from ingest.request import Request
from ingest.store.register import finish_run
from ingest.text.survey import smallest
from schema.terms import LAYOUTS

MOST_STATES = 50_000
"""States placed at once. Their vectors take 0.2 GB at a width of 1,024, and each is compared with all; of more positions a seeded sample is placed."""


def map_settings(con: duckdb.DuckDBPyConnection, request: Request, layout: str) -> dict[str, object]:
    """Settings of a layout's run. What the atlas can give it is one of them, so that a run after another trace is another run."""
    traced = {} if layout == "value" else {"n_traced": len(traced_positions(con))}
    return {**request.weights_settings(), "seed": request.seed, "layout": layout, "n_neighbours": N_NEIGHBOURS, "n_epochs": EPOCHS, **traced}


def layouts(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Those that the atlas has something for."""
    return [layout for layout in LAYOUTS if layout == "value" or len(traced_positions(con))]


def settle(con: duckdb.DuckDBPyConnection) -> None:
    """End what an interruption has left: a layout that is loaded is finished, and one that is not has nothing to go on from.

    More may have been traced since, and a run that waits for the settings it had would wait for ever.
    """
    con.execute("DELETE FROM run WHERE kind = 'map' AND run_id NOT IN (SELECT s.run_id FROM shard AS s)")
    for (run_id,) in con.execute("SELECT r.run_id FROM run AS r WHERE r.kind = 'map' AND r.status = 'running'").fetchall():
        finish_run(con, run_id)


def map_rows(con: duckdb.DuckDBPyConnection, model: Model, layout: str, run_id: int, seed: int) -> pa.Table:
    """Rows of `map_point`."""
    if layout == "value":
        return value_rows(con, model, run_id, seed)
    return state_rows(con, model, layout, run_id, seed)


def value_rows(con: duckdb.DuckDBPyConnection, model: Model, run_id: int, seed: int) -> pa.Table:
    """All values, by the neighbours that the weights' run has found: no two vectors are compared again, and one layer is held at a time."""
    sql = "SELECT n.neighbour_layer, n.neighbour_neuron, n.cosine FROM value_neighbour AS n ORDER BY n.layer, n.neuron, n.rank"
    found = con.execute(sql).fetchnumpy()
    n = model.n_layers * model.d_ffn
    indices = np.asarray(found["neighbour_layer"], np.int64) * model.d_ffn + np.asarray(found["neighbour_neuron"], np.int64)
    start = principal(model.values, model.n_layers)
    xy = placed(indices.reshape(n, -1), np.asarray(found["cosine"]).reshape(n, -1), start, seed)
    neurons = np.tile(np.arange(model.d_ffn, dtype=np.int32), model.n_layers)
    return point_rows("value", run_id, np.repeat(np.arange(model.n_layers), model.d_ffn), {"neuron": neurons, "position_id": pa.nulls(n, pa.int64())}, xy)


def state_rows(con: duckdb.DuckDBPyConnection, model: Model, site: str, run_id: int, seed: int) -> pa.Table:
    """The states of traced positions at a site of every layer, all in one plane."""
    n_layers = model.n_layers
    positions = placed_positions(traced_positions(con), n_layers, seed)
    units = torch.stack([normalize(states_of(con, layer, site, positions), dim=1) for layer in range(n_layers)]).to(model.device)
    cosines, indices = (np.concatenate(part) for part in zip(*(nearest(layer, [units]) for layer in range(n_layers)), strict=True))
    xy = placed(indices, cosines, principal(units.__getitem__, n_layers), seed)
    columns = {"neuron": pa.nulls(len(xy), pa.int32()), "position_id": np.tile(positions, n_layers)}
    return point_rows(site, run_id, np.repeat(np.arange(n_layers), len(positions)), columns, xy)


def point_rows(layout: str, run_id: int, layers: np.ndarray, columns: dict[str, object], xy: np.ndarray) -> pa.Table:
    shared = {"run_id": np.full(len(xy), run_id, np.int32), "layout": pa.repeat(layout, len(xy)), "layer": layers.astype(np.int16)}
    return pa.table({**shared, **columns, "x": xy[:, 0].copy(), "y": xy[:, 1].copy()})


def traced_positions(con: duckdb.DuckDBPyConnection) -> np.ndarray:
    """position_id of every traced position, of all corpora, ascending."""
    return np.asarray(con.execute("SELECT t.position_id FROM trace AS t ORDER BY t.position_id").fetchnumpy()["position_id"], np.int64)


def placed_positions(traced: np.ndarray, n_layers: int, seed: int) -> np.ndarray:
    """All of them, or a seeded sample of as many as fit."""
    return smallest(seed, 0, traced, max(MOST_STATES // n_layers, 1))


def states_of(con: duckdb.DuckDBPyConnection, layer: int, site: str, positions: np.ndarray) -> torch.Tensor:
    """Their states at a layer and site, in their order: [n, d_model] float32."""
    sql = """
        SELECT r.vector
        FROM residual_state AS r
        WHERE r.layer = ? AND r.site = ? AND r.position_id IN (SELECT unnest(?::BIGINT[]))
        ORDER BY r.position_id
    """
    vectors = con.execute(sql, [layer, site, positions.tolist()]).fetchnumpy()["vector"]
    return torch.from_numpy(np.stack(list(vectors)).astype(np.float32))
