"""Checks that saved tables have the form of an answer: a file of experiments from a stranger may have any tables under any names."""

from collections.abc import Mapping

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from atlas.live.pinned import quote_identifier
from schema.errors import AtlasError
from schema.live import MOST_ARMS, MOST_POSITIONS
from schema.reading import shorten_json
from schema.table_facts import facts

OF_EXPERIMENT = ("experiment", "prompt", "prompt_token", "arm", "arm_change", "outcome", "outcome_token", "generation")
"""Tables of an answer that a file of experiments has too."""

OF_CORPUS = ("corpus", "document", "sequence", "position")

NEEDED = {*OF_EXPERIMENT, *OF_CORPUS, "trace"}

BESIDE = {"arm": {"is_as_base": "truth"}}
"""Columns that only an answer has: table → column → kind of its values."""

BELOW_ZERO = ("corpus_id", "document_id", "sequence_id", "position_id")
"""Ids that must be negative, so that no row is taken for one of the atlas's."""

MOST_ROWS = {"arm": 1 + MOST_ARMS, "position": MOST_POSITIONS}


def require_answer(con: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table]) -> None:
    """Raise AtlasError unless the tables have the form of an answer.

    Tables and columns are those of an answer, with the types of the atlas's and the experiments' own tables. There are no more arms and positions than a trace
    may have. Arms count from 0, ids of corpora, documents, sequences and positions are below zero, and the atlas has every token.
    """
    of_trace = {*OF_CORPUS, *(name for name, of in facts().filled_by.items() if of in ("trace", "attribution"))}
    if unknown := sorted(tables.keys() - {*OF_EXPERIMENT, *of_trace}):
        raise AtlasError(f"it has a table {shorten_json(unknown[0])}, and a trace has no such table")
    if missing := sorted(NEEDED - tables.keys()):
        raise AtlasError(f"it has no table {missing[0]}")
    cursor = con.cursor()
    try:
        ((last_token,),) = cursor.execute("SELECT coalesce(max(t.token_id), -1) FROM token AS t").fetchall()
        for name, table in tables.items():
            place = "experiments." if name in OF_EXPERIMENT else ""
            own = cursor.sql(f"SELECT * FROM {place}main.{quote_identifier(name)} LIMIT 0").to_arrow_table().schema
            require_shape(name, table, {field.name: family(field.type) for field in own if field.name != "experiment_id"} | BESIDE.get(name, {}))
            if name in of_trace:
                require_below_zero(name, table, [column for column in BELOW_ZERO if column in own.names])
            require_tokens(name, table, last_token)
    finally:
        cursor.close()
    arms = tables["arm"].to_pydict().get("arm_id", [])
    if not arms or set(arms) != set(range(len(arms))):
        raise AtlasError("its arms are not numbered 0 (the base), 1, 2 and so on")


def require_shape(name: str, table: pa.Table, families: Mapping[str, str]) -> None:
    if table.num_rows > MOST_ROWS.get(name, table.num_rows):
        raise AtlasError(f"its table {name} has {table.num_rows:,} rows, and a trace has at most {MOST_ROWS[name]:,}")
    for field in table.schema:
        if field.name not in families or table.column_names.count(field.name) > 1:
            raise AtlasError(f"its table {name} has a column {shorten_json(field.name)} that does not belong to it, or that it has twice")
        if family(field.type) != families[field.name]:
            raise AtlasError(f"column {field.name} of its table {name} has {family(field.type)}, and not {families[field.name]}")


def require_below_zero(name: str, table: pa.Table, ids: list[str]) -> None:
    for column in ids:
        if column not in table.column_names or table[column].null_count or (table.num_rows and pc.max(table[column]).as_py() >= 0):
            raise AtlasError(f"its table {name} has rows that lack a {column} below 0, as every row of a prompt has one")


def require_tokens(name: str, table: pa.Table, last: int) -> None:
    """Raise AtlasError for a token that the atlas lacks: a join would drop its row silently, and the row after it would be taken for another position."""
    for column in (column for column in table.column_names if column.endswith(("token_id", "token_ids"))):
        ids = table[column]
        while not pa.types.is_integer(ids.type):
            ids = pc.list_flatten(ids)
        least, most = pc.min_max(ids).as_py().values()
        if least is not None and not 0 <= least <= most <= last:
            raise AtlasError(f"column {column} of its table {name} has token {most if most > last else least}, and the atlas has tokens 0 to {last}")


def family(kind: pa.DataType) -> str:
    """Name the kind of values that a type holds, whatever their size in bytes."""
    of = pa.types
    if of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind):
        return f"lists of {family(kind.value_type)}"
    named = {"whole numbers": of.is_integer, "numbers": of.is_floating, "truth": of.is_boolean, "times": of.is_temporal}
    return next((word for word, check in named.items() if check(kind)), "text")
