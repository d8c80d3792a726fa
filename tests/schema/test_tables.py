"""What every table says of itself, and tables that another distribution adds."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import Column, Integer, MetaData, Table

import atlas
from atlas.cli.main import cli
from atlas.ranges import missing_run, unknown_tables
from schema import release, table_facts, terms
from schema.audits import audits, run_audits
from schema.columns import FilledBy, check_tables, column, table
from schema.errors import AtlasError
from schema.open import store
from schema.open.older import upgrade_tables
from schema.release import release_digest
from schema.tables import metadata
from tests.atlas.tiny_atlas import write_tiny_atlas
from tests.distribution import installed

SAID = {"comment": "c", "grain": ("a",), "sort": ("a",), "filled_by": FilledBy("p", "--p"), "bytes_a_row": 4}
GROUPS = {
    "activation_atlas.tables": {"noise": "tests.schema.noise.noise_tables"},
    "activation_atlas.questions": {"noise": "tests.schema.noise.noise_questions:files"},
}


@pytest.mark.parametrize("forgotten", SAID)
def test_a_table_that_forgets_what_every_table_says_cannot_be_declared(forgotten: str) -> None:
    with pytest.raises(TypeError, match=forgotten):
        table("t", MetaData(), column("a", Integer, "A."), **{key: value for key, value in SAID.items() if key != forgotten})


def test_a_table_that_is_declared_otherwise_is_refused_while_the_metadata_is_built() -> None:
    m = MetaData()
    Table("t", m, column("a", Integer, "A."), info={"grain": ("a",), "sort": ("a",)})
    with pytest.raises(AtlasError, match=r"the table t does not say its .*bytes_a_row, .*filled_by"):
        check_tables(m)


def test_a_column_without_a_comment_is_refused() -> None:
    m = MetaData()
    table("t", m, column("a", Integer, "A."), Column("b", Integer), **SAID)
    with pytest.raises(AtlasError, match="the table t has columns without a comment: b"):
        check_tables(m)


def test_the_passes_are_those_that_fill_tables_and_every_one_can_be_asked_for() -> None:
    passes = table_facts.facts().passes
    assert list(passes) == [
        "weights",
        "sweep",
        "prediction",
        "ngram",
        "keys",
        "trace",
        "attribution",
        "removal",
        "next_token_rank",
        "control_token",
        "value_cluster",
        "map",
        "circuit",
        "head_statistics",
        "head_probe",
        "direct_path",
        "skip_trigram",
        "term_loss",
        "training_curve",
        "test",
        "token_vector",
        "word_test",
        "token_state",
        "word",
        "probe",
        "tree_probe",
        "head_relation",
    ]
    assert all(told.asked_by.startswith("--model …") for told in passes.values())


def test_the_facts_that_are_read_without_sqlalchemy_are_those_of_the_metadata() -> None:
    """`python -m schema.table_facts` writes them."""
    assert table_facts.facts() == table_facts.of_metadata()
    assert json.loads(table_facts.FILE.read_text(encoding="utf-8"))["filled_by"] == {name: t.info["filled_by"] for name, t in metadata(7).tables.items()}
    assert table_facts.facts().added["sub_update"] == dict.fromkeys(["candidate_frozen_score", "final_frozen_score", "next_frozen_score"], "trace")


def test_an_argument_takes_the_words_that_its_columns_may_hold() -> None:
    words = table_facts.facts().words
    assert (words["site"]["logit_lens"], words["tail"]["trigger"], words["space"]["value_cluster"], words["space"]["token_vector"]) == (
        list(terms.SITES), list(terms.TAILS), list(terms.CLUSTER_SPACES), list(terms.TOKEN_SPACES)
    )  # fmt: skip


@pytest.mark.thorough
def test_status_and_an_empty_answer_wait_for_no_sqlalchemy(tmp_path: Path) -> None:
    path = write_tiny_atlas(tmp_path / "a.duckdb")
    code = f"import atlas, sys\nfrom atlas.answers import explain_no_rows\nfrom atlas.questions import question\na = atlas.open({str(path)!r})\na.status()\n"
    code += "print(explain_no_rows(a.con, a.path, question('map_cells')), 'sqlalchemy' in sys.modules)"
    with closing(store.open_writer(path)) as con:
        con.execute("DELETE FROM run WHERE kind = 'map'")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == f"because this atlas has no map run: `atlas ingest {path} --map` False\n"


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """An atlas that was made before the other distribution was installed."""
    return write_tiny_atlas(tmp_path / "before.duckdb")


@pytest.fixture
def noise(before: Path, tmp_path: Path) -> Iterator[None]:
    with installed(tmp_path / "site", GROUPS):
        yield


@pytest.mark.thorough
@pytest.mark.usefixtures("noise")
def test_its_table_is_one_of_an_atlas_and_audited(tmp_path: Path) -> None:
    path = write_tiny_atlas(tmp_path / "a.duckdb")
    with closing(store.open_writer(path)) as con:
        assert [f.audit.name for f in run_audits(con) if f.n_rows] == []
        con.execute("INSERT INTO noise_level VALUES (1, 'nan', 1.5), (1, 2, 0.5), (7, 2, 0.5)")
        broken = {f.audit.name: f.n_rows for f in run_audits(con) if f.n_rows}
    names = ["grain", "range", "finite", "bounds", "shard rows"]
    assert broken == {f"noise_level: {name}": 1 for name in names}
    assert list(metadata(2).tables)[-1] == "noise_level"


@pytest.mark.thorough
@pytest.mark.usefixtures("noise")
def test_its_question_is_asked_and_says_which_pass_fills_an_empty_table(tmp_path: Path) -> None:
    path = write_tiny_atlas(tmp_path / "a.duckdb")
    ran = CliRunner().invoke(cli, ["ask", "noise_levels", "--db", str(path)])
    assert (ran.exit_code, ran.stderr) == (0, f"note: no rows, because this atlas has no noise run: `atlas ingest {path} --noise`\n")
    with closing(store.open_writer(path)) as con:
        con.execute("INSERT INTO noise_level VALUES (1, 2.5, 0.5)")
        con.execute("INSERT INTO run SELECT * REPLACE (99 AS run_id, 'noise' AS kind) FROM run WHERE run_id = 0")
    with atlas.open(path) as a:
        assert a.noise_levels().rows() == [(1, 2.5)]
        assert a.status().to_dict()["rows"]["noise_level"] == 1
        comments = "SELECT comment FROM duckdb_functions() WHERE function_name = 'noise_levels'"
        assert a.sql(comments).item() == "How much noise does each layer stand"


@pytest.mark.thorough
@pytest.mark.usefixtures("noise")
def test_an_atlas_from_before_reads_it_as_empty_and_the_next_ingest_makes_it(before: Path) -> None:
    with atlas.open(before) as a:
        assert a.noise_levels().is_empty()
        assert a.sql("FROM noise_level").columns == ["layer", "level", "share"]
        assert missing_run(a.con, "FROM noise_level") == "noise"
        assert a.top_triggers(0, 0).height > 0
    with closing(store.open_writer(before)) as con:
        upgrade_tables(con, 2)
        con.execute("INSERT INTO noise_level VALUES (1, 2.5, 0.5)")


@pytest.mark.thorough
def test_an_atlas_with_a_table_of_a_distribution_that_is_not_installed_is_read_without_it(tmp_path: Path) -> None:
    with installed(tmp_path / "site", GROUPS):
        digest, path = release_digest(), write_tiny_atlas(tmp_path / "a.duckdb")
    assert release_digest() != digest
    with atlas.open(path) as a:
        assert a.top_triggers(0, 0).height > 0
        with pytest.raises(AtlasError, match="noise_level"):
            a.sql("FROM noise_level")


@pytest.mark.usefixtures("noise")
def test_which_release_an_atlas_is_of_is_told_without_importing_its_tables(tmp_path: Path) -> None:
    code = (
        "import sys; from schema.release import release_digest as d; print(d(), 'sqlalchemy' in sys.modules, 'tests.schema.noise.noise_tables' in sys.modules)"
    )
    environment = {"PYTHONPATH": f"{tmp_path / 'site'}:{Path(__file__).parents[2]}"}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment).stdout.split()
    assert said == [release_digest(), "False", "False"]


def test_an_entry_point_that_names_no_module_is_an_error_that_says_so(tmp_path: Path) -> None:
    with (
        installed(tmp_path / "site", {"activation_atlas.tables": {"noise": "no.such.module"}}),
        pytest.raises(AtlasError, match=r"entry point noise = no\.such\.module of activation_atlas\.tables \(noise 0\) is broken: .*'no'"),
    ):
        release_digest()


@pytest.mark.thorough
def test_a_run_that_is_older_than_a_table_is_named(before: Path) -> None:
    """A table that a later release added to a pass which this atlas has: no shard counts it."""
    with closing(store.open_writer(before)) as con:
        con.execute("DELETE FROM next_token_rank; UPDATE shard SET n_rows = json_merge_patch(n_rows, '{\"next_token_rank\": null}')")
    with atlas.open(before) as a:
        sql = "SELECT * FROM next_token_rank"
        assert missing_run(a.con, sql) is None
        assert unknown_tables(a.con, sql) == {"next_token_rank": "next_token_rank"}
        assert unknown_tables(a.con, "FROM trigger") == {}


@pytest.mark.thorough
def test_the_audits_of_an_atlas_are_those_of_its_tables() -> None:
    assert release.added_modules() == []
    assert not any("noise" in audit.name for audit in audits(2))


def test_no_comment_doubles_a_per_cent_sign(a: atlas.Atlas) -> None:
    """Of the tables of an atlas and of the files beside it: their statements are compiled, and a style of parameters may double it."""
    said = a.con.execute("SELECT t.comment FROM duckdb_tables() AS t UNION ALL SELECT c.comment FROM duckdb_columns() AS c").fetchall()
    of_per_cents = [comment for (comment,) in said if comment and "%" in comment]
    assert len(of_per_cents) >= 4 and not any("%%" in comment for comment in of_per_cents)
