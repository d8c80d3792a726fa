"""SQL that merges the rows of many shards in one table. Its source `part` has all rows of some neurons or heads of one corpus and layer.

Because parts are merged one by one, memory grows neither with the size of the model nor with the number of shards.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import duckdb

MERGES = {file.stem: file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("*.sql")}

UNITS = {"attention_distance": "head", "head_statistics": "head", "neuron_statistics": "neuron", "trigger": "neuron"}
"""Table → the unit that each of its rows describes, which is also the name of the unit's column."""

ROWS_AT_ONCE = {"attention_distance": 2**20, "head_statistics": 2**20, "neuron_statistics": 2**17, "trigger": 2**25}
"""Table → number of rows that are merged at once. Statistics need about 3 kB of memory per row; triggers are sorted, and spill to disk if they do not fit.
Small parts of triggers would leave many half-filled row groups, whose blocks stay free in the file."""

WHOLE_LAYER = "FROM {} WHERE corpus_id = ? AND layer = ?"


class Part(NamedTuple):
    """Rows that are merged at once. first, last: the range of their neurons, or heads, both ends included."""

    corpus_id: int
    layer: int
    first: int
    last: int


def parts(con: duckdb.DuckDBPyConnection, table: str, source: str) -> Iterator[Part]:
    """Yield parts of about ROWS_AT_ONCE rows each, which together are all rows of `source`, in the order of an atlas.

    source: a table or subquery with rows of `table`.
    """
    sql = f"SELECT t.corpus_id, t.layer, max(t.{UNITS[table]}) + 1 AS n_units, count(*) AS n_rows FROM {source} AS t GROUP BY ALL ORDER BY ALL"
    for corpus_id, layer, n_units, n_rows in con.execute(sql).fetchall():
        step = max(1, n_units * ROWS_AT_ONCE[table] // n_rows)
        for first in range(0, n_units, step):
            yield Part(corpus_id, layer, first, min(first + step, n_units) - 1)


def merge_sql(table: str, source: str) -> str:
    """Write the SELECT that merges `source`, a table or subquery; its parameters are the fields of a Part."""
    return f"WITH part AS ({WHOLE_LAYER.format(source)} AND {UNITS[table]} BETWEEN ? AND ?) FROM ({MERGES[table]})"


def layer_merge_sql(table: str, source: str) -> str:
    """Write the SELECT over a whole layer of `source`, a table or subquery; its parameters are corpus_id and layer."""
    return f"WITH part AS ({WHOLE_LAYER.format(source)}) FROM ({MERGES[table]})"
