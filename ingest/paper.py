"""The run of kind `paper`: what of the atlas each of its shards reads, and what it computes of that.

Shard l holds layer l's removals, next-token ranks and control tokens; one more holds the clusters of all values. A run brings only
what the atlas lacks: control tokens and clusters are of the model, and a second corpus does not bring them again.
"""

from collections.abc import Callable
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import torch

from ingest.model.models import Model
from ingest.recorders.clusters import n_blocks, n_clusters
from ingest.recorders.controls import control_rows, next_token_rows, random_vectors
from ingest.recorders.removal import Trigger, removal_rows
from ingest.request import Request
from ingest.store.merges import WHOLE_LAYER, merged
from ingest.text.survey import smallest

N_TRIGGERS = 50
N_ITEMS = 10
"""Random vectors, and updates, of each layer."""


@dataclass(frozen=True)
class LayerWork:
    """What a layer's shard computes from: triggers to read again; neurons and the token after the top trigger of each, [n];
    how many random vectors; position_ids [n] and updates [n, d_model] (ffn_out)."""

    triggers: list[Trigger]
    neurons: np.ndarray
    next_token_ids: np.ndarray
    n_vectors: int
    position_ids: np.ndarray
    updates: np.ndarray


def paper_settings(con: duckdb.DuckDBPyConnection, request: Request, corpus_id: int, n_values: int) -> dict[str, object]:
    """Settings of the run. What the atlas can give it is one of them, so that a run after a later sweep or trace is another run."""
    sql = "SELECT (settings ->> 'triggers')::INTEGER FROM run WHERE kind = 'sweep' AND corpus_id = ? AND status = 'finished'"
    swept = con.execute(sql, [corpus_id]).fetchall()
    return {
        **request.weights_settings(),
        "seed": request.seed,
        "batch_size": request.batch_size,
        "keys_per_layer": request.paper_keys,
        "triggers_per_key": min(N_TRIGGERS, swept[0][0]) if swept else 0,
        "items_per_layer": N_ITEMS,
        "updates_per_layer": min(N_ITEMS, len(update_positions(con, 0))),
        "n_clusters": n_clusters(n_values),
        "cluster_blocks": n_blocks(n_values),
    }


def left_out(settings: dict[str, object]) -> str | None:
    """A note on what the run cannot bring, or None."""
    missing = []
    if not settings["triggers_per_key"]:
        missing.append("removal and next_token_rank (this corpus has no finished sweep: --triggers)")
    if not settings["updates_per_layer"]:
        missing.append("the FFN updates of control_token (nothing is traced: --trace)")
    return f"note: left out of the paper run: {' and '.join(missing)}; run it again when they are there" if missing else None


def layer_work(con: duckdb.DuckDBPyConnection, settings: dict, corpus_id: int, layer: int, d_ffn: int) -> LayerWork:
    """What the atlas lacks of a layer and can have."""
    seed = settings["seed"]
    sampled = smallest(seed, layer, np.arange(d_ffn), settings["keys_per_layer"])
    known = {n for (n,) in con.execute("SELECT DISTINCT neuron FROM removal WHERE corpus_id = ? AND layer = ?", [corpus_id, layer]).fetchall()}
    found = top_triggers(con, corpus_id, layer, settings["triggers_per_key"])
    has_ranks = con.execute("SELECT count(*) FROM next_token_rank WHERE corpus_id = ? AND layer = ?", [corpus_id, layer]).fetchall()[0][0]
    first = {name: column[(found["rank"] == 1) & (found["next_token_id"] >= 0) & (not has_ranks)] for name, column in found.items()}
    has_controls = {c for (c,) in con.execute("SELECT DISTINCT control FROM control_token WHERE layer = ?", [layer]).fetchall()}
    wanted = 0 if "ffn_update" in has_controls else settings["updates_per_layer"]
    chosen = smallest(seed, layer, update_positions(con, layer), wanted)
    return LayerWork(
        triggers=with_prefixes(con, {name: column[np.isin(found["neuron"], [n for n in sampled if n not in known])] for name, column in found.items()}),
        neurons=first["neuron"],
        next_token_ids=first["next_token_id"],
        n_vectors=0 if "random_vector" in has_controls else settings["items_per_layer"],
        position_ids=chosen,
        updates=updates(con, layer, chosen),
    )


