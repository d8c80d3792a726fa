"""An empty answer says which run the atlas lacks, also where the question reads by another question."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import atlas
from atlas.cli.main import cli
from atlas.questions import question
from atlas.ranges import missing_run
from atlas.reads import relations_of_statement
from schema.open import store
from tests.atlas.tiny_atlas import write_tiny_atlas


@pytest.mark.parametrize(
    ("name", "absent", "said"),
    [
        ("top_triggers", "sweep", "sweep"),
        ("neurons_triggered_by", "sweep", "sweep"),
        ("neurons_triggered_by", "trace", None),
        ("geva2022_value_groups", "paper", "value_cluster"),
        ("geva2022_value_groups", "trace", "trace"),
        ("geva2021_fig3", "paper", "removal"),
        ("map_cells", "map", "map"),
        ("neuron_card", "paper", None),
        ("perplexity", "prediction", "prediction"),
        ("model_against_ngram", "ngram", "ngram"),
        # experiments have a table of the name too
        ("saliency", "attribution", None),
    ],
)
def test_the_run_that_is_missing_is_named(tmp_path: Path, name: str, absent: str, said: str | None) -> None:
    path = write_tiny_atlas(tmp_path / "tiny.duckdb")
    con = store.open_writer(path)
    con.execute("DELETE FROM run WHERE kind = ?", [absent])
    con.close()
    with atlas.open(path) as a:
        assert missing_run(a.con, question(name).sql) == said


def test_a_table_of_a_companion_is_not_the_atlas_s_of_its_name(tiny_path: Path) -> None:
    with atlas.open(tiny_path) as a:
        for sql, wanted in {
            "FROM experiments.attribution": {"experiments.attribution"},
            "FROM Experiments.main.Attribution": {"experiments.attribution"},
            "FROM attribution JOIN tiny.main.token USING (token_id)": {"attribution", "token"},
            "FROM experiments.arm": {"arm"},
        }.items():
            assert relations_of_statement(a.con, sql) == wanted


@pytest.mark.parametrize(("name", "said"), [("knn_result", "atlas retrieve"), ("experiment_summary", "atlas experiment list")])
def test_what_lies_beside_is_told_by_another_command_than_the_one_that_was_called(tmp_path: Path, name: str, said: str) -> None:
    path = write_tiny_atlas(tmp_path / "tiny.duckdb")
    assert CliRunner().invoke(cli, ["ask", name, "--db", str(path)]).stderr.endswith(f" that the question reads ({said})\n")
