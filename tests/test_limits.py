"""A test that hangs fails alone: what it started ends with it, what others use stays, and the tests after it run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import processes

ROOT = Path(__file__).parents[1]

SUITE = """
import ctypes, faulthandler, os, signal, subprocess, sys, time
from pathlib import Path
import pytest

NAP = [sys.executable, "-c", "import time; time.sleep(3600)"]

def note(pid):
    with Path({notes!r}).open("a") as file:
        file.write(f"{{pid}}\\n")

def hang():
    left, again = signal.getitimer(signal.ITIMER_REAL)
    assert 0 < left < 600 and again == 60
    # its time is up once it is here
    signal.setitimer(signal.ITIMER_REAL, 0.1, again)
    time.sleep(3600)

@pytest.fixture(scope="module")
def server():
    with subprocess.Popen(NAP) as process:
        yield process
        process.kill()

def test_before():
    pass

{hanging}

def test_after(server):
    assert server.poll() is None
"""

RETURNING = """
def test_hangs(server):
    note(subprocess.Popen(NAP, start_new_session=True).pid)
    # whose parent is gone
    note(int(subprocess.run(["sh", "-c", "sleep 3600 >/dev/null & echo $!"], stdout=subprocess.PIPE, check=True).stdout))
    if not (pid := os.fork()):
        signal.pause()
    note(pid)
    try:
        with subprocess.Popen(NAP) as process:
            note(process.pid)
            hang()
    except Exception:
        pytest.fail("has gone on")
"""

IN_A_LIBRARY = """
def test_hangs():
    note(subprocess.Popen(NAP).pid)
    if not (pid := os.fork()):
        signal.pause()
    note(pid)
    faulthandler.dump_traceback_later(0.1, exit=True)
    lock, library = ctypes.create_string_buffer(64), ctypes.PyDLL(None)
    library.pthread_mutex_lock(lock)
    library.pthread_mutex_lock(lock)
"""
"""With the lock of the interpreter, and nothing that a signal cuts short."""

IN_A_FIXTURE = """
@pytest.fixture
def hanging(server):
    with subprocess.Popen(NAP) as process:
        note(process.pid)
        hang()
        yield

def test_hangs(hanging):
    pass
"""

IN_A_TEARDOWN = """
@pytest.fixture
def hanging():
    yield
    with subprocess.Popen(NAP) as process:
        note(process.pid)
        hang()

def test_hangs(hanging, server):
    assert not "what fails before"
"""


IN_ITS_REPORT = """
def test_hangs():
    # its time is up while it is put into words how it failed
    signal.setitimer(signal.ITIMER_REAL, 0.2, 60)
    assert not "slow to say"
"""

SLOW_REPORT = """
import time
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    if call.excinfo and "report" in item.nodeid:
        time.sleep(0.5)
    return (yield)
"""

HANGING = {"python": RETURNING, "fixture": IN_A_FIXTURE, "teardown": IN_A_TEARDOWN, "library": IN_A_LIBRARY, "report": IN_ITS_REPORT}


def test_a_test_that_hangs_ends_alone(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """One in each of five files, between two that pass, as `make test` runs them."""
    notes = tmp_path / "notes"
    for name, hanging in HANGING.items():
        (tmp_path / f"test_{name}.py").write_text(SUITE.format(notes=str(notes), hanging=hanging))
    (tmp_path / "conftest.py").write_text(SLOW_REPORT)
    options = ["-p", "tests.limits", "-p", "no:cacheprovider", "-p", "no:warnings", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    several = ["-n", "2", "--max-worker-restart", "1", "--dist", "loadfile"]
    ended = subprocess.run([sys.executable, "-m", "pytest", *options, *several, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    said = ended.stdout
    assert said.splitlines()[-1].strip("= ").startswith("4 failed, 10 passed, 2 errors in "), said + ended.stderr
    bad = re.findall(r"^(FAILED|ERROR) \S*test_(\w+)\.py::test_hangs\b", said, re.MULTILINE)
    assert sorted(bad) == [
        ("ERROR", "fixture"),
        ("ERROR", "teardown"),
        ("FAILED", "library"),
        ("FAILED", "python"),
        ("FAILED", "report"),
        ("FAILED", "teardown"),
    ]
    assert said.count("Timeout (>600.0s)") >= 3 and "crashed while running" in said
    assert said.count("Current thread 0x") == 3, "where each was"
    assert request.config.getini("faulthandler_exit_on_timeout") and float(request.config.getini("faulthandler_timeout")) > 600
    started = {int(line) for line in notes.read_text().split()}
    assert len(started) == 8
    assert started & {process.pid for process in processes()} == set()
