"""An atlas of an earlier release: version4.tar.gz holds one that the release before the frozen-norm scores made, its model (gpt2, 3 layers) and its corpus.

annotations1.tar.gz holds annotations of that atlas which a release of its time made: of key L1N0 anna found "one word" in ranks 1 to 3, and bert nothing;
of value L2N3 anna found "they belong together" in ranks 1 to 4, and "names" in 5, 6, 7 and 9.
"""

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

import atlas
from atlas.beside.annotations.adding import add
from atlas.beside.annotations.steps import status
from atlas.beside.annotations.subjects import Address, Pattern
from atlas.cli.main import cli
from atlas.live.pinned import open_pinned_cursor
from atlas.papers.catalogue import PAPERS
from atlas.papers.needs import describe_unmet_need, kinds
from atlas.questions import questions
from atlas.ranges import missing_run
from ingest.request import Request
from ingest.text.tokens import spell_bytes
from schema.audits import run_audits
from schema.errors import AtlasError
from schema.migrations import migrations
from schema.open import store
from schema.open.older import upgrade_tables
from schema.release import is_of_this_release
from schema.tables import metadata
from tests.atlas.tiny_atlas import split_sequences, write_tiny_atlas
from tests.exact.tiny import run, tiny_request

ADDED = {
    "layer_activity": ["raw_ffn_token_id", "raw_block_token_id", "n_agreeing_values_raw", "n_agreeing_values_block_raw"],
    "sub_update": ["candidate_frozen_score", "final_frozen_score", "next_frozen_score"],
}
"""Table → columns that the old release did not have."""


def unpacked(folder: Path, *names: str) -> Path:
    for name in ("version4", *names):
        with tarfile.open(Path(__file__).with_name(f"{name}.tar.gz")) as archive:
            # Python 3.11.3 and older have no filters
            archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return folder / "older.duckdb"


def request(path: Path, **changes: object) -> Request:
    """What the old release was asked for, in the folder of the atlas."""
    options = {"trace": 12, "triggers": 3, "coefficients": 5, "vectors": (), "paper_keys": 2, "shard_positions": 100}
    return tiny_request(Path("tiny-gpt2"), Path("corpus.jsonl"), Path(path.name), **options | changes)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("version4"))


@pytest.fixture(scope="module")
def old(path: Path) -> Iterator[atlas.Atlas]:
    with atlas.open(path) as a:
        yield a


@pytest.mark.parametrize("name", [name for name, q in sorted(questions().items()) if any(p.name == "experiment" for p in q.parameters)])
def test_of_experiments_it_says_that_there_are_none(old: atlas.Atlas, name: str) -> None:
    given = {"experiment": 0, "prompt": 0, "arm": 0}
    with pytest.raises(AtlasError, match="no experiment 0; there are none yet"):
        old.ask(name, **{p.name: given[p.name] for p in questions()[name].parameters if p.is_required or p.name == "experiment"})


@pytest.mark.parametrize("name", [name for name, q in sorted(questions().items()) if any(p.name == "retrieval" and p.is_required for p in q.parameters)])
def test_of_retrievals_it_says_that_there_are_none(old: atlas.Atlas, name: str) -> None:
    with pytest.raises(AtlasError, match="no retrieval 0; there are none yet"):
        old.ask(name, retrieval=0)


def test_whether_a_block_in_use_is_missing_is_asked_of_its_file(tmp_path: Path) -> None:
    path = unpacked(tmp_path)
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE notes AS SELECT hash(i) AS h FROM range(1_000_000) AS r (i)")
        con.execute("CHECKPOINT")
        con.execute("DROP TABLE notes")
        con.execute("CHECKPOINT")
        con.execute("UPDATE run SET finished_at = finished_at + INTERVAL 1 SECOND")
        con.execute("CHECKPOINT")
    with closing(store.open_reader(path)) as con:
        ((n_blocks, n_bytes),) = con.execute("SELECT total_blocks, block_size FROM pragma_database_size() WHERE block_size > 0").fetchall()
        assert path.stat().st_size < n_blocks * n_bytes
        store.require_whole(con, path)
        os.truncate(path, path.stat().st_size - n_bytes)
        with pytest.raises(AtlasError, match="is damaged: it was cut short"):
            store.require_whole(con, path)


