"""`sql` reads this atlas and nothing else, in bounded rows and time, whatever is typed."""

import re
from pathlib import Path

import polars as pl
import pytest

import atlas
from atlas import AtlasError, QueryRefused, QueryTimeout
from atlas.cursors import IS_DUCKDB_1
from atlas.typed.execution import run_select

ATTACKS = [
    "COPY model TO '{out}'",
    "COPY (SELECT 1) TO '{out}' (FORMAT parquet)",
    "EXPORT DATABASE '{out}'",
    "ATTACH '{out}' AS other",
    "DETACH tiny",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET memory_limit = '1TB'",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "PRAGMA threads = 64",
    "PRAGMA enable_profiling = 'json'",
    "INSERT INTO run SELECT * FROM run",
    "UPDATE model SET name = 'x'",
    "DELETE FROM trigger",
    "DELETE FROM trigger RETURNING *",
    "TRUNCATE trigger",
    "DROP TABLE trigger",
    "ALTER TABLE trigger ADD COLUMN x INTEGER",
    "CREATE TABLE x (i INTEGER)",
    "CREATE TEMP TABLE x AS SELECT 1",
    "CREATE OR REPLACE MACRO top_triggers(layer) AS TABLE SELECT 1",
    "CREATE SECRET (TYPE s3)",
    "BEGIN",
    "CHECKPOINT",
    "VACUUM",
    "USE memory",
    "CALL pragma_version()",
    "PREPARE q AS SELECT 1",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE trigger",
    "SELECT 1) TO '{out}'; COPY (SELECT 1",
    "",
    "-- only a comment",
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_blob('{file}')",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM read_json('{file}')",
    "SELECT * FROM '{file}'",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM sniff_csv('{file}')",
    "SELECT * FROM parquet_metadata('{file}')",
    "SELECT getenv('HOME')",
    "SELECT * FROM query('COPY model TO ''{out}''')",
    "SELECT * FROM 'https://example.org/x.parquet'",
    "MERGE INTO model USING model AS m ON TRUE WHEN MATCHED THEN DELETE",
]


@pytest.mark.parametrize("statement", ATTACKS)
def test_attack_is_refused_and_leaves_nothing(a: atlas.Atlas, tmp_path: Path, statement: str) -> None:
    secret, out = tmp_path / "secret.csv", tmp_path / "out"
    secret.write_text("secret\n1\n")
    with pytest.raises(AtlasError):
        a.sql(statement.format(file=secret, out=out))
    assert not out.exists()
    assert a.sql("SELECT count(*) FROM trigger").item() == 144


def test_what_is_no_select_is_named(a: atlas.Atlas) -> None:
    with pytest.raises(QueryRefused, match="an atlas is read-only, and this is DELETE"):
        a.sql("DELETE FROM trigger")
    with pytest.raises(QueryRefused, match=r"this has 2 \(SELECT, SELECT\)"):
        a.sql("SELECT 1; SELECT 2")
    with pytest.raises(QueryRefused, match="reads this atlas and nothing else"):
        a.sql("SELECT * FROM read_text('/etc/hostname')")


def test_variables_of_the_caller_are_no_tables(a: atlas.Atlas) -> None:
    private_frame = pl.DataFrame({"secret": [1]})
    with pytest.raises(AtlasError, match="private_frame does not exist"):
        a.sql("SELECT * FROM private_frame")
    assert private_frame.height == 1


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM range(100000) AS a, range(100000) AS b, range(100000) AS c WHERE random() > 2",
        "SELECT sum(a.range * b.range) FROM range(10000000) AS a CROSS JOIN range(10000000) AS b",
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT max(i) FROM r",
        "EXPLAIN ANALYZE SELECT count(*) FROM range(100000) AS a, range(100000) AS b, range(100000) AS c WHERE random() > 2",
    ],
)
def test_time_is_bounded(a: atlas.Atlas, statement: str) -> None:
    with pytest.raises(QueryTimeout, match="stopped after 0.3 s"):
        a.sql(statement, timeout=0.3)
    assert a.sql("SELECT 1 AS one").item() == 1


