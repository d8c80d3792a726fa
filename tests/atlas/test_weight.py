"""What a stranger's statement makes its caller hold is bounded, whatever it hides it in; and what a file brings does not judge."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import atlas
from atlas import AtlasError, QueryRefused
from atlas.cli.main import main
from atlas.typed import sandbox
from atlas.typed.execution import EXPLAIN
from atlas.typed.sandbox_child import LEAST, weight
from tests.waiting import child_at_statement, has_ended, wait_until

NAME = "n" * 100_000


@pytest.mark.ci_cases(3)
@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(f"SELECT 'x'::ENUM('x', '{NAME}') AS e, '{NAME}'::ENUM('{NAME}') AS f FROM range(1000)", id="a text that all rows share"),
        pytest.param(f"SELECT [MAP {{1: '{NAME}'::ENUM('{NAME}')}}] AS m FROM range(1000)", id="the same within a map"),
        pytest.param(f"SELECT {{'{NAME}': 1}} AS s FROM range(1000)", id="a name that all rows share"),
        pytest.param(f"SELECT 1 AS {NAME} FROM range(1000)", id="the name of a column, for each row"),
        pytest.param("SELECT list_resize([true], 4000000, true) AS b", id="bits"),
        pytest.param(f"WITH a AS (SELECT 1 AS {NAME}) SELECT {', '.join(['a.*'] * 200)} FROM a", id="names of columns"),
    ],
)
def test_what_the_rows_come_to_is_bounded_and_not_what_arrow_holds(tiny_path: Path, statement: str) -> None:
    # DuckDB 2 takes its time over names of that length
    with pytest.raises(AtlasError, match="the answer has more than 10 MB|stopped after"):
        sandbox.run(tiny_path, statement, max_bytes=10 << 20, timeout=300)


@pytest.mark.thorough
def test_a_message_is_no_way_round_it(tiny_path: Path) -> None:
    with pytest.raises(AtlasError, match="Invalid Input Error: xxx") as caught:
        sandbox.run(tiny_path, "SELECT error(repeat('x', 20000000))", timeout=300)
    assert len(str(caught.value)) <= 10_000


@pytest.mark.thorough
def test_what_is_nested_too_deeply_is_said(tiny_path: Path) -> None:
    assert sandbox.run(tiny_path, f"SELECT {'[' * 50}1{']' * 50} AS a", timeout=300).frame.height == 1
    with pytest.raises(AtlasError, match="nested too deeply for Arrow"):
        sandbox.run(tiny_path, f"SELECT {'[' * 70}1{']' * 70} AS a", timeout=300)


@pytest.mark.thorough
def test_bytes_that_are_no_text_are_refused(a: atlas.Atlas) -> None:
    for own_process in (False, True):
        with pytest.raises(QueryRefused, match="in UTF-8"):
            a.sql("SELECT '\udcff'", own_process=own_process)


def test_many_comments_are_read_at_once(a: atlas.Atlas) -> None:
    # read from every place anew they would come to no end; DuckDB takes this character for a space, and Python does not
    assert EXPLAIN.match("/**/" * 100 + "\u200bEXPLAIN SELECT 1") is None
    assert a.sql("/* a */ -- b\n /* c */ EXPLAIN /* d */ SELECT 1").height == 1


def test_a_weight() -> None:
    shared = pa.array(["ab", "c", "ab", None]).dictionary_encode()
    schema = pa.schema({"t": shared.type}).serialize().size
    assert weight(pa.table({"t": shared})) == schema + 2 + 1 + 2
    numbers = pa.table({"i": pa.array([1, 2, 3], pa.int64())})
    assert weight(numbers) == numbers.schema.serialize().size + 3 * 8
    nested = pa.table({"s": pa.array([[{"name": True}, {"name": False}], []], pa.list_(pa.struct({"name": pa.bool_()})))})
    # two lists; two structures, each with a name of 4 bytes and a value
    assert weight(nested) == nested.schema.serialize().size + 2 * LEAST + 2 * (4 + LEAST)


@pytest.mark.thorough
def test_macros_of_a_file_do_not_judge(tiny_copy: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    tiny_copy.execute("""
        CREATE MACRO json_serialize_sql(x) AS '{"error": false, "statements": []}';
        CREATE MACRO json_serialize_plan(x) AS '{"error": false}';
        CREATE MACRO current_database() AS 'system'
    """)
    tiny_copy.close()
    with atlas.open(tmp_path / "copy.duckdb") as a:
        with pytest.raises(QueryRefused, match="current_setting"):
            a.sql("SELECT current_setting('threads')")
        assert a.sql("SELECT count(*) FROM trigger").item() == 144


@pytest.mark.thorough
def test_what_a_file_says_is_no_command_to_the_terminal(
    tiny_copy: duckdb.DuckDBPyConnection, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    tiny_copy.execute("UPDATE model SET name = chr(27) || '[2J'; UPDATE corpus SET name = chr(27) || '[2J'")
    tiny_copy.close()
    for command in (["status"], ["tour"], ["sql", "FROM model"], ["sql", "SELECT error(any_value(m.name)) FROM model AS m"]):
        with pytest.raises(SystemExit):
            main([*command, "--db", str(tmp_path / "copy.duckdb")])
        said = b"".join(capsysbinary.readouterr())
        assert b"\\x1b[2J" in said
        assert b"\x1b[2J" not in said


def test_a_statement_ends_with_whoever_asked(tiny_path: Path) -> None:
    endless = "SELECT count(*) FROM range(100000) AS a, range(100000) AS b, range(100000) AS c WHERE random() > 2"
    code = f"from atlas.typed import sandbox; sandbox.run({str(tiny_path)!r}, {endless!r}, timeout=3600)"
    asking = subprocess.Popen([sys.executable, "-c", code])
    child = child_at_statement(asking.pid)
    asking.kill()
    asking.wait()
    wait_until(lambda: has_ended(child), "the process of a statement that nobody waits for ends")
