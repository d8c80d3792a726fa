"""The process that runs a typed statement: it ends at its limits of time, memory and bytes, with whoever asked, and leaves nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from atlas import AtlasError, QueryRefused, QueryTimeout, sandbox

TIMEOUT = 2
"""Seconds."""

LOOPING = [
    "SELECT levenshtein(repeat('a', 200000), repeat('b', 200000))",
    "SELECT damerau_levenshtein(repeat('a', 20000), repeat('b', 20000))",
    "SELECT list_transform(range(100000), lambda x: list_sum(list_transform(range(100000), lambda y: x * y)))",
    "EXPLAIN SELECT levenshtein(repeat('a', 200000), repeat('b', 200000))",
]

ALLOCATING = [
    "SELECT list_reduce(range(100000000), (x, y) -> x + y)",
    "SELECT lpad('x', 2000000000, 'y')",
    "SELECT unnest(range(1000000000))",
    "SELECT list_sort(range(200000000))",
    "SELECT list_resize([1], 4000000000)",
    "SELECT repeat('x', 100000000) FROM range(500)",
    "SELECT len(range(1000000000))",
    "SELECT repeat('x', 3000000000)",
]

MEASURE = """
import json, resource, sys, time
sys.path.insert(0, sys.argv[1])
from atlas import AtlasError, sandbox
sandbox.run(sys.argv[2], "SELECT 1")
small = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
start = time.monotonic()
try:
    sandbox.run(sys.argv[2], sys.argv[3], timeout=float(sys.argv[4]), memory=int(sys.argv[5]), max_bytes=8 << 20)
    said = "answered"
except AtlasError as error:
    said = type(error).__name__
print(json.dumps({"said": said, "seconds": time.monotonic() - start, "KB": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, "small": small}))
"""
"""Asks as another program would, and says what came of it, when, and the most memory that a process of its own had, and had for nothing."""


def measured(path: Path, sql: str, memory: int) -> dict:
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", MEASURE, root, str(path), sql, str(TIMEOUT), str(memory)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("sql", LOOPING)
def test_time_is_held_where_no_interrupt_is_heard(tiny_path: Path, sql: str) -> None:
    start = time.monotonic()
    sandbox.run(tiny_path, "SELECT 1")
    started = time.monotonic()
    with pytest.raises(QueryTimeout, match=f"stopped after {TIMEOUT} s"):
        sandbox.run(tiny_path, sql, timeout=TIMEOUT)
    assert time.monotonic() - started < 2 * TIMEOUT + 3 * (started - start)


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("sql", ALLOCATING)
def test_memory_is_held_whatever_a_function_allocates(tiny_path: Path, sql: str) -> None:
    memory = 1 << 30
    found = measured(tiny_path, sql, memory)
    assert found["said"] in ("AtlasError", "QueryTimeout")
    assert found["KB"] - found["small"] < memory >> 10


def test_an_answer_has_so_many_bytes(tiny_path: Path) -> None:
    with pytest.raises(AtlasError, match="the answer has more than 8 MB"):
        sandbox.run(tiny_path, "SELECT repeat('x', 100000) AS x FROM range(1000)", max_bytes=8 << 20)
    assert sandbox.run(tiny_path, "SELECT repeat('x', 100000) AS x FROM range(10)", max_bytes=8 << 20).frame.height == 10


def test_a_row_of_many_columns_is_answered(tiny_path: Path) -> None:
    kinds = ("{i}", "'x{i}'", "{i}::DOUBLE", "[{i}]", "{{'a': {i}}}")
    columns = (f"{kinds[i % len(kinds)].format(i=i)} AS c{i}" for i in range(3_000))
    assert sandbox.run(tiny_path, f"SELECT {', '.join(columns)}").frame.shape == (1, 3_000)


@pytest.fixture(params=["ignored", "blocked"])
def without_alarm(request: pytest.FixtureRequest) -> Iterator[None]:
    """SIGALRM as a caller may have it, and hand it down to what it starts."""
    handler, mask = signal.getsignal(signal.SIGALRM), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    if request.param == "ignored":
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    else:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@pytest.mark.usefixtures("without_alarm")
def test_time_is_held_where_the_caller_hears_no_alarm(tiny_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(QueryTimeout, match="stopped after 0.5 s"):
        sandbox.run(tiny_path, "SELECT count(*) FROM range(1000000000000)", timeout=0.5)
    # past its start as well the process is ended by whoever asked
    assert time.monotonic() - start < sandbox.START


def test_a_process_that_dies_is_no_more_than_an_error(tiny_path: Path) -> None:
    nested = "SELECT (repeat('[', 100000) || repeat(']', 100000))::JSON::VARIANT::VARCHAR"
    with pytest.raises(AtlasError, match=r"^stopped: DuckDB ended at this statement, most often because it needs more than the [\d,]+ MB that it may take$"):
        sandbox.run(tiny_path, nested)
    assert sandbox.run(tiny_path, "SELECT 1 AS one").frame.item() == 1


def test_its_errors_are_those_of_any_other_way(tiny_path: Path, tmp_path: Path) -> None:
    with pytest.raises(QueryRefused, match="the function getenv"):
        sandbox.run(tiny_path, "SELECT getenv('HOME')")
    with pytest.raises(AtlasError, match="no_such"):
        sandbox.run(tiny_path, "SELECT no_such FROM model")
    with pytest.raises(AtlasError, match="no atlas at"):
        sandbox.run(tmp_path / "none.duckdb", "SELECT 1")


def test_rows_are_bounded_and_said_to_be(tiny_path: Path) -> None:
    found = sandbox.run(tiny_path, "FROM range(1000000000000)", max_rows=10)
    assert (found.frame.height, found.is_truncated) == (10, True)


def test_ctrl_c_ends_the_command_and_its_process(tiny_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("atlas")), "sql", LOOPING[0], "--db", str(tiny_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    child = waited_for_child(process.pid)
    os.kill(process.pid, signal.SIGINT)
    start = time.monotonic()
    _, said = process.communicate(timeout=20)
    assert time.monotonic() - start < 2
    assert process.returncode == 130
    assert b"Traceback" not in said
    assert not Path(f"/proc/{child}").exists()


def waited_for_child(pid: int) -> int:
    """The child of a process, once it has computed for two seconds, most of them at its statement."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for child in children:
            stat = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            if b"atlas.sandboxed" in Path(f"/proc/{child}/cmdline").read_bytes() and int(stat[11]) > os.sysconf("SC_CLK_TCK") * 2:
                return int(child)
        time.sleep(0.05)
    raise AssertionError("no process was started")
