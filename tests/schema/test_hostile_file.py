"""An atlas that a stranger sent does nothing while it is opened: what is defined in it is not run before other files are out of reach."""

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

import atlas
from atlas import AtlasError, NotAnAtlas
from atlas.beside.annotations import ANNOTATIONS
from atlas.cli.tour import inventory
from ingest.refusals import check_file
from ingest.store.doctor import findings
from ingest.store.doctor_cli import doctor
from ingest.store.shards import shard_of
from ingest.store.work_file import open_work_file
from schema.audits import run_audits
from schema.open.change import change_companion
from schema.open.kinds import Companion
from schema.open.logs import log_of
from schema.plain import check_plain
from schema.release import question_files
from tests.atlas.annotations.tiny_annotations import write_tiny_annotations
from tests.atlas.tiny_atlas import write_tiny_atlas

LOGS = "FROM enable_logging('QueryLog', storage = 'file', storage_config = {{'path': '{folder}'}})"


def spoiled(path: Path, *statements: str) -> None:
    with closing(duckdb.connect(path)) as con:
        for statement in statements:
            con.execute(statement)


@pytest.mark.parametrize(
    "statements",
    [
        ("DROP TYPE release_digest", "CREATE MACRO release_digest() AS (SELECT count(*) FROM ({logs}))"),
        ("DROP TYPE release_digest", "ALTER TABLE model RENAME TO real", "CREATE VIEW model AS SELECT r.* FROM real AS r, ({logs})"),
        ("ALTER TABLE model RENAME TO real", "CREATE VIEW model AS SELECT r.* FROM real AS r, ({logs})"),
        (
            "CREATE SCHEMA other",
            "CREATE TABLE other.model (i INTEGER)",
            "ALTER TABLE model RENAME TO real",
            "CREATE VIEW model AS SELECT r.* FROM real AS r, ({logs})",
        ),
    ],
)
def test_opening_an_atlas_runs_nothing_of_it(tmp_path: Path, statements: tuple[str, ...]) -> None:
    logs = tmp_path / "logs"
    path = write_tiny_atlas(tmp_path / "sent.duckdb")
    spoiled(path, *(statement.format(logs=LOGS.format(folder=logs)) for statement in statements))
    with suppress(NotAnAtlas):
        atlas.open(path).close()
    assert not logs.exists()


def test_opening_annotations_runs_nothing_of_them(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    path = write_tiny_atlas(tmp_path / "sent.duckdb")
    spoiled(ANNOTATIONS.path(path), f"CREATE VIEW annotation_schema AS SELECT 1 AS version, '' AS derived_sha256 FROM ({LOGS.format(folder=logs)})")
    with pytest.raises(AtlasError, match="has version none"):
        atlas.open(path)
    assert not logs.exists()


ENDS = "SELECT 1 AS i FROM enable_logging('QueryLog', storage = 'file', storage_config = {{'path': '{folder}'}})"
"""What ends a reader on DuckDB 1.5.5, wherever it is run."""


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE MACRO layer_summary(corpus := NULL) AS TABLE {ends}",
        "CREATE OR REPLACE VIEW active_rule AS {ends}",
        'CREATE MACRO "Count"(i) AS (SELECT sum(j.i) FROM ({ends}) AS j)',
        "CREATE SCHEMA annotations",
    ],
)
def test_what_a_stranger_defined_is_not_what_is_asked(tiny_path: Path, tmp_path: Path, statement: str) -> None:
    """Such a file answers all the same: by its rows, and by this release's views and questions."""
    path = Path(shutil.copy(tiny_path, tmp_path / "sent.duckdb"))
    shutil.copy(ANNOTATIONS.path(tiny_path), ANNOTATIONS.path(path))
    spoiled(path, statement.format(ends=ENDS.format(folder=tmp_path / "logs")))
    with atlas.open(path) as found, atlas.open(tiny_path) as made:
        for question, of in (("layer_summary", {}), ("geva2021_fig7", {"corpus": 0}), ("annotated_patterns", {})):
            assert len(found.ask(question, **of)) > 0
            assert found.ask(question, **of).equals(made.ask(question, **of)), question
    assert not (tmp_path / "logs").exists()