def top_triggers(con: duckdb.DuckDBPyConnection, corpus_id: int, layer: int, k: int) -> dict[str, np.ndarray]:
    """The k top triggers of every key of a layer, by neuron and rank; next_token_id is -1 at the end of a document."""
    sql = f"""
        SELECT t.neuron, t.rank, t.position_id, s.sequence_id, s.first_position_id, coalesce(p.next_token_id, -1) AS next_token_id
        FROM ({merged("trigger", "trigger", WHOLE_LAYER)}) AS t
        INNER JOIN position AS p ON t.position_id = p.position_id
        INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
        WHERE t.tail = 'max' AND t.rank <= ?
        ORDER BY t.neuron, t.rank
    """
    return {name: np.asarray(column, np.int64) for name, column in con.execute(sql, [corpus_id, layer, k]).fetchnumpy().items()}


def with_prefixes(con: duckdb.DuckDBPyConnection, found: dict[str, np.ndarray]) -> list[Trigger]:
    """Triggers with the tokens from the start of their sequence to their own. BOS is a special token without text at index 0."""
    sql = """
        SELECT p.position_id, p.token_id, p.index = 0 AND p.char_start = p.char_end AND w.is_special AS is_bos
        FROM position AS p
        INNER JOIN token AS w ON p.token_id = w.token_id
        WHERE p.sequence_id IN (SELECT unnest(?::BIGINT[]))
        ORDER BY p.position_id
    """
    read = con.execute(sql, [np.unique(found["sequence_id"]).tolist()]).fetchnumpy()
    positions, tokens, is_bos = (np.asarray(read[name]) for name in ("position_id", "token_id", "is_bos"))
    starts = np.searchsorted(positions, found["first_position_id"])
    ends = starts + found["position_id"] - found["first_position_id"] + 1
    return [
        Trigger(int(neuron), int(rank), int(position), tuple(tokens[start:end].tolist()), bool(is_bos[start]))
        for neuron, rank, position, start, end in zip(found["neuron"], found["rank"], found["position_id"], starts, ends, strict=True)
    ]


def update_positions(con: duckdb.DuckDBPyConnection, layer: int) -> np.ndarray:
    """position_id of the traced positions whose ffn_out can be told, ascending, [n]; those at index 0, with their huge norms, are left out."""
    sql = """
        SELECT r.position_id
        FROM residual_state AS r
        INNER JOIN position AS p ON r.position_id = p.position_id
        WHERE r.layer = ? AND r.site IN ('resid_mid', 'resid_post') AND p.index > 0
        GROUP BY r.position_id
        HAVING count(*) = 2
        ORDER BY r.position_id
    """
    return np.asarray(con.execute(sql, [layer]).fetchnumpy()["position_id"], np.int64)


def updates(con: duckdb.DuckDBPyConnection, layer: int, position_ids: np.ndarray) -> np.ndarray:
    """ffn_out = resid_post - resid_mid at these positions, in their order: [n, d_model] float32."""
    sql = """
        SELECT after.vector, before.vector
        FROM residual_state AS after
        INNER JOIN residual_state AS before ON after.position_id = before.position_id AND after.layer = before.layer
        WHERE after.site = 'resid_post' AND before.site = 'resid_mid' AND after.layer = ? AND after.position_id IN (SELECT unnest(?::BIGINT[]))
        ORDER BY after.position_id
    """
    rows = np.array(con.execute(sql, [layer, position_ids.tolist()]).fetchall(), np.float32)
    return rows[:, 0] - rows[:, 1] if len(rows) else np.empty((0, 0), np.float32)


def has_clusters(con: duckdb.DuckDBPyConnection) -> bool:
    return bool(con.execute("SELECT count(*) FROM value_cluster").fetchall()[0][0])


def paper_shard(
    model: Model, work: LayerWork, corpus_id: int, layer: int, seed: int, batch_tokens: int, progress: Callable[[float], None]
) -> dict[str, pa.Table]:
    """Compute a layer's shard; a table that would have no rows is left out."""
    tables = {
        "removal": removal_rows(model, layer, corpus_id, work.triggers, seed, batch_tokens, progress),
        "next_token_rank": next_token_rows(model, layer, corpus_id, work.neurons, work.next_token_ids),
    }
    controls = []
    if work.n_vectors:
        drawn = random_vectors(model.values(layer), layer, seed, work.n_vectors)
        controls.append(control_rows(model, layer, "random_vector", np.arange(work.n_vectors), drawn))
    if len(work.position_ids):
        controls.append(control_rows(model, layer, "ffn_update", work.position_ids, torch.from_numpy(work.updates).to(model.device)))
    if controls:
        tables["control_token"] = pa.concat_tables(controls)
    return {name: table for name, table in tables.items() if len(table)}
