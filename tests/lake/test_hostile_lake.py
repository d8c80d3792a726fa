"""What was typed to get out of a lake: its PostgreSQL, its storage and their passwords are out of reach, though the connection has them."""

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from pyarrow import fs

import atlas
from atlas import AtlasError
from atlas.typed import sandbox
from schema.open.lake import Lake, read_lake, s3_settings
from tests.atlas.annotations.tiny_annotations import write_tiny_annotations
from tests.atlas.tiny_atlas import write_tiny_atlas
from tests.lake.pushed import push
from tests.lake.servers import Servers

CATALOGUE = "__ducklake_metadata_lake"

STORAGE_PASSWORD, CATALOGUE_PASSWORD = "k7-of-the-storage", "k9-of-the-catalogue"

EXECUTED = [
    f"FROM postgres_execute('{CATALOGUE}', 'COMMIT; CREATE TABLE pwned (i int); BEGIN')",
    f"FROM postgres_execute('{CATALOGUE}', 'COMMIT; COPY (SELECT 1) TO PROGRAM ''touch $FOLDER/pwned''; BEGIN')",
    f"FROM postgres_query('{CATALOGUE}', 'SELECT pg_read_file(''/etc/passwd'')')",
    f"FROM postgres_query('{CATALOGUE}', 'CREATE TABLE pwned (i int)')",
    f"EXPLAIN FROM postgres_query('{CATALOGUE}', 'CREATE TABLE pwned (i int) RETURNING 1')",
    f"DESCRIBE FROM postgres_query('{CATALOGUE}', 'SELECT 1')",
    f"SELECT json_serialize_plan('FROM postgres_query(''{CATALOGUE}'', ''SELECT 1'')')",
    f"FROM query('FROM postgres_query(''{CATALOGUE}'', ''SELECT 1'')')",
    "FROM postgres_scan('$CATALOGUE', 'public', 'ducklake_snapshot')",
    "FROM postgres_scan_pushdown('$CATALOGUE', 'public', 'ducklake_snapshot')",
    "FROM postgres_attach('$CATALOGUE')",
    f"FROM {CATALOGUE}.pg_catalog.pg_authid",
    f"FROM {CATALOGUE}.public.ducklake_snapshot",
    f"SELECT * FROM model, {CATALOGUE}.public.ducklake_snapshot",
    f"FROM query_table('{CATALOGUE}.public.ducklake_snapshot')",
    f"FROM histogram('{CATALOGUE}.public.ducklake_snapshot', snapshot_id)",
    f"SHOW TABLES FROM {CATALOGUE}",
    "FROM pg_clear_cache()",
    "FROM ducklake_merge_adjacent_files('lake')",
    "CALL ducklake_merge_adjacent_files('lake')",
    "EXPLAIN ANALYZE FROM ducklake_merge_adjacent_files('lake')",
    "FROM ducklake_rewrite_data_files('lake')",
    "FROM ducklake_cleanup_old_files('lake', cleanup_all => true)",
    "FROM ducklake_delete_orphaned_files('lake', cleanup_all => true)",
    "FROM ducklake_expire_snapshots('lake', older_than => now())",
    "FROM ducklake_flush_inlined_data('lake')",
    "FROM ducklake_add_data_files('lake', 'model', '$DATA/x.parquet')",
    "FROM ducklake_set_option('lake', 'target_file_size', '1')",
    "FROM ducklake_set_commit_message('lake', 'published', 'x')",
    "FROM ducklake_snapshots('lake')",
    "FROM ducklake_list_files('lake', 'trigger')",
    "FROM lake.parts.trigger",
    "FROM lake.main.model AT (VERSION => 1)",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '$DATA/out.parquet' (FORMAT parquet)",
    "EXPLAIN ANALYZE COPY (SELECT 'gone') TO '$ANNOTATIONS' (FORMAT csv, USE_TMP_FILE false)",
    "EXPLAIN ANALYZE COPY (SELECT 'gone') TO '$LAKE' (FORMAT csv, USE_TMP_FILE false)",
    "EXPLAIN ANALYZE COPY (SELECT 'gone') TO (current_setting('allowed_directories')[1] || 'out.csv') (FORMAT csv)",
    "COPY (SELECT 1) TO '$DATA/out.parquet'",
    "FROM glob('$DATA/**')",
    "FROM read_parquet('$DATA/**/*.parquet')",
    "FROM '$DATA/main/model/*.parquet'",
    "FROM read_blob('$DATA/**')",
    "FROM parquet_metadata('$DATA/**/*.parquet')",
    "INSERT INTO lake.main.model FROM lake.main.model",
    "DELETE FROM lake.main.trigger",
    "DROP TABLE lake.main.trigger",
    "SELECT current_setting('s3_secret_access_key')",
    "SELECT current_setting('s3_access_key_id')",
    "FROM duckdb_settings()",
    "FROM duckdb_secrets(redact => false)",
    "FROM which_secret('$DATA/x', 's3')",
    "FROM duckdb_databases()",
    "SHOW DATABASES",
    "FROM pragma_database_list",
    "FROM pg_catalog.pg_settings",
    "FROM pg_catalog.pg_database",
    "FROM enable_logging('HTTP')",
    "FROM duckdb_logs()",
    "SELECT getenv('AWS_SECRET_ACCESS_KEY')",
    "FROM read_text('/proc/self/environ')",
]