def test_nor_of_one_that_takes_the_place_of_one_that_was_opened(tiny_path: Path, tmp_path: Path) -> None:
    """With its inode, its bytes and its time, as `cp -p` gives them: who sends a file chooses these."""
    path, other = (Path(shutil.copy(tiny_path, tmp_path / f"{name}.duckdb")) for name in ("sent", "other"))
    spoiled(other, "CREATE OR REPLACE MACRO layer_summary(corpus := NULL) AS TABLE SELECT 424242 AS layer", "CHECKPOINT")
    size = max(path.stat().st_size, other.stat().st_size)
    for file in (path, other):
        os.truncate(file, size)
        os.utime(file, (1_600_000_000, 1_600_000_000))
    inode = path.stat().st_ino
    with atlas.open(path) as found:
        said = found.ask("layer_summary")
    path.write_bytes(other.read_bytes())
    os.utime(path, (1_600_000_000, 1_600_000_000))
    assert (path.stat().st_ino, path.stat().st_size) == (inode, size)
    with atlas.open(path) as found:
        assert found.ask("layer_summary").equals(said) and said["layer"].to_list() != [424242]


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    "head", ["layer, neuron, n := 1, corpus := NULL", "layer, neuron, n := 25, corpus := 1", "layer SMALLINT, neuron, n := 25, corpus := NULL"]
)
def test_nor_is_a_question_with_other_defaults(tiny_path: Path, tmp_path: Path, head: str) -> None:
    path = tmp_path / "sent.duckdb"
    # in the format of which parameters may have types
    with closing(duckdb.connect()) as con:
        con.execute(f"ATTACH '{tiny_path}' AS made (READ_ONLY); ATTACH '{path}' AS sent (STORAGE_VERSION 'v1.4.0'); COPY FROM DATABASE made TO sent")
    spoiled(path, question_files()["top_triggers"].replace("layer, neuron, n := 25, corpus := NULL", head))
    with atlas.open(path) as found, atlas.open(tiny_path) as made:
        assert found.sql("SELECT current_database() AS name").item() == "memory"
        assert found.sql("FROM top_triggers(0, 1)").equals(made.sql("FROM top_triggers(0, 1)"))


@pytest.mark.parametrize("name", ["annotations", "Annotations", "ANNOTATIONS.of.somebody"])
def test_an_atlas_does_not_pass_for_what_lies_beside_it(tiny_path: Path, tmp_path: Path, name: str) -> None:
    path = Path(shutil.copy(tiny_path, tmp_path / f"{name}.duckdb"))
    with pytest.raises(AtlasError, match="an atlas cannot be called annotations"):
        atlas.open(path)


@pytest.mark.thorough
def test_nor_is_what_a_stranger_defined_in_a_file_beside_it(tmp_path: Path) -> None:
    path = write_tiny_atlas(tmp_path / "sent.duckdb")
    write_tiny_annotations(path)
    spoiled(
        ANNOTATIONS.path(path),
        f"CREATE OR REPLACE MACRO annotation_agreement() AS TABLE {ENDS.format(folder=tmp_path / 'logs')}",
        "ALTER TABLE pattern RENAME TO kept",
        f"CREATE VIEW pattern AS {ENDS.format(folder=tmp_path / 'logs')}",
    )
    with atlas.open(path) as found:
        assert found.sql("SELECT count(*) AS n FROM annotations.annotation").item() > 0
        assert len(found.ask("annotation_agreement")) > 0
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    "statement",
    ["CREATE VIEW removal AS SELECT * FROM real", 'CREATE TABLE "Removal" (run_id INTEGER, neuron INTEGER GENERATED ALWAYS AS (length(version())))'],
)
def test_a_view_in_the_place_of_a_table_is_said(tmp_path: Path, statement: str) -> None:
    path = write_tiny_atlas(tmp_path / "sent.duckdb")
    spoiled(path, "ALTER TABLE removal RENAME TO real", statement)
    with pytest.raises(NotAnAtlas, match=r"where tables should be, it holds views or tables with computed columns \(removal\)"):
        atlas.open(path)


SHADOWED = ("duckdb_types", "duckdb_tables", "duckdb_databases", "duckdb_columns", "duckdb_constraints", "duckdb_functions", "duckdb_views")
"""What opening asks of DuckDB, by names that a file may give to macros of its own."""


