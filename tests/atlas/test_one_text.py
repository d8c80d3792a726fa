"""Questions of one text: without `corpus` they take the only one that there is, and name what there is to choose from where there are several."""

import re

import duckdb
import pytest

import atlas
from atlas.papers.early_exit import early_exit
from atlas.questions import questions
from atlas.reads import relations
from schema.errors import AtlasError

OF_ONE_TEXT = sorted(name for name, q in questions().items() if "one_corpus" in relations(q.sql) and not q.catalog)

SEVERAL = "^" + re.escape("this is a question of one text, and there are several: say which by corpus, 0 (tales, all) or 1 (more, test)")


def test_every_figure_of_the_papers_over_a_text_is_of_one() -> None:
    asked = {name for name, q in questions().items() if name.startswith("geva") and not q.catalog and any(p.name == "corpus" for p in q.parameters)}
    assert asked <= set(OF_ONE_TEXT) and len(asked) > 15


@pytest.mark.parametrize("name", OF_ONE_TEXT)
def test_several_texts_are_named_and_not_pooled(a: atlas.Atlas, name: str) -> None:
    with pytest.raises(AtlasError, match=SEVERAL):
        a.ask(name)


def test_early_exit_is_of_one_text(a: atlas.Atlas) -> None:
    with pytest.raises(AtlasError, match=SEVERAL):
        early_exit(a)


def test_the_only_text_needs_no_name(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    """A layer has four keys, whose top triggers are judged once each; a list of triggers has three."""
    tiny_copy.execute("DELETE FROM neuron_statistics WHERE corpus_id = 1")
    assert tiny_copy.execute("SELECT DISTINCT n_keys FROM geva2021_fig4()").fetchall() == [(4,)]
    assert tiny_copy.execute("SELECT DISTINCT n_triggers FROM geva2021_table2()").fetchall() == [(3,)]
    assert tiny_copy.execute("SELECT DISTINCT n_triggers FROM geva2021_top_values()").fetchall() == [(3,)]
