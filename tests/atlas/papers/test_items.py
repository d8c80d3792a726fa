"""Every figure and table of the papers is there, asks a question that exists, and says what it shows."""

import re
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

import atlas
from atlas.cli.paper import PAPERS as OFFERED
from atlas.papers.captions import caption, comparison
from atlas.papers.catalogue import PAPERS
from atlas.papers.make import make_item
from atlas.papers.needs import NEEDS, describe_unmet_need
from tests.atlas.papers.rows import ANNOTATED, CHOICES, ITEMS, rows_of
from tests.atlas.tiny_atlas import write_tiny_atlas

PLACES = {
    # what the issue asks for, by where the paper has it
    "geva2021": {
        "Table 1", "Table 2", "Section 3", "Section 4.2", "Section 5.1", "Section 5.2", "Figure 2", "Figure 3", "Figure 4", "Figure 5", "Figure 6",
        "Figure 7", "Figure 8", "Figure 9", "Figure 10", "Figure 11",
    },
    "geva2022": {"Tables 1 and 2", "Figure 2", "Figure 3", "Section 5.1", "Section 5.2", "Table 4", "Section 5.3", "Table 5", "Table 6"},
    "meng2022": {"Section 2: one prompt", "Section 2: averages"},
    "geva2023": {"Section 5"},
    "khandelwal2020": {"Table 1", "Figure 4", "Figure 5", "Figure 7"},
    "hewitt_liang2019": {"Table 2"},
    "hewitt_manning2019": {"Table 1", "Rank of the probe"},
    "voita_titov2020": {"Table 1"},
    "clark2019": {"Table 1"},
    "elhage2021": {
        "Zero-layer models", "One-layer models: skip-trigrams", "One-layer models: copying",
        "Two-layer models: term importance", "Two-layer models: composition", "Two-layer models: induction heads",
        "Two-layer models: how induction heads arise",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ANNOTATED)
def test_what_people_say_of_an_atlas_makes_its_items(a: atlas.Atlas, name: str) -> None:
    """With the columns that the other tests draw and print by hand."""
    made = make_item(a, ITEMS[name], CHOICES)
    assert made.reason is None and made.frame is not None
    assert made.frame.height > 0 and set(ANNOTATED[name]) <= set(made.frame.columns)


def test_every_place_of_both_papers_is_there() -> None:
    assert {name: {item.place for item in paper.items} for name, paper in PAPERS.items()} == PLACES
    assert set(OFFERED) == set(PAPERS)


def test_names_are_the_papers_own_and_different() -> None:
    names = [item.name for paper in PAPERS.values() for item in paper.items]
    assert len(set(names)) == len(names)
    assert all(item.name.startswith(f"{paper.name}_") for paper in PAPERS.values() for item in paper.items)


@pytest.mark.parametrize("name", ITEMS)
def test_an_item_names_its_question_its_needs_and_columns_that_exist(a: atlas.Atlas, name: str) -> None:
    item = ITEMS[name]
    assert item.heading and item.sql
    assert item.needs and set(item.needs) <= set(NEEDS)
    columns = list(item.resolved_question.columns) if item.resolved_question else rows_of(a, item).columns
    assert rows_of(a, item).columns == columns
    assert set(item.columns) <= set(columns)
    assert len(set(item.columns.values())) == len(item.columns)


@pytest.mark.parametrize(("need", "said"), [("tracing", "no finished experiment of kind tracing: `"), ("trace", "no trace of corpus 1: `")])
def test_what_is_missing_is_of_a_corpus_only_where_it_is_made_from_one(need: str, said: str) -> None:
    with closing(duckdb.connect()) as con:
        con.execute("ATTACH ':memory:' AS experiments; CREATE TABLE experiments.experiment (kind TEXT, status TEXT)")
        con.execute("CREATE TABLE run (run_id INTEGER, kind TEXT, status TEXT, corpus_id INTEGER, settings JSON, seed BIGINT)")
        con.execute("CREATE TABLE model (name TEXT); CREATE TABLE corpus (corpus_id INTEGER, name TEXT, source JSON, split TEXT, revision TEXT)")
        assert (describe_unmet_need(con, "x.duckdb", [need], 1) or "").startswith(said)


@pytest.mark.parametrize("name", ["geva2021_fig10", "geva2021_fig4"])
def test_without_a_corpus_caption_and_provenance_name_the_only_one_that_has_what_an_item_needs(tmp_path: Path, name: str) -> None:
    path = write_tiny_atlas(tmp_path / "tiny.duckdb")
    with closing(duckdb.connect(path)) as con:
        con.execute("DELETE FROM run WHERE kind IN ('sweep', 'trace') AND corpus_id = 0")
        con.execute("DELETE FROM neuron_statistics WHERE corpus_id = 0")
    with atlas.open(path) as opened:
        made = make_item(opened, ITEMS[name], {"corpus": None})
    assert made.frame is not None
    assert "neurons. Text: more (test), 4 positions." in made.caption
    assert [corpus["name"] for corpus in made.source["corpora"]] == ["more"]


@pytest.mark.parametrize("name", ITEMS)
def test_a_caption_says_what_how_many_and_of_which_model(a: atlas.Atlas, name: str) -> None:
    item = ITEMS[name]
    frame = rows_of(a, item)
    words = caption(frame, item, item.arguments(CHOICES), "Model: tiny.", "Active means more than 0.")
    assert words.startswith(item.caption(frame))
    assert any(c.isdigit() for c in item.n(frame))
    assert f"n: {item.n(frame)}. Model: tiny." in words
    assert words.endswith("Active means more than 0." if item.assumes_relu else "Model: tiny.")
    assert not re.search(r"\b(None|nan)\b", words)


@pytest.mark.parametrize("name", ITEMS)
def test_the_papers_figure_is_marked_as_theirs(a: atlas.Atlas, name: str) -> None:
    item = ITEMS[name]
    paper = next(paper for paper in PAPERS.values() if item in paper.items)
    found = comparison(rows_of(a, item), item, paper)
    assert bool(found) == (item.headline is not None)
    for theirs in found[:1]:
        assert theirs == f"{paper.authors} report, for {item.model or paper.model}: {item.headline}"
        assert "[check]" not in theirs
    assert all("None" not in ours for ours in found[1:])


def test_our_figures_are_those_of_the_rows(a: atlas.Atlas) -> None:
    def ours(name: str, **only: int) -> str:
        assert ITEMS[name].ours is not None
        return ITEMS[name].ours(rows_of(a, ITEMS[name]).filter(**only))

    # tests/atlas/questions/geva2021_fig11.json and _fig4.json have the shares
    assert ours("geva2021_fig11") == "residual and agreement together: 100.0% at layer 0, 0.0% at layer 2"
    assert ours("geva2021_fig2") == "shallow alone 50.0% at layer 0, 0.0% at layer 2; semantic alone 0.0% at layer 0, 50.0% at layer 2"
    assert ours("elhage2021_terms") == (
        "direct path 0.48 nats (from uniform; the unigram 0.23), single heads 0.75 (alone of layer 0 0.25, of layer 1 0.50, of layer 2 -0.25), "
        "virtual heads 0.25"
    )
    assert ours("elhage2021_birth") == (
        "between steps 200 and 300 the second block goes from saving 12% of the first one's loss to 75%, induction 0.12 to 0.75, previous token 0.25 to 0.50; "
        "at the end 75%, L2H0 0.75 and L1H0 0.50"
    )
    # tests/atlas/questions/khandelwal2020_*.json have the numbers
    assert ours("khandelwal2020_table1") == ("tune 2.8 → 2.5 (without near-copies 2.8 → 2.5); test 2.3 → 2.7 (without near-copies 4.0 → 6.2); λ 0.35, k 1, T 1")
    assert ours("khandelwal2020_fig4") == "k 1: 2.5, k 2: 2.7"
    assert ours("khandelwal2020_fig5") == "best λ of all queries 0.35 (2.5), without near-copies 0.35 (2.5); the model alone 2.8"
    assert ours("khandelwal2020_fig7") == "test: 3-gram 2.3 (λ 0.00), 5-gram 2.3 (λ 0.00), neighbours 2.7 (λ 0.35)"
    # tests/atlas/questions/probe_layers.json, parse_layers.json and head_relations.json have the numbers
    assert ours("hewitt_liang2019_table2") == (
        "embedding 66.7%, control 33.3%, selectivity 33.3; resid_post of layer 1 100.0%, control 0.0%, selectivity 100.0; by the type alone 66.7%"
    )
    assert ours("voita_titov2020_table1") == (
        "embedding 0.0 kbits (accuracy 66.7%), control 0.0 (33.3%); resid_post of layer 1 0.0 kbits (accuracy 100.0%), control 0.0 (0.0%)"
    )
    assert ours("hewitt_manning2019_table1") == (
        "UUAS: a chain of neighbours 100.0%, embedding 50.0%, untrained 50.0% at best, resid_post of layer 1 100.0%; its root 100.0%"
    )
    assert ours("hewitt_manning2019_table1", layer=0) == (
        "UUAS: a chain of neighbours 100.0%, embedding 50.0%, untrained 0.0% at best, resid_pre of layer 0 50.0% (25.0% to 50.0%); its root 0.0%"
    )
    assert ours("hewitt_manning2019_ranks") == "resid_post of layer 1: rank 1 50.0%, rank 2 100.0%"
    assert ours("clark2019_table1") == (
        "nsubj, at the dependent: L0H0 100.0% (offset 100.0%); det, at the dependent: L1H0 0.0% (offset 100.0%); "
        "all relations, at the dependent: L1H0 50.0% (offset 100.0%)"
    )
    assert ours("geva2022_concepts") == "value 50.0%; random_vector 25.0%; ffn_update 40.0%"


def test_proposals_are_never_passed_off_as_a_persons(a: atlas.Atlas) -> None:
    for name, is_proposed in (("geva2022_concepts", True), ("geva2022_fig2", False), ("geva2021_fig2", False), ("geva2021_patterns", False)):
        assert ("Proposed by the program" in ITEMS[name].caption(rows_of(a, ITEMS[name]))) == is_proposed
