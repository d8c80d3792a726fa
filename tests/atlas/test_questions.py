"""Every question gives the rows that a pencil gives on the tiny atlas, keeps its grain, and is described by its header."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import duckdb
import polars as pl
import pytest

import atlas
from atlas.questions import macro_files, parse_question, question, questions
from schema.errors import AtlasError
from schema.open.kinds import kinds

EXPECTED = Path(__file__).parent / "questions"
CASES = [(path.stem, case) for path in sorted(EXPECTED.glob("*.json")) for case in json.loads(path.read_text())]
NAMES = sorted(questions())


@pytest.fixture(scope="module")
def suites(suites_path: Path) -> Iterator[atlas.Atlas]:
    with atlas.open(suites_path) as opened:
        yield opened


@cache
def first_calls() -> dict[str, str]:
    """The call of each question's first case."""
    return {name: case["call"] for name, case in reversed(CASES)}


@cache
def is_of_suites(name: str) -> bool:
    """Whether a case of the question asks the atlas with tests in it."""
    return any(n == name and case.get("atlas") == "suites" for n, case in CASES)


@pytest.fixture(scope="module")
def first_answer(a: atlas.Atlas, suites: atlas.Atlas) -> Callable[[str], pl.DataFrame]:
    """What the first call of a question gives, asked once for all tests of this file."""
    return cache(lambda name: (suites if is_of_suites(name) else a).sql(f"FROM {first_calls()[name]}"))


@pytest.mark.parametrize(("name", "case"), CASES, ids=[case["call"] for _, case in CASES])
def test_question_gives_the_rows_worked_out_by_hand(
    a: atlas.Atlas, suites: atlas.Atlas, first_answer: Callable[[str], pl.DataFrame], name: str, case: dict
) -> None:
    if case["call"] == first_calls()[name] and (case.get("atlas") == "suites") == is_of_suites(name):
        found = first_answer(name).select(case["columns"])
    else:
        found = (suites if case.get("atlas") == "suites" else a).sql(f"SELECT {', '.join(case['columns'])} FROM {case['call']}")
    assert found.height == len(case["rows"])
    for row, expected in zip(found.rows(), case["rows"], strict=True):
        for column, value, wanted in zip(case["columns"], row, expected, strict=True):
            assert value == (pytest.approx(wanted, abs=1e-6) if isinstance(wanted, float | list) and not has_text(wanted) else wanted), column


def has_text(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], str)


def test_every_question_has_expected_rows_of_all_its_columns(first_answer: Callable[[str], pl.DataFrame]) -> None:
    assert {path.stem for path in EXPECTED.glob("*.json")} == set(NAMES)
    for name in first_calls():
        case = next(case for n, case in CASES if n == name)
        assert case["rows"]
        assert first_answer(name).columns == case["columns"]


@pytest.mark.parametrize("name", NAMES)
def test_question_has_one_row_per_grain(first_answer: Callable[[str], pl.DataFrame], name: str) -> None:
    keys = first_answer(name).select(question(name).grain)
    assert keys.n_unique() == keys.height


def test_no_number_is_a_decimal(a: atlas.Atlas, first_answer: Callable[[str], pl.DataFrame]) -> None:
    """0.05 is one in DuckDB: what is reckoned with it keeps so many digits and no more."""
    assert "Decimal" in str(a.sql("SELECT [0.05]").schema)
    for name in NAMES:
        assert "Decimal" not in str(first_answer(name).schema), name
    views = a.sql(
        "SELECT DISTINCT view_name, column_name FROM duckdb_views() JOIN duckdb_columns() ON table_name = view_name WHERE contains(data_type, 'DECIMAL')"
    )
    assert views.is_empty(), views


@pytest.fixture(scope="module")
def parameters(a: atlas.Atlas) -> dict[str, list[str]]:
    """Those of every macro, as DuckDB has them."""
    rows = a.sql("SELECT f.function_name, f.parameters FROM duckdb_functions() AS f WHERE f.function_type = 'table_macro' AND NOT f.internal").iter_rows()
    return dict(rows)


@pytest.mark.parametrize("name", NAMES)
def test_header_parameters_are_those_of_the_macro(a: atlas.Atlas, parameters: dict[str, list[str]], name: str) -> None:
    q = question(name)
    assert parameters[name] == [p.name for p in q.parameters]
    # DuckDB prints the signature, defaults included, only when a call does not match
    with pytest.raises(duckdb.BinderException) as error:
        a.con.execute(f"FROM {q.macro}(no_such_parameter := 1)")
    # up to the position of the macro's parameters; a macro without parameters has no defaults to compare
    printed = re.search(rf"\t{name}\((.*)\)", str(error.value))
    if q.parameters:
        assert printed is not None
        assert f"{q.macro}({printed[1]})" == q.signature


@pytest.mark.parametrize("name", NAMES)
def test_header_columns_are_those_of_an_answer(first_answer: Callable[[str], pl.DataFrame], name: str) -> None:
    columns = question(name).columns
    assert list(columns) == first_answer(name).columns
    assert all(columns.values())


@pytest.mark.parametrize("name", NAMES)
def test_header_says_where_the_question_comes_from(name: str) -> None:
    q = question(name)
    assert q.title and q.source and q.chart and q.grain
    assert all(p.meaning for p in q.parameters)
    assert {p.type for p in q.parameters} <= {"integer", "bigint", "double", "text", "bigint[]"}


def test_the_title_is_stored_as_the_macros_comment(a: atlas.Atlas) -> None:
    found = dict(a.sql("SELECT f.function_name, f.comment FROM duckdb_functions() AS f WHERE f.function_type = 'table_macro' AND NOT f.internal").iter_rows())
    assert found == {name: q.title for name, q in questions().items()}
    assert set(macro_files()).union(*(kind.questions() for kind in kinds())) == set(NAMES)


def test_unknown_question_is_answered_with_the_nearest() -> None:
    with pytest.raises(AtlasError, match="no question 'top_trigers'; did you mean top_triggers"):
        question("top_trigers")


def test_a_header_that_lacks_something_is_refused() -> None:
    with pytest.raises(AtlasError, match=r"x\.sql: its header has no chart, grain"):
        parse_question("x", "-- title: T\n-- source: S\nSELECT 1")
    with pytest.raises(AtlasError, match="is not 'name"):
        parse_question("x", "-- title: T\n-- source: S\n-- grain: g\n-- chart: c\n-- param: layer: block")


def test_a_view_and_the_question_cut_the_same_text(a: atlas.Atlas) -> None:
    columns = "position_id, text_before, token, text_after, next_token, document, metadata, corpus_id"
    view = a.sql(f"SELECT DISTINCT {columns} FROM trigger_text ORDER BY position_id")
    macro = a.sql(f"SELECT {columns} FROM token_context((SELECT list(position_id) FROM trigger)) ORDER BY position_id")
    assert view.equals(macro)
