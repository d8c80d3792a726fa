"""The tour names what each kind of run did, whatever else an atlas has."""

from pathlib import Path

import click
import pytest

import atlas
from atlas.cli.main import run
from atlas.cli.tour import tour
from tests.atlas.tiny_atlas import write_tiny_atlas


def test_the_command_prints_it(tiny_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["tour", str(tiny_path)], False) == 0
    said = capfd.readouterr()
    with atlas.open(tiny_path) as a:
        assert (said.out.splitlines()[0], said.err) == (click.unstyle(next(iter(tour(a)))), "")


def test_the_tour_of_an_atlas_with_every_kind_of_run(tmp_path: Path) -> None:
    with atlas.open(write_tiny_atlas(tmp_path / "tiny.duckdb")) as a:
        lines = list(tour(a))
    assert [line.split()[0] for line in lines[1:] if line.split()[:1] in (["weights"], ["sweep"], ["trace"], ["map"])] == [
        "weights", "sweep", "sweep", "trace", "trace", "map", "map",
    ]  # fmt: skip
    # the two corpora have 10 and 4 positions
    counted = [line.split()[:3] for line in lines[1:] if " a second)" in line]
    assert counted == [
        ["weights", "12", "neurons"], ["sweep", "10", "positions"], ["sweep", "4", "positions"], ["trace", "2", "positions"], ["trace", "1", "positions"],
        ["map", "12", "points"], ["map", "9", "points"], ["circuit", "3", "heads"],
        ["head_statistics", "10", "positions"], ["head_statistics", "4", "positions"],
        ["attribution", "2", "positions"], ["attribution", "1", "positions"],
        ["prediction", "10", "positions"], ["prediction", "4", "positions"], ["ngram", "10", "positions"], ["ngram", "4", "positions"],
        ["keys", "10", "positions"], ["keys", "4", "positions"],
        ["word", "10", "positions"], ["word", "4", "positions"], ["probe", "6", "probes"],
        ["tree_probe", "16", "probes"],
    ]  # fmt: skip
