"""What a retrieval reads from the atlas: the corpora, the queries, and the texts to store with the results."""

from collections.abc import Iterable
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from schema.errors import AtlasError

QUERIES = """
SELECT p.position_id, s.document_id, p.index, p.next_token_id, e.surprisal, e.top_token_id, e.top_prob
FROM position AS p
INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
INNER JOIN document AS d ON s.document_id = d.document_id
INNER JOIN position_prediction AS e ON p.position_id = e.position_id
WHERE
    d.corpus_id = $corpus
    AND p.next_token_id IS NOT NULL
    AND p.index >= (SELECT max(f.min_index) FROM key_file AS f WHERE f.corpus_id = $corpus)
ORDER BY md5(concat($seed, ' ', p.position_id)), p.position_id
LIMIT $n
"""
"""Positions to query, in a seeded order that does not depend on how many are drawn."""

TEXTS = "SELECT d.document_id, dense_rank() OVER (ORDER BY md5(d.text)) FROM document AS d ORDER BY d.document_id"

POSITION_TEXTS = """
SELECT
    w.position_id,
    d.name AS document,
    d.text[greatest(p.char_end - 79, 1):p.char_end] AS text_before
FROM wanted AS w
INNER JOIN position AS p ON w.position_id = p.position_id
INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
INNER JOIN document AS d ON s.document_id = d.document_id
ORDER BY w.position_id
"""

TOKEN_TEXTS = "SELECT t.token_id, t.text FROM wanted AS w INNER JOIN token AS t ON w.token_id = t.token_id ORDER BY t.token_id"


@dataclass(frozen=True)
class Retrieval:
    """One call of `atlas retrieve`; the command line documents each field and holds its default. Corpora are corpus_ids."""

    store: int
    tune: int
    test: int
    queries: int
    k: int
    is_compressed: bool | None
    is_training_text: bool | None
    seed: int


@dataclass(frozen=True)
class CorpusQueries:
    """The queries of a corpus by columns, [n] each, in the order of position_id."""

    position_ids: np.ndarray
    document_ids: np.ndarray
    indices: np.ndarray
    next_token_ids: np.ndarray
    surprisals: np.ndarray
    top_token_ids: np.ndarray
    top_probs: np.ndarray


def queries(con: duckdb.DuckDBPyConnection, corpus_id: int, n: int, seed: int) -> CorpusQueries:
    """Draw at most n positions of a corpus that have a key and the model's prediction, by a hash of the seed. Raises AtlasError if none has both."""
    found = con.execute(QUERIES, {"corpus": corpus_id, "n": n, "seed": seed}).fetchnumpy()
    columns = list(found.values())
    if not len(columns[0]):
        raise AtlasError(f"no predictions of the model for corpus {corpus_id}: ingest it with --prediction and the options with which its keys were made")
    order = np.argsort(columns[0])
    return CorpusQueries(*(np.asarray(column)[order] for column in columns))


def text_numbers(con: duckdb.DuckDBPyConnection) -> tuple[np.ndarray, np.ndarray]:
    """List the document_ids, ascending, and for each a number that is equal for equal texts: a document may be in two corpora."""
    found = np.array(con.execute(TEXTS).fetchall(), np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def position_texts(con: duckdb.DuckDBPyConnection, position_ids: np.ndarray) -> pa.Table:
    return select_wanted_rows(con, POSITION_TEXTS, "position_id", position_ids)


def token_texts(con: duckdb.DuckDBPyConnection, token_ids: Iterable[np.ndarray]) -> pa.Table:
    return select_wanted_rows(con, TOKEN_TEXTS, "token_id", np.concatenate(list(token_ids)))


def select_wanted_rows(con: duckdb.DuckDBPyConnection, sql: str, column: str, ids: np.ndarray) -> pa.Table:
    """Read the rows of a SELECT that joins the table `wanted`, which has the distinct ids that are not NOWHERE."""
    wanted = np.unique(ids)
    con.register("wanted", pa.table({column: wanted[wanted >= 0]}))
    try:
        return con.sql(sql).to_arrow_table()
    finally:
        con.unregister("wanted")