def test_of_collections_it_says_that_there_are_none(old: atlas.Atlas) -> None:
    with pytest.raises(AtlasError, match="no collection 'mine'; there are none yet"):
        old.ask("in_collection", collection="mine")


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, q in sorted(questions().items())
        if not any(p.name == "experiment" or (p.name in ("retrieval", "collection") and p.is_required) for p in q.parameters)
    ],
)
def test_every_question_answers(old: atlas.Atlas, name: str) -> None:
    position = old.sql("SELECT min(position_id) FROM trace").item()
    given = {"layer": 1, "neuron": 2, "head": 0, "position_id": position, "at_position": position, "position_ids": [position], "words": "the", "token": " the"}
    given |= dict.fromkeys("abc", " the") | {"paradigm": "one", "task": "pos", "source": " the", "sources": [1], "destinations": [2], "outs": [3], "corpus": 0}
    given |= {"layers": [1], "neurons": [2], "corpora": [0]}
    q = questions()[name]
    required = {p.name: given[p.name] for p in q.parameters if p.is_required}
    assert old.ask(name, **required).columns == list(q.columns)


def test_rows_of_a_live_prompt_stand_beside_its_own(old: atlas.Atlas) -> None:
    n = old.sql("SELECT count(*) FROM trace").item()
    live = old.sql("SELECT * REPLACE (-1 - position_id AS position_id) FROM trace LIMIT 2").to_arrow()
    beside = open_pinned_cursor(old.con, {"trace": live})
    assert beside.execute("SELECT count(*), count(*) FILTER (position_id < 0) FROM trace").fetchall() == [(n + 2, 2)]
    beside.own.close()
    assert old.sql("SELECT count(*) FROM trace").item() == n > 0


def test_its_own_columns_are_as_they_were_and_those_it_lacks_are_null(path: Path, old: atlas.Atlas) -> None:
    with closing(store.open_unchanged(path)) as con:
        for table, added in ADDED.items():
            before = [name for (name,) in con.execute(f"SELECT column_name FROM duckdb_columns() WHERE table_name = '{table}'").fetchall()]
            assert not set(added) & set(before)
            names = ", ".join(before)
            assert (
                con.execute(f"SELECT {names} FROM {table} ORDER BY ALL").fetchall() == old.con.execute(f"SELECT {names} FROM {table} ORDER BY ALL").fetchall()
            )
            assert old.sql(f"SELECT {', '.join(f'count({name})' for name in added)} FROM {table}").row(0) == (0,) * len(added)


@pytest.mark.thorough
def test_every_rule_is_kept(old: atlas.Atlas) -> None:
    assert [f for f in run_audits(old.con) if f.n_rows] == []


def test_another_connection_of_the_same_process_sees_it_too(old: atlas.Atlas) -> None:
    assert old.con.cursor().execute("SELECT count(*) FROM geva2022_fig3()").fetchall() == [(6,)]


def test_a_question_says_which_run_fills_what_it_lacks(path: Path) -> None:
    ran = CliRunner().invoke(cli, ["ask", "geva2021_fig8", "--db", str(path)])
    assert ran.exit_code == 0
    assert (
        "n_agreeing_values_raw, n_agreeing_values_block_raw: empty, because this atlas's trace is older than these columns; `atlas ingest` with a larger"
        in ran.stderr
    )
    of_old = CliRunner().invoke(cli, ["ask", "geva2021_fig9", "--db", str(path)])
    assert "older than" not in of_old.stderr


@pytest.mark.thorough
def test_a_statement_of_ones_own_reads_it(path: Path) -> None:
    sql = "SELECT count(*) AS n, count(final_frozen_score) AS filled FROM sub_update; "
    ran = CliRunner().invoke(cli, ["sql", sql, "--db", str(path), "--format", "csv"])
    assert (ran.exit_code, ran.stdout.splitlines()) == (0, ["n,filled", "720,0"])


def test_an_item_of_a_paper_says_so_and_the_other_projection_is_there(old: atlas.Atlas) -> None:
    items = {item.name: item for paper in PAPERS.values() for item in paper.items}
    said = describe_unmet_need(old.con, "a.duckdb", items["geva2021_fig8"].needs, None)
    assert said is not None and "raw projection" in said and "--trace" in said
    assert describe_unmet_need(old.con, "a.duckdb", items["geva2021_fig8_final_norm"].needs, None) is None
    assert old.ask("geva2021_fig8", projection="final_norm")["n_positions"].to_list() == [12, 12, 12]