@pytest.mark.ci_cases(6)
@pytest.mark.first_cases(3)
@pytest.mark.parametrize("is_older", [False, True])
@pytest.mark.parametrize("name", SHADOWED)
def test_a_macro_by_the_name_of_a_function_of_duckdbs_is_not_run_while_other_files_can_be_reached(tmp_path: Path, name: str, is_older: bool) -> None:
    logs = tmp_path / "logs"
    path = write_tiny_atlas(tmp_path / "sent.duckdb")
    older = ["DROP TYPE release_digest"] if is_older else []
    spoiled(path, *older, f"CREATE MACRO {name}() AS TABLE (SELECT t.* FROM system.main.{name}() AS t, ({LOGS.format(folder=logs)}) AS l)")
    with suppress(AtlasError, duckdb.Error):
        atlas.open(path).close()
    assert not logs.exists()


@pytest.mark.parametrize("name", ["version", "current_database"])
@pytest.mark.parametrize("is_older", [False, True])
def test_nor_is_a_column_that_is_computed_by_one(tmp_path: Path, name: str, is_older: bool) -> None:
    logs = tmp_path / "logs"
    path = write_tiny_atlas(tmp_path / "sent.duckdb")
    older = ["DROP TYPE release_digest"] if is_older else []
    computed = f"CREATE TABLE model (n_layers INTEGER, d_model INTEGER, schema_version INTEGER GENERATED ALWAYS AS (length({name}())))"
    shadow = f"CREATE MACRO {name}() AS (SELECT 'four' FROM ({LOGS.format(folder=logs)}))"
    spoiled(path, *older, "DROP TABLE model", computed, "INSERT INTO model VALUES (2, 2)", shadow)
    with suppress(AtlasError, duckdb.Error):
        atlas.open(path).close()
    assert not logs.exists()


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (("ALTER TABLE removal RENAME TO real", "CREATE VIEW removal AS SELECT * FROM real, ({logs}) AS l"), r"tables with computed columns \(removal\)"),
        (("CREATE MACRO duckdb_constraints() AS TABLE ({logs})",), r"macros with the names of DuckDB's functions \(duckdb_constraints\)"),
        (('CREATE MACRO "Duckdb_Columns"() AS TABLE ({logs})',), r"macros with the names of DuckDB's functions \(duckdb_columns\)"),
        (("ALTER TABLE removal RENAME TO real", 'CREATE VIEW "Removal" AS SELECT * FROM real'), r"tables with computed columns \(removal\)"),
        (("CREATE SCHEMA snapshot",), r"schemas of its own \(snapshot\)"),
        (
            ("CREATE MACRO grow(i) AS (SELECT count(*) FROM ({logs}))", "ALTER TABLE map_point RENAME TO real",
             "CREATE TABLE map_point (run_id INTEGER, x INTEGER GENERATED ALWAYS AS (length(version())))"),
            r"computed columns.*\(map_point\)",
        ),
    ],
)  # fmt: skip
def test_nothing_is_ingested_into_an_atlas_in_which_something_of_a_strangers_would_act(tmp_path: Path, statements: tuple[str, ...], said: str) -> None:
    logs = tmp_path / "logs"
    path = write_tiny_atlas(tmp_path / "sent.duckdb")
    check_file(path)
    spoiled(path, *(statement.format(logs=LOGS.format(folder=logs)) for statement in statements))
    before = path.read_bytes()
    with pytest.raises(NotAnAtlas, match=said):
        check_file(path)
    assert not logs.exists() and path.read_bytes() == before


@pytest.mark.ci_cases(3)
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("is_working", [False, True])
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE MACRO duckdb_tables() AS TABLE (SELECT t.* FROM system.main.duckdb_tables() AS t, (SELECT count(*) FROM ({logs})) AS l)",
        """CREATE TABLE "run"" AS t; COPY (SELECT 'x') TO '{logs_folder}'; FROM ""run" AS SELECT 1 AS a""",
        "CREATE TABLE more (i INTEGER, j INTEGER GENERATED ALWAYS AS (length(version())))",
    ],
)
def test_a_doctor_runs_nothing_of_a_file_that_it_looks_at(tmp_path: Path, statement: str, is_working: bool) -> None:
    logs, path = tmp_path / "logs", write_tiny_atlas(tmp_path / "sent.duckdb")
    file = path
    if is_working:
        file = tmp_path / "sent.duckdb.work" / "atlas.duckdb"
        file.parent.mkdir()
        shutil.copy(path, file)
    spoiled(file, statement.format(logs=LOGS.format(folder=logs), logs_folder=logs))
    said = CliRunner().invoke(doctor, [str(path)])
    assert said.exception is None or isinstance(said.exception, (AtlasError, SystemExit)), said.exception
    assert not logs.exists()


