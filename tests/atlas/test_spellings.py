"""A neuron that promotes a word with and without its space is one neuron, not two."""

from collections.abc import Iterator
from contextlib import closing

import duckdb
import pytest

from atlas.questions import question
from schema.build import create_tables
from schema.open.store import open_writer

WORDS = [(0, "money"), (1, " money"), (2, "gold")]

PROMOTED = [
    # layer, neuron, token, score
    (0, 0, 0, 3.0),
    (0, 0, 1, 5.0),
    (0, 1, 0, 4.0),
    (0, 2, 1, 2.0),
    (0, 3, 2, 9.0),
]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(open_writer(":memory:")) as con:
        create_tables(con, 2)
        con.executemany(
            "INSERT INTO token BY NAME SELECT ? AS token_id, ? AS text, ''::BLOB AS bytes, "
            "FALSE AS is_special, FALSE AS starts_word, FALSE AS is_stop_word, FALSE AS is_punctuation",
            WORDS,
        )
        for direction, sign in (("promoted", 1), ("suppressed", -1)):
            rows = [(layer, neuron, direction, rank, token, sign * score) for rank, (layer, neuron, token, score) in enumerate(PROMOTED, 1)]
            con.executemany(
                "INSERT INTO value_token BY NAME SELECT ? AS layer, ? AS neuron, ? AS direction, ? AS rank, ? AS token_id, ? AS score, 0.5 AS prob", rows
            )
        con.execute(
            "INSERT INTO neuron BY NAME SELECT 0 AS layer, unnest(range(4)) AS neuron, 1.0 AS key_norm, 1.0 AS value_norm, "
            "0.0 AS key_value_cosine, 0.5 AS value_max_prob, 0 AS value_top_token_id"
        )
        for name in ("neurons_promoting", "neurons_suppressing"):
            con.execute(question(name).sql)
        yield con


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "sign"), [("neurons_promoting", 1), ("neurons_suppressing", -1)])
def test_a_neuron_has_one_row_that_of_the_spelling_it_scores_more(con: duckdb.DuckDBPyConnection, name: str, sign: int) -> None:
    found = con.execute(f"SELECT q.neuron, q.token, q.score FROM {name}('money') AS q").fetchall()
    assert found == [(0, " money", sign * 5.0), (1, "money", sign * 4.0), (2, " money", sign * 2.0)]
    assert con.execute(f"SELECT q.neuron FROM {name}('money', n := 2) AS q").fetchall() == [(0,), (1,)]