@pytest.mark.thorough
def test_the_next_trace_brings_the_columns_for_what_it_adds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = unpacked(tmp_path)
    monkeypatch.chdir(tmp_path)
    with atlas.open(path) as a:
        before = a.sql("SELECT position_id FROM trace ORDER BY ALL").to_series().to_list()
    run(request(path, trace=30))
    with atlas.open(path) as a:
        # a file of this release is opened as it is
        assert a.sql("SELECT current_database()").item() == "older"
        for table, added in ADDED.items():
            for name in added:
                found = a.sql(f"SELECT DISTINCT position_id FROM {table} WHERE {name} IS NOT NULL").to_series().to_list()
                assert found and not set(found) & set(before)
        assert [f for f in run_audits(a.con) if f.n_rows] == []
        n = a.sql("SELECT count(*) FROM trace").item()
        assert n > len(before)
        assert a.geva2021_fig8()["n_positions"].to_list() == [n - len(before)] * 3
        assert a.geva2021_fig8(projection="final_norm")["n_positions"].to_list() == [n] * 3


@pytest.mark.thorough
def test_what_a_stopped_run_of_the_old_release_left_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = unpacked(tmp_path)
    monkeypatch.chdir(tmp_path)
    work = path.with_name("older.duckdb.work")
    work.mkdir()
    path.rename(work / "atlas.duckdb")
    run(request(path, trace=20))
    with atlas.open(path) as a:
        assert a.sql("SELECT count(candidate_frozen_score) FROM sub_update").item() > 0


@pytest.mark.thorough
def test_a_table_that_is_not_there_reads_as_empty_and_is_added(tmp_path: Path) -> None:
    path = write_tiny_atlas(tmp_path / "a.duckdb")
    with closing(store.open_writer(path)) as con:
        con.execute("DROP TABLE map_point; DROP TYPE release_digest")
    with atlas.open(path) as a:
        assert a.sql("FROM map_point").is_empty()
        assert a.sql("FROM map_point").columns == [c.name for c in metadata(2).tables["map_point"].columns]
        assert a.map_points("value").is_empty()
    with closing(store.open_writer(path)) as con:
        upgrade_tables(con, 2)
        assert con.execute("SELECT count(*) FROM map_point").fetchall() == [(0,)]


@pytest.mark.thorough
def test_probes_may_be_of_what_the_text_says_after_the_next_ingest_and_all_rows_stay(tmp_path: Path) -> None:
    """The three tables as the release before had them: tasks were four, and a probe said no rank and always an interval."""
    path, names = write_tiny_atlas(tmp_path / "a.duckdb"), ("probe_task", "probe", "probe_prediction")
    insert = "INSERT INTO probe_task SELECT * REPLACE ('index' AS task) FROM probe_task"
    comments = (
        "SELECT c.table_name, t.comment, c.column_name, c.comment FROM duckdb_columns() AS c JOIN duckdb_tables() AS t USING (table_name) "
        "WHERE c.table_name IN ('probe_task', 'probe', 'probe_prediction', 'run') ORDER BY ALL"
    )
    four = re.compile(r"CHECK ?\(\(?task IN \([^)]*\)\)?\)")
    with closing(store.open_writer(path)) as con:
        rows = {name: con.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in names}
        said = con.execute(comments).fetchall()
        assert len(said) > 30 and all(of_table and of_column for _, of_table, _, of_column in said)
        con.execute("COMMENT ON COLUMN run.kind IS 'one of five'; COMMENT ON TABLE run IS 'of then'")
        for name in names:
            ((ddl,),) = con.execute("SELECT sql FROM duckdb_tables() WHERE table_name = $name", {"name": name}).fetchall()
            assert four.search(ddl)
            former = four.sub("CHECK (task IN ('pos', 'tag', 'relation', 'entity'))", ddl)
            con.execute(f"CREATE TABLE kept AS FROM {name}; DROP TABLE {name}; {former}; INSERT INTO {name} FROM kept; DROP TABLE kept")
        con.execute("UPDATE probe SET accuracy_low = 0, accuracy_high = 1 WHERE accuracy_low IS NULL")
        for change in ("accuracy_low SET NOT NULL", "accuracy_high SET NOT NULL"):
            con.execute(f"ALTER TABLE probe ALTER COLUMN {change}")
        for lacked in ("rank", "n_clusters", "interval_note"):
            con.execute(f"ALTER TABLE probe DROP COLUMN {lacked}")
        rows["probe"] = con.execute("FROM probe ORDER BY ALL").fetchall()
        con.execute("DROP TYPE release_digest")
        with pytest.raises(duckdb.ConstraintException):
            con.execute(insert)
    with atlas.open(path) as a:
        assert a.probe_layers()["accuracy"].to_list() == pytest.approx([2 / 3, 1.0]) and a.probe_layers()["rank"].to_list() == [None, None]
    with closing(store.open_writer(path)) as con:
        upgrade_tables(con, 2)
        assert con.execute("FROM probe ORDER BY ALL").fetchall() == [(*row, None, None, None) for row in rows["probe"]]
        assert all(con.execute(f"FROM {name} ORDER BY ALL").fetchall() == rows[name] for name in ("probe_task", "probe_prediction"))
        con.execute(insert)
        con.execute("INSERT INTO probe SELECT * REPLACE (NULL AS accuracy_low, NULL AS accuracy_high) FROM probe LIMIT 1")
        with pytest.raises(duckdb.ConstraintException):
            con.execute("INSERT INTO probe_task SELECT * REPLACE ('mood' AS task) FROM probe_task")
        # also of a table that nothing else has changed in
        assert con.execute(comments).fetchall() == said
        assert con.execute("SELECT table_name FROM duckdb_tables() WHERE contains(table_name, 'former')").fetchall() == []


