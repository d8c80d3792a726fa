"""Each format keeps every column type, and files carry where they come from."""

import csv
import hashlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest

import atlas
from atlas.cli.options import emit
from atlas.export.formats import FORMATS, Style, format_of, render, save
from atlas.export.html import html_table
from atlas.export.markdown import markdown_table
from atlas.export.provenance import commit, provenance
from atlas.export.terminal import terminal_table
from atlas.reads import names, relations_of_statement
from schema import SCHEMA_VERSION
from schema.errors import AtlasError

EVERYTHING = """
SELECT
    1::BIGINT AS big,
    -0.5::FLOAT AS number,
    ' [red]x[/red]' AS token,
    true AS flag,
    ['a', NULL, 'b'] AS list,
    [1.5, 2.5]::FLOAT[2] AS vector,
    {'x': 1, 'y': ['z']} AS struct,
    '{"year": 1790}'::JSON AS metadata,
    'bytes'::BLOB AS bytes,
    sum(3) AS huge,
    TIMESTAMPTZ '2026-01-02 03:04:05+00' AS moment,
    DATE '2026-01-02' AS day,
    NULL AS nothing
"""


@pytest.fixture
def everything(a: atlas.Atlas) -> pl.DataFrame:
    return a.sql(EVERYTHING)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_takes_every_type(everything: pl.DataFrame, format: str) -> None:
    assert len(render(everything, format, Style())) > 50


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_takes_no_rows_and_no_text(everything: pl.DataFrame, format: str) -> None:
    assert bool(render(everything.clear(), format, Style())) == (format != "jsonl")
    assert render(pl.DataFrame({"token": ["", None]}), format, Style())


def test_json_gives_back_the_values(everything: pl.DataFrame) -> None:
    row = json.loads(render(everything, "json", Style()))[0]
    assert row == {
        "big": 1,
        "number": -0.5,
        "token": " [red]x[/red]",
        "flag": True,
        "list": ["a", None, "b"],
        "vector": [1.5, 2.5],
        "struct": {"x": 1, "y": ["z"]},
        "metadata": '{"year": 1790}',
        "bytes": b"bytes".hex(),
        "huge": 3,
        "moment": "2026-01-02T03:04:05+00:00",
        "day": "2026-01-02",
        "nothing": None,
    }
    assert json.loads(render(everything, "jsonl", Style())) == row


def test_jsonl_has_one_line_per_row_even_with_line_breaks_in_tokens() -> None:
    frame = pl.DataFrame({"token": ["\n", "\u2028", "é"]})
    lines = render(frame, "jsonl", Style()).decode().split("\n")
    assert [json.loads(line)["token"] for line in lines[:-1]] == ["\n", "\u2028", "é"]


def test_csv_is_read_back_whole(everything: pl.DataFrame) -> None:
    row = next(csv.DictReader(io.StringIO(render(everything, "csv", Style()).decode())))
    assert row["token"] == " [red]x[/red]"
    assert json.loads(row["list"]) == ["a", None, "b"]
    assert json.loads(row["vector"]) == [1.5, 2.5]
    assert json.loads(row["struct"]) == {"x": 1, "y": ["z"]}
    assert row["metadata"] == '{"year": 1790}'
    assert bytes.fromhex(row["bytes"]) == b"bytes"


def test_csv_quotes_what_needs_quotes() -> None:
    frame = pl.DataFrame({"token": ['"', ",", "\n", "a;b", " x "]})
    found = [row["token"] for row in csv.DictReader(io.StringIO(render(frame, "csv", Style()).decode(), newline=""))]
    assert found == frame["token"].to_list()


