"""A role of PostgreSQL that may only read is enough for every reader of a lake, and can write nothing through it."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

import atlas
from ingest.request import Request
from tests.exact.tiny import run
from tests.lake.servers import Servers

DOCUMENT = Path(__file__).parents[2] / "docs" / "lake.md"


@pytest.mark.thorough
def test_a_role_that_only_reads_reads_all_of_a_lake(request_lake: Callable[..., Request], servers: Servers, tmp_path: Path) -> None:
    (statements,) = re.findall(r"```postgresql\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    request = request_lake()
    run(request)
    with psycopg.connect(request.lake, autocommit=True) as session:
        session.execute(statements)
    described = json.loads(request.target.read_text())
    theirs = tmp_path / "theirs.lake"
    theirs.write_text(json.dumps(described | {"catalogue": described["catalogue"].replace("//postgres:", "//reader:")}))
    assert "//reader:" in theirs.read_text()
    with atlas.open(theirs) as a, atlas.open(request.target) as mine:
        assert a.layer_summary().equals(mine.layer_summary())
        assert a.sql("SELECT count(*) AS n FROM trigger").item() > 0
    with psycopg.connect(json.loads(theirs.read_text())["catalogue"]) as session, pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute("DELETE FROM ducklake_snapshot")
