"""Ctrl-C while DuckDB works in the main thread: one KeyboardInterrupt, and the connection goes on."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing

import duckdb
import pytest

from schema.patient import defer_interrupts, make_interrupt_safe
from tests.waiting import once_it_computes

LONG = "SELECT sum(hash(a.range + b.range)) FROM range(100000000) AS a, range(100000) AS b"
"""Hours of work."""


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(duckdb.connect()) as opened:
        yield make_interrupt_safe(opened)


def ctrl_c() -> int:
    os.kill(os.getpid(), signal.SIGINT)
    return 42


@pytest.mark.thorough
def test_a_query_is_stopped_and_the_next_is_answered(con: duckdb.DuckDBPyConnection) -> None:
    def answer() -> None:
        once_it_computes(ctrl_c)
        con.execute(LONG)

    with pytest.raises(KeyboardInterrupt):
        answer()
    assert con.execute("SELECT 42").fetchall() == [(42,)]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_where_duckdb_calls_python_too(con: duckdb.DuckDBPyConnection) -> None:
    con.create_function("ctrl_c", ctrl_c, [], "INTEGER")
    with pytest.raises(KeyboardInterrupt):
        con.execute("SELECT ctrl_c()").fetchall()
    assert con.execute("SELECT 42").fetchall() == [(42,)]


def test_what_was_done_when_it_came_is_done_and_what_failed_is_not_what_is_said(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE kept (i INTEGER)")
    with pytest.raises(KeyboardInterrupt):
        defer_interrupts(lambda: (con.execute("INSERT INTO kept VALUES (1)"), ctrl_c()))
    assert con.execute("FROM kept").fetchall() == [(1,)]
    with pytest.raises(KeyboardInterrupt):
        defer_interrupts(lambda: (ctrl_c(), con.execute("FROM nowhere")))


def test_a_handler_of_somebody_elses_is_left_alone(con: duckdb.DuckDBPyConnection) -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        assert defer_interrupts(ctrl_c) == 42
        assert came == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_gets_no_signals_and_is_not_held_back() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(defer_interrupts(lambda: 42)))
    thread.start()
    thread.join()
    assert found == [42]
