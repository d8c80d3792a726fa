"""A catalogue that goes away in the middle: whoever was writing says so and ends, nothing of it stays, and the next goes on."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.request import Request
from tests.crash.conftest import ROOT
from tests.exact.tiny import run
from tests.lake.conftest import contents
from tests.lake.servers import Servers

pytestmark = pytest.mark.slow

WRITER = """
import sys
from pathlib import Path
import duckdb
from ingest.lake.store import opened_lake
try:
    with opened_lake(Path(sys.argv[1])) as store, store.transaction():
        store.con.execute("INSERT INTO value_cluster (space, layer, neuron, cluster) VALUES ('value', 0, 0, 9)")
        print("begun", flush=True)
        sys.stdin.readline()
        store.con.execute("SELECT count(*) FROM value_cluster").fetchall()
except duckdb.Error as error:
    print("refused:", error)
"""


def test_a_transaction_whose_catalogue_is_restarted_is_refused_and_leaves_nothing(request_lake: Callable[..., Request], file: Path, servers: Servers) -> None:
    request = request_lake()
    run(request)
    command = [sys.executable, "-c", WRITER, str(request.target)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "begun\n"
        servers.restart()
        said, complaints = writer.communicate("\n", timeout=60)
    assert (writer.returncode, said.partition(":")[0]) == (0, "refused"), said + complaints
    assert contents(run(request)) == contents(file)
