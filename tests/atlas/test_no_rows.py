"""An answer or a statement without rows says why, as far as the atlas knows: in Python and on the command line."""

import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

import atlas
from atlas.cli.main import cli
from schema.open import store
from tests.atlas.tiny_atlas import write_tiny_atlas


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Predictions are traced and not taken apart."""
    path = write_tiny_atlas(tmp_path / "tiny.duckdb")
    con = store.open_writer(path)
    for table in ("attribution", "contribution", "neuron_contribution", "attention", "head_activity"):
        con.execute(f"DELETE FROM {table}")
    con.execute("DELETE FROM run WHERE kind = 'attribution'")
    con.close()
    return path


def test_python_warns_whoever_asked(path: Path) -> None:
    with atlas.open(path) as a:
        for ask in (lambda: a.prediction_parts(2), lambda: a.ask("prediction_parts", 2)):
            with pytest.warns(UserWarning, match="^prediction_parts has no rows, because this atlas has no attribution run: `atlas ingest ") as caught:
                assert ask().is_empty()
            assert caught[0].filename == __file__
        with pytest.warns(
            UserWarning, match="^no rows: it reads a table that the pass attribution fills, and this atlas has no attribution run: `atlas ingest "
        ) as caught:
            a.sql("SELECT p.kind FROM prediction_parts(2) AS p WHERE p.n_parts > 1")
        assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM attention", "it reads a table that the pass attribution fills, and this atlas has no attribution run: "),
        ("FROM value_tokens(9, 0)", "value_tokens: no layer 9: this model has layers 0 to 2"),
        ("WITH v AS (FROM neurons_promoting('cats', n := 3)) SELECT v.layer FROM v", "neurons_promoting: no token 'cats' in the vocabulary"),
        ("FROM prediction_trace(position_id := 3)", "prediction_trace: position 3 is not traced; the nearest traced positions are 2"),
        ("FROM prediction_trace(-1)", "prediction_trace: position -1 is not traced"),
        ("SELECT * FROM neuron WHERE layer = 9", None),
        ("FROM value_tokens((SELECT 9), 0)", None),
        ("SELECT 1 LIMIT 0", None),
    ],
)
def test_a_statement_says_what_its_questions_were_asked_for_or_which_run_it_lacks(path: Path, sql: str, said: str | None) -> None:
    with atlas.open(path) as a, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert a.sql(sql).is_empty()
    assert len(caught) == (said is not None)
    assert said is None or str(caught[0].message).startswith(f"no rows: {said}")


def test_the_command_line_says_it_of_a_statement(path: Path) -> None:
    ran = CliRunner().invoke(cli, ["sql", "FROM prediction_parts(2)", "--db", str(path)])
    assert ran.exit_code == 0
    assert ran.stderr.startswith(
        f"note: no rows: it reads a table that the pass attribution fills, and this atlas has no attribution run: `atlas ingest {path} "
    )
    assert ran.stderr.endswith(" --attribution`\n")
