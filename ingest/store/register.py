"""Rows that describe the origin of an atlas (its model and vocabulary, corpora and runs), and queries for work that has been done already."""

import json
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import count

import duckdb

from ingest.model.fact_rows import list_facts
from ingest.model.models import Model
from ingest.store.transaction import transaction
from ingest.text.survey import Survey
from ingest.text.tokens import token_rows
from schema import SCHEMA_VERSION
from schema.errors import AtlasError

MODEL_COLUMNS = (
    "name", "revision", "n_layers", "d_model", "d_ffn", "n_heads", "n_kv_heads", "d_head", "d_vocab", "activation",
    "is_gated", "is_parallel", "is_ffn_output_normed", "is_tied", "weights_sha256",
)  # fmt: skip


def check_registered_model(con: duckdb.DuckDBPyConnection, model: Model) -> bool:
    """Tell whether the atlas has this model; False if it has none yet.

    Raises AtlasError if it has another model, or the same in another number format.
    """
    found = con.execute("SELECT name, revision, dtype, weights_sha256 FROM model").fetchall()
    if not found:
        return False
    name, revision, dtype, weights = found[0]
    if (weights, dtype) != (model.weights_sha256, model.dtype_name):
        raise AtlasError(
            f"this atlas is of {name} ({revision}, {dtype}, weights {weights[:12]}), not of {model.name} ({model.revision}, {model.dtype_name}, "
            f"weights {model.weights_sha256[:12]}). One atlas holds one model: ingest into a new file, and compare the two in the DuckDB shell (README)."
        )
    return True


def register_model(con: duckdb.DuckDBPyConnection, model: Model) -> None:
    """Insert the model and its vocabulary if they are missing. Raises AtlasError if the atlas has another model or number format."""
    if check_registered_model(con, model):
        with transaction(con):
            register_facts(con, model)
        return
    row = {c: getattr(model, c) for c in MODEL_COLUMNS}
    row |= {"model_type": model.hf.config.model_type, "dtype": model.dtype_name, "schema_version": SCHEMA_VERSION}
    con.register("token_rows", token_rows(model.tokenizer, model.d_vocab))
    # both or neither: a model that is there is taken to have its vocabulary
    with transaction(con):
        insert_row(con, "model", row)
        con.execute("INSERT INTO token BY NAME SELECT * FROM token_rows")
        register_facts(con, model)
    con.unregister("token_rows")


def register_facts(con: duckdb.DuckDBPyConnection, model: Model) -> None:
    """Insert the facts by which the model is read, if they are missing, and the errors of identities that no ingest had checked."""
    found = list_facts(model)
    if con.execute("SELECT count(*) FROM model_fact").fetchall() == [(0,)]:
        for row in found:
            insert_row(con, "model_fact", row)
        return
    for identity, error in model.errors.items():
        con.execute("UPDATE model_fact SET error = ? WHERE identity = ? AND error IS NULL", [error, identity])


def forget_interrupted_runs(con: duckdb.DuckDBPyConnection) -> None:
    """Settle interrupted runs: finish a run whose shards are all loaded, and delete a run that has none.

    Left as they are, such runs would block a request with other settings. If no run has a shard, corpora, vocabulary and model are deleted too.
    """
    with transaction(con):
        for (run_id,) in con.execute(COMPLETE).fetchall():
            finish_run(con, run_id)
        con.execute("DELETE FROM run WHERE status = 'running' AND run_id NOT IN (SELECT s.run_id FROM shard AS s)")
        if con.execute("SELECT count(*) FROM shard").fetchall() == [(0,)]:
            for table in ("corpus", "token", "model_fact", "model"):
                con.execute(f"DELETE FROM {table}")


def find_corpus(con: duckdb.DuckDBPyConnection, name: str, split: str, source: dict) -> int:
    """Find the corpus_id of the same text cut in the same way, or the next free one."""
    found = con.execute("SELECT corpus_id, source FROM corpus WHERE name = ? AND split = ?", [name, split]).fetchall()
    same = [corpus_id for corpus_id, stored in found if json.loads(stored) == json.loads(json.dumps(source))]
    return same[0] if same else con.execute("SELECT coalesce(max(corpus_id) + 1, 0) FROM corpus").fetchall()[0][0]


def register_corpus(con: duckdb.DuckDBPyConnection, corpus_id: int, name: str, split: str, source: dict, revision: str | None, seen: Survey) -> None:
    """Insert a corpus if it is missing. Raises AtlasError if its text has changed since a run over it began."""
    found = con.execute("SELECT sha256, n_documents FROM corpus WHERE corpus_id = ?", [corpus_id]).fetchall()
    is_read = con.execute("SELECT count(*) FROM run WHERE corpus_id = ?", [corpus_id]).fetchall() != [(0,)]
    if found and not is_read:
        con.execute("DELETE FROM corpus WHERE corpus_id = ?", [corpus_id])
        found = []
    if found and found[0][0] != seen.sha256:
        raise AtlasError(
            f"corpus {name!r} has changed: it had {found[0][1]} documents with sha256 {found[0][0][:12]}, and has {seen.n_documents} with {seen.sha256[:12]}. "
            "Restore the old text, or ingest into a new file."
        )
    if not found:
        counts = {"sha256": seen.sha256, "n_documents": seen.n_documents, "n_positions": seen.n_positions}
        insert_row(con, "corpus", {"corpus_id": corpus_id, "name": name, "split": split, "source": json.dumps(source), "revision": revision, **counts})