def test_a_column_that_is_added_says_what_it_is(tmp_path: Path) -> None:
    comment = "SELECT comment FROM duckdb_columns() WHERE table_name = 'probe' AND column_name = 'rank'"
    with closing(store.open_writer(write_tiny_atlas(tmp_path / "a.duckdb"))) as con:
        ((said,),) = con.execute(comment).fetchall()
        con.execute("ALTER TABLE probe DROP COLUMN rank")
        upgrade_tables(con, 2)
        assert con.execute(comment).fetchall() == [(said,)] != [(None,)]


@pytest.mark.thorough
def test_a_run_may_be_of_any_pass_after_the_next_ingest_and_all_rows_stay(tmp_path: Path) -> None:
    path = unpacked(tmp_path)
    insert = "INSERT INTO run SELECT * REPLACE (9 AS run_id, 'noise' AS kind) FROM run WHERE run_id = 0"
    with closing(store.open_writer(path)) as con:
        with pytest.raises(duckdb.ConstraintException):
            con.execute(insert)
        tables = [name for (name,) in con.execute("SELECT table_name FROM duckdb_tables() ORDER BY ALL").fetchall()]
        rows = {name: con.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in tables}
        columns = {name: ", ".join(column for column, *_ in con.execute(f"DESCRIBE {name}").fetchall()) for name in tables}
        assert [row[1] for row in rows["run"]] == ["weights", "sweep", "trace", "paper"]
        upgrade_tables(con, 16)
        assert con.execute("FROM run ORDER BY ALL").fetchall() == rows["run"]
        con.execute(insert)
        with pytest.raises(duckdb.ConstraintException):
            con.execute("INSERT INTO run SELECT * REPLACE (10 AS run_id, 'lost' AS status) FROM run WHERE run_id = 0")
        with pytest.raises(duckdb.ConstraintException):
            con.execute(insert)
        upgrade_tables(con, 16)
        assert con.execute("SELECT kind FROM run WHERE run_id = 9").fetchall() == [("noise",)]
        tokens = [(i, text if raw is None else spell_bytes(raw), raw, *rest) for i, text, raw, *rest in rows["token"]]
        assert con.execute("FROM token ORDER BY ALL").fetchall() == tokens != rows["token"]
        for name in set(tables) - {"run", "token"}:
            assert con.execute(f"SELECT {columns[name]} FROM {name} ORDER BY ALL").fetchall() == rows[name]
        there = con.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        assert not [name for (name,) in there if name.startswith("former")]


@pytest.mark.thorough
def test_a_change_that_dies_in_the_middle_leaves_the_atlas_as_it_was(tmp_path: Path) -> None:
    path = unpacked(tmp_path)
    code = (
        "import os, sys\nfrom schema import migrations\nfrom schema.open import store\nfrom ingest.store.transaction import transaction\n"
        f"con = store.open_writer({str(path)!r})\n"
        "with transaction(con):\n    migrations.migrate(con)\n    print(con.execute('SELECT count(*) FROM run').fetchall(), flush=True)\n    os._exit(9)"
    )
    died = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (died.returncode, died.stdout) == (9, "[(4,)]\n")
    with closing(store.open_writer(path)) as con:
        assert len(con.execute("SELECT * FROM duckdb_constraints() WHERE table_name = 'run' AND contains(constraint_text, 'kind IN')").fetchall()) == 1
        assert con.execute("SELECT count(*) FROM run").fetchall() == [(4,)]


