"""Words and the white space around them: no token's surprisal is lost."""

from math import log

import duckdb
import pytest


def test_white_space_at_the_end_is_a_row_of_its_own(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    """Behind ' [red]' a word begins with probability 1/2, and the last token has 1/2: whether a word ends there is all that white space tells."""
    tiny_copy.execute("UPDATE token SET text = '  ' WHERE text = ' *'")
    tiny_copy.execute("UPDATE document SET text = 'é cat [red]  ' WHERE document_id = 100")
    rows = tiny_copy.execute("SELECT text, surprisal, word_surprisal, n_tokens, char_start, char_end FROM word_surprisal(1) WHERE word >= 2").fetchall()
    assert rows == [
        ("[red]", 0.0, pytest.approx(log(2)), 1, 6, 11),
        ("  ", pytest.approx(log(2)), pytest.approx(0.0, abs=1e-6), 1, 11, 13),
    ]
