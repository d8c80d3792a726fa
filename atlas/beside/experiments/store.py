"""Changes of NAME.experiments.duckdb: an experiment is saved whole, or begun and extended arm by arm. If a row breaks a rule, nothing is saved."""

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from atlas.beside.experiments import EXPERIMENTS
from atlas.beside.experiments.inserting import Model, insert, keep_texts, model_of, require_size
from schema.errors import AtlasError, what_there_is
from schema.open.change import change_companion, change_companion_with_atlas, next_id
from schema.open.open_with_beside import open_with_beside
from schema.open.others import tables_with

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

FINISH = "UPDATE experiments.experiment SET status = 'finished', finished_at = now() WHERE experiment_id = $id"
STATUS = "SELECT e.status FROM experiments.experiment AS e WHERE e.experiment_id = $id"
ALIKE = ("kind", "title", "seed", "device", "dtype", "attention", "weights_sha256")
BEGUN = (
    "SELECT e.experiment_id, e.settings::TEXT, e.versions::TEXT FROM experiments.experiment AS e "
    f"WHERE e.status = 'running' AND {' AND '.join(f'e.{name} = ${name}' for name in ALIKE)} ORDER BY e.experiment_id"
)
DONE = "SELECT p.part FROM experiments.part AS p WHERE p.experiment_id = $id"


def save(path: Path | str, tables: "Mapping[str, pa.Table]") -> int:
    """Save an experiment beside the atlas at `path`, and return its id.

    tables: rows by table of the file; `experiment` has exactly one. No row needs an experiment_id, which is assigned here. Further rows can be added while
    the status is running. Raises AtlasError if rows break a rule, if the model is not the atlas's, or if the file would grow too large; Locked if other
    processes keep changing the file.
    """
    n = tables["experiment"].num_rows if "experiment" in tables else 0
    if n != 1:
        raise AtlasError(f"experiments are saved one at a time, so the table `experiment` must have one row; it has {n}")
    model = model_of(path)

    def add_whole(con: duckdb.DuckDBPyConnection) -> int:
        experiment_id = next_id(con, "experiments", "experiment_id")
        insert_checked_rows(con, experiment_id, tables, model)
        return experiment_id

    return change_file(path, add_whole)


def add(path: Path | str, experiment_id: int, tables: "Mapping[str, pa.Table]", *, is_last: bool, row: Mapping[str, Any]) -> None:
    """Add rows, most often those of an arm, to an experiment that is running; `is_last` marks the experiment as finished. Raises as `save` does.

    row: the experiment's row as it was at the beginning. It identifies the experiment, because another one may get the id of one that was removed.
    """
    if "experiment" in tables:
        raise AtlasError(f"experiment {experiment_id} has its row in the table experiment already: add rows to the other tables only")
    model = model_of(path)

    def add_part(con: duckdb.DuckDBPyConnection) -> None:
        is_running = require_status(con, experiment_id) == "running"
        if is_running and experiment_id not in find_same_begun(con, row):
            raise AtlasError(f"experiment {experiment_id} was removed while it was computed, and another has its id: run the same command again")
        require_new(con, experiment_id, tables)
        if not is_running:
            raise AtlasError(f"experiment {experiment_id} is finished, so nothing can be added to it: save a new one")
        if is_last:
            con.execute(FINISH, {"id": experiment_id})
        insert_checked_rows(con, experiment_id, tables, model)

    change_file(path, add_part)


def find_unfinished(path: Path | str, row: Mapping[str, Any]) -> tuple[int, frozenset[int]] | None:
    """Find an unfinished experiment that was begun in the same way; return its id and the parts that are done, or None if there is none.

    row: as in the table experiment. An experiment begun by other versions of the packages, or on another device, is not the same: its numbers may differ.
    """
    with closing(open_with_beside(path)) as con:
        same = find_same_begun(con, row)
        if not same:
            return None
        return same[0], frozenset(part for (part,) in con.execute(DONE, {"id": same[0]}).fetchall())


def find_same_begun(con: duckdb.DuckDBPyConnection, row: Mapping[str, Any]) -> list[int]:
    """List the ids of unfinished experiments that were begun in the same way, ascending."""
    begun = con.execute(BEGUN, {name: row[name] for name in ALIKE}).fetchall()
    wanted = [json.loads(row[name]) for name in ("settings", "versions")]
    return [experiment_id for experiment_id, *found in begun if is_alike(found, wanted)]


