"""`atlas status` says what somebody who looks at an atlas may not know of it."""

import json
import shutil
from pathlib import Path

import duckdb
import pytest

from atlas.cli.main import run
from atlas.status_notes import describe_duplicate_corpora

ADDED = """
INSERT INTO document
SELECT d.* REPLACE (100 + r.i AS document_id, 'a.TXT#' || r.i AS name) FROM document AS d CROSS JOIN range(3) AS r(i) WHERE d.document_id = 0;
UPDATE document SET name = 'b.csv:1#2' WHERE document_id = 102;
INSERT INTO corpus
SELECT c.* REPLACE (9 AS corpus_id, '{"context": 12, "cut": "tokens", "documents": 5}' AS source) FROM corpus AS c WHERE c.corpus_id = 0;
UPDATE corpus SET source = '{"context": 16, "cut": "tokens", "documents": 7}' WHERE corpus_id = 0
"""


@pytest.mark.thorough
def test_an_ordinary_atlas_has_no_notes(tiny_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["status", str(tiny_path)], False) == 0
    assert "note:" not in capfd.readouterr().out


def test_pieces_a_text_twice_and_an_unfinished_ingest_are_noted(
    tiny_copy: duckdb.DuckDBPyConnection, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tiny_copy.execute(ADDED)
    tiny_copy.close()
    path = tmp_path / "copy.duckdb"
    (tmp_path / "copy.duckdb.work").mkdir()
    expected = [
        "2 documents of corpus 0 are pieces of longer text files",
        "corpora 0 and 9 are tales, cut in two ways (context 16 and 12, documents 7 and 5): questions read both unless one of them is given",
        f"an ingest is running or was interrupted ({path}.work): run its command again to continue it",
    ]
    assert run(["status", str(path)], False) == 0
    assert [line.removeprefix("note: ") for line in capfd.readouterr().out.splitlines() if line.startswith("note: ")] == expected
    assert run(["status", str(path), "--json"], False) == 0
    assert json.loads(capfd.readouterr().out)["notes"] == expected


def test_many_corpora_of_one_text_are_said_in_few_lines(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    """One with a source that is no settings among them."""
    tiny_copy.execute(
        "INSERT INTO corpus SELECT c.* REPLACE (100 + i AS corpus_id, '[1]' AS source) FROM corpus AS c, range(3000) AS r(i) WHERE c.corpus_id = 0"
    )
    said = list(describe_duplicate_corpora(tiny_copy))
    assert len(said) == 11
    assert said[0].startswith("corpora 0 and 100 are tales, cut in two ways (")
    assert said[-1] == "further corpora have the same text as others, cut in other ways"


def test_an_ingest_that_was_interrupted_before_its_first_snapshot_is_named(tiny_path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new.duckdb"
    shutil.copytree(tiny_path.parent, tmp_path / "new.duckdb.work")
    assert run(["status", str(path)], False) == 1
    said = capfd.readouterr().err
    assert said.startswith(f"Error: no atlas at {path} yet: an ingest is running or was interrupted ({path}.work): ")
    assert said.endswith("run its command again to continue it\n")
