"""Answers of the model process: saved as an experiment beside the atlas, and read back."""

from pathlib import Path

import duckdb
import pyarrow as pa

from atlas.frames import fetch
from atlas.live.shape import OF_EXPERIMENT, require_answer
from atlas.live.streams import stream_of, table_of
from atlas.ranges import check_arguments
from atlas.typed import sandbox
from schema.errors import AtlasError

MOST_BYTES = 1 << 29
"""Maximum bytes of all streams of a trace: as many as a whole file of experiments may have."""

TEXT = "SELECT p.text FROM experiments.prompt AS p WHERE p.experiment_id = $id AND p.prompt_id = 0"
LENGTH = "SELECT coalesce(sum(octet_length(k.arrow)), 0) AS n_bytes FROM experiments.kept_table AS k WHERE k.experiment_id = {id:d}"
WHOLE = "SELECT k.name, k.arrow FROM experiments.kept_table AS k WHERE k.experiment_id = $id ORDER BY k.name"


def require_length(path: Path, experiment_id: int) -> None:
    """Raise AtlasError if the streams of a trace are too long.

    DuckDB compresses streams, so that a file of a megabyte may hold any number of gigabytes, and expands them to report their length. The query for the length
    therefore runs in a process whose memory is limited.
    """
    try:
        (n_bytes,) = sandbox.run(path, LENGTH.format(id=experiment_id)).frame.row(0)
    except AtlasError as error:
        raise AtlasError(f"the trace of experiment {experiment_id} cannot be read: {error}") from error
    if n_bytes > MOST_BYTES:
        raise AtlasError(f"the trace of experiment {experiment_id} cannot be read: it takes {n_bytes:,} bytes, and the limit is {MOST_BYTES:,}")


def save_answer(path: Path, tables: dict[str, pa.Table], title: str, author: str | None, *, is_whole: bool = False) -> int:
    """Save an answer as an experiment; return its number. is_whole: besides the experiment's own rows, store a copy of every table of the answer, so that its
    trace can be opened again.

    Raises AtlasError if it cannot be written.
    """
    if half := [text for text in (title, author) if text is not None and any("\ud800" <= character <= "\udfff" for character in text)]:
        raise AtlasError(f"{half[0]!r} cannot be encoded in UTF-8: give another title or author")
    from atlas.beside.experiments.store import save  # what writes DuckDB files, which reading goes without

    kept = {name: tables[name] for name in OF_EXPERIMENT}
    kept["arm"] = kept["arm"].drop_columns("is_as_base")
    said = {"title": pa.array([title]), "author": pa.array([author], pa.string())}
    kept["experiment"] = pa.table({**dict(zip(kept["experiment"].column_names, kept["experiment"].columns, strict=True)), **said})
    if is_whole:
        kept["kept_table"] = pa.table({"name": list(tables), "arrow": pa.array([stream_of(table) for table in tables.values()], pa.large_binary())})
    return save(path, kept)


def kept_answer(con: duckdb.DuckDBPyConnection, path: Path, experiment_id: int) -> tuple[str, dict[str, pa.Table]]:
    """Read the prompt and the tables of an answer that was saved whole. Raises AtlasError if the experiment does not exist, or was not saved whole."""
    check_arguments(con, {"experiment": experiment_id})
    require_length(path, experiment_id)
    rows = fetch(con, WHOLE, {"id": experiment_id}).rows()
    if not rows:
        raise AtlasError(f"experiment {experiment_id} was saved without its trace: it has the predictions of its arms (question before_after), but no states")
    try:
        tables = {name: table_of(stream) for name, stream in rows}
        require_answer(con, tables)
    except (AtlasError, pa.ArrowException, OSError, duckdb.Error) as error:
        raise AtlasError(f"the trace of experiment {experiment_id} cannot be read: {str(error).splitlines()[0]}") from error
    return fetch(con, TEXT, {"id": experiment_id}).item(), tables