def is_alike(texts: list[str], wanted: list[Any]) -> bool:
    """Tell whether JSON texts, which a stranger may have sent, equal `wanted`. A text nested too deeply to parse does not: `wanted` is never deep."""
    try:
        return [json.loads(text) for text in texts] == wanted
    except (ValueError, RecursionError):
        # such as a number of too many digits
        return False


def remove(path: Path | str, experiment_id: int) -> None:
    """Remove an experiment with all its rows. Raises AtlasError if the atlas's model has no experiment with that id."""
    with change_companion_with_atlas(EXPERIMENTS, path) as (con, own):
        # another model's is not to go by the number
        require_status(own, experiment_id)
        delete_experiment(con, experiment_id)


def remove_if_bare(path: Path | str, experiment_id: int) -> bool:
    """Remove an experiment if none of its parts is done, and return whether it was removed.

    Other processes may add parts to an experiment that has begun. Raises AtlasError if there is no experiment with that id.
    """

    def delete_if_bare(con: duckdb.DuckDBPyConnection) -> bool:
        is_bare = not con.execute(DONE, {"id": experiment_id}).fetchall()
        if is_bare:
            delete_experiment(con, experiment_id)
        return is_bare

    return change_file(path, delete_if_bare)


def delete_experiment(con: duckdb.DuckDBPyConnection, experiment_id: int) -> None:
    require_status(con, experiment_id)
    for table in tables_with(con, "experiments", ["experiment_id"]):
        con.execute(f"DELETE FROM experiments.{table} WHERE experiment_id = $id", {"id": experiment_id})
    con.execute(
        "DELETE FROM experiments.token_text AS t WHERE t.token_id NOT IN (SELECT n.token_id FROM experiments.named_token AS n WHERE n.token_id IS NOT NULL)"
    )


def insert_checked_rows(con: duckdb.DuckDBPyConnection, experiment_id: int, tables: "Mapping[str, pa.Table]", model: Model) -> None:
    """Insert rows. Raises AtlasError if the experiment then breaks a rule, or the file is too large."""
    from atlas.beside.experiments.rules import findings  # with SQLAlchemy, which a removal goes without

    insert(con, experiment_id, tables)
    keep_texts(con, experiment_id, model)
    for found in findings(con, experiment_id):
        if found.n_rows:
            rule = f"{found.audit.rule} ({found.audit.name}: {found.n_rows} rows, such as {found.example})"
            if "experiment_id" in (found.example or {}):
                raise AtlasError(f"the experiment was not saved, for it breaks a rule: {rule}")
            raise AtlasError(f"the experiments beside this atlas break a rule, so none is saved with them: {rule}. Move their file away, and run this again")
    require_size(con)


def require_new(con: duckdb.DuckDBPyConnection, experiment_id: int, tables: "Mapping[str, pa.Table]") -> None:
    """Raise AtlasError if `tables` has a part that is done already."""
    parts = set(tables["part"]["part"].to_pylist()) if "part" in tables else set()
    done = {part for (part,) in con.execute(DONE, {"id": experiment_id}).fetchall()}
    if twice := sorted(parts & done):
        raise AtlasError(
            f"part {twice[0]} of experiment {experiment_id} is there already: another process computes the same experiment. Nothing is lost; wait for it, "
            "and run the same command again if it ends before the experiment is finished"
        )


def require_status(con: duckdb.DuckDBPyConnection, experiment_id: int) -> str:
    ids = [i for (i,) in con.execute("SELECT e.experiment_id FROM experiments.experiment AS e ORDER BY e.experiment_id").fetchall()]
    # DuckDB takes no number of any size
    if experiment_id not in ids:
        raise AtlasError(f"no experiment {experiment_id}; {what_there_is(', '.join(map(str, ids)))}")
    return str(con.execute(STATUS, {"id": experiment_id}).fetchall()[0][0])


def change_file(path: Path | str, change: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
    """Apply `change` to the file as a whole, and return its result; if DuckDB cannot write, the file stays as it was."""
    with change_companion(EXPERIMENTS, path) as con:
        return change(con)
