"""The text that a corpus repeats most is found and named, whatever its size; a sweep notes one that may fill a list."""

import duckdb
import numpy as np
import pytest

from ingest.passes import passes
from ingest.passes.base import Text
from ingest.text import repeats
from ingest.text.corpora import Document
from ingest.text.repeats import WINDOW, Repeat, Repeats
from ingest.text.sequences import CutDocument, Sequence
from ingest.text.survey import Survey
from tests.ingest.test_skip_first import basis, con  # noqa: F401

FOOTER = "".join(chr(ord("a") + i) for i in range(WINDOW))


def cut(text: str, number: int) -> CutDocument:
    """A document of one sequence, a token a character."""
    ids, starts = np.array([ord(c) for c in text], np.int32), np.arange(len(text), dtype=np.int32)
    return CutDocument(number, Document(f"{number}", text, {}), (Sequence(number, number, 0, ids, ids, starts, starts + 1),))


def corpus(n: int) -> list[CutDocument]:
    """Documents of 40 digits, every fifth with the footer behind them, and another text of which there are two."""
    rng = np.random.default_rng(3)
    texts = ["".join(map(str, rng.integers(0, 10, 40))) + FOOTER * (i % 5 == 0) for i in range(n)]
    return [cut(text, i) for i, text in enumerate([*texts, "once more: " + texts[-1], "short"])]


@pytest.mark.parametrize(("at_once", "counted"), [(2**18, 2**16), (500, 2**16), (500, 100)], ids=["at once", "in parts", "letting go of most"])
def test_the_commonest_stretch_is_named_and_counted(at_once: int, counted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "AT_ONCE", at_once)
    monkeypatch.setattr(repeats, "COUNTED", counted)
    found = Repeats()
    for each in corpus(300):
        found.add(each)
        assert len(found.counts) <= counted
    most = found.commonest_stretch()
    assert most and most.text == FOOTER
    n_positions = sum(len(each.document.text) for each in corpus(300))
    assert 60 - n_positions / counted <= most.n <= 60
    assert counted == 100 or most.n == 60


def test_what_is_not_read_of_a_long_text_is_not_kept() -> None:
    ids, starts = np.arange(2 * WINDOW, dtype=np.int32), np.arange(100, 100 + 2 * WINDOW, dtype=np.int32)
    text = "-" * 100 + FOOTER + FOOTER.upper() + "-" * 1_000
    found = Repeats()
    for i in range(3):
        found.add(CutDocument(i, Document(f"{i}", text, {}), (Sequence(i, i, 0, ids, ids, starts, starts + 1),)))
    assert [kept for _, kept in found.waiting] == [FOOTER + FOOTER.upper()] * 3
    most = found.commonest_stretch()
    assert most and most.n == 3 and most.text in FOOTER + FOOTER.upper() and len(most.text) == WINDOW


def test_no_text_that_stands_once_is_a_repeat() -> None:
    found = Repeats()
    assert found.commonest_stretch() is None
    found.add(corpus(2)[1])
    assert found.commonest_stretch() is None


def test_a_text_that_may_fill_a_list_is_noted_unless_contexts_are_distinct(con: duckdb.DuckDBPyConnection) -> None:  # noqa: F811
    def note(n: int, **options: object) -> str | None:
        seen = Survey("", 3, 0, 0, 3, 90, (), (), longest=30, repeat=Repeat("the\nfooter", n))
        return passes()["sweep"].note(basis(con, Text(None, 0, seen, iter), **options))  # type: ignore[arg-type]

    assert "'the footer' occurs 3 times" in (note(3) or "") and "--distinct 16" in (note(3) or "")
    assert (note(2), note(3, distinct=4)) == (None, None)
