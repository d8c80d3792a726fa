"""What an ingest says of its progress: lines where nobody sees a bar, silence where it is asked for."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.progress import Progress

from ingest.run import ingest
from schema.progress import Lines, progress_bar, stage
from tests.exact.tiny import Tiny, make
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("progress"), "gpt2")


def test_a_log_says_where_each_phase_begins_and_ends(tiny: Tiny, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as bar:
        ingest(tiny.request(tmp_path / "a.duckdb", trace=20), bar)
    said = [line for line in capfd.readouterr().err.splitlines() if not line.startswith("note: ")]
    begun, ended = ([re.sub(r": (0/|done).*", "", line) for line in said if is_end == (": done in 0:00:" in line)] for is_end in (False, True))
    assert begun[:3] == [f"loading {tiny.folder}", "checking that what is recorded adds up", f"reading {tiny.corpus}"]
    assert begun[-1] == "publish"
    assert sorted(begun) == sorted(ended)
    assert any(re.fullmatch(r"sweep: 0/[\d,]+ tokens", line) for line in said)


@pytest.mark.thorough
def test_nothing_is_said_where_silence_is_asked_for(tiny: Tiny, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with progress_bar(is_quiet=True) as bar:
        ingest(tiny.request(tmp_path / "a.duckdb", trace=20), bar)
    assert [line for line in capfd.readouterr().err.splitlines() if not line.startswith("note: ")] == []


def test_a_log_says_again_what_has_not_ended(capfd: pytest.CaptureFixture[str]) -> None:
    found: list[str] = []

    def said(text: str) -> bool:
        found.extend(capfd.readouterr().err.splitlines())
        return any(text in line for line in found)

    with progress_bar(every=0.05) as bar, stage(bar, "loading x"):
        task = bar.add_task("sweep", total=1000, unit="tokens")
        for _ in range(3):
            bar.advance(task, 100)
        wait_until(lambda: said("sweep: 300/1,000 tokens, "), "a line of the sweep")
        wait_until(lambda: said("loading x: 0:00:0"), "a line of the stage")
    assert any(re.search(r"tokens/s, ETA \d:\d\d:\d\d, peak memory \d+\.\d GB$", line) for line in found), found


@contextmanager
def watched() -> Iterator[tuple[Progress, dict[str, list[float]]]]:
    """A bar, and how far each of its tasks was at each step."""
    seen: dict[str, list[float]] = {}

    class Watched(Lines):
        def advance(self, task_id, advance=1.0) -> None:
            super().advance(task_id, advance)
            task = self._tasks[task_id]
            seen.setdefault(task.description, []).append(task.completed / task.total)

    with progress_bar(is_quiet=True) as quiet:
        yield Watched(quiet.console, 60.0), seen


@pytest.mark.thorough
def test_passes_that_share_a_reading_move_together(tiny: Tiny, tmp_path: Path) -> None:
    """The trace is half done when the text is read, and not where it began."""
    with watched() as (bar, seen):
        ingest(tiny.request(tmp_path / "a.duckdb", trace=20, batch_size=1, shard_positions=10_000), bar)
    assert len({round(share, 3) for share in seen["trace"] if 0 < share < 0.5}) > 3
    assert seen["sweep"][-1] == pytest.approx(1) and seen["trace"][-1] == pytest.approx(1)


def test_what_a_name_holds_is_no_markup_and_nothing_that_a_terminal_acts_on(capfd: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as bar, stage(bar, "loading a[/x]\x1b]0;evil\nFAKE: done"):
        pass
    assert capfd.readouterr().err.splitlines() == [f"loading a[/x]�]0;evil�FAKE: done{end}" for end in ("", ": done in 0:00:00")]


def test_who_no_longer_reads_ends_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    with progress_bar() as bar:
        monkeypatch.setattr(bar.console, "print", lambda *_, **__: (_ for _ in ()).throw(BrokenPipeError()))
        with stage(bar, "loading x"):
            is_done = True
    assert is_done
