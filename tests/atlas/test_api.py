"""The Python face: methods out of questions, errors that name what exists, summaries for notebooks."""

import inspect
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import atlas
from atlas import AtlasError, NotAnAtlas, QueryRefused


def test_questions_are_methods_that_return_frames(a: atlas.Atlas) -> None:
    found = a.top_triggers(0, 1, n=2)
    assert isinstance(found, pl.DataFrame)
    assert found["position_id"].to_list() == [3, 9]
    assert found.equals(a.ask("top_triggers", 0, neuron=1, n=2))


def test_a_method_explains_itself(a: atlas.Atlas) -> None:
    assert str(inspect.signature(a.top_triggers)) == "(layer: int, neuron: int, n: int = 25, corpus: int = None) -> polars.dataframe.frame.DataFrame"
    assert a.top_triggers.__name__ == "top_triggers"
    for part in ("Texts that trigger a key most.", "Source: Geva et al. 2021, section 3.", "layer: transformer block, from 0", "One row per rank."):
        assert part in a.top_triggers.__doc__
    assert {"top_triggers", "promotion_vs_elimination", "sql"} <= set(dir(a))


def test_lists_are_arguments_too(a: atlas.Atlas) -> None:
    assert a.token_context([101, 6])["token"].to_list() == ["<s>", " cat"]


def test_an_unknown_method_names_the_nearest(a: atlas.Atlas) -> None:
    with pytest.raises(AttributeError, match="top_trigers'; did you mean top_triggers"):
        _ = a.top_trigers
    with pytest.raises(AtlasError, match="did you mean promotion_vs_elimination"):
        a.ask("promotion_versus_elimination")
    assert not hasattr(a, "_ipython_display_")


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("top_triggers", {"layer": 3, "neuron": 0}, "no layer 3: this model has layers 0 to 2"),
        ("top_triggers", {"layer": -1, "neuron": 0}, "no layer -1"),
        ("top_triggers", {"layer": 0, "neuron": 4}, "no neuron 4: this model has neurons 0 to 3"),
        ("top_triggers", {"layer": 0, "neuron": 1, "corpus": 5}, r"no corpus 5; available: 0: tales \(all\), 1: more \(test\)"),
        ("top_triggers", {"layer": 0}, "missing a required argument: 'neuron'"),
        ("top_triggers", {"layer": 0, "neuron": None}, "neuron must not be None"),
        ("top_triggers", {"layer": 0, "neuron": 0, "colour": 1}, "colour"),
        ("prediction_trace", {"position_id": 3}, "position 3 is not traced; the nearest traced positions are 2, 8, 101"),
        ("nearest_states", {"position_id": 2, "layer": 0, "site": "mlp_out"}, "no site 'mlp_out'; available: resid_pre, attn_out"),
        ("value_tokens", {"layer": 0, "neuron": 0, "direction": "up"}, "available: promoted, suppressed"),
        ("neurons_triggered_by", {"token": "cat", "tail": "both"}, "available: max, min"),
        ("neurons_promoting", {"token": "caat"}, r"no token 'caat' in the vocabulary.*near it: 'cat'"),
        ("saturation_events", {"layer": 7}, "no layer 7"),
        ("attention_sources", {"position_id": 2, "layer": 0, "head": 2}, "no head 2: this model has heads 0 to 0"),
        ("composition_edges", {"kind": "token"}, "no kind 'token'; available: k, q, v$"),
        ("copying_heads", {"tail": "both"}, "no tail 'both'; available: max, min$"),
        ("prediction_parts", {"position_id": 2, "target": "first"}, "no target 'first'; available: final, next"),
        ("top_triggers", {"layer": "x", "neuron": 0}, "layer must be a whole number, not 'x'"),
        ("top_triggers", {"layer": 1.0, "neuron": 0}, "layer must be a whole number, not 1.0"),
        ("top_triggers", {"layer": True, "neuron": 0}, "layer must be a whole number, not True"),
        ("top_triggers", {"layer": 1, "neuron": 0, "n": None}, "n must not be None"),
        ("top_triggers", {"layer": 1, "neuron": 0, "n": 0}, "at least 1, not 0"),
        ("top_triggers", {"layer": 1, "neuron": 0, "n": 2**63}, "n is at most 9223372036854775807, not 9223372036854775808"),
        ("composition_edges", {"min_excess": float("nan")}, "min_excess is a number, not NaN"),
        ("geva2022_extreme", {"threshold": "x"}, "threshold must be a number, not 'x'"),
        ("geva2022_extreme", {"threshold": True}, "threshold must be a number, not True"),
        ("geva2022_extreme_clusters", {"space": "values"}, "no space 'values'; available: value, logits"),
        ("neurons_promoting", {"token": 5}, "token must be text, not 5"),
        ("neurons_promoting", {"token": ""}, "the token is empty"),
        ("token_context", {"position_ids": 1}, "position_ids must be a list of whole numbers, not 1"),
        ("token_context", {"position_ids": [1, 50]}, "no position 50"),
        ("position_tokens", {"at_position": 50}, "no position 50"),
        ("position_events", {"position_id": 3}, "position 3 is not traced"),
        ("trigger_contexts", {"layer": 0, "neuron": 1, "width": -1}, "width is the number of tokens, and must be at least 0, not -1"),
        (
            "trigger_contexts",
            {"layer": 0, "neuron": 1, "per_sequence": 0},
            "per_sequence is the number of triggers of a sequence, and must be at least 1, not 0",
        ),
        ("coefficient_samples", {"layer": 0, "neuron": 1, "n_bins": 0}, "n_bins is the number of bins, and must be at least 1, not 0"),
        ("abstention", {"steps": 0}, "steps is the number of thresholds, and must be at least 1, not 0"),
        ("calibration", {"mass": "maybe"}, "no mass 'maybe'; available: no, yes"),
        ("neurons_with_words", {"words": ""}, "the words are blank"),
        ("traced_positions", {"words": " "}, "the words are blank"),
    ],
)
def test_what_does_not_exist_is_named_with_what_does(a: atlas.Atlas, name: str, arguments: dict, message: str) -> None:
    with pytest.raises(AtlasError, match=message):
        a.ask(name, **arguments)


