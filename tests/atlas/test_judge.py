"""Nothing is let through that is not on the lists of atlas/typed/allowed.py: every function of this DuckDB, wherever it can stand, and any that it may get."""

import re
from collections.abc import Callable
from typing import cast

import duckdb
import pytest

import atlas
from atlas import QueryRefused
from atlas.typed import allowed
from atlas.typed.execution import run_select
from atlas.typed.judge import judge

VALUES = {
    "VARCHAR": "'x'",
    "BOOLEAN": "TRUE",
    "BLOB": "'x'::BLOB",
    "DATE": "DATE '2000-01-01'",
    "INTERVAL": "INTERVAL 1 DAY",
    "JSON": "'{}'::JSON",
    "ANY": "'x'",
    "T": "'x'",
    "VARIANT": "1::VARIANT",
    "POINTER": "0::POINTER",
}
"""A value of a type, where 1 is none."""

NEW = "found_in_a_later_release"


def listed() -> list[tuple[str, str, list[str]]]:
    """Kind, name and types of the parameters of every function of this DuckDB."""
    with duckdb.connect() as con:
        found = con.execute("SELECT DISTINCT function_type, function_name, parameter_types FROM duckdb_functions() ORDER BY ALL").fetchall()
    return [(kind, name, [t for t in types or [] if t]) for kind, name, types in found]


def value(kind: str) -> str:
    if kind.endswith("[]"):
        return f"[{value(kind[:-2])}]"
    return VALUES.get(kind, f"1::{kind}" if re.fullmatch(r"[A-Z]+", kind) else "1")


def calls(kind: str, name: str, types: list[str]) -> list[str]:
    """SELECTs that call a function wherever it can stand, with values of its types and with none."""
    quoted, given = f'"{name}"', ", ".join(map(value, types))
    if kind in ("table", "table_macro", "pragma"):
        return [
            f"FROM {quoted}({given})",
            f"FROM {quoted}()",
            f"FROM system.main.{quoted}({given})",
            f"SELECT * FROM (SELECT 1) AS x, LATERAL {quoted}({given})",
        ]
    scalar = [
        f"SELECT {quoted}({given})",
        f"SELECT system.main.{quoted}({given})",
        f"SELECT list_transform([1], x -> {quoted}({given}))",
        f"FROM {quoted}({given})",
    ]
    windowed = f"SELECT {quoted}({given}) OVER () FROM (SELECT 1) AS x"
    return [*scalar, windowed] if kind in ("aggregate", "window") else scalar


def is_allowed(kind: str, name: str) -> bool:
    in_from = kind in ("table", "table_macro", "pragma")
    return name.lower() in (allowed.TABLE_FUNCTIONS if in_from else allowed.FUNCTIONS | allowed.SIGNS | allowed.TABLE_FUNCTIONS)


class Remembering:
    """A connection to an atlas without tables or macros: what is asked of it again is answered as before."""

    def __init__(self) -> None:
        self.con, self.answers = duckdb.connect(), dict[str, list[tuple]]()

    def execute(self, sql: str, parameters: object = None) -> "Remembering":
        self.asked = f"{sql} {parameters}"
        if self.asked not in self.answers:
            self.answers[self.asked] = self.con.execute(sql, parameters).fetchall()
        return self

    def fetchall(self) -> list[tuple]:
        return self.answers[self.asked]


@pytest.fixture(scope="module")
def judged() -> Callable[[str], None]:
    """Judge a statement as one over an atlas without tables."""
    con = cast(duckdb.DuckDBPyConnection, Remembering())
    return lambda sql: judge(con, sql)


def test_every_function_that_is_not_allowed_is_refused_wherever_it_stands(judged: Callable[[str], None]) -> None:
    refused, let_through = set(), []
    for kind, name, types in listed():
        if is_allowed(kind, name):
            continue
        # of some hundred collations one call each will do
        for sql in calls(kind, name, types)[: 1 if "collate_" in name else None]:
            try:
                judged(sql)
                let_through.append(sql)
            except (QueryRefused, duckdb.Error):
                refused.add(name)
    assert let_through == []
    assert {"current_setting", "read_text", "query", "glob", "enable_logging", "nextval", "write_log", "combine", "finalize"} <= refused


