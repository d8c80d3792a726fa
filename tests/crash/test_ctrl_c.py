"""Ctrl-C in the middle of what DuckDB does for an ingest: exit code 130, one line, and the same command goes on to the same atlas."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.progress import Progress

from atlas.cli.main import run as atlas_command
from ingest.cli import describe_kept
from schema.patient import InterruptSafeConnection
from tests.crash.conftest import ask_doctor, sums
from tests.exact.tiny import Tiny, ingest_options, run

MOMENTS = {
    "a shard is loaded": "INSERT INTO trigger BY NAME SELECT",
    "a question is asked": "SELECT n.value_top_token_id",
    "a snapshot is written": "CHECKPOINT snapshot",
}


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_while_duckdb_works(
    tiny: Tiny, expected: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, moment: str
) -> None:
    target, struck, real = tmp_path / "a.duckdb", [], InterruptSafeConnection.call

    def strike(self: InterruptSafeConnection, method: Callable[..., object], *arguments: object, **options: object) -> object:
        def struck_in_it(*given: object, **named: object) -> object:
            if not struck and given and str(given[0]).startswith(MOMENTS[moment]):
                struck.append(given[0])
                os.kill(os.getpid(), signal.SIGINT)
            return method(*given, **named)

        return real(self, struck_in_it, *arguments, **options)

    monkeypatch.setattr(InterruptSafeConnection, "call", strike)
    arguments = ["ingest", str(target), "--no-prediction", *ingest_options(tiny.folder, tiny.corpus)]
    with pytest.raises(SystemExit) as ended:
        atlas_command(arguments, is_debug=False)
    assert struck
    assert ended.value.code == 130
    said = r"interrupted; (kept: .+ of .+|no run was going on, and what was recorded before is kept)\. Run the same command again to go on\."
    assert re.fullmatch(said, capsys.readouterr().err.splitlines()[-1])
    if target.with_name("a.duckdb.work").exists():
        assert "does not read back" not in ask_doctor(target).output
    assert atlas_command(arguments, is_debug=False) == 0
    # the runs' settings name the vectors in another order
    assert {**sums(target), "run": None} == {**expected, "run": None}


def test_what_is_said_before_a_run_goes_on() -> None:
    """An atlas may be there already, and must not be said to hold nothing."""
    assert describe_kept(Progress()) == "interrupted; no run was going on, and what was recorded before is kept. Run the same command again to go on."


@pytest.mark.thorough
def test_ctrl_c_while_the_atlas_is_looked_at(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = run(tiny.request(tmp_path / "a.duckdb", trace=0, paper=False))
    opened = []

    def struck_in_it(*arguments: object) -> None:
        opened.append(arguments)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("schema.open.store.lock_down", struck_in_it)
    with pytest.raises(KeyboardInterrupt):
        run(tiny.request(target, trace=0, paper=False))
    assert len(opened) == 1
    monkeypatch.undo()
    assert run(tiny.request(target, trace=0, paper=False)) == target