def test_sql_takes_parameters_of_both_kinds(a: atlas.Atlas) -> None:
    assert a.sql("SELECT count(*) AS n FROM trigger WHERE layer = ?", [1]).item() == 48
    assert a.sql("SELECT count(*) AS n FROM trigger WHERE layer = $layer", {"layer": 1}).item() == 48


@pytest.mark.parametrize("parameters", [["a\ud800"], {"text": "a\ud800"}, [["a\ud800"]]])
def test_half_a_surrogate_pair_is_no_parameter(a: atlas.Atlas, parameters: list | dict) -> None:
    with pytest.raises(AtlasError, match="a text among the parameters cannot be encoded in UTF-8"):
        a.sql(f"SELECT {'$text' if isinstance(parameters, dict) else '?'}", parameters)


def test_sql_warns_where_it_leaves_rows_out(a: atlas.Atlas) -> None:
    with pytest.warns(UserWarning, match="only the first 5 rows"):
        assert a.sql("FROM trigger", max_rows=5).height == 5


def test_vectors_and_lists_keep_their_types(a: atlas.Atlas) -> None:
    assert a.sql("SELECT vector FROM residual_state LIMIT 1").schema["vector"] == pl.Array(pl.Float32, 2)
    assert a.sql("SELECT histogram FROM neuron_statistics LIMIT 1").schema["histogram"] == pl.List(pl.Int64)
    assert a.sql("SELECT bytes FROM token LIMIT 1").schema["bytes"] == pl.Binary


def test_status_counts_what_is_inside(a: atlas.Atlas, tiny_path: Path) -> None:
    status = a.status().to_dict()
    assert status["model"]["name"] == "tiny"
    assert status["bytes"] == tiny_path.stat().st_size
    assert [c["name"] for c in status["corpora"]] == ["tales", "more"]
    kinds = [
        "weights",
        "sweep",
        "sweep",
        "trace",
        "trace",
        "paper",
        "paper",
        "map",
        "map",
        "circuit",
        "head_statistics",
        "head_statistics",
        "head_probe",
        "attribution",
        "attribution",
        "direct_path",
        "direct_path",
        "direct_path",
        "skip_trigram",
        "term_loss",
        "training_curve",
        "prediction",
        "prediction",
        "ngram",
        "ngram",
        "keys",
        "keys",
        "token_vector",
        "token_state",
        "word_test",
        "word",
        "word",
        "probe",
        "tree_probe",
        "head_relation",
    ]
    assert [(r["kind"], r["n_shards_loaded"]) for r in status["runs"]] == [(kind, 1) for kind in kinds]
    assert status["rows"]["trigger"] == 144


def test_an_empty_atlas_says_that_it_is_empty(empty_path: Path) -> None:
    with atlas.open(empty_path) as a:
        assert "atlas ingest" in a._repr_html_()
        with pytest.raises(AtlasError, match="this atlas is empty"):
            a.top_triggers(0, 0)
        with pytest.raises(AtlasError, match="no traced positions"):
            a.prediction_trace(0)
        assert a.corpus_summary().is_empty()


def test_dictionary_explains_every_column_of_every_table(a: atlas.Atlas) -> None:
    dictionary = a.schema()
    tables = dictionary.filter(kind="table")
    assert tables["meaning"].null_count() == tables["description"].null_count() == 0
    assert {"trigger", "saturation", "prefix"} <= set(dictionary["relation"])
    expected = ["corpus_id", "layer", "neuron", "tail", "rank", "position_id", "coefficient", "preceding", "preceding_scale", "context"]
    assert dictionary.filter(relation="trigger")["column"].to_list() == expected


