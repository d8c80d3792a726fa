"""What lies in a file of experiments, and a file that somebody else changed."""

from pathlib import Path

import duckdb

import atlas
from atlas.beside.experiments import EXPERIMENTS


def ids(path: Path) -> list[int]:
    with atlas.open(path) as a:
        return a.experiment_summary()["experiment"].to_list()


def rewritten(path: Path, statement: str) -> None:
    con = duckdb.connect()
    con.execute(f"ATTACH '{EXPERIMENTS.path(path)}' AS experiments; {statement}")
    con.close()
