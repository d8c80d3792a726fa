"""The process that runs a typed statement: it ends at its limits of time, memory and bytes, with whoever asked, and leaves nothing."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from atlas import AtlasError, QueryRefused, QueryTimeout
from atlas.typed import sandbox
from tests.atlas.ending import require_own_end
from tests.waiting import HANG_S, child_at_statement

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
import json, resource, sys
sys.path.insert(0, sys.argv[1])
from atlas import AtlasError
from atlas.typed import sandbox
sandbox.run(sys.argv[2], "SELECT 1")
small = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
try:
    sandbox.run(sys.argv[2], sys.argv[3], timeout=float(sys.argv[4]), memory=int(sys.argv[5]), max_bytes=8 << 20)
    said = "answered"
except AtlasError as error:
    said = type(error).__name__
print(json.dumps({"said": said, "KB": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, "small": small}))
"""
"""Asks as another program would, and says what came of it, and the most memory that a process of its own had, and had for nothing."""


def measured(path: Path, sql: str, memory: int) -> dict:
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", MEASURE, root, str(path), sql, str(TIMEOUT), str(memory)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.fixture
def by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    require_own_end(monkeypatch)


@pytest.mark.ci_cases(2)
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("sql", LOOPING)
@pytest.mark.usefixtures("by_itself")
def test_time_is_held_where_no_interrupt_is_heard(tiny_path: Path, sql: str) -> None:
    with pytest.raises(QueryTimeout, match=f"stopped after {TIMEOUT} s"):
        sandbox.run(tiny_path, sql, timeout=TIMEOUT)


@pytest.mark.ci_cases(4)
@pytest.mark.first_cases(2)
@pytest.mark.parametrize("sql", ALLOCATING)
def test_memory_is_held_whatever_a_function_allocates(tiny_path: Path, sql: str) -> None:
    memory = 1 << 30
    found = measured(tiny_path, sql, memory)
    assert found["said"] in ("AtlasError", "QueryTimeout")
    assert found["KB"] - found["small"] < memory >> 10


@pytest.mark.thorough
def test_an_answer_has_so_many_bytes(tiny_path: Path) -> None:
    with pytest.raises(AtlasError, match="the answer has more than 8 MB"):
        sandbox.run(tiny_path, "SELECT repeat('x', 100000) AS x FROM range(1000)", max_bytes=8 << 20)
    assert sandbox.run(tiny_path, "SELECT repeat('x', 100000) AS x FROM range(10)", max_bytes=8 << 20).frame.height == 10


@pytest.mark.thorough
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


@pytest.mark.thorough
@pytest.mark.usefixtures("without_alarm", "by_itself")
def test_time_is_held_where_the_caller_hears_no_alarm(tiny_path: Path) -> None:
    with pytest.raises(QueryTimeout, match="stopped after 0.5 s"):
        sandbox.run(tiny_path, "SELECT count(*) FROM range(1000000000000)", timeout=0.5)


@pytest.mark.thorough
def test_a_process_that_dies_is_no_more_than_an_error(tiny_path: Path) -> None:
    nested = "SELECT (repeat('[', 100000) || repeat(']', 100000))::JSON::VARIANT::VARCHAR"
    said = r"^stopped: the process of this statement ended, most often because a statement needs more than the [\d,]+ MB that it may take$"
    with pytest.raises(AtlasError, match=said):
        sandbox.run(tiny_path, nested)
    assert sandbox.run(tiny_path, "SELECT 1 AS one").frame.item() == 1


@pytest.mark.thorough
def test_its_errors_are_those_of_any_other_way(tiny_path: Path, tmp_path: Path) -> None:
    with pytest.raises(QueryRefused, match="the function getenv"):
        sandbox.run(tiny_path, "SELECT getenv('HOME')")
    with pytest.raises(AtlasError, match="no_such"):
        sandbox.run(tiny_path, "SELECT no_such FROM model")
    with pytest.raises(AtlasError, match="no atlas at"):
        sandbox.run(tmp_path / "none.duckdb", "SELECT 1")


@pytest.mark.thorough
def test_rows_are_bounded_and_said_to_be(tiny_path: Path) -> None:
    found = sandbox.run(tiny_path, "FROM range(1000000000000)", max_rows=10)
    assert (found.frame.height, found.is_truncated) == (10, True)


@pytest.mark.thorough
def test_ctrl_c_ends_the_command_and_its_process(tiny_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("atlas")), "sql", LOOPING[0], "--db", str(tiny_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    child = child_at_statement(process.pid)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=HANG_S)
    assert process.returncode == 130
    assert b"Traceback" not in said
    assert not Path(f"/proc/{child}").exists()
