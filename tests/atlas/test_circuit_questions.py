"""What the tiny atlas does not have: a neuron whose coefficients are negative on average, and a model without a circuit run."""

import shutil
from pathlib import Path

import duckdb
import pytest

import atlas
from atlas.cli.main import run as command_line
from atlas.questions import question
from atlas.ranges import missing_run
from schema.errors import AtlasError
from schema.table_facts import facts


def test_a_neuron_that_is_negative_on_average_takes_out_what_its_cosine_says_it_adds(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute("UPDATE neuron_statistics SET mean = -1 WHERE layer = 1 AND neuron = 3")
    assert tiny_copy.execute("SELECT layer, neuron FROM memory_neurons(n := 2)").fetchall() == [(2, 2), (1, 3)]


def test_without_a_sweep_the_cosine_alone_decides(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute("DELETE FROM neuron_statistics")
    assert tiny_copy.execute("SELECT layer, neuron, mean FROM memory_neurons(n := 1)").fetchall() == [(2, 2, None)]


@pytest.mark.parametrize("name", ["head_card", "composition_edges", "induction_circuits", "elhage2021_copying", "neuron_readers"])
def test_what_a_model_without_a_circuit_run_lacks_is_named(tiny_copy: duckdb.DuckDBPyConnection, name: str) -> None:
    tiny_copy.execute("DELETE FROM run WHERE kind = 'circuit'")
    assert missing_run(tiny_copy, question(name).sql) == "circuit"


@pytest.mark.parametrize(
    ("asked", "run", "option"),
    [
        (("head_card", "--layer", "0", "--head", "0"), "circuit", "--circuit"),
        (("induction_circuits",), "circuit", "--circuit"),
        (("heads_by", "--behaviour", "previous"), "head_statistics", "--corpus tales --context 5 --head-statistics"),
        (("attention_distance_profile", "--layer", "0", "--head", "0"), "head_statistics", "--corpus tales --context 5 --head-statistics"),
        (("heads_at", "--position-id", "8"), "attribution", "--corpus tales --context 5 --trace 4000 --attribution"),
        (("prediction_parts", "--position-id", "8"), "attribution", "--corpus tales --context 5 --trace 4000 --attribution"),
        (("attention_sources", "--position-id", "8", "--layer", "0", "--head", "0"), "attribution", "--corpus tales --context 5 --trace 4000 --attribution"),
        (("skip_trigrams_largest", "--layer", "0", "--head", "0"), "skip_trigram", "--corpus tales --context 5 --skip-trigram 0"),
    ],
)
def test_heads_asked_of_an_atlas_without_such_a_pass_name_it_and_its_command(
    tiny_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: tuple[str, ...], run: str, option: str
) -> None:
    path = Path(shutil.copy(tiny_path, tmp_path / "copy.duckdb"))
    with duckdb.connect(str(path)) as con:
        con.execute("DELETE FROM run WHERE kind NOT IN ('weights', 'sweep', 'trace')")
        for table, name in facts().filled_by.items():
            if name not in ("", "weights", "sweep", "trace"):
                con.execute(f"DELETE FROM {table}")
    assert command_line(["ask", *asked, "--db", str(path)], False) == 0
    assert capsys.readouterr().err == f"note: no rows, because this atlas has no {run} run: `atlas ingest {path} {option}`\n"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("head_card", "--layer", "0", "--head", "7"), "no head 7: this model has heads 0 to 0"),
        (("head_tokens", "--layer", "3", "--head", "0"), "no layer 3: this model has layers 0 to 2"),
        (("attention_sources", "--position-id", "8", "--layer", "-1", "--head", "0"), "no layer -1: this model has layers 0 to 2"),
        (("nearest_token_states", "--token", "cat", "--layer", "1"), "no mean states of layer 1 are stored; they are stored for layers 0, 2"),
    ],
)
def test_a_head_or_layer_that_there_is_not_is_one_line_with_what_there_is(
    tiny_path: Path, capsys: pytest.CaptureFixture[str], asked: tuple[str, ...], said: str
) -> None:
    assert command_line(["ask", *asked, "--db", str(tiny_path)], False) == 1
    assert capsys.readouterr() == ("", f"Error: {said}\n")


def test_a_histogram_of_no_heads_has_no_bins(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute("DELETE FROM head")
    assert tiny_copy.execute("FROM elhage2021_copying()").fetchall() == []


def test_a_head_that_the_model_has_not_is_refused(a: atlas.Atlas) -> None:
    with pytest.raises(AtlasError, match="no head 1: this model has heads 0 to 0"):
        a.head_card(0, 1)


def test_heads_that_erase_seldom_or_where_nothing_counts_say_so(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute("UPDATE contribution SET erased = -0.5 WHERE kind = 'head' AND layer = 2 AND position_id <> 8")
    tiny_copy.execute("UPDATE contribution SET erased = 0.0078125 WHERE kind = 'head' AND layer = 0")
    tiny_copy.execute('UPDATE position SET "index" = 0 WHERE position_id = 101')
    found = tiny_copy.execute("SELECT layer, mean_erased, erasing_share, n_positions, self_weight, erases_at FROM memory_heads()").fetchall()
    assert found == [
        (1, 0.125, 1.0, 2, 0.25, [" cat", " dog"]),
        (0, 0.0078125, 0.0, 2, 0.125, None),
        (2, 0.0, 0.5, 2, 0.125, [" dog"]),
    ]


def test_heads_are_ordered_by_what_there_is(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute("DELETE FROM contribution")
    found = tiny_copy.execute("SELECT layer, stream_ratio, mean_erased, n_positions FROM memory_heads(n := 2)").fetchall()
    assert found == [(1, -1.0, None, 0), (0, -0.75, None, 0)]


def test_without_a_circuit_run_heads_show_what_they_delete(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute("DELETE FROM head")
    tiny_copy.execute("DELETE FROM head_probe")
    tiny_copy.execute("DELETE FROM head_statistics")
    found = tiny_copy.execute("SELECT layer, head, stream_ratio, mean_erased, self_text, self_probe FROM memory_heads(n := 1)").fetchall()
    assert found == [(2, 0, None, 0.5, None, None)]