ANSWERED = [
    "FROM duckdb_tables()",
    "FROM duckdb_views()",
    "FROM duckdb_schemas()",
    "FROM duckdb_columns()",
    "FROM duckdb_constraints()",
    "FROM information_schema.tables",
    "FROM information_schema.schemata",
    "FROM pg_catalog.pg_class",
    "SHOW ALL TABLES",
    "SELECT current_query(), current_schemas(true), current_database()",
    "EXPLAIN FROM trigger",
    "EXPLAIN ANALYZE FROM trigger",
]
"""What says much about the database."""


@pytest.fixture(scope="module")
def lake(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a PostgreSQL whose role may do everything, its files on S3, and annotations beside it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_SECRET_ACCESS_KEY", STORAGE_PASSWORD)
        patched.setenv("PGPASSWORD", CATALOGUE_PASSWORD)
        folder = tmp_path_factory.mktemp("hostile")
        source = write_tiny_atlas(tmp_path_factory.mktemp("file") / "tiny.duckdb")
        path = push(source, folder / "tiny.lake", Lake(servers.catalogue("hostile"), servers.data("hostile")))
        write_tiny_annotations(path)
        with psycopg.connect(read_lake(path).catalogue) as session:
            assert session.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchall() == [(True,)]
        yield path


def state(path: Path) -> tuple[dict, dict, dict]:
    """Every row of every table of the catalogue's database, every object on the storage, every file of the folder."""
    where = read_lake(path)
    with psycopg.connect(where.catalogue) as session:
        names = session.execute("SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')").fetchall()
        rows = {f"{s}.{t}": sorted(map(str, session.execute(f'SELECT * FROM "{s}"."{t}"').fetchall())) for s, t in names}
    found = s3_settings()
    storage = fs.S3FileSystem(
        access_key=found["KEY_ID"], secret_key=found["SECRET"], region=found["REGION"], endpoint_override=found["ENDPOINT"], scheme=found["SCHEME"]
    )
    objects = storage.get_file_info(fs.FileSelector(where.data.removeprefix("s3://"), recursive=True))
    stored = {o.path: (o.size, o.mtime) for o in objects if o.is_file}
    files = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(path.parent.rglob("*")) if p.is_file()}
    assert rows and stored and files
    return rows, stored, files


def fill_names(statement: str, path: Path) -> str:
    where = read_lake(path)
    names = {
        "$CATALOGUE": where.catalogue,
        "$DATA": where.data,
        "$LAKE": path,
        "$ANNOTATIONS": path.with_name("tiny.annotations.duckdb"),
        "$FOLDER": path.parent,
    }
    for name, stands_for in names.items():
        statement = statement.replace(name, str(stands_for))
    return statement


def by_api(path: Path, asked: list[str]) -> list[str]:
    with atlas.open(path) as a:
        return [said(a.sql, sql) for sql in asked]


def by_process(path: Path, asked: list[str]) -> list[str]:
    """As the SQL page does."""
    return [said(lambda statement: sandbox.run(path, statement, timeout=10).frame, sql) for sql in asked]


def by_command(path: Path, asked: list[str]) -> list[str]:
    command = [str(Path(sys.executable).with_name("atlas")), "sql"]
    ended = [subprocess.run([*command, sql, "--db", str(path), "--timeout", "20"], capture_output=True, text=True, check=False) for sql in asked]
    return [f"{'answered' if e.returncode == 0 else 'AtlasError'} {e.returncode} {e.stdout} {e.stderr}" for e in ended]


def said(ask: Callable, sql: str) -> str:
    """All that is seen of a statement: its rows, or its error."""
    try:
        return f"answered {ask(sql).rows()}"
    except AtlasError as error:
        return f"AtlasError {error}"


@pytest.mark.long
@pytest.mark.parametrize(("ask", "every"), [(by_api, 1), (by_process, 4), (by_command, 8)], ids=["a.sql", "page", "command"])
def test_neither_catalogue_nor_storage_nor_passwords_are_reached(lake: Path, ask: Callable, every: int) -> None:
    before = state(lake)
    refused = [fill_names(s, lake) for s in EXECUTED[::every]]
    found = ask(lake, refused)
    assert [sql for sql, seen in zip(refused, found, strict=True) if not seen.startswith("AtlasError")] == []
    answers = ask(lake, ANSWERED[::every])
    assert [seen[:300] for seen in answers if not seen.startswith("answered")] == []
    seen = "\n".join([*found, *answers, lake.read_text()])
    assert STORAGE_PASSWORD not in seen
    assert CATALOGUE_PASSWORD not in seen
    assert state(lake) == before


@pytest.mark.thorough
def test_what_holds_without_a_judge(lake: Path) -> None:
    """No setting of the connection has a key, no secret shows one, and no address a password."""
    with atlas.open(lake) as a:
        everything = [a.con.execute(f"FROM {table}").fetchall() for table in ("duckdb_settings()", "duckdb_secrets()", "duckdb_databases()")]
    assert STORAGE_PASSWORD not in str(everything)
    assert CATALOGUE_PASSWORD not in str(everything)


@pytest.mark.thorough
def test_tables_are_read_as_ever(lake: Path) -> None:
    with atlas.open(lake) as a:
        assert a.sql("SELECT count(*) FROM trigger").item() == 144
        assert a.sql("SELECT count(*) FROM lake.main.trigger").item() == 144
    assert sandbox.run(lake, "FROM top_triggers(0, 1)").frame.height > 0