def test_nor_is_a_working_file_of_a_strangers_gone_on_with(tmp_path: Path) -> None:
    target, logs = tmp_path / "a.duckdb", tmp_path / "logs"
    work = tmp_path / "a.duckdb.work"
    work.mkdir()
    write_tiny_atlas(work / "atlas.duckdb")
    shadow = "CREATE MACRO duckdb_columns() AS TABLE (SELECT t.* FROM system.main.duckdb_columns() AS t, (SELECT count(*) FROM ({logs})) AS l)"
    spoiled(work / "atlas.duckdb", shadow.format(logs=LOGS.format(folder=logs)))
    with pytest.raises(AtlasError, match=r"macros with the names of DuckDB's functions \(duckdb_columns\).*atlas doctor"):
        open_work_file(target, work, 2)
    assert not logs.exists() and (work / "atlas.duckdb").exists()


MANIFEST = {"run_id": 0, "shard_id": 0, "n_rows": {"trigger": 1}, "sha256": "0", "worker": "w", "after": []}


@pytest.mark.parametrize(
    "changes",
    [
        {"n_rows": {"probe_loss BY NAME FROM probe_loss LIMIT 0; COPY (SELECT 1) TO 'stolen.csv'; INSERT INTO probe_loss": 1}},
        {"n_rows": {"../../mine": 1}}, {"n_rows": [1]}, {"n_rows": {"trigger": "1"}}, {"n_rows": {"trigger": -1}}, {"n_rows": {"trigger": True}},
        {"run_id": "0"}, {"shard_id": [1]}, {"shard_id": 10**30}, {"run_id": 2**31}, {"shard_id": 2**31}, {"sha256": None}, {"worker": {}}, {"more": 1},
        {"after": 5}, {"after": None}, {"after": "abc"}, {"after": ["a"]}, {"after": [1, 2]}, {"after": [[1, 2, 3]]}, {"after": [[1, [2]]]},
    ],
)  # fmt: skip
def test_a_manifest_that_no_worker_writes_is_no_shard(changes: dict[str, object]) -> None:
    assert shard_of("p", json.dumps(MANIFEST).encode()).n_rows == {"trigger": 1}
    with pytest.raises(AtlasError, match="shard p is damaged: its manifest"):
        shard_of("p", json.dumps(MANIFEST | changes).encode())


@pytest.mark.parametrize("text", [b"", b"\xff", b"[" * 100_000, b"[]", b"5", b"{}"])
def test_nor_is_text_that_is_no_manifest(text: bytes) -> None:
    with pytest.raises(AtlasError, match="shard p is damaged: its manifest"):
        shard_of("p", text)


INJECTED = '2] AS "vector" FROM older.main.residual_state AS t; CREATE MACRO sum(x) AS 41; --'


@pytest.mark.ci_cases(2)
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("d_model", ["-3", "2_000_000_000", "NULL", f"'{INJECTED}'"])
def test_an_older_atlas_of_a_width_that_cannot_be_is_refused_in_one_line(tmp_path: Path, d_model: str) -> None:
    """Types are written with it, and nothing that an atlas holds may become SQL."""
    path = write_tiny_atlas(tmp_path / "sent.duckdb")
    kind = "VARCHAR" if "'" in d_model else "INTEGER"
    spoiled(path, f"ALTER TABLE model ALTER d_model TYPE {kind}", "ALTER TABLE model ALTER d_model DROP NOT NULL", f"UPDATE model SET d_model = {d_model}")
    with atlas.open(path) as a, pytest.raises(NotAnAtlas, match="its d_model is"):
        next(run_audits(a.con))
    spoiled(path, "DROP TYPE release_digest")
    with pytest.raises(NotAnAtlas, match="its d_model is"):
        atlas.open(path)
    assert CliRunner().invoke(doctor, [str(path)]).exit_code in (0, 1)


@pytest.mark.parametrize("statement", ["DROP TYPE release_digest", "DROP TABLE removal"])
def test_a_model_that_says_no_version_is_of_no_atlas(tmp_path: Path, statement: str) -> None:
    path = write_tiny_atlas(tmp_path / "sent.duckdb")
    spoiled(path, statement, "ALTER TABLE model DROP schema_version")
    with pytest.raises(NotAnAtlas, match="its table model has no schema_version"):
        atlas.open(path)


