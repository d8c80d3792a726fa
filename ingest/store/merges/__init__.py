"""Merge what the shards brought of one table: SQL from `part`, all rows of some neurons of a corpus and layer, to the rows of an atlas.

Part by part, memory grows neither with the size of the model nor with the number of shards.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import duckdb

MERGES = {file.stem: file.read_text() for file in Path(__file__).parent.glob("*.sql")}

ROWS_AT_ONCE = {"neuron_statistics": 2**17, "trigger": 2**25}
"""Merging statistics needs about 3 kB a row, of the writer's 2 GB; triggers are sorted, and what does not fit goes to the disk.
Small parts of triggers would leave many half-filled row groups, whose blocks stay free in the file."""

WHOLE_LAYER = "FROM {} WHERE corpus_id = ? AND layer = ?"
NEURONS = f"{WHOLE_LAYER} AND neuron BETWEEN ? AND ?"


class Part(NamedTuple):
    """What is merged at once; both neurons belong to it."""

    corpus_id: int
    layer: int
    first_neuron: int
    last_neuron: int


def parts(con: duckdb.DuckDBPyConnection, table: str, source: str) -> Iterator[Part]:
    """All of `source`, rows of `table` in a table or subquery, in the order of an atlas, about ROWS_AT_ONCE rows each."""
    sql = f"SELECT t.corpus_id, t.layer, max(t.neuron) + 1 AS n_neurons, count(*) AS n_rows FROM {source} AS t GROUP BY ALL ORDER BY ALL"
    for corpus_id, layer, n_neurons, n_rows in con.execute(sql).fetchall():
        step = max(1, n_neurons * ROWS_AT_ONCE[table] // n_rows)
        for first in range(0, n_neurons, step):
            yield Part(corpus_id, layer, first, min(first + step, n_neurons) - 1)


def merged(table: str, source: str, part: str = NEURONS) -> str:
    """SELECT over `source`, a table or subquery; its parameters are those of `part`: a Part's, or those of a whole layer."""
    return f"WITH part AS ({part.format(source)}) FROM ({MERGES[table]})"