def test_parquet_keeps_types_and_says_where_it_comes_from(everything: pl.DataFrame, tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    save(everything, file, "parquet", Style({"question": "q"}))
    assert pl.read_parquet(file).drop("nothing").equals(everything.drop("nothing"))
    assert json.loads(pq.read_schema(file).metadata[b"atlas"]) == {"question": "q"}


def test_markdown_escapes_what_is_markup() -> None:
    frame = pl.DataFrame({"a_b": ["|", "*x*", "<b>", "`", "\n", "[x](y)", "\\"], "n": [1, 2, 3, 4, 5, 6, 7]})
    assert markdown_table(frame).splitlines() == [
        "| a\\_b | n |",
        "| --- | ---: |",
        "| \\| | 1 |",
        "| \\*x\\* | 2 |",
        "| \\<b\\> | 3 |",
        "| \\` | 4 |",
        "| ↵ | 5 |",
        "| \\[x\\](y) | 6 |",
        "| \\\\ | 7 |",
    ]


def test_a_terminal_obeys_no_markup_of_a_token() -> None:
    table = terminal_table(pl.DataFrame({"token": ["[red]x[/red]", ":smile:", "[/]", "\x1b[31m"]}), color=True)
    for text in ("[red]x[/red]", ":smile:", "[/]", "\\x1b[31m"):
        assert text in table


@pytest.mark.parametrize("table", [terminal_table, markdown_table, html_table])
def test_nor_of_the_name_of_a_column(table: Callable[[pl.DataFrame], str]) -> None:
    """A file that was sent may have any, and arms that were kept stand over columns by their names."""
    said = table(pl.DataFrame({"a\x1b]0;x\x07\n\u202eb": ["c"], "token\n": ["d"]}))
    assert not set(said) & {"\x1b", "\x07", "\u202e"}
    assert "x1b" in said and said.count("\n") == table(pl.DataFrame({"a": ["c"], "token": ["d"]})).count("\n")


def test_a_terminal_table_is_no_wider_than_the_terminal_and_names_what_it_left_out() -> None:
    frame = pl.DataFrame({f"column_{i}": ["long text " * 20] for i in range(12)})
    for width in (20, 40, 80, 200):
        table = terminal_table(frame, width=width)
        assert max(len(line) for line in table.splitlines()) <= width
        assert "column_11" in table.replace("\n", " ")


@pytest.mark.parametrize("width", range(1, 6))
def test_a_terminal_of_few_columns_has_an_end(width: int) -> None:
    table = terminal_table(pl.DataFrame({"token": ["long text"], "n": [1]}), width=width)
    assert max(len(line) for line in table.splitlines()) <= max(width, 1)


@pytest.mark.thorough
def test_a_long_text_is_cropped_as_a_short_one() -> None:
    lines = [terminal_table(pl.DataFrame({"text_before": ["y" * n], "token": ["x" * n]}), width=60).splitlines()[2] for n in (1_000, 3_000_000)]
    assert lines[0] == lines[1]
    assert lines[0].startswith("…y") and lines[0].endswith("x…")


def test_many_rows_as_wide_as_one_long_cell_are_no_table() -> None:
    with pytest.raises(AtlasError, match="201 rows of these columns can be more than a table of 100 MB: choose --format csv"):
        terminal_table(pl.DataFrame({"a": ["x" * 600_000] + [""] * 200}))


def test_wide_characters_count_twice() -> None:
    table = terminal_table(pl.DataFrame({"token": ["日本語" * 20]}), width=30)
    assert all(sum(2 if c > "\u2e7f" else 1 for c in line) <= 30 for line in table.splitlines())


def test_the_text_before_a_token_keeps_its_end() -> None:
    frame = pl.DataFrame({"text_before": ["beginning " * 9 + "end"], "token": [" of"]})
    line = terminal_table(frame, width=40).splitlines()[2]
    assert line.startswith("…")
    assert line.endswith("end   ␣of")


def test_without_a_terminal_nothing_is_cropped() -> None:
    text = "x" * 500
    assert text in terminal_table(pl.DataFrame({"a": [text], "b": ["y"]}))


def test_provenance_names_model_corpora_sql_and_versions(a: atlas.Atlas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    found = provenance(a.con, a.path, sql="SELECT 1", n_rows=1, question="q", parameters={"layer": 1})
    assert found["model"] == {
        "name": "tiny",
        "revision": "r0",
        "model_type": "llama",
        "dtype": "float32",
        "weights_sha256": "ww",
        "schema_version": SCHEMA_VERSION,
    }
    assert [(c["name"], c["split"], c["sha256"]) for c in found["corpora"]] == [("tales", "all", "aa"), ("more", "test", "bb")]
    assert (found["question"], found["parameters"], found["sql"], found["n_rows"]) == ("q", {"layer": 1}, "SELECT 1", 1)
    assert {"python", "activation-atlas", "duckdb", "polars"} == set(found["versions"])
    assert found["created"] == datetime(1970, 1, 1, tzinfo=UTC).isoformat()


WEIGHTS, SWEEPS, TRACES = [("weights", None)], [("sweep", 0), ("sweep", 1)], [("trace", 0), ("trace", 1)]


def runs_behind(a: atlas.Atlas, sql: str, **chosen: object) -> list[tuple[object, object]]:
    found = provenance(a.con, a.path, sql=sql, n_rows=1, **chosen)  # type: ignore[arg-type]
    return [(run["kind"], run["corpus_id"]) for run in found["runs"]]  # type: ignore[attr-defined]


def test_what_a_statement_reads_is_found_however_deeply_it_is_nested(a: atlas.Atlas) -> None:
    node: object = {"type": "BASE_TABLE", "table_name": "neuron"}
    for _ in range(5_000):
        node = {"type": "FUNCTION", "function_name": "||", "children": [node]}
    assert set(names(node)) == {"||", "neuron"}
    # Python's JSON goes no deeper
    assert relations_of_statement(a.con, f"SELECT {'||'.join(['n.dead'] * 900)} FROM neuron AS n") is None


def test_provenance_has_the_runs_that_the_caller_knows_the_rows_rest_on(a: atlas.Atlas) -> None:
    assert runs_behind(a, "as text", kinds={"sweep"}) == SWEEPS
    assert runs_behind(a, "as text", kinds={"weights", "trace"}, parameters={"corpus": 1}) == [("weights", None), ("trace", 1)]
    run = provenance(a.con, a.path, sql="FROM neuron", n_rows=1)["runs"][0]  # type: ignore[index]
    assert (run["settings"], run["versions"], run["seed"], run["device"]) == ({"model": "tiny"}, {}, 0, "cpu")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1", []),
        ("FROM neuron", WEIGHTS),
        ("SELECT t.coefficient, t.token FROM trigger_text AS t", SWEEPS),
        ("WITH x AS (FROM top_triggers(1, 2)) SELECT coefficient FROM x", SWEEPS),
        ("from NEURON n, TRACE t", WEIGHTS + TRACES),
        ("FROM saturation", TRACES),
        ("SELECT count(*) FROM token WHERE token_id IN (SELECT token_id FROM value_token)", WEIGHTS),
        ("FROM last_layout", [("map", None), ("map", None)]),
    ],
)
def test_provenance_lists_the_runs_that_filled_the_tables_which_a_statement_reads(a: atlas.Atlas, sql: str, expected: list) -> None:
    assert runs_behind(a, sql) == expected