def find_run(con: duckdb.DuckDBPyConnection, kind: str, corpus_id: int | None, settings: Mapping[str, object]) -> int | None:
    """Find the run_id of the run with these settings, finished or not; None if there is none.

    The model's name and revision are recorded but not compared, since one atlas holds one model.
    """
    wanted = comparable_settings(json.loads(json.dumps(settings)))
    found = con.execute("SELECT run_id, settings FROM run WHERE kind = ? AND corpus_id IS NOT DISTINCT FROM ?", [kind, corpus_id]).fetchall()
    return next((run_id for run_id, stored in found if comparable_settings(json.loads(stored)) == wanted), None)


def reads_of(con: duckdb.DuckDBPyConnection, tables: Sequence[str], corpus_id: int | None) -> dict[str, list[int]]:
    """Map each table to the run_ids of the runs that filled it; tables that no run filled are left out.

    corpus_id: count only runs over this corpus and runs of the model alone; None for all runs.
    """
    sql = """
        SELECT DISTINCT s.run_id
        FROM shard AS s
        INNER JOIN run AS r ON s.run_id = r.run_id
        WHERE json_extract_string(s.n_rows, $table)::BIGINT > 0 AND ($corpus IS NULL OR r.corpus_id IS NULL OR r.corpus_id = $corpus)
        ORDER BY s.run_id
    """
    found = {table: [run_id for (run_id,) in con.execute(sql, {"table": table, "corpus": corpus_id}).fetchall()] for table in tables}
    return {table: run_ids for table, run_ids in found.items() if run_ids}


def settings_of(con: duckdb.DuckDBPyConnection, kind: str, **among: object) -> dict[str, object] | None:
    """Find the settings of the first run of a kind whose settings include `among`, finished or not; None if there is none."""
    found = con.execute("SELECT r.settings FROM run AS r WHERE r.kind = ? ORDER BY r.run_id", [kind]).fetchall()
    return next((of for of in (json.loads(stored) for (stored,) in found) if isinstance(of, dict) and among.items() <= of.items()), None)


def register_run(
    con: duckdb.DuckDBPyConnection,
    kind: str,
    corpus_id: int | None,
    settings: Mapping[str, object],
    seed: int,
    device: str,
    n_shards: int,
    is_repeatable: bool,
    computed_by: Mapping[str, str],
) -> int:
    """Return the run_id of the run with these settings, finished or not; register a new run if there is none. computed_by: recorded with the versions.

    Raises AtlasError if a run of this kind over this corpus has other settings, and that run is unfinished or is_repeatable is False.
    """
    there = find_run(con, kind, corpus_id, settings)
    if there is not None:
        return there
    settings = json.loads(json.dumps(settings))
    found = con.execute("SELECT run_id, settings, status FROM run WHERE kind = ? AND corpus_id IS NOT DISTINCT FROM ?", [kind, corpus_id]).fetchall()
    blocking = [(run_id, json.loads(stored)) for run_id, stored, status in found if not is_repeatable or status == "running"]
    if blocking:
        run_id, stored, settings = blocking[0][0], comparable_settings(blocking[0][1]), comparable_settings(settings)
        differs = ", ".join(f"{k} was {stored.get(k)!r} and is now {settings.get(k)!r}" for k in sorted(stored | settings) if stored.get(k) != settings.get(k))
        raise AtlasError(f"run {run_id} ({kind}) of this corpus has other settings: {differs}. Use the settings it had, or ingest into a new file.")
    # the first that is free: one that `forget_interrupted_runs` took back gets its place again
    taken = {run_id for (run_id,) in con.execute("SELECT run_id FROM run").fetchall()}
    run_id = next(i for i in count() if i not in taken)
    row = {"run_id": run_id, "kind": kind, "corpus_id": corpus_id, "settings": json.dumps(settings), "seed": seed}
    row["versions"] = json.dumps({**versions(), **computed_by})
    insert_row(con, "run", {**row, "device": device, "n_shards": n_shards, "started_at": datetime.now(UTC), "finished_at": None, "status": "running"})
    return run_id


UNSAID = {"skip_first": 0, "distinct": 0}
"""Settings that runs of older releases do not record, with the values that those releases used."""


def comparable_settings(settings: object) -> dict[str, object]:
    """Reduce settings to those that distinguish runs, and add those that runs of older releases do not record.

    The model's name and revision are left out, since `check_registered_model` compares its weights. The runs that a run reads from are left out too: a run
    stays the same if later runs are added to them. The result is empty if `settings` is not a mapping.
    """
    if not isinstance(settings, Mapping):
        return {}
    return {**UNSAID, **{name: value for name, value in settings.items() if name not in ("model", "revision", "reads")}}


COMPLETE = """
SELECT r.run_id FROM run AS r WHERE r.status = 'running' AND r.n_shards = (SELECT count(*) FROM shard AS s WHERE s.run_id = r.run_id) AND r.n_shards > 0
"""

FINISH = """
UPDATE run
SET status = 'finished', finished_at = greatest(?, started_at, (SELECT max(s.committed_at) FROM shard AS s WHERE s.run_id = run.run_id))
WHERE run_id = ? AND status = 'running'
"""


def finish_run(con: duckdb.DuckDBPyConnection, run_id: int) -> None:
    """Mark a run as finished. Its end is never before its start or its last shard, even if the clock was set back meanwhile."""
    con.execute(FINISH, [datetime.now(UTC), run_id])


@cache
def versions() -> dict[str, str]:
    """Read the versions of Python and of the packages that compute. A package that is not installed is left out."""
    found = {"python": platform.python_version()}
    for package in ("activation-atlas", "torch", "transformers", "duckdb", "numpy", "numba", "scipy", "umap-learn"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def insert_row(con: duckdb.DuckDBPyConnection, table: str, row: dict[str, object]) -> None:
    con.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