@pytest.mark.parametrize("own_process", [False, True])
@pytest.mark.parametrize(
    ("limits", "said"),
    [({"timeout": t}, "timeout is a number of seconds above 0, at most 86,400") for t in (float("nan"), 0, -1, 1e300)]
    + [({"max_rows": n}, "max_rows is a whole number from 1 to 2,147,483,647") for n in (0, -1, 1.5, 10**30)],
)
def test_limits_that_are_none_are_refused(a: atlas.Atlas, limits: dict[str, float], said: str, own_process: bool) -> None:
    with pytest.raises(AtlasError, match=said):
        a.sql("SELECT 1", own_process=own_process, **limits)


def test_rows_are_bounded_without_computing_the_rest(a: atlas.Atlas) -> None:
    result = run_select(a.con, "SELECT r.range AS i FROM range(1000000000000) AS r", max_rows=10, timeout=20)
    assert result.is_truncated
    assert result.frame["i"].to_list() == list(range(10))


def test_exactly_as_many_rows_as_allowed_is_not_truncated(a: atlas.Atlas) -> None:
    assert not run_select(a.con, "FROM range(10)", max_rows=10).is_truncated


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        "select 1;",
        "SELECT 1 -- comment",
        "SELECT 1; -- comment",
        "SELECT 'é;' AS \"a;b\" ; /* ; */ ;",
        "/* comment */ SELECT 1",
        "FROM model",
        "WITH x AS (SELECT 1 AS i) SELECT i FROM x",
        "VALUES (1)",
        "(SELECT 1)",
        "TABLE model",
        "DESCRIBE trigger",
        "SHOW TABLES",
        "SUMMARIZE corpus",
        "EXPLAIN SELECT 1",
        "EXPLAIN (SELECT 1)",
        "EXPLAIN (SELECT 1) UNION ALL SELECT 2",
        "EXPLAIN (ANALYZE, FORMAT json) SELECT 1",
        "EXPLAIN (FORMAT json) (SELECT 1)",
        "EXPLAIN ANALYSE (SELECT 1)",
        "FROM top_triggers(0, 1)",
        "SELECT 1 AS a UNION ALL SELECT 2",
        "SELECT ';' AS semicolon",
    ],
)
def test_what_reads_is_let_through(a: atlas.Atlas, statement: str) -> None:
    assert a.sql(statement).height >= 1


def test_the_order_of_the_query_is_kept(a: atlas.Atlas) -> None:
    assert a.sql("SELECT r.range AS i FROM range(5) AS r ORDER BY i DESC")["i"].to_list() == [4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT no_such FROM trigger", "no_such"),
        ("FROM trigers", "trigger"),
        ("SELECT 1 / 'x'", "x"),
        ("FROM top_triggers()", "layer, neuron"),
    ],
)
def test_wrong_sql_is_answered_with_duckdbs_explanation(a: atlas.Atlas, statement: str, message: str) -> None:
    with pytest.raises(AtlasError, match=message):
        a.sql(statement)


def test_an_error_names_the_line_that_the_user_wrote(a: atlas.Atlas) -> None:
    for sql in ("SELECT nothing_like_it FROM model", "SELECT\n    m.name\nFROM model AS m\nWHERE nothing_like_it", "EXPLAIN SELECT nothing_like_it FROM model"):
        with pytest.raises(AtlasError) as caught:
            run_select(a.con, sql)
        line = 1 + sql[: sql.index("nothing")].count("\n")
        named = re.findall(r"^LINE (\d+): (.*)$", str(caught.value), re.MULTILINE)
        # DuckDB 2 names no line of a SELECT
        assert named == [(str(line), sql.splitlines()[line - 1])] or (not IS_DUCKDB_1 and named == [])