@pytest.mark.thorough
def test_a_tour_prints_no_escapes_of_a_strangers(tmp_path: Path) -> None:
    path = write_tiny_atlas(tmp_path / "sent.duckdb")
    spoiled(path, "UPDATE run SET device = 'cpu' || chr(27) || ']0;x' || chr(7)", "UPDATE model SET dtype = chr(27) || '[31mfloat32'")
    with atlas.open(path) as a:
        printed = "\n".join(inventory(a))
    assert "]0;x" in printed and "\x1b" not in printed.replace("\x1b[1m", "").replace("\x1b[0m", "") and "\x07" not in printed


@pytest.mark.parametrize("call", [atlas.open, check_plain, lambda path: list(findings(path))])
def test_a_pipe_that_nobody_writes_to_is_waited_for_by_nobody(tmp_path: Path, call: Callable[[Path], object]) -> None:
    path = tmp_path / "a.duckdb"
    os.mkfifo(path)
    (tmp_path / "a.duckdb.work").mkdir()
    with suppress(NotAnAtlas):
        assert "it is no file" in str(call(path))


@pytest.mark.parametrize("kind", [None, ANNOTATIONS])
def test_a_pipe_in_the_place_of_a_log_is_waited_for_by_nobody_and_nothing_is_moved_for_it(tiny_path: Path, tmp_path: Path, kind: Companion | None) -> None:
    path = Path(shutil.copy(tiny_path, tmp_path / "a.duckdb"))
    shutil.copy(ANNOTATIONS.path(tiny_path), ANNOTATIONS.path(path))
    log = log_of(path if kind is None else kind.path(path))
    os.mkfifo(log)
    with pytest.raises(AtlasError, match=f"{re.escape(str(log))} is no file, so that .* cannot be opened: move it away"):
        atlas.open(path)
    (found,) = findings(path)
    assert str(log) in found.what and found.repair is None
    if kind is not None:
        with pytest.raises(AtlasError, match="is no file"), change_companion(kind, path):
            pass


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("version", ["'garbage'", "99", "NULL"])
def test_a_doctor_says_which_annotations_are_not_read(tiny_path: Path, tmp_path: Path, version: str) -> None:
    path = Path(shutil.copy(tiny_path, tmp_path / "a.duckdb"))
    shutil.copy(ANNOTATIONS.path(tiny_path), ANNOTATIONS.path(path))
    assert list(findings(path)) == []
    spoiled(ANNOTATIONS.path(path), f"CREATE OR REPLACE TABLE annotation_schema AS SELECT {version} AS version, '' AS derived_sha256")
    (found,) = findings(path)
    assert f"a.annotations.duckdb has version {'none' if version == 'NULL' else version.strip(chr(39))}" in found.what.replace("None", "none")
    assert found.repair is None


@pytest.mark.parametrize("what", ["a pipe that nobody writes to", "a SQLite database", "a folder"])
def test_what_is_in_the_place_of_a_file_beside_an_atlas_is_said(tiny_path: Path, tmp_path: Path, what: str) -> None:
    path = Path(shutil.copy(tiny_path, tmp_path / "a.duckdb"))
    beside = ANNOTATIONS.path(path)
    if what == "a SQLite database":
        with closing(sqlite3.connect(beside)) as con:
            con.execute("CREATE TABLE t (i INTEGER)")
    else:
        (os.mkfifo if "pipe" in what else os.mkdir)(beside)
    with pytest.raises(AtlasError, match=r"cannot read the annotations in .*a\.annotations\.duckdb: it is no DuckDB file"):
        atlas.open(path)


@pytest.mark.parametrize("n_layers", ["NULL", "'many'"])
def test_a_size_of_the_model_that_is_none_is_said(tmp_path: Path, n_layers: str) -> None:
    path = write_tiny_atlas(tmp_path / "sent.duckdb")
    spoiled(path, f"CREATE OR REPLACE TABLE model AS SELECT m.* REPLACE ({n_layers} AS n_layers) FROM model AS m")
    with atlas.open(path) as a, pytest.raises(AtlasError, match="does not say how large its model is: n_layers is"):
        a.neuron("L0N1")
