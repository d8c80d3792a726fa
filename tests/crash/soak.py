"""An hour of ingests that are killed at random moments and go on, read all the while: nothing grows, nothing is left, and the content is right.

    python -m tests.crash.soak [--minutes 60] [--seed 0] [--no-browser]

A round makes an atlas of one corpus under a new name, moves it in the place of the atlas that is read, and adds further corpora there, a snapshot after
every shard. Each of these ingests is killed until it comes to its end. After each, a process that is never killed does the same into an atlas of its own: it
would show what one process leaves behind over thousands of shards. Beside them one process reads the atlas through Python and a browser opens its pages.
"""

import random
import tempfile
import time
from pathlib import Path

import click

from tests.crash.soak_beside import Beside, browse_on, read_on
from tests.crash.soak_figures import HEAD, Row, Usage, grown, orphans, size_mb, usage
from tests.crash.soak_ingests import Ingests, Steady, folder_of

N_CORPORA, N_ROWS = 2, 20


class Soak:
    """One soak: its ingests, who is beside them, and what was counted."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.ingests = Ingests(folder, N_CORPORA, random.Random(seed))
        self.shown = folder_of(folder, "shown") / "atlas.duckdb"
        self.finished, self.disk_mb, self.left = 0, 0.0, set[str]()
        self.rows: list[Row] = []

    def run(self, minutes: float, browser: bool) -> None:
        """Go on until the time is over, and something was killed. Raises AssertionError where an atlas differs or a process fails."""
        self.ingests.prepare(self.shown)
        with Beside(self.folder) as beside:
            beside.start("reader", lambda: read_on(self.shown, self.ingests.temporary))
            if browser:
                beside.start("browser", lambda: browse_on(self.shown, self.folder))
            steady = Steady(self.ingests, folder_of(self.folder, "steady") / "atlas.duckdb", beside)
            beside.await_server(browser)
            start = time.monotonic()
            passed = 0.0
            while passed < minutes or not self.ingests.kills:
                self.round(steady)
                beside.check()
                passed = (time.monotonic() - start) / 60
                if passed >= minutes / N_ROWS * len(self.rows):
                    self.row(passed, steady, beside)
        self.look_for_orphans(self.shown)

    def round(self, steady: Steady) -> None:
        """Every corpus once, killed and not."""
        new = self.shown.with_name("new.duckdb")
        for k in range(N_CORPORA):
            self.ingests.disturbed(k, self.shown if k else new)
            self.compare(k, self.shown if k else new)
            if not k:
                new.replace(self.shown)
            steady.ingest(k)
            self.compare(k, steady.target)
        self.disk_mb = size_mb(self.shown.parent)

    def compare(self, k: int, target: Path) -> None:
        self.finished += 1
        self.ingests.compare(k, target)
        self.look_for_orphans(target)

    def look_for_orphans(self, target: Path) -> None:
        self.left |= {f"{target.parent.name}/{name}" for name in orphans(target.parent, {self.shown.name, target.name})}
        self.left |= {f"temporary/{name}" for name in orphans(self.ingests.temporary, set())}

    def row(self, minute: float, steady: Steady, beside: Beside) -> None:
        row = Row(
            minute, self.finished, self.ingests.kills, self.ingests.snapshots, self.disk_mb, self.ingests.most, usage(steady.pid),
            usage(beside.pids["reader"]), usage(beside.server) if beside.server else Usage(), len(self.left),
        )  # fmt: skip
        self.ingests.most = Usage()
        click.echo(row)
        self.rows.append(row)


@click.command()
@click.option("--minutes", default=60.0, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--browser/--no-browser", default=True, show_default=True)
def main(minutes: float, seed: int, browser: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), seed)
        click.echo(HEAD)
        soak.run(minutes, browser)
    wrong = [*grown(soak.rows), *(f"{name} was left" for name in sorted(soak.left))]
    if wrong:
        raise click.ClickException("; ".join(wrong))
    click.echo(
        f"{soak.rows[-1].minute:.1f} minutes, {soak.finished} ingests, {soak.ingests.kills} kills, {soak.ingests.snapshots} snapshots: "
        "each the same to the bit, nothing grew, nothing is left"
    )


if __name__ == "__main__":
    main()