def test_by_name_and_before_anything_is_bound(judged: Callable[[str], None]) -> None:
    """Some functions act while they are bound, so wrong arguments must not come first."""
    for kind, name, _ in listed():
        if not is_allowed(kind, name):
            with pytest.raises(QueryRefused, match="refused: the function"):
                judged(f'FROM "{name}"(a, b, c)' if kind in ("table", "table_macro", "pragma") else f'SELECT "{name}"(a, b, c)')


def test_a_function_that_a_later_duckdb_has_is_refused() -> None:
    con = duckdb.connect()
    con.create_function(NEW, lambda x: x, ["VARCHAR"], "VARCHAR")
    assert con.execute(f"SELECT {NEW}('x')").fetchall() == [("x",)]
    for sql in (f"SELECT {NEW}('x')", f"SELECT list_transform(['x'], x -> {NEW}(x))", f"SELECT ('x').{NEW}()", f"EXPLAIN ANALYZE SELECT {NEW}('x')"):
        with pytest.raises(QueryRefused, match=NEW):
            run_select(con, sql)


@pytest.mark.thorough
def test_a_table_function_that_a_later_duckdb_has_is_refused(a: atlas.Atlas, monkeypatch: pytest.MonkeyPatch) -> None:
    assert a.sql("FROM range(3)").height == 3
    monkeypatch.setattr("atlas.typed.judge.TABLE_FUNCTIONS", allowed.TABLE_FUNCTIONS - {"range"})
    for sql in ("FROM range(3)", "SELECT * FROM model, LATERAL range(3)", "WITH r AS (FROM range(3)) SELECT 1", "SUMMARIZE FROM range(3)"):
        with pytest.raises(QueryRefused, match="refused: the function range"):
            a.sql(sql)


def test_what_a_plan_is_made_of_is_refused_where_no_list_has_it(a: atlas.Atlas, monkeypatch: pytest.MonkeyPatch) -> None:
    a.sql("SELECT name FROM model ORDER BY name")
    monkeypatch.setattr("atlas.typed.judge.OPERATORS", allowed.OPERATORS - {"ORDER_BY"})
    with pytest.raises(QueryRefused, match="refused: ORDER_BY in its plan"):
        a.sql("SELECT name FROM model ORDER BY name")
    monkeypatch.setattr("atlas.typed.judge.EXPRESSIONS", allowed.EXPRESSIONS - {"CASE"})
    with pytest.raises(QueryRefused, match="refused: an expression of the kind BOUND_CASE"):
        a.sql("SELECT CASE WHEN n_layers = 1 THEN 1 END FROM model")


def test_a_macro_is_judged_by_what_it_is_made_of() -> None:
    con = duckdb.connect()
    con.execute("CREATE MACRO seen() AS current_setting('memory_limit'); CREATE MACRO shown() AS TABLE FROM duckdb_settings(); CREATE VIEW v AS FROM glob('*')")
    for sql, name in (("SELECT seen()", "current_setting"), ("FROM shown()", "duckdb_settings"), ("FROM v", "glob")):
        with pytest.raises(QueryRefused, match=f"function {name}"):
            run_select(con, sql)


@pytest.mark.parametrize("kind", sorted(set(duckdb.StatementType.__members__) - {"SELECT", "EXPLAIN"}))
def test_every_kind_of_statement_but_one_is_refused(a: atlas.Atlas, kind: str) -> None:
    """By its kind, as DuckDB names it: the statement beneath would be let through."""

    class Said:
        type = duckdb.StatementType.__members__[kind]
        query = "SELECT 1"

    class Cursor:
        def extract_statements(self, _: str) -> list[Said]:
            return [Said()]

    from atlas.typed.execution import only_statement

    with pytest.raises(QueryRefused, match=f"read-only, and this is {kind}"):
        only_statement(Cursor(), "SELECT 1")


@pytest.mark.thorough
def test_no_setting_can_be_read_or_changed(a: atlas.Atlas) -> None:
    names = [name for (name,) in a.con.execute("SELECT name FROM duckdb_settings()").fetchall()]
    assert len(names) > 50
    before = a.con.execute("SELECT name, value FROM duckdb_settings() ORDER BY ALL").fetchall()
    for name in names:
        for sql in (f"SELECT current_setting('{name}')", f"SET {name} = DEFAULT", f"RESET {name}", f"PRAGMA {name}", f"SHOW {name}", f"FROM (SHOW {name})"):
            with pytest.raises(atlas.AtlasError):
                a.sql(sql)
    assert a.con.execute("SELECT name, value FROM duckdb_settings() ORDER BY ALL").fetchall() == before
