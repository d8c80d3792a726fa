"""Insertion of an experiment's rows into the file that is being changed, with the token texts that they need from the atlas."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from schema.errors import AtlasError
from schema.open.change import insert_rows
from schema.open.others import differ
from schema.open.store import open_reader

if TYPE_CHECKING:
    import pyarrow as pa

MOST_BYTES = 1 << 29
"""Maximum bytes of the file, which every change writes anew."""

COLUMNS = """
SELECT c.table_name, list(c.column_name ORDER BY c.column_index)
FROM duckdb_columns() AS c
WHERE c.database_name = 'experiments' AND c.table_name NOT IN ('experiment_schema', 'token_text', 'named_token')
GROUP BY c.table_name
ORDER BY c.table_name
"""

NAMED = """
SELECT t.token_id, t.text
FROM token AS t
WHERE t.token_id IN (SELECT n.token_id FROM experiments.named_token AS n WHERE n.experiment_id = $id AND n.token_id IS NOT NULL)
"""
DELETE_TEXTS = f"DELETE FROM experiments.token_text AS k WHERE k.token_id IN (SELECT o.token_id FROM ({NAMED}) AS o)"
KEEP_TEXTS = f"INSERT INTO experiments.token_text {NAMED}"

OTHER_TEXTS = f"""
SELECT k.token_id, k.text, t.text
FROM experiments.token_text AS k
INNER JOIN token AS t ON k.token_id = t.token_id
WHERE {differ("k.text", "t.text")}
ORDER BY k.token_id
LIMIT 1
"""
"""Query for the first token whose stored text differs from the atlas's. If there is one, the file has experiments of a model with another vocabulary."""


@dataclass(frozen=True)
class Model:
    """The parts of an atlas against which an experiment is checked: its row of the table model, and its vocabulary."""

    row: "pa.Table"
    tokens: "pa.Table"


def model_of(path: Path | str) -> Model:
    """Read the model of the atlas at `path`. Raises the errors of `open_reader`."""
    with closing(open_reader(path)) as con:
        return Model(
            # both once, whatever the file holds: the rows are joined
            con.sql("SELECT DISTINCT m.weights_sha256, m.n_layers, m.d_ffn, m.n_heads FROM model AS m").to_arrow_table(),
            con.sql("SELECT t.token_id, min(t.text) AS text FROM token AS t GROUP BY t.token_id").to_arrow_table(),
        )


def insert(con: duckdb.DuckDBPyConnection, experiment_id: int, tables: "Mapping[str, pa.Table]") -> None:
    """Insert rows, by table, as rows of one experiment.

    Raises AtlasError for an unknown table or column, for values that a column does not accept, and for more than MOST_BYTES.
    """
    n_bytes = sum(rows.nbytes for rows in tables.values())
    if n_bytes > MOST_BYTES:
        raise AtlasError(size_limit_message(n_bytes))
    known = dict(con.execute(COLUMNS).fetchall())
    for name, rows in tables.items():
        if name not in known:
            raise AtlasError(f"experiments have no table {name}; they have {', '.join(known)}")
        if unknown := [column for column in rows.column_names if column not in known[name]]:
            raise AtlasError(f"the table {name} of experiments has no column {unknown[0]}; it has {', '.join(known[name])}")
        if len(set(rows.column_names)) < rows.num_columns:
            raise AtlasError(f"rows for the table {name} of experiments have a column twice; the columns are {', '.join(rows.column_names)}")
        if not rows.num_rows:
            continue
        rows = rows.drop_columns("experiment_id") if "experiment_id" in rows.column_names else rows
        try:
            insert_rows(con, f"experiments.{name}", rows, experiment_id=experiment_id)
        except (duckdb.ConstraintException, duckdb.ConversionException, duckdb.BinderException, duckdb.InvalidInputException) as error:
            raise AtlasError(f"these rows do not fit the table {name} of experiments: {str(error).splitlines()[0]}") from error


def keep_texts(con: duckdb.DuckDBPyConnection, experiment_id: int, model: Model) -> None:
    """Store the texts of the tokens that an experiment names, and create the tables `model` and `token` of the atlas, which the rules read.

    Raises AtlasError if the file has experiments of a model with another vocabulary.
    """
    for name, rows in (("model", model.row), ("token", model.tokens)):
        con.register("of_atlas", rows)
        con.execute(f"CREATE TABLE {name} AS FROM of_atlas")
        con.unregister("of_atlas")
    if other := con.execute(OTHER_TEXTS).fetchall():
        token_id, there, here = other[0]
        raise AtlasError(
            f"the experiments beside this atlas are of a model whose token {token_id} is {there!r}; in this atlas's model it is {here!r}. One file cannot hold "
            "experiments of both models: move the file of experiments away, and run this again. Nothing was changed"
        )
    # what is there may be there twice, or a stranger's as far as an earlier release's spelling hides it
    con.execute(DELETE_TEXTS, {"id": experiment_id})
    con.execute(KEEP_TEXTS, {"id": experiment_id})


def require_size(con: duckdb.DuckDBPyConnection) -> None:
    """Raise AtlasError if the file has grown larger than MOST_BYTES."""
    con.execute("CHECKPOINT experiments")
    (n_bytes,) = con.execute("SELECT used_blocks * block_size FROM pragma_database_size() WHERE database_name = 'experiments'").fetchall()[0]
    if n_bytes > MOST_BYTES:
        raise AtlasError(size_limit_message(n_bytes))


def size_limit_message(n_bytes: int) -> str:
    return (
        f"experiments would take {n_bytes / 1e6:,.0f} MB, and may take at most {MOST_BYTES / 1e6:,.0f} MB, since every change rewrites their file. "
        "`atlas experiment remove` removes one"
    )
