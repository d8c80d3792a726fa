"""What the model process answered, kept as an experiment beside the atlas, and read again."""

from pathlib import Path

import duckdb
import pyarrow as pa

from atlas.frames import fetch
from atlas.live.streams import stream_of, table_of
from atlas.ranges import check_arguments
from schema.errors import AtlasError

KEPT = ("experiment", "prompt", "prompt_token", "arm", "arm_change", "outcome", "outcome_token", "generation")
"""Tables of an answer that a file of experiments has too."""

TEXT = "SELECT p.text FROM experiments.prompt AS p WHERE p.experiment_id = $id AND p.prompt_id = 0"
WHOLE = "SELECT k.name, k.arrow FROM experiments.kept_table AS k WHERE k.experiment_id = $id ORDER BY k.name"


def save_answer(path: Path, tables: dict[str, pa.Table], title: str, author: str | None, *, is_whole: bool = False) -> int:
    """Returns the experiment's number. is_whole: every table is kept as it is, beside the rows. Raises AtlasError if it cannot be written."""
    from atlas.experiments.store import save  # what writes DuckDB files, which reading goes without

    kept = {name: tables[name] for name in KEPT}
    kept["arm"] = kept["arm"].drop_columns("is_as_base")
    said = {"title": pa.array([title]), "author": pa.array([author], pa.string())}
    kept["experiment"] = pa.table({**dict(zip(kept["experiment"].column_names, kept["experiment"].columns, strict=True)), **said})
    if is_whole:
        kept["kept_table"] = pa.table({"name": list(tables), "arrow": pa.array([stream_of(table) for table in tables.values()], pa.large_binary())})
    return save(path, kept)


def kept_answer(con: duckdb.DuckDBPyConnection, experiment_id: int) -> tuple[str, dict[str, pa.Table]]:
    """The prompt and the tables of an answer that was kept whole. Raises AtlasError for an experiment that there is not, or that was not."""
    check_arguments(con, {"experiment": experiment_id})
    rows = fetch(con, WHOLE, {"id": experiment_id}).rows()
    if not rows:
        raise AtlasError(f"experiment {experiment_id} was kept without its trace: it has what its arms predict (before_after), and no states")
    try:
        tables = {name: table_of(stream) for name, stream in rows}
    except (AtlasError, pa.ArrowException, OSError) as error:
        raise AtlasError(f"the trace of experiment {experiment_id} cannot be read: {str(error).splitlines()[0]}") from error
    return fetch(con, TEXT, {"id": experiment_id}).item(), tables
