"""From which index a sweep counts: what is asked for, what the corpus was swept by before, what the papers do."""

from pathlib import Path

import duckdb
import pytest
import torch

from ingest.passes import passes
from ingest.passes.base import Basis, Text
from ingest.recorders.ffn_keys import CpuKeys
from ingest.recorders.reading import pad_sequences
from ingest.recorders.torch_keys import TorchKeys
from ingest.recorders.triggers import TriggerRecorder, counting_rule
from ingest.store.register import register_run
from ingest.text.survey import Survey
from schema.build import create_tables
from schema.errors import AtlasError
from tests.exact.tiny import asked
from tests.ingest.test_term_loss import sequences


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    create_tables(con, 4)
    return con


def basis(con: duckdb.DuckDBPyConnection, text: Text | None = None, **options: object) -> Basis:
    return Basis(con, None, asked(Path("a.duckdb"), "m", "c.txt", context=8, triggers=3, **options), text)  # type: ignore[arg-type]


def sweep(con: duckdb.DuckDBPyConnection, **settings: object) -> int:
    return register_run(con, "sweep", 0, {"model": "m", "triggers": 3, **settings}, 0, "cpu", 2, False, {})


def test_the_first_position_is_left_out_unless_the_papers_figures_are_asked_for(con: duckdb.DuckDBPyConnection) -> None:
    assert counting_rule(basis(con, skip_first=None), 0) == (1, 0)
    assert counting_rule(basis(con, skip_first=None, paper=True), 0) == (0, 0)
    assert counting_rule(basis(con, skip_first=None, removal=True), 0) == (1, 0)
    assert counting_rule(basis(con, skip_first=2, paper=True), 0) == (2, 0)


@pytest.mark.parametrize(("settings", "before"), [({}, (0, 0)), ({"skip_first": 3, "distinct": 5}, (3, 5))], ids=["an older release", "3, 5"])
def test_a_corpus_goes_on_as_it_was_swept_before(con: duckdb.DuckDBPyConnection, settings: dict, before: tuple[int, int]) -> None:
    run_id = sweep(con, **settings)
    assert counting_rule(basis(con, skip_first=None, distinct=None), 0) == before
    assert counting_rule(basis(con, skip_first=None, distinct=None), 1) == (1, 0)
    assert sweep(con, skip_first=before[0], distinct=before[1]) == run_id
    with pytest.raises(AtlasError, match=f"distinct was {before[1]} and is now 4, skip_first was {before[0]} and is now 2"):
        sweep(con, skip_first=2, distinct=4)


def test_a_context_without_a_position_that_counts_is_refused() -> None:
    with pytest.raises(AtlasError, match="--skip-first 8 leaves out whole sequences of --context 8"):
        passes()["sweep"].check(basis(duckdb.connect(), skip_first=8).request)
    passes()["sweep"].check(basis(duckdb.connect(), skip_first=7).request)


def test_a_corpus_of_which_no_position_counts_is_noted(con: duckdb.DuckDBPyConnection) -> None:
    def note(longest: int, skip_first: int) -> str | None:
        seen = Survey("", 3, 0, 0, 3, 9, (), (), longest=longest)
        return passes()["sweep"].note(basis(con, Text(None, 0, seen, iter), skip_first=skip_first))  # type: ignore[arg-type]

    for longest, skip_first in ((1, 1), (5, 5), (5, 7)):
        assert f"has {longest} tokens, and the first {skip_first} are left out" in (note(longest, skip_first) or "")
    assert (note(2, 1), note(1, 0)) == (None, None)


@pytest.mark.parametrize("keys", [CpuKeys(1, 3, 4), TorchKeys([torch.device("cpu")], 3, 4)], ids=["kernel", "torch"])
def test_what_does_not_count_is_read_as_what_stands_before(keys: CpuKeys | TorchKeys) -> None:
    """Two sequences, of 3 tokens and of 1, which is padded; of the second nothing counts."""
    x = [[9, 0, 1], [1, 2, 3], [4, -5, 0], [9, 9, 9], [99, 99, 99], [99, 99, 99]]
    tables = recorded(keys, [[5, 6, 7], [5]], x)
    rows = tables["trigger"].to_pylist()
    assert {row["position_id"] for row in rows} == {1, 2}
    # of neuron 0 at index 1, where a level is 9 / 127
    first = next(row for row in rows if (row["neuron"], row["tail"], row["position_id"]) == (0, "max", 1))
    assert (first["preceding"], first["preceding_scale"]) == ([127], pytest.approx(9 / 127))
    found = [tuple(row[name] for name in ("n_positions", "n_active", "min", "max", "mean")) for row in tables["neuron_statistics"].to_pylist()]
    assert found == [(2, 2, 1, 4, 2.5), (2, 1, -5, 2, -1.5), (2, 1, 0, 3, 1.5)]


def test_a_shard_without_a_position_that_counts_brings_no_statistics() -> None:
    found = recorded(CpuKeys(1, 3, 4), [[5]], [[1, 1, 1]])
    assert {name: table.num_rows for name, table in found.items()} == {"trigger": 0, "neuron_statistics": 0}


def recorded(keys: CpuKeys | TorchKeys, token_ids: list[list[int]], x: list[list[int]]) -> dict:
    """The tables of a sweep that skips one, of a batch with these coefficients."""
    recorder = TriggerRecorder(keys, 0, skip_first=1)
    recorder.begin(pad_sequences(tuple(sequences(token_ids)), torch.device("cpu"))[1])
    recorder.take(0, {"coefficient": torch.tensor(x, dtype=torch.float32)})  # type: ignore[arg-type]
    return recorder.tables(lambda _: None)