@pytest.mark.parametrize("odd", ["ALTER TABLE run ADD COLUMN mine INTEGER", "CREATE TABLE former_run (mine INTEGER)"])
def test_a_change_that_cannot_be_made_is_refused_with_what_there_is_to_do(tmp_path: Path, odd: str) -> None:
    path = unpacked(tmp_path)
    with closing(store.open_writer(path)) as con:
        con.execute(odd)
        with pytest.raises(AtlasError, match=r"cannot be upgraded to this release \(the kind of a run is the name of any pass.*ingest into a new file"):
            upgrade_tables(con, 16)


def test_every_migration_says_what_changes_and_is_not_due_in_a_new_atlas(tmp_path: Path) -> None:
    found = list(migrations())
    assert [migration.name for migration in found] == sorted(migration.name for migration in found) != []
    with closing(store.open_writer(write_tiny_atlas(tmp_path / "a.duckdb"))) as con:
        assert [migration.name for migration in found if con.execute(migration.due).fetchall()] == []


def test_a_former_run_counts_as_the_passes_that_it_was(old: atlas.Atlas) -> None:
    for name in ("removal", "next_token_rank", "control_token", "value_cluster"):
        assert describe_unmet_need(old.con, "a.duckdb", [name], None) is None
        assert missing_run(old.con, f"FROM {name}") is None
        assert "paper" in kinds([name])
    assert describe_unmet_need(old.con, "a.duckdb", ["map"], None) == "no map: `atlas ingest a.duckdb --map`"
    assert missing_run(old.con, "FROM map_point") == "map"


@pytest.mark.thorough
def test_annotations_of_that_time_are_read_and_added_to(tmp_path: Path) -> None:
    path = unpacked(tmp_path, "annotations1")
    split_sequences(path)
    key, value = Address("key", 0, 1, 0), Address("value", None, 2, 3)
    with atlas.open(path) as a:
        assert a.geva2021_fig2().rows() == [(1, "person", 2, 6, 0.5, 0.0, 0.0, 0.5)]
        assert a.sql("SELECT description, kind FROM annotations.pattern ORDER BY ALL").rows() == [
            ("names", "names"), ("one word", "shallow"), ("they belong together", "semantic"),
        ]  # fmt: skip
        assert status(a.con)[1] == []
        assert add(a.con, path, key, "bert", Pattern("semantic", "one thing", (1, 2, 3))) == 1
        assert add(a.con, path, value, "anna", Pattern("syntactic", "endings", (10, 11, 12, 13))) == 3
    with atlas.open(path) as a:
        assert a.geva2021_fig2().rows() == [(1, "person", 2, 6, 0.5, 0.5, 0.0, 0.0)]
        assert a.sql("SELECT count(*) FROM annotations.pattern").item() == 5
        assert a.sql("SELECT count(*) FROM annotations.annotation_item").item() == 36


@pytest.mark.thorough
def test_annotations_of_that_time_stay_when_the_atlas_takes_a_further_ingest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = unpacked(tmp_path, "annotations1")
    monkeypatch.chdir(tmp_path)
    before = path.with_name("older.annotations.duckdb").read_bytes()
    run(request(path, trace=14))
    assert path.with_name("older.annotations.duckdb").read_bytes() == before
    with atlas.open(path) as a:
        assert a.geva2021_fig2().rows() == [(1, "person", 2, 6, 0.5, 0.0, 0.0, 0.5)]
        assert status(a.con)[1] == []
        assert a.sql("SELECT kind, count(*) FROM run GROUP BY ALL").height >= 4
        assert [f for f in run_audits(a.con) if f.n_rows] == []


def test_an_atlas_of_this_release_is_opened_as_it_lies(tmp_path: Path) -> None:
    with closing(store.open_reader(write_tiny_atlas(tmp_path / "a.duckdb"))) as con:
        assert is_of_this_release(con)
        assert con.execute("SELECT database_name FROM duckdb_databases() WHERE NOT internal").fetchall() == [("a",)]


def test_every_column_that_was_added_may_be_null(path: Path) -> None:
    with closing(store.open_unchanged(path)) as con:
        there = set(con.execute("SELECT table_name, column_name FROM duckdb_columns()").fetchall())
    tables = metadata(16).tables.values()
    new = {(t.name, c.name): c for t in tables for c in t.columns if (t.name, c.name) not in there and any(name == t.name for name, _ in there)}
    assert set(new) >= {(table, name) for table, added in ADDED.items() for name in added}
    assert all(c.nullable and c.info["filled_by"] for c in new.values())
