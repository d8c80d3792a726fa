"""Items of a retrieval, against a pencil over the numbers of the tiny one."""

import shutil
from math import inf, prod, sqrt
from pathlib import Path

import duckdb
import pytest

import atlas
from atlas.beside.retrieval import RETRIEVALS
from atlas.papers.needs import describe_unmet_need
from atlas.papers.retrieved import choose_retrieval, mixtures
from schema.errors import AtlasError
from tests.atlas.papers.rows import ITEMS, rows_of

WEIGHTS = [i / 20 for i in range(21)]
TUNE = [
    # of a query the probability of the token that follows: by the model, 3-grams, 5-grams and the neighbours
    (1 / 4, 1 / 16, 1 / 2, 1.0),
    (1 / 2, 1 / 2, 1 / 2, 0.0),
]
TEST = [(3 / 4, 1 / 2, 1 / 2, 1.0), (1 / 4, 1 / 2, 1 / 4, 0.0)]
MIXTURES = ("3-gram", "5-gram", "neighbours")


@pytest.fixture
def copy(tiny_path: Path, tmp_path: Path) -> Path:
    path = Path(shutil.copy(tiny_path, tmp_path / "copy.duckdb"))
    shutil.copy(RETRIEVALS.path(tiny_path), RETRIEVALS.path(path))
    return path


def perplexity(queries: list[tuple[float, ...]], i: int, weight: float) -> float:
    both = prod((1 - weight) * query[0] + weight * query[i] for query in queries)
    return 1 / sqrt(both) if both else inf


def test_mixtures_are_those_of_a_pencil(copy: Path) -> None:
    """With a 5-gram that is better than the model."""
    with duckdb.connect(copy) as con:
        con.execute("UPDATE ngram_prediction SET surprisal = ln(2) WHERE position_id = 100 AND ngram_order = 5")
    with atlas.open(copy) as a:
        rows = mixtures(a).to_dicts()
    assert len(rows) == 3 * 21
    found = {(row["mixture"], row["weight"]): row for row in rows}
    for i, name in enumerate(MIXTURES, start=1):
        best = min(WEIGHTS, key=lambda weight: (perplexity(TUNE, i, weight), weight))
        for weight in WEIGHTS:
            row = found[name, weight]
            assert row["perplexity"] == pytest.approx(perplexity(TUNE, i, weight), rel=1e-6)
            assert row["is_chosen"] == (weight == best)
            assert row["test_perplexity"] == (pytest.approx(perplexity(TEST, i, best), rel=1e-6) if weight == best else None)
            assert (row["n_queries"], row["n_test"], row["retrieval"]) == (2, 2, 0)
    assert [(row["mixture"], row["weight"]) for row in rows[:3]] == [("3-gram", 0.0), ("5-gram", 1.0), ("neighbours", 0.35)]


@pytest.mark.parametrize("name", ["khandelwal2020_fig5", "khandelwal2020_fig7"])
def test_a_weight_that_gives_a_token_nothing_has_no_point(a: atlas.Atlas, name: str) -> None:
    frame = rows_of(a, ITEMS[name])
    assert inf in frame["perplexity"].to_list()
    drawn = [value for rows in ITEMS[name].chart(frame).to_dict()["datasets"].values() for row in rows if (value := row["perplexity"]) is not None]  # type: ignore[misc]
    assert drawn and max(drawn) < inf


def test_a_retrieval_of_keys_that_the_atlas_has_no_more_is_not_shown(copy: Path) -> None:
    with duckdb.connect(copy) as con:
        con.execute("UPDATE key_file SET sha256 = 'other' WHERE corpus_id = 1")
    with atlas.open(copy) as a:
        said = "no retrieval over keys that this atlas has: `atlas retrieve x.duckdb --store 0 --tune 1 --test 2`"
        assert describe_unmet_need(a.con, "x.duckdb", ITEMS["khandelwal2020_fig4"].needs, None) == said
        with pytest.raises(AtlasError, match="no retrieval of keys that this atlas has"):
            choose_retrieval(a, None)
        for name in ("khandelwal2020_fig4", "khandelwal2020_fig7"):
            with pytest.raises(AtlasError, match="no retrieval 0; .* of another text"):
                ITEMS[name].ask(a, {"retrieval": 0})


def test_a_retrieval_that_there_is_not_is_answered_with_those_that_are(a: atlas.Atlas) -> None:
    for name in ("khandelwal2020_table1", "khandelwal2020_fig7"):
        with pytest.raises(AtlasError, match="no retrieval 4; available: 0"):
            ITEMS[name].ask(a, {"retrieval": 4})


def test_the_need_is_of_the_corpora_of_the_retrieval(a: atlas.Atlas) -> None:
    needs = ITEMS["khandelwal2020_table1"].needs
    assert describe_unmet_need(a.con, "x.duckdb", needs, 1) is None
    assert describe_unmet_need(a.con, "x.duckdb", needs[-1:], 5) == (
        "no retrieval over keys that this atlas has of corpus 5: `atlas retrieve x.duckdb --store 0 --tune 1 --test 2`"
    )
