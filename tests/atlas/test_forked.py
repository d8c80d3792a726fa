"""A process that was forked from one with an open atlas is told so, and waits for nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FORKED = """
import multiprocessing, sys
import atlas

a = atlas.open(sys.argv[1])
assert a.layer_summary().height

def ask_inherited(_):
    return a.layer_summary().height

def ask_own(_):
    return atlas.open(sys.argv[1]).layer_summary().height

def ask_sql(_):
    return a.sql("SELECT 1").height

def say(function):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        try:
            pool.map(function, [0])
        except atlas.AtlasError as error:
            print(error)

for function in (ask_inherited, ask_own, ask_sql):
    say(function)
print(a.layer_summary().height)
"""

FORKED_BEFORE = """
import multiprocessing, sys
import atlas

def ask(_):
    return atlas.open(sys.argv[1]).layer_summary().height

with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.map(ask, [0]))
"""


def run(code: str, path: Path) -> list[str]:
    """Run a program of its own, as a fork of this process would bring along what other tests have opened."""
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, env=dict(os.environ), timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_fork_of_a_process_with_an_atlas_is_told_to_spawn(tiny_path: Path) -> None:
    *said, own = run(FORKED, tiny_path)
    assert ["get_context('spawn')" in line and "open the atlas in each process" in line for line in said] == [True] * 3
    assert own == "3"


@pytest.mark.thorough
def test_a_fork_before_any_atlas_answers(tiny_path: Path) -> None:
    assert run(FORKED_BEFORE, tiny_path) == ["[3]"]