def test_provenance_lists_the_runs_behind_a_question(a: atlas.Atlas) -> None:
    assert runs_behind(a, "CREATE …", question="value_tokens") == WEIGHTS
    assert runs_behind(a, "CREATE …", question="top_triggers", parameters={"corpus": 1}) == [("sweep", 1)]


def test_provenance_lists_every_run_of_a_statement_that_duckdb_does_not_take_apart(a: atlas.Atlas) -> None:
    assert len(runs_behind(a, "PIVOT trigger ON layer USING sum(rank)")) == len(a.sql("FROM run"))


def test_the_manifest_has_a_digest_that_changes_with_any_shard(a: atlas.Atlas, tiny_copy: duckdb.DuckDBPyConnection) -> None:
    def digest(con: duckdb.DuckDBPyConnection) -> object:
        return provenance(con, a.path, sql="SELECT 1", n_rows=1)["manifest_sha256"]

    shards = tiny_copy.execute("SELECT run_id, kind, corpus_id, settings, seed, shard_id, sha256 FROM run JOIN shard USING (run_id) ORDER BY ALL").fetchall()
    expected = hashlib.sha256(json.dumps([[["ww", "float32"]], [[0, "aa"], [1, "bb"]], shards]).encode()).hexdigest()
    assert digest(a.con) == digest(tiny_copy) == expected
    tiny_copy.execute("UPDATE shard SET sha256 = 'dd' WHERE run_id = 4")
    assert digest(tiny_copy) != expected


def test_the_commit_is_that_of_the_checkout_and_none_elsewhere(tmp_path: Path) -> None:
    assert commit(tmp_path) is None

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        return subprocess.run(["git", *identity, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-q", "-m", "a")
    commit.cache_clear()
    assert commit(tmp_path) == git("rev-parse", "HEAD")
    (tmp_path / "a").write_text("2")
    commit.cache_clear()
    assert commit(tmp_path) == f"{git('rev-parse', 'HEAD')}-dirty"


def test_the_sidecar_lies_beside_the_file(tmp_path: Path) -> None:
    save(pl.DataFrame({"a": [1]}), tmp_path / "t.csv", "csv", Style({"n_rows": 1}))
    assert json.loads((tmp_path / "t.csv.provenance.json").read_text()) == {"n_rows": 1}


@pytest.mark.parametrize("suffix", [".xlsx", ""])
def test_an_unknown_suffix_is_answered_with_the_known(suffix: str) -> None:
    with pytest.raises(AtlasError, match=r"use one of \.txt \.json \.jsonl \.csv \.parquet \.md \.tex"):
        format_of(Path(f"table{suffix}"))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AtlasError, match=r"cannot write .*none/t\.csv: No such file or directory"):
        save(pl.DataFrame({"a": [1]}), tmp_path / "none" / "t.csv", "csv", Style())


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("format_", ["csv", "json", "jsonl", "markdown", "latex", None])
def test_a_terminal_obeys_no_text(monkeypatch: pytest.MonkeyPatch, format_: str | None) -> None:
    """An escape sequence that sets the window's title, the one-byte form of its beginning, and a mark that turns the direction of reading."""
    monkeypatch.setattr(sys, "stdout", Terminal(io.BytesIO()))
    monkeypatch.setenv("NO_COLOR", "1")
    frame = pl.DataFrame({"text": ["\x1b]0;mine\x07", "\x9b31m red", "a\u202eb", "é and 猫"]})
    emit(frame, format_=format_, output=None, columns=None, caption=None, label=None)
    printed = sys.stdout.buffer.getvalue().decode()
    assert not {*printed} & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert "é and" in printed
