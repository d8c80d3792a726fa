"""Views give the rows that a pencil gives on the tiny atlas, and every one of them and of their columns is explained."""

import math
import re
from pathlib import Path

import pytest

import atlas
from schema.release import view_files
from schema.terms import histogram_edges
from tests.atlas.tiny_atlas import LENS, STATES

VIEWS = sorted(view_files())


@pytest.mark.thorough
def test_saturation_is_before_the_last_layer_and_for_good(a: atlas.Atlas) -> None:
    # position 2, layer 2 also lifts w to the top, but is the last layer; position 8 has '.' on top in layer 0 and loses it in layer 1
    found = a.sql("SELECT * FROM saturation ORDER BY position_id, layer").rows()
    assert found == [(2, 1, 3, 2, 5, 0.125, 0.5), (101, 0, 6, 7, 2, 0.25, 0.5), (101, 1, 6, 7, 2, 0.25, 0.75)]


def test_a_prediction_that_leaves_the_top_later_is_no_saturation(tiny_copy) -> None:
    # ' sat' is lifted to the top in layer 1 of position 2; take it from the top of layer 2's output
    tiny_copy.execute("UPDATE logit_lens SET top_token_id = 10 WHERE position_id = 2 AND layer = 2 AND site = 'resid_post'")
    assert tiny_copy.execute("SELECT position_id, layer FROM saturation ORDER BY ALL").fetchall() == [(101, 0), (101, 1)]


def test_elimination_is_every_loss_of_the_top_place_and_marks_the_largest_fall(a: atlas.Atlas) -> None:
    found = a.sql("SELECT position_id, layer, candidate_token_id, new_token_id, candidate_rank_after, is_largest_fall FROM elimination ORDER BY ALL").rows()
    assert found == [
        (2, 1, 2, 3, 4, True),
        (2, 2, 10, 3, 2, False),
        (8, 1, 5, 2, 7, True),
        (8, 2, 2, 5, 7, False),
        (101, 0, 7, 6, 3, True),
        (101, 1, 7, 6, 2, False),
    ]


def test_prediction_change_has_the_four_classes_and_one_for_each_position_and_layer(a: atlas.Atlas) -> None:
    found = {(p, i): c for p, i, c in a.sql("SELECT position_id, layer, change FROM prediction_change").rows()}
    assert found == {
        (2, 0): "agreement",
        (2, 1): "ffn",
        (2, 2): "ffn",
        (8, 0): "residual",
        (8, 1): "composition",
        (8, 2): "composition",
        (101, 0): "ffn",
        (101, 1): "ffn",
        (101, 2): "agreement",
    }
    assert found.keys() == LENS.keys()
    # with the FFN's top token read raw, other FFNs agree: at (8, 0) with '.', at (101, 2) no more
    raw = {(p, i): c for p, i, c in a.sql("SELECT position_id, layer, raw_change FROM prediction_change").rows()}
    assert {cell: c for cell, c in raw.items() if c != found[cell]} == {
        (2, 1): "composition", (8, 0): "agreement", (8, 1): "ffn", (101, 1): "composition", (101, 2): "residual",
    }  # fmt: skip


def test_dominant_sub_update_leaves_the_random_baseline_out_and_adds_the_share(a: atlas.Atlas) -> None:
    found = a.sql("SELECT rank, neuron, sub_update_norm, share FROM dominant_sub_update WHERE position_id = 8 AND layer = 2 ORDER BY rank").rows()
    total = 2 * math.sqrt(2) + 2 + 1 + 0.5
    assert found[0] == pytest.approx((1, 2, 2 * math.sqrt(2), 2 * math.sqrt(2) / total), rel=1e-6)
    assert found[1] == pytest.approx((2, 0, 2.0, 2.0 / total), rel=1e-6)
    assert len(found) == 2


def test_stream_state_gives_resid_pre_of_a_later_layer_as_the_resid_post_before(a: atlas.Atlas) -> None:
    found = {(p, i, s): tuple(v) for p, i, s, v in a.sql("SELECT * FROM stream_state").rows()}
    assert len(found) == 3 * (3 + 3 + 3)
    for position, (x, y) in STATES.items():
        assert found[position, 0, "resid_pre"] == (x, y)
        for layer in (1, 2):
            assert found[position, layer, "resid_pre"] == found[position, layer - 1, "resid_post"] == (x * layer, y * layer)
    assert not any(layer == 3 for _, layer, _ in found)


def test_histogram_edges_in_sql_are_those_of_terms(a: atlas.Atlas) -> None:
    edges = a.sql("SELECT * FROM histogram_edge ORDER BY bin").rows()
    assert [bin_ for bin_, _, _ in edges] == list(range(68))
    assert [upper for _, _, upper in edges] == histogram_edges()
    assert [lower for _, lower, _ in edges] == [-math.inf, *histogram_edges()[:-1]]


