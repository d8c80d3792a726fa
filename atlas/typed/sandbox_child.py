"""Program of the process of atlas/typed/sandbox.py: it opens an atlas, drops privileges that it does not need, answers one statement and ends.

It reads one line of JSON and writes one line of JSON, with the rows after it as an Arrow stream. It loads its libraries before the request arrives, so that a
client that starts it early waits for none of them.
"""

import json
import os
import resource
import signal
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from atlas.typed.execution import select_table
from schema.errors import AtlasError
from schema.open.lake import is_lake
from schema.open.open_with_beside import open_with_beside

LEAST = 4
"""Fewest bytes counted for a value within a list or a structure, even for a bit: no output format writes fewer."""


LONG_NAME = 100
"""Most bytes of a column name that adds nothing to the size of a result. A longer name is counted for each row, because JSON repeats it in each row."""


def weight(table: pa.Table) -> int:
    """Estimate the bytes of a result when it is written out. They may be more than Arrow's, which stores shared texts and names within structures only once."""
    long_names = sum(n for name in table.column_names if (n := len(name.encode())) > LONG_NAME)
    return table.schema.serialize().size + table.num_rows * long_names + sum(weigh(chunk) for column in table.columns for chunk in column.chunks)


def weigh(values: pa.Array) -> int:
    kind = values.type
    if pa.types.is_dictionary(kind):
        return pc.sum(pc.take(pc.binary_length(values.dictionary), values.indices)).as_py() or 0
    if pa.types.is_struct(kind):
        names = sum(len(field.name.encode()) for field in kind)
        return len(values) * names + sum(weigh_nested(field) for field in values.flatten())
    if pa.types.is_map(kind):
        return weigh_nested(values.keys) + weigh_nested(values.items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return weigh_nested(values.flatten()) + LEAST * len(values)
    return values.nbytes


def weigh_nested(values: pa.Array) -> int:
    return max(weigh(values), LEAST * len(values))


THREADS = 4
"""Most threads: each has a stack, and address space is limited."""

LONGEST_MESSAGE = 10_000
"""Most characters of an error message: a statement can raise an error with a text of its own."""

DUCKDB_SHARE = 0.75
"""Share of the memory that DuckDB may take: DuckDB reports a lack of memory more clearly than a failed allocation does."""


def main() -> None:
    asked, out = json.loads(sys.stdin.buffer.readline()), answers()
    threading.Thread(target=end_with_caller, daemon=True).start()
    # without a handler the kernel ends the process, whatever it is doing and whoever started it, who may have had the signal ignored or blocked
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, asked["start"] + asked["timeout"])
    answer, table = answer_request(asked)
    out.write(json.dumps(answer).encode() + b"\n")
    if table is not None:
        with ipc.new_stream(out, table.schema) as stream:
            stream.write_table(table)
    out.flush()
    # DuckDB has nothing to say when it is closed
    os._exit(0)


def answers() -> BinaryIO:
    """Open the stream of the answer, a copy of standard output. Standard output itself is then discarded: a library may print to it as it crashes."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return out


def end_with_caller() -> None:
    """Wait until the caller has ended or closed the pipe, then end this process, since nobody would read the answer."""
    sys.stdin.buffer.read(1)
    os._exit(1)


def answer_request(asked: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Run the statement of the request; return the line to write, and the rows if there are any."""
    path, megabytes = Path(asked["path"]), int(asked["memory"] * DUCKDB_SHARE) >> 20
    try:
        config = {"temp_directory": "", "threads": min(THREADS, os.cpu_count() or 1)}
        con = open_with_beside(path, memory=f"{megabytes}MB", config=config)
        # what the answer needs is loaded by an answer, as no file can be opened afterwards
        select_table(con, "FROM model", None, 1)
        drop_privileges(asked["memory"], is_file=not is_lake(path))
        signal.setitimer(signal.ITIMER_REAL, asked["timeout"])
        table = select_table(con, asked["sql"], None, asked["max_rows"])
        n_bytes = weight(table)
    except AtlasError as error:
        return {"error": type(error).__name__, "message": str(error)[:LONGEST_MESSAGE]}, None
    found = {"n_bytes": n_bytes, "max_rows": asked["max_rows"]}
    return found, table if n_bytes <= asked["max_bytes"] else None


def drop_privileges(memory: int, *, is_file: bool) -> None:
    """Drop privileges: this process can write no file, and its address space can grow by at most `memory` bytes.

    is_file: the atlas is a file and not a lake; the process can then open no file and make no connection either.
    """
    limit(resource.RLIMIT_CORE, 0)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limit(resource.RLIMIT_FSIZE, 0)
    if taken := address_space():
        limit(resource.RLIMIT_AS, taken + memory)
    if is_file:
        limit(resource.RLIMIT_NOFILE, 0)


def limit(kind: int, most: int) -> None:
    resource.setrlimit(kind, (most, most))


def address_space() -> int | None:
    """Read the bytes of address space that this process has; None if the system does not report them, in which case it does not limit them either."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text(encoding="utf-8").split()[0]) * resource.getpagesize() if statm.exists() else None