def test_notebook_pages_escape_what_they_show(a: atlas.Atlas) -> None:
    card = a.neuron("L0N1")
    page = replace(card, top=card.top.with_columns(token=pl.lit("<s>")))._repr_html_()
    assert "L0N1" in page and "&lt;s&gt;" in page and "<s>" not in page
    assert "<b>tiny" not in page
    assert "tiny @ r0: llama, 3 layers × 4 neurons" in a._repr_html_()


def test_a_neuron_card_holds_its_four_answers(a: atlas.Atlas) -> None:
    card = a.neuron("L0N1")
    assert card.facts.equals(a.neuron_card(0, 1))
    assert card.tokens.equals(a.value_tokens(0, 1))
    assert card.top.equals(a.sequence_triggers(0, 1, n=10))
    assert card.bottom.equals(a.sequence_triggers(0, 1, n=10, tail="min"))
    # of L0N0 position 3 has the second smallest coefficient too, and 0 the fourth, in the sequence of 5
    assert "<td>1 more in this sequence</td>" in a.neuron("L0N0")._repr_html_()
    with pytest.raises(AtlasError, match="no neuron 99"):
        a.neuron("L0N99")


def test_a_head_card_holds_its_answers(a: atlas.Atlas) -> None:
    card = a.head("L1H0")
    assert card.facts.equals(a.head_card(1, 0))
    assert card.directions.height and card.directions.equals(a.head_tokens(1, 0).filter(pl.col("direction_rank") <= 3))
    assert card.read_by.height and card.read_by.equals(a.composition_from(1, 0, n=3))
    assert card.behaviours.equals(a.head_behaviours(1, 0))
    assert card.positions.equals(a.head_positions(1, 0, n=10))
    assert not card.missing
    page = card._repr_html_()
    assert "<h3>L1H0</h3>" in page and "<td>&lt;s&gt;" not in page and "<s>" not in page and "␣[red]" in page
    for wrong, said in (("L1H7", "no head 7: this model has heads 0 to 0"), ("L9H0", "no layer 9"), ("L1N0", "L1N0 is a neuron")):
        with pytest.raises(AtlasError, match=said):
            a.head(wrong)


def test_questions_lists_every_question_with_its_call(a: atlas.Atlas) -> None:
    listed = a.questions()
    assert "top_triggers(layer, neuron, n := 25, corpus := NULL)" in listed["call"].to_list()
    assert listed.columns == ["question", "call", "title", "source", "grain"]


def test_closing_is_done_by_the_context_manager(tiny_path: Path) -> None:
    with atlas.open(tiny_path) as opened:
        frame = opened.corpus_summary()
    assert frame.height == 2
    with pytest.raises(AtlasError):
        opened.corpus_summary()


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(NotAnAtlas, match="no such file"):
        atlas.open(tmp_path / "none.duckdb")
    assert not (tmp_path / "none.duckdb").exists()


def test_importing_atlas_imports_nothing_heavy() -> None:
    code = "import atlas, sys; print([m for m in ('polars', 'duckdb', 'sqlalchemy', 'torch', 'click', 'rich', 'pyarrow') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_another_distributions_schema_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "__init__.py").write_text("class Schema: ...\n")
    root = Path(atlas.__file__).parents[1]
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(root)!r}]; import atlas"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 1
    assert f"'schema' ({tmp_path}/schema/__init__.py) belongs to another distribution" in found.stderr


def test_numpys_integers_are_numbers(a: atlas.Atlas) -> None:
    assert a.top_triggers(np.int64(0), np.int16(1), n=np.int32(2)).equals(a.top_triggers(0, 1, n=2))
    assert a.token_context(np.array([1, 2])).equals(a.token_context(range(1, 3)))
    assert a.geva2022_extreme(np.float32(0.5), corpus=0).equals(a.geva2022_extreme(0.5, 0))


@pytest.mark.thorough
def test_an_atlas_is_opened_twice_in_one_process_and_stays_locked_down(a: atlas.Atlas) -> None:
    with atlas.open(a.path) as again:
        assert again.sql("FROM model").equals(a.sql("FROM model"))
        with pytest.raises(QueryRefused):
            again.sql("FROM read_csv('/etc/passwd')")
    assert a.sql("FROM model").height == 1


def test_a_closed_atlas_says_so(tiny_path: Path) -> None:
    a = atlas.open(tiny_path)
    a.close()
    with pytest.raises(AtlasError, match="this atlas is closed"):
        a.sql("FROM model")


def test_a_neuron_has_an_address(a: atlas.Atlas) -> None:
    with pytest.raises(AtlasError, match="'17' is not an address"):
        a.neuron(17)  # type: ignore[arg-type]
