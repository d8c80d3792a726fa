"""Values of DuckDB that frames do not hold as they are."""

import json
from pathlib import Path

import duckdb
import polars as pl
import pytest

from atlas.cli.main import run
from atlas.cursors import IS_DUCKDB_1
from atlas.frames import fetch
from schema.errors import AtlasError

UNFIT = {
    "'infinity'::DATE": "infinity",
    "'-infinity'::DATE": "infinity",
    "'infinity'::TIMESTAMP": "infinity",
    "'infinity'::TIMESTAMPTZ": "infinity",
    "'infinity'::TIMESTAMP_S": "infinity",
    "'infinity'::TIMESTAMP_NS": "infinity",
    "'-infinity'::TIMESTAMP_NS": "infinity",
    "'290000-01-01'::TIMESTAMP": "years 1 to 9999",
    "'290000-01-01'::TIMESTAMP_MS": "years 1 to 9999",
    "'0044-03-15 (BC)'::DATE": "years 1 to 9999",
    "'10000-01-01'::TIMESTAMP": "years 1 to 9999",
    "'24:00:00'::TIME": "24:00:00",
    "INTERVAL 1 DAY": "INTERVAL",
    "[INTERVAL 1 DAY]": "INTERVAL",
    "{'a': INTERVAL 1 DAY}": "INTERVAL",
    "['infinity'::DATE]": "infinity",
    "[[DATE 'infinity']]::DATE[1][1]": "infinity",
    "MAP {1: 'infinity'::DATE}": "infinity",
    "union_value(n := 1)": "UNION",
    "[170141183460469231731687303715884105727::HUGEINT]": "38 digits",
}

AS_TEXT = {
    "'0101'::BIT": "0101",
    "'12:00:00+02'::TIMETZ": "12:00:00+02",
    "340282366920938463463374607431768211455::UHUGEINT": "340282366920938463463374607431768211455",
    "'123456789012345678901234567890123456789012'::BIGNUM": "123456789012345678901234567890123456789012",
    "{'a': '01'::BIT}": "{'a': 01}",
    "'POINT(1 2)'::GEOMETRY": "POINT (1 2)",
    "MAP {[1]: 2}": "{[1]=2}",
    "[MAP {{'a': 1}: 2}]": "[{{'a': 1}=2}]",
}

HELD = ("'0001-01-01'::DATE", "'9999-12-31'::DATE", "'9999-12-31 23:59:59.999999'::TIMESTAMP", "'23:59:59.999999'::TIME", "NULL::DATE", "[]::DATE[]")

MOST = 170141183460469231731687303715884105727
"""The largest HUGEINT, 2^127 - 1: 39 digits."""


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@pytest.mark.parametrize(("value", "what"), UNFIT.items(), ids=UNFIT)
def test_a_value_that_frames_cannot_hold_is_refused_by_its_column(con: duckdb.DuckDBPyConnection, value: str, what: str) -> None:
    with pytest.raises(AtlasError, match=what) as caught:
        fetch(con, f"SELECT 1 AS one, {value} AS odd")
    assert "'odd'" in str(caught.value)
    assert "cast it to text" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", HELD)
def test_what_python_can_say_is_held(con: duckdb.DuckDBPyConnection, value: str) -> None:
    assert fetch(con, f"SELECT {value} AS v")["v"].to_list() == [con.execute(f"SELECT {value}").fetchall()[0][0]]


@pytest.mark.parametrize(("value", "text"), AS_TEXT.items(), ids=AS_TEXT)
def test_a_type_without_a_counterpart_comes_as_duckdb_writes_it(con: duckdb.DuckDBPyConnection, value: str, text: str) -> None:
    found = fetch(con, f'SELECT 1 AS one, {value} AS "an ""odd"" one" -- the end')
    assert found.schema["one"] == pl.Int32
    assert found['an "odd" one'].to_list() == [text]


@pytest.mark.parametrize("n", [0, 2])
def test_fields_without_names_are_no_structure(con: duckdb.DuckDBPyConnection, n: int) -> None:
    """DuckDB 2 numbers them."""
    found = fetch(con, f"SELECT row(1, 2) AS v FROM range(2) AS t (i) WHERE i < {n}")
    assert found.schema == {"v": pl.String if IS_DUCKDB_1 else pl.Struct({"element1": pl.Int32, "element2": pl.Int32})}
    assert found["v"].to_list() == (["(1, 2)"] if IS_DUCKDB_1 else [{"element1": 1, "element2": 2}]) * n


def test_a_column_that_comes_as_text_keeps_the_parameters(con: duckdb.DuckDBPyConnection) -> None:
    assert fetch(con, "SELECT '01'::BIT AS b WHERE $n = 2", {"n": 2})["b"].to_list() == ["01"]


def test_a_frame_that_cannot_be_made_is_one_line(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(AtlasError, match="cast the column to text"):
        fetch(con, "SELECT 1 AS a, 2 AS a")


@pytest.mark.parametrize("value", [MOST, -MOST, 10**38, 10**38 - 1, 5])
def test_huge_whole_numbers_are_exact(con: duckdb.DuckDBPyConnection, value: int) -> None:
    assert [int(v) for v in fetch(con, f"SELECT ({value})::HUGEINT AS h")["h"].to_list()] == [value]


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("format", ["json", "csv", "table"])
def test_huge_whole_numbers_are_written_whole(tiny_path: Path, capfdbinary: pytest.CaptureFixture, format: str) -> None:
    assert run(["sql", f"SELECT {MOST}::HUGEINT AS h", "--db", str(tiny_path), "--format", format], is_debug=False) == 0
    printed = capfdbinary.readouterr().out.decode()
    assert str(MOST) in printed
    assert format != "json" or json.loads(printed) == [{"h": MOST}]


@pytest.mark.thorough
def test_numbers_that_parquet_has_no_type_for_are_refused(tiny_path: Path, tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    assert run(["sql", f"SELECT {MOST}::HUGEINT AS h", "--db", str(tiny_path), "-o", str(tmp_path / "x.parquet")], is_debug=False) == 1
    assert "'h' holds numbers of more than 38 digits" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_a_panic_of_polars_leaves_as_one_line(monkeypatch: pytest.MonkeyPatch, tiny_path: Path, capfd: pytest.CaptureFixture) -> None:
    def panic(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("out of range")

    monkeypatch.setattr("atlas.answers.fetch", panic)
    assert run(["ask", "corpus_summary", "--db", str(tiny_path)], is_debug=False) == 1
    assert capfd.readouterr().err == "Error: PanicException: out of range (unexpected; --debug shows where)\n"
