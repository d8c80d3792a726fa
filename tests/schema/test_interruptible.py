"""A statement stops when its time is up or its caller is interrupted, and the connection stays usable."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from schema.interruptible import interruptible

ENDLESS = "SELECT count(*) FROM range(100000) AS a, range(100000) AS b, range(9999) AS c WHERE random() > 2"


@pytest.fixture
def cursor():
    con = duckdb.connect()
    yield con.cursor()
    con.close()


def test_a_result_is_returned(cursor: duckdb.DuckDBPyConnection) -> None:
    assert interruptible(cursor, lambda: cursor.execute("SELECT 42").fetchall()) == [(42,)]


def test_an_error_is_raised_as_it_is(cursor: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.ParserException):
        interruptible(cursor, lambda: cursor.execute("SELEC").fetchall())


def test_time_runs_out(cursor: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(TimeoutError):
        interruptible(cursor, lambda: cursor.execute(ENDLESS).fetchall(), timeout=0.2)
    assert cursor.execute("SELECT 1").fetchall() == [(1,)]


INTERRUPTED = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits that it is ignored
import os, duckdb
import polars  # replaces the handler
from schema.interruptible import interruptible
from tests.waiting import once_it_computes
cursor = duckdb.connect().cursor()
try:
    once_it_computes(lambda: os.kill(os.getpid(), signal.SIGINT))
    interruptible(cursor, lambda: cursor.execute("{ENDLESS}").fetchall())
except KeyboardInterrupt:
    print(cursor.execute("SELECT 1").fetchall())
"""


@pytest.mark.thorough
def test_an_interrupt_stops_it_and_leaves_the_connection_usable() -> None:
    """In a process of its own, whose handler of the signal nothing else has changed."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout == "[(1,)]\n"
