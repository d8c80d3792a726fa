"""What a pass reads of other runs, by the SQL that it executes, is named in the settings of its runs."""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import torch

from atlas.reads import relations
from ingest.passes import passes
from ingest.passes.base import Pass
from ingest.request import Request
from ingest.store.register import find_run, reads_of
from schema.open.store import open_reader
from schema.tables import metadata
from tests.exact.tiny import make, run
from tests.ingest.test_run import saved
from tests.ingest.test_tree_probes import asked_for

torch.set_num_threads(1)

REGISTERED = {"model", "token", "corpus", "run", "shard"}
"""Tables that no run fills, and those that say what runs there are."""

WANTED = ("circuit", "attribution", "head_statistics", "direct_path")

Log = dict[str, set[str]]


class Heard:
    """A connection whose statements are noted."""

    def __init__(self, con: duckdb.DuckDBPyConnection, read: set[str]) -> None:
        self.con, self.read = con, read

    def execute(self, sql: str, *arguments: Any) -> Any:
        self.read |= relations(sql) & set(metadata(1).tables)
        return self.con.execute(sql, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.con, name)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """Pass → tables that its plans, jobs and recordings read."""
    found: Log = {}

    def heard(each: Pass, method: Callable) -> Callable:
        return lambda basis, *rest: method(replace(basis, con=Heard(basis.con, found.setdefault(each.name, set()))), *rest)

    for each in passes().values():
        for name in ("plans", "recording"):
            if hasattr(each, name):
                monkeypatch.setattr(each, name, heard(each, getattr(each, name)), raising=False)
    return found


def check(target: Path, log: Log) -> set[str]:
    """Names of passes that read what other runs filled."""
    with closing(open_reader(target)) as con:
        runs = con.execute("SELECT run_id, kind, settings FROM run ORDER BY run_id").fetchall()
        filled = dict(con.execute("SELECT s.run_id, list(s.n_rows) FROM shard AS s GROUP BY s.run_id").fetchall())
    brought = {run_id: {table for shard in shards for table, n in json.loads(shard).items() if n} for run_id, shards in filled.items()}
    named: Log = {}
    for run_id, kind, settings in runs:
        reads = json.loads(settings).get("reads", {})
        named.setdefault(kind, set()).update(reads)
        assert all(before < run_id and table in brought[before] for table, run_ids in reads.items() for before in run_ids), kind
        assert all(reads.values()), kind
    before = {kind: set().union(*(brought[i] for i, *_ in runs if i < first)) for kind, first in {k: i for i, k, _ in reversed(runs)}.items()}
    for kind, read in log.items():
        assert (read & before[kind]) - REGISTERED <= named[kind], f"{kind} reads {sorted(read)} and names {sorted(named[kind])}"
    return {kind for kind in log if named[kind]}


@pytest.mark.thorough
def test_runs_name_the_runs_that_they_read_from(tmp_path: Path, log: Log) -> None:
    tiny = make(tmp_path, "llama", texts=["the people of the union and of the world: " * 2, "The first of the people, the first to speak."])
    asked = tiny.request(tmp_path / "a.duckdb", **dict.fromkeys(WANTED, True), skip_trigram=(0,), skip_trigram_seen=2, paper_keys=2, triggers=3)
    asked = replace(asked, trace=10)
    run(asked)
    assert check(asked.target, log) == {
        "trace", "circuit", "control_token", "removal", "next_token_rank", "direct_path", "skip_trigram",
    }  # fmt: skip
    assert log.keys() >= {"weights", "sweep", "attribution", "head_statistics", "value_cluster"}


@pytest.mark.thorough
def test_runs_that_read_words_and_neighbours_name_whose(tmp_path: Path, log: Log) -> None:
    asked: Request = asked_for(tmp_path, saved(tmp_path / "gpt2", seed=0))
    run(replace(asked, options={**asked.options, "probe": ("pos",), "probe_layers": "0", "map": True}))
    assert check(asked.target, log) == {"probe", "tree_probe", "head_relation", "map"}


def test_later_runs_make_no_other_run_of_the_same_settings() -> None:
    with duckdb.connect() as con:
        con.execute('CREATE TABLE run AS SELECT 3 AS run_id, \'trace\' AS kind, 0 AS corpus_id, \'{"trace": 5, "reads": {"neuron": [0]}}\' AS settings')
        assert find_run(con, "trace", 0, {"trace": 5}) == find_run(con, "trace", 0, {"trace": 5, "reads": {"neuron": [0, 2]}}) == 3
        assert find_run(con, "trace", 0, {"trace": 6, "reads": {"neuron": [0]}}) is None


def test_runs_of_another_corpus_are_not_read() -> None:
    with duckdb.connect() as con:
        con.execute("CREATE TABLE run AS FROM (VALUES (0, NULL), (1, 0), (2, 1), (3, 0)) AS r (run_id, corpus_id)")
        brought = ['{"neuron": 4}', '{"word": 2, "position": 9}', '{"word": 1}', '{"word": 0}']
        con.execute("CREATE TABLE shard AS SELECT unnest([0, 1, 2, 3]) AS run_id, unnest(?::JSON[]) AS n_rows", [brought])
        assert reads_of(con, ("word", "neuron", "trigger"), 0) == {"word": [1], "neuron": [0]}
        assert reads_of(con, ("word", "position"), None) == {"word": [1, 2], "position": [1]}
