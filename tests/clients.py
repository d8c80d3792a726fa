"""Ask other versions of DuckDB every question with rows worked out by hand, and what the rows of every table add up to: `make clients`."""

import json
import os
import re
import subprocess
import sys
from itertools import chain, starmap
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import duckdb
import pytest

from atlas.questions import question
from schema import digests
from schema.open.kinds import kinds
from tests.atlas.annotations.tiny_annotations import write_tiny_annotations
from tests.atlas.collections.tiny_collections import write_tiny_collections
from tests.atlas.experiments.tiny_experiments import write_tiny_experiments
from tests.atlas.retrieval.tiny_retrievals import write_tiny_retrievals
from tests.atlas.test_questions import CASES, has_text
from tests.atlas.tiny_atlas import write_tiny_atlas
from tests.atlas.tiny_suites import add_suites

CALL = re.compile(r"(?P<function>[\w.]+)\((?P<arguments>.*)\)(?P<rest>( WHERE .*)?)")
ARGUMENT = re.compile(r"(?:\[[^\]]*\]|'(?:[^']|'')*'|\([^)]*\)|[^,])+")

ASK = """
import json, sys
import duckdb
databases, calls = json.load(sys.stdin)
con = duckdb.connect()
for name, file in databases.items():
    con.execute(f"ATTACH '{file}' AS {name} (READ_ONLY)")
answers = []
for database, sql in calls:
    con.execute(f"USE {database}")
    try:
        answers.append(con.execute(sql).fetchall())
    except duckdb.Error as error:
        answers.append(str(error))
json.dump([duckdb.__version__, answers], sys.stdout, default=str)
"""
"""What the other version runs: it can import nothing of ours."""

ADD_UP = """
import importlib.util, json, sys
import duckdb
databases, file = json.load(sys.stdin)
spec = importlib.util.spec_from_file_location("digests", file)
digests = importlib.util.module_from_spec(spec)
spec.loader.exec_module(digests)
con, found = duckdb.connect(), []
for name, file in databases.items():
    con.execute(f"ATTACH '{file}' AS {name} (READ_ONLY)")
for name, table in con.execute("SELECT database_name, table_name FROM duckdb_tables() ORDER BY ALL").fetchall():
    rows = con.execute(f'FROM {name}.main."{table}"')
    read = getattr(rows, "to_arrow_reader", None) or rows.fetch_record_batch
    found.append([name, table, *digests.digest_rows(read(digests.BATCH_ROWS))])
json.dump(found, sys.stdout)
"""
"""The same with schema/digests.py alone, which knows no DuckDB."""


def write_files(folder: Path) -> dict[str, str]:
    """Database → file: the tiny atlas, the one with tests in it, and what lies beside the first."""
    tiny = write_tiny_atlas(folder / "tiny.duckdb")
    for write in (write_tiny_annotations, write_tiny_collections, write_tiny_experiments, write_tiny_retrievals):
        write(tiny)
    suites = write_tiny_atlas(folder / "suites.duckdb")
    with duckdb.connect(suites) as con:
        add_suites(con)
    return {"tiny": str(tiny), "suites": str(suites), **{kind.name: str(kind.file(tiny)) for kind in kinds()}}


def run_client(client: str, code: str, told: object) -> subprocess.CompletedProcess[str]:
    """Run code with the DuckDB of a client."""
    environment = {**os.environ, "PYTHONPATH": str(Path(client).resolve()), "PYTHONWARNINGS": "ignore"}
    return subprocess.run([sys.executable, "-c", code], input=json.dumps(told), env=environment, text=True, capture_output=True)


def add_up(client: str, databases: dict[str, str]) -> list[list]:
    """(database, table, rows, digest) of every table, as a client reads it."""
    done = run_client(client, ADD_UP, [databases, str(Path(digests.__file__))])
    return json.loads(done.stdout) if done.returncode == 0 else [[done.stderr.splitlines()[-1]]]


def name_optional(name: str, call: str) -> str:
    """The same call with each parameter that has a default given by its name: before DuckDB 1.4 none may be given by its place."""
    match = CALL.fullmatch(call)
    assert match, call
    named = [
        argument if parameter.is_required or ":=" in argument else f"{parameter.name} := {argument}"
        for parameter, argument in zip(question(name).parameters, ARGUMENT.findall(match["arguments"]), strict=False)
    ]
    return f"{match['function']}({', '.join(named)}){match['rest']}"


def is_expected(found: object, wanted: object) -> bool:
    if isinstance(wanted, float) or (isinstance(wanted, list) and not has_text(wanted)):
        return bool(found == pytest.approx(wanted, abs=1e-6))
    return found == wanted


def wrong_answers(client: str, databases: dict[str, str]) -> tuple[str, list[str]]:
    """The version of a client, and what it answered otherwise than by hand."""
    calls = [(case.get("atlas", "tiny"), f"SELECT {', '.join(case['columns'])} FROM {name_optional(name, case['call'])}") for name, case in CASES]
    asked = run_client(client, ASK, [databases, calls])
    if asked.returncode:
        return client, [asked.stderr.splitlines()[-1]]
    version, answers = json.loads(asked.stdout)
    wrong = []
    for (_, case), rows in zip(CASES, answers, strict=True):
        is_right = isinstance(rows, list) and len(rows) == len(case["rows"]) and all(starmap(is_expected, zip(chain(*rows), chain(*case["rows"]), strict=True)))
        if not is_right:
            wrong.append(f"{case['call']}: {str(rows)[:150]}")
    return version, wrong


@click.command()
@click.argument("clients", nargs=-1, required=True)
def main(clients: tuple[str, ...]) -> None:
    """Ask CLIENTS, folders that DuckDB was installed into."""
    with TemporaryDirectory(prefix="clients-") as folder:
        databases = write_files(Path(folder))
        n_wrong, ours = 0, add_up(".", databases)
        for client in clients:
            version, wrong = wrong_answers(client, databases)
            click.echo(f"DuckDB {version}: {len(CASES) - len(wrong)} of {len(CASES)} answers are those worked out by hand")
            for line in wrong:
                click.echo(f"  {line}")
            other = [" ".join(map(str, found)) for found in add_up(client, databases) if found not in ours]
            click.echo(f"  the rows of {len(ours) - len(other)} of {len(ours)} tables add up to the same" + "".join(f"\n  {line}" for line in other))
            n_wrong += len(wrong) + len(other)
    sys.exit(n_wrong > 0)


if __name__ == "__main__":
    main()
