"""What the rooms say of rows where nothing does what they look for: no sentence says that something does."""

import polars as pl
import pytest

from ui.evidence import measurement_sentences, sentences


def heads(*values: tuple[float, float]) -> pl.DataFrame:
    """Weights of heads of layer 0, on text and those of equal weights."""
    rows = [{"layer": 0, "head": i, "probe": None, "probe_uniform": None, "text": text, "text_uniform": even} for i, (text, even) in enumerate(values)]
    return pl.DataFrame(rows, schema_overrides={"probe": pl.Float64, "probe_uniform": pl.Float64})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([(0.5, 0.01), (0.1, 0.01)], "L0H0 shows it most: 0.50 of its attention on text, where equal weights have 0.01. Of 2 heads 1 has"),
        ([(0.0141, 0.0139), (0.01, 0.0139)], "No head shows it: L0H0, the first, has 0.01 of its attention on text, where equal weights have 0.01. Of 2 heads"),
        ([(0.1, 0.3)], "No head shows it: L0H0, the first, has 0.10 of its attention on text, where equal weights have 0.30. Of 1 head"),
    ],
)
def test_a_head_shows_a_behaviour_only_where_it_has_more_than_equal_weights(values: list[tuple[float, float]], said: str) -> None:
    assert sentences.describe_behaviour(heads(*values)).startswith(said)


def test_events_that_there_are_none_of_are_most_in_no_layer() -> None:
    frame = pl.DataFrame({"layer": [0, 1], "n_saturations": [0, 0], "n_eliminations": [1, 2], "n_input_eliminations": [0, 0]})
    assert sentences.describe_events(frame).startswith("no saturations; 3 eliminations, most in layer 1. ")


def test_a_relation_that_no_head_follows_is_followed_by_none() -> None:
    row = {"layer": 1, "head": 2, "relation": "nsubj", "accuracy": 0.3, "offset_accuracy": 0.4, "gain": -0.1}
    assert measurement_sentences.describe_relations(pl.DataFrame([row])).startswith(
        "No head follows a relation more often than the best fixed offset; L1H2 comes nearest, with nsubj: 30.0% instead of 40.0%. Of 1 relation"
    )
    assert measurement_sentences.describe_relations(pl.DataFrame([{**row, "accuracy": 0.5, "gain": 0.1}])).startswith(
        "L1H2 follows nsubj furthest above the best fixed offset: 50.0%"
    )


def test_a_probe_that_only_memorises_is_above_nothing() -> None:
    row = {"site": "resid_post", "layer": 1, "accuracy": 0.5, "n_test": 10, "type_accuracy": 0.4, "untrained_accuracy": 0.3}
    assert measurement_sentences.describe_probes(pl.DataFrame([{**row, "selectivity": -0.02}])).endswith(
        "It is nowhere above what a probe memorises; it comes nearest at layer 1, by -2.0%."
    )
    assert measurement_sentences.describe_probes(pl.DataFrame([{**row, "selectivity": 0.02}])).endswith(
        "It is furthest above what a probe memorises at layer 1, by 2.0%."
    )