def test_histogram_bin_puts_each_coefficient_between_its_edges(a: atlas.Atlas) -> None:
    found = a.sql("SELECT lower_edge, upper_edge, n_positions FROM histogram_bin WHERE corpus_id = 0 AND layer = 0 AND neuron = 1 AND n_positions > 0").rows()
    # coefficients -1, six zeros, 0.5 and two of 4
    assert sorted(found) == [(-1.5, -1.0, 1), (0.0, 2.0**-8, 6), (0.5, 0.75, 1), (4.0, 6.0, 2)]
    assert a.sql("SELECT sum(n_positions)::INT FROM histogram_bin WHERE corpus_id = 1 AND layer = 2 AND neuron = 2").item() == 4


def test_trigger_text_has_one_row_per_trigger_and_never_reaches_before_the_sequence(a: atlas.Atlas) -> None:
    assert a.sql("SELECT count(*) FROM trigger_text").item() == 144
    found = a.sql("SELECT DISTINCT position_id, text_before, token FROM trigger_text WHERE corpus_id = 0 ORDER BY position_id").rows()
    expected = [
        (0, "", "<s>"),
        (1, "", "The"),
        (2, "The", " cat"),
        (3, "The cat", " sat"),
        (5, "The cat sat.", "\n"),
        (8, "The", " dog"),
        (9, "The dog", " sat"),
    ]
    assert found == expected


def test_prefix_is_the_text_read_so_far(a: atlas.Atlas) -> None:
    assert a.sql("SELECT text FROM prefix WHERE position_id IN (3, 6, 8, 102) ORDER BY position_id")["text"].to_list() == [
        "The cat sat",
        "",
        "The dog",
        "é cat [red]",
    ]


def test_left_out_says_of_each_run_what_it_left_out_of_how_many(tiny_copy) -> None:
    """Triggers of three keys, three each, of which the shortest two have no rows in removal; 14 positions, of which two end their document."""
    # the sweep of corpus 0 skips index 0, which two of its ten positions have
    tiny_copy.execute("UPDATE run SET settings = '{\"skip_first\": 1}' WHERE run_id = 1")
    tiny_copy.execute("UPDATE neuron_statistics SET n_positions = 8 WHERE corpus_id = 0")
    found = tiny_copy.execute("SELECT kind, corpus_id, what, split_part(reason, ':', 1), n_left_out, n_all FROM left_out ORDER BY ALL").fetchall()
    # BOS, which counting predicts nothing after, stands at the two positions of index 0 of corpus 0; corpus 1 has none, and keys begin at index 1
    last = [("prediction", corpus, "position", "no token follows", 1, n) for corpus, n in ((0, 10), (1, 4))]
    last += [(kind, corpus, "position", "BOS, or no token follows", n, of) for kind in ("direct_path", "ngram") for corpus, n, of in ((0, 3, 10), (1, 1, 4))]
    last += [("keys", corpus, "position", "at an index below --min-index, or no token follows", n, of) for corpus, n, of in ((0, 3, 10), (1, 2, 4))]
    pairs = {
        "a word is at index 0, ends with no token, or shares one with the other": 2 + 1 + 1,
        "its sentence is too long": 4 + 4,
        "its sentence lies in several sequences": 6 + 5 + 1,
        "its sentence was not drawn": 8 + 8,
    }
    of_pairs = 80 + 40 + 20 + 40 + 20 + 18 + 40 + 20 + 2 + 40
    assert found == sorted(
        last
        + [("head_relation", 0, "pair", reason, n, of_pairs) for reason, n in pairs.items()]
        + [
            ("paper", 0, "key", "no token follows its top trigger", 0, 12),
            ("paper", 0, "trigger", "a prefix of one token", 9 - 7, 9),
            ("paper", 1, "key", "no token follows its top trigger", 0, 12),
            ("paper", 1, "trigger", "a prefix of one token", 3 - 2, 3),
            ("probe", 0, "word", "pos", 7 - 4 - 3, 7),
            ("sweep", 0, "position", "at an index that the sweep skips", 2, 10),
            ("sweep", 1, "position", "at an index that the sweep skips", 0, 4),
            ("term_loss", 0, "prediction", "its sequence was not drawn", 0, 10 - 2),
            ("token_state", 0, "position", "index 0, or not drawn", 10 - 5, 10),
            ("tree_probe", 0, "sentence", "depth", 0, 2),
            ("tree_probe", 0, "sentence", "distance", 0, 2),
        ]
    )


@pytest.mark.first_cases(19)
@pytest.mark.parametrize("name", VIEWS)
def test_view_has_one_row_per_grain(suites_path: Path, name: str) -> None:
    grain = re.search(r"^-- grain:\s+(.+)$", view_files()[name], re.MULTILINE)
    assert grain is not None
    with atlas.open(suites_path) as a:
        assert a.sql(f"SELECT {grain[1]} FROM {name} GROUP BY ALL HAVING count(*) > 1").is_empty()
        assert a.sql(f"SELECT count(*) FROM {name}").item() > 0


@pytest.mark.parametrize("name", VIEWS)
def test_view_has_a_title_and_says_what_it_is(a: atlas.Atlas, name: str) -> None:
    assert view_files()[name].startswith("-- title: ")
    dictionary = a.schema().filter(relation=name)
    assert dictionary["description"][0]
    if name != "prefix":
        assert dictionary.filter(dictionary["meaning"].is_null())["column"].to_list() == []
