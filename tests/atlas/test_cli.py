"""The command line: every command, format and error, its exit codes, and what goes to stdout and to stderr."""

import csv
import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import click
import duckdb
import polars as pl
import pytest
from click.testing import CliRunner, Result

from atlas.cli.main import COMMANDS, PLUGINS, cli, run
from atlas.cli.options import FORMATS as OFFERED
from atlas.export.formats import FORMATS
from atlas.export.terminal import terminal_table
from atlas.questions import questions
from tests.waiting import HANG_S, child_at_statement, once_it_computes

TRIGGERS = ["top_triggers", "--layer", "0", "--neuron", "1"]


@pytest.fixture
def call(tiny_path: Path, capfdbinary: pytest.CaptureFixture[bytes]):
    """Run `atlas …` on the tiny atlas: (exit code, stdout, stderr)."""

    def called(*arguments: str, db: bool = True, debug: bool = False) -> tuple[int, str, str]:
        code = run([*arguments, *(["--db", str(tiny_path)] if db else [])], debug)
        out, err = capfdbinary.readouterr()
        return code, out.decode(errors="replace"), err.decode()

    return called


def atlas_process(*arguments: str, **options) -> subprocess.CompletedProcess:
    code = "from atlas.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, **options)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom atlas.cli.main import run\nassert run(['--help'], False) == 0\n"
        "print([m for m in ('polars', 'duckdb', 'sqlalchemy', 'torch', 'rich', 'pyarrow', 'ingest') if m in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr.strip() == "[]"


@pytest.mark.parametrize(("name", "first"), [("ingest", "What everyone needs"), ("trace", "The prompt"), ("experiment saliency", "The prompts")])
def test_the_help_of_a_command_with_many_options_groups_every_one_of_them_once(call, name: str, first: str) -> None:
    command: click.Command = cli
    for word in name.split():
        command = command.get_command(click.Context(command), word)  # type: ignore[attr-defined]
    grouped = [option for options in command.groups.values() for option in options]  # type: ignore[attr-defined]
    assert sorted(grouped) == sorted(str(p.name) for p in command.params if isinstance(p, click.Option))
    code, out, _ = call(*name.split(), "--help", db=False)
    headings = [line.removesuffix(":") for line in out.splitlines() if line.endswith(":") and line[0].isalpha()]
    assert (code, headings) == (0, [*command.groups, "Others"]) and headings[0] == first  # type: ignore[attr-defined]


def test_help_lists_every_command_with_a_line(call) -> None:
    code, out, _ = call("--help", db=False)
    assert code == 0
    for name, (_, line) in COMMANDS.items():
        assert name in out and line.split(":")[0] in out
    assert PLUGINS["ingest"] in out


READING = [
    ["ask", "top_triggers", "--layer", "0", "--neuron", "1"],
    ["ask", "geva2021_fig3"],
    ["sql", "FROM top_triggers(0, 1)"],
    ["status"],
    ["schema"],
    ["show", "L0N1"],
    ["show", "L1H0"],
]


@pytest.mark.ci_cases(4)
@pytest.mark.first_cases(2)
@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_what_reads_an_atlas_imports_no_pandas(tiny_path: Path, tmp_path: Path, words: list[str]) -> None:
    """DuckDB and Arrow import it for parameters and for lists of Python's, where it is installed, which takes longer than to answer."""
    shutil.copy(tiny_path, tmp_path / "a.duckdb")
    with duckdb.connect(str(tmp_path / "a.duckdb")) as con:
        con.execute("DELETE FROM removal")
    code = (
        "import sys\nfrom atlas.cli.main import run\ncode = run(sys.argv[1:], False)\n"
        "print([m for m in ('pandas', 'sqlalchemy') if m in sys.modules], file=sys.stderr)\nsys.exit(code)"
    )
    ran = subprocess.run([sys.executable, "-c", code, *words, "--db", "a.duckdb"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_itself(call, name: str) -> None:
    code, out, _ = call(name, "--help", db=False)
    assert code == 0
    assert out.startswith(f"Usage: atlas {name}")


@pytest.mark.parametrize("name", sorted(questions()))
def test_every_question_has_help_from_its_header(call, name: str) -> None:
    code, out, _ = call("ask", name, "--help", db=False)
    q = questions()[name]
    assert code == 0
    text = " ".join(out.split())
    assert q.title in text
    for p in q.parameters:
        assert f"--{p.name.replace('_', '-')}" in out
        assert p.default in (None, "NULL") or f"[default: {p.default}]" in text


def test_the_offered_formats_are_those_there_are() -> None:
    assert tuple(FORMATS) == OFFERED


@pytest.mark.parametrize("format", OFFERED)
def test_ask_answers_in_every_format(call, format: str) -> None:
    code, out, err = call("ask", *TRIGGERS, "--format", format)
    assert err == ""
    assert code == 0
    assert "PAR1" in out if format == "parquet" else " sat" in out or "␣sat" in out or "textvisiblespace{}sat" in out


@pytest.mark.thorough
def test_ask_has_the_defaults_of_the_question(call) -> None:
    rows = json.loads(call("ask", *TRIGGERS, "--format", "json")[1])
    assert [row["position_id"] for row in rows] == [3, 9, 101]
    rows = json.loads(call("ask", *TRIGGERS, "--n", "1", "--corpus", "1", "--format", "json")[1])
    assert [row["position_id"] for row in rows] == [101]


@pytest.mark.thorough
def test_ask_takes_lists_and_text(call) -> None:
    rows = json.loads(call("ask", "token_context", "--position-ids", "101, 6", "--format", "json")[1])
    assert [row["token"] for row in rows] == ["<s>", " cat"]
    rows = json.loads(call("ask", "neurons_promoting", "--token", " *", "--format", "json")[1])
    assert {row["neuron"] for row in rows} == {1}
    rows = json.loads(call("ask", "geva2022_extreme", "--threshold", "0.5", "--corpus", "0", "--format", "json")[1])
    assert [row["n_extreme"] for row in rows] == [0, 3, 1]
    code, _, err = call("ask", "token_context", "--position-ids", "1,x")
    assert code == 2
    assert "not a list of whole numbers" in err


@pytest.mark.thorough
def test_columns_are_chosen_and_ordered(call) -> None:
    assert call("ask", *TRIGGERS, "--columns", "token,rank", "--format", "csv")[1].splitlines() == ["token,rank", " sat,1", " sat,2", " cat,3"]
    code, _, err = call("ask", *TRIGGERS, "--columns", "tokn")
    assert code == 2
    assert "no column 'tokn'; there are rank, coefficient" in err
    assert call("ask", *TRIGGERS, "--columns", "token,token")[0] == 2


@pytest.mark.thorough
def test_latex_has_a_caption_and_label(call) -> None:
    out = call("ask", "promotion_vs_elimination", "--corpus", "0", "--format", "latex", "--label", "tab:p")[1]
    assert r"\caption{Do FFNs build predictions by promoting or by eliminating?}" in out
    assert r"\label{tab:p}" in out
    assert "% question: promotion_vs_elimination" in out
    assert r"\caption{Mine}" in call("ask", *TRIGGERS, "--format", "latex", "--caption", "Mine")[1]


@pytest.mark.parametrize("epoch", ["abc", "1.5", "9" * 30])
def test_a_source_date_that_is_no_time_is_said(call, monkeypatch: pytest.MonkeyPatch, epoch: str) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    code, _, err = call("ask", *TRIGGERS, "--format", "latex")
    assert (code, err) == (1, f"Error: SOURCE_DATE_EPOCH is {epoch!r}, and not a number of seconds since 1970; unset it, or set it to a whole number\n")


@pytest.mark.parametrize(
    "arguments", [("status", ""), ("tour", ""), ("verify", ""), ("doctor", ""), ("ask", *TRIGGERS, "--db", ""), ("show", "L0N0", "--db", "/")]
)
def test_an_empty_name_is_no_atlas(call, arguments: tuple[str, ...]) -> None:
    code, _, err = call(*arguments, db=False)
    assert code in (1, 2)
    assert "unexpected" not in err
    assert "it is a folder" in err or "TARGET is empty" in err


def test_a_tour_of_an_atlas_without_a_model_says_so(call, empty_path: Path) -> None:
    code, _, err = call("tour", str(empty_path), db=False)
    assert (code, err) == (1, f"Error: {empty_path} holds no model yet; `atlas ingest` fills it\n")


def test_half_a_surrogate_pair_is_no_text(call) -> None:
    """Bytes of a command line that are no UTF-8 come to Python so."""
    code, _, err = call("ask", "neurons_promoting", "--token", "\udcff")
    assert code == 1
    assert "token must be text, not" in err
    code, _, err = call("ask", *TRIGGERS, "--caption", "\udcff", "--format", "latex")
    assert code == 1
    assert "U+DCFF, half a surrogate pair" in err


LONG = "a" * 300


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("status", LONG), LONG),
        (("doctor", LONG), f"{LONG}.work"),
        (("sql", "SELECT 1", "--db", LONG), LONG),
        (("ask", *TRIGGERS, "--db", LONG), LONG),
    ],
)
def test_a_name_that_is_too_long_is_said(call, arguments: tuple[str, ...], name: str) -> None:
    code, _, err = call(*arguments, db=False)
    assert (code, err) == (1, f"Error: cannot open {name}: File name too long\n")


@pytest.mark.thorough
def test_an_answer_is_not_written_under_a_name_that_is_too_long(call) -> None:
    code, _, err = call("ask", *TRIGGERS, "-o", f"{LONG}.csv")
    assert (code, err) == (1, f"Error: cannot open {LONG}.csv: File name too long\n")


@pytest.mark.thorough
def test_a_folder_that_one_may_not_enter_is_said(call, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = Path.stat

    def refused(path: Path, **given: bool) -> os.stat_result:
        # root may enter any folder
        if "closed" in path.parts:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, **given)

    monkeypatch.setattr(Path, "stat", refused)
    code, _, err = call("status", "closed/a.duckdb", db=False)
    assert (code, err) == (1, "Error: cannot open closed/a.duckdb: Permission denied\n")
    code, _, err = call("sql", "SELECT 1", "-o", "closed/a.csv")
    assert (code, err) == (1, "Error: cannot open closed/a.csv: Permission denied\n")


def test_an_answer_is_not_written_where_links_lead_in_a_circle(call, tmp_path: Path) -> None:
    circle = tmp_path / "circle.csv"
    circle.symlink_to(circle)
    code, _, err = call("ask", *TRIGGERS, "-o", str(circle))
    assert code == 1
    assert "Too many levels of symbolic links" in err
    assert "unexpected" not in err


@pytest.mark.parametrize("command", ["status", "doctor", "verify"])
def test_an_atlas_whose_name_is_no_utf_8_is_said(call, tiny_path: Path, tmp_path: Path, command: str) -> None:
    path = tmp_path / "\udcff.duckdb"
    shutil.copy(tiny_path, path)
    code, out, err = call(command, str(path), db=False)
    assert code == 1
    assert out == ""
    assert "\\udcff.duckdb: its name is not UTF-8, and DuckDB cannot open such a file; rename it, or open a link to it" in err
    assert "unexpected" not in err
    link = tmp_path / "link.duckdb"
    link.symlink_to(path)
    assert call("status", str(link), db=False)[0] == 0


def test_text_that_no_file_takes_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli, "main", lambda *_, **__: "\udcff".encode())
    assert run([], is_debug=False) == 1
    assert capsys.readouterr().err == "Error: U+DCFF is half a surrogate pair, which UTF-8 cannot encode: check that the command line is UTF-8\n"


@pytest.mark.thorough
def test_a_query_on_standard_input_is_utf_8(tiny_path: Path) -> None:
    def asked(typed: bytes) -> subprocess.CompletedProcess:
        command = [sys.executable, "-c", "from atlas.cli import main; main()", "sql", "-", "--format", "csv", "--db", str(tiny_path)]
        return subprocess.run(command, input=typed, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"}, check=False)

    assert asked("SELECT 'é' AS e".encode()).stdout.decode() == "e\né\n"
    wrong = asked(b"SELECT 1 -- \xff")
    assert (wrong.returncode, wrong.stderr) == (1, b"Error: standard input is not UTF-8 (byte 12): save the query as UTF-8\n")


def test_standard_input_that_cannot_be_read_is_said(tiny_path: Path, tmp_path: Path) -> None:
    with (tmp_path / "written").open("wb") as written:
        done = atlas_process("sql", "-", "--db", str(tiny_path), stdin=written)
    assert (done.returncode, done.stderr) == (1, "Error: cannot read the query from standard input: Bad file descriptor\n")


@pytest.mark.parametrize(
    ("closed", "said"),
    [
        (0, "standard input is closed, but - reads the query from it"),
        (1, "standard output is closed, so that answers cannot be written; > /dev/null discards them"),
    ],
)
def test_a_stream_that_is_closed_is_said(tiny_path: Path, closed: int, said: str) -> None:
    code = "import os, sys\nos.close(int(sys.argv[1]))\nos.execv(sys.executable, [sys.executable, '-c', 'from atlas.cli import main; main()', *sys.argv[2:]])"
    command = [sys.executable, "-c", code, str(closed), "sql", "-", "--db", str(tiny_path)]
    done = subprocess.run(command, input="SELECT 1", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"Error: {said}\n")


@pytest.mark.ci_cases(4)
@pytest.mark.first_cases(2)
@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
@pytest.mark.parametrize("command", [["status"], ["tour"], ["show", "L0N1"], ["schema"], ["questions"]], ids=" ".join)
def test_a_locale_that_is_not_utf_8_gets_escapes(tiny_path: Path, command: list[str], encoding: str) -> None:
    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": encoding}
    done = atlas_process(*command, env={**os.environ, **locale, "ATLAS_DB": str(tiny_path)}, encoding="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.thorough
def test_standard_output_on_a_full_disk_is_said(tiny_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from atlas.cli import main; main()", "ask", *TRIGGERS, "--db", str(tiny_path)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "Error: cannot write the answer: No space left on device\n")


def test_the_help_of_export_says_what_csv_does_with_formulas(call) -> None:
    code, out, _ = call("export", "--help", db=False)
    assert code == 0
    assert "=1+1" in out


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    "name",
    [
        "copy.duckdb.wal",
        "copy.lake",
        "copy.annotations.duckdb",
        "copy.annotations.duckdb.tmp",
        "new.duckdb",
        "copy.duckdb.work/shard.parquet",
        "link.csv",
        "copy.keys/0.parquet",
    ],
)
def test_no_answer_takes_a_name_that_belongs_to_an_atlas(call, tmp_path: Path, name: str) -> None:
    work = tmp_path / "copy.duckdb.work"
    work.mkdir()
    (work / "lock").write_text("PID 1")
    (tmp_path / "copy.keys").mkdir()
    (tmp_path / "copy.duckdb").touch()
    there = {tmp_path / "copy.lake": b"{}", tmp_path / "copy.duckdb.wal": b"log", work / "shard.parquet": b"rows", tmp_path / "copy.keys/0.parquet": b"keys"}
    for path, content in there.items():
        path.write_bytes(content)
    (tmp_path / "link.csv").symlink_to(tmp_path / "copy.lake")
    code, _, err = call("ask", *TRIGGERS, "--format", "csv", "-o", str(tmp_path / name))
    assert code == 1
    assert f"cannot write {tmp_path / name}: " in err and "a file of that name belongs to an atlas" in err
    assert {path: path.read_bytes() for path in there} == there
    assert not any(".provenance." in path.name or path.name.startswith("new") for path in tmp_path.rglob("*"))


@pytest.mark.thorough
def test_a_parquet_file_that_may_be_a_lake_s_is_not_replaced_and_one_of_an_answer_is(call, tmp_path: Path) -> None:
    file = tmp_path / "ducklake-1.parquet"
    file.write_bytes(b"rows")
    code, _, err = call("ask", *TRIGGERS, "-o", str(file))
    assert (code, file.read_bytes()) == (1, b"rows")
    assert f"cannot write {file}: it may be a data file of a lake, for there is no ducklake-1.parquet.provenance.json beside it" in err
    file.unlink()
    for _ in range(2):
        assert call("ask", *TRIGGERS, "-o", str(file))[0] == 0
    assert pl.read_parquet(file).height > 0


@pytest.mark.thorough
def test_a_folder_that_ends_in_work_is_a_folder_as_any(call, tmp_path: Path) -> None:
    (tmp_path / "thesis.work").mkdir()
    code, _, _ = call("ask", *TRIGGERS, "-o", str(tmp_path / "thesis.work" / "table.csv"))
    assert code == 0


@pytest.mark.thorough
def test_no_answer_is_written_over_an_atlas(call, tiny_path: Path, tmp_path: Path) -> None:
    copy, link = tmp_path / "copy.csv", tmp_path / "link.csv"
    copy.write_bytes(tiny_path.read_bytes())
    link.symlink_to(copy)
    for target in (copy, link, tmp_path / ".." / tmp_path.name / "copy.csv"):
        code, _, err = call("ask", *TRIGGERS, "-o", str(target))
        assert code == 1
        assert "it is a DuckDB file, which is never overwritten" in err
    assert copy.read_bytes() == tiny_path.read_bytes()
    assert call("ask", *TRIGGERS, "-o", "-", "--format", "csv")[0] == 2


@pytest.mark.thorough
def test_an_empty_answer_says_so(call) -> None:
    code, out, err = call("ask", "saturation_events", "--layer", "2", "--format", "csv")
    assert (code, len(out.splitlines())) == (0, 1)
    assert err == "note: no rows\n"


@pytest.mark.thorough
def test_a_file_gets_the_format_of_its_suffix_and_a_sidecar(call, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    code, out, err = call("ask", *TRIGGERS, "-o", str(file))
    assert (code, out) == (0, "")
    assert "3 rows" in err
    assert len(list(csv.DictReader(io.StringIO(file.read_text())))) == 3
    sidecar = json.loads((tmp_path / "t.csv.provenance.json").read_text())
    assert (sidecar["question"], sidecar["n_rows"], sidecar["parameters"]["layer"]) == ("top_triggers", 3, 0)
    assert sidecar["model"]["revision"] == "r0"
    assert "CREATE OR REPLACE MACRO top_triggers" in sidecar["sql"]


@pytest.mark.thorough
def test_export_needs_a_file_and_takes_questions_and_sql(call, tmp_path: Path) -> None:
    code, _, err = call("export", *TRIGGERS)
    assert code == 2
    assert "--output" in err
    assert call("export", *TRIGGERS, "-o", str(tmp_path / "t.tex"))[0] == 0
    assert r"\begin{tabular}" in (tmp_path / "t.tex").read_text()
    assert call("export", "sql", "FROM trigger", "-o", str(tmp_path / "t.parquet"))[0] == 0
    assert json.loads((tmp_path / "t.parquet.provenance.json").read_text())["n_rows"] == 144
    code, _, err = call("export", *TRIGGERS, "-o", str(tmp_path / "t.xlsx"))
    assert code == 1
    assert "no format has the suffix '.xlsx'" in err


@pytest.mark.thorough
def test_sql_runs_a_select_from_the_line_or_from_stdin(tiny_path: Path) -> None:
    runner = CliRunner()
    result = runner.invoke(cli, ["sql", "SELECT 1 AS one", "--db", str(tiny_path), "--format", "csv"])
    assert result.output == "one\n1\n"
    result = runner.invoke(cli, ["sql", "-", "--db", str(tiny_path), "--format", "csv"], input="SELECT 2 AS two\n")
    assert result.output == "two\n2\n"


@pytest.mark.thorough
def test_sql_says_on_stderr_when_there_are_more_rows(call) -> None:
    code, out, err = call("sql", "FROM trigger", "--max-rows", "2", "--format", "jsonl")
    assert (code, len(out.splitlines())) == (0, 2)
    assert err == "only the first 2 rows: raise --max-rows for more\n"
    assert call("sql", "FROM trigger", "--max-rows", "144", "--format", "jsonl")[2] == ""


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("command", [("sql",), ("export", "sql")])
def test_a_file_has_every_row_or_is_not_written(call, tmp_path: Path, command: tuple[str, ...]) -> None:
    rows, file = "SELECT r.range AS i FROM range(1500) AS r", tmp_path / "rows.csv"
    assert call(*command, rows, "--max-rows", "1499", "-o", str(file))[0] == 1
    assert not file.exists()
    assert call(*command, rows, "-o", str(file))[0] == 0
    assert file.read_text().splitlines() == ["i", *map(str, range(1500))]


@pytest.mark.parametrize("seconds", ["nan", "inf", "0", "-1", "1e9"])
def test_a_time_limit_is_one(call, seconds: str) -> None:
    code, _, err = call("sql", "SELECT 1", "--timeout", seconds)
    assert (code, "is not between 0 and 86,400 seconds" in err) == (2, True)


@pytest.mark.first_cases(14)
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["sql", "DELETE FROM trigger"], 1, "an atlas is read-only, and this is DELETE"),
        (["sql", "SELEC"], 1, "syntax error"),
        (["sql", "SELECT count(*) FROM range(100000) a, range(100000) b, range(9999) c WHERE random() > 2", "--timeout", "0.2"], 1, "stopped after 0.2 s"),
        (["sql", "SELECT 1", "--max-rows", "0"], 2, "--max-rows"),
        (["sql"], 2, "Missing argument"),
        (["ask", "top_trigers"], 2, "no question 'top_trigers'; did you mean top_triggers"),
        (["ask", "top_triggers", "--layer", "1"], 2, "--neuron"),
        (["ask", "top_triggers", "--layer", "x", "--neuron", "1"], 2, "not a valid integer"),
        (["ask", "top_triggers", "--layer", "7", "--neuron", "1"], 1, "no layer 7: this model has layers 0 to 2"),
        (["ask", "prediction_trace", "--position-id", "3"], 1, "the nearest traced positions are 2, 8, 101"),
        (["trace", " "], 1, "the prompt is empty: give it some text"),
        (["show", "L9N0"], 1, "no layer 9"),
        (["show", "L0H9"], 1, "no head 9: this model has heads 0 to 0"),
        (["show", "x"], 1, "such as L3N17"),
        (["aks"], 2, "no command 'aks'; did you mean ask"),
        (["schema", "triger"], 2, "no table or view 'triger'; did you mean trigger"),
        (["questions", "top_trigers"], 2, "no such option"),
        (["ask", "money"], 2, "no question has 'money' in its name or title. If it is a word of the text, ask neurons_promoting('money')"),
        (["ask", "repeat"], 2, "no question 'repeat'; did you mean elhage2021_induction, head_behaviours, heads_by, trigger_contexts?"),
        (["ask", "token_context", "--position-ids", "[1,two]"], 2, "not a list of whole numbers"),
        (["ask", "token_context", "--position-ids", "²"], 2, "not a list of whole numbers"),
        (["ask", "token_context", "--position-ids", "1" * 5_000], 2, f"'{'1' * 80}' is not a list of whole numbers"),
    ],
)
def test_errors_are_one_clear_line(call, arguments: list[str], code: int, message: str) -> None:
    found, out, err = call(*arguments)
    assert found == code
    assert message.lower() in (out + err).lower()
    assert "Traceback" not in err


def test_ask_alone_lists_the_questions(call) -> None:
    code, out, err = call("ask", db=False)
    assert code == 2
    assert all(name in out + err for name in questions())


def test_questions_are_listed_and_printed(call) -> None:
    code, out, _ = call("questions", db=False)
    assert code == 0
    assert all(q.signature in out for q in questions().values())
    assert call("questions", "top_triggers", db=False)[1] == questions()["top_triggers"].sql
    code, _, err = call("questions", "top_trigers", db=False)
    assert (code, "did you mean top_triggers" in err) == (1, True)


def test_questions_are_found_by_words_of_their_titles(call) -> None:
    code, out, _ = call("questions", "Trigger", "removed", "--format", "jsonl", db=False)
    assert (code, [json.loads(line)["question"] for line in out.splitlines()]) == (0, ["geva2021_fig3"])
    code, _, err = call("questions", "money", db=False)
    assert (code, "neurons_promoting('money')" in err) == (1, True)


def test_names_of_questions_are_whole_on_a_narrow_terminal() -> None:
    names = [q.macro for q in questions().values()]
    shown = terminal_table(pl.DataFrame({"question": names, "title": ["a title of many words"] * len(names), "call": ["x" * 90] * len(names)}), width=80)
    assert all(name in shown for name in names)
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.thorough
def test_position_ids_are_taken_in_brackets_too(call) -> None:
    plain, bracketed = (call("ask", "token_context", "--position-ids", ids, "--format", "csv")[1] for ids in ("2,8", "[2, 8]"))
    assert plain == bracketed != ""


@pytest.mark.thorough
def test_what_to_read_rows_with_is_said_beside_them(call) -> None:
    err = call("ask", "neurons_triggered_by", "--token", "cat")[2]
    assert err == "note: n_kept is under 30 in 12 of 12 rows: these rows average over few cases.\n"
    err = call("ask", "bottom_triggers", "--layer", "0", "--neuron", "1", "--n", "99", "--corpus", "1")[2]
    assert err == "note: 3 of the 99 requested: n is how many, at most as many as ingest kept per key.\n"


@pytest.mark.thorough
def test_schema_works_with_an_atlas_and_without(call) -> None:
    with_one = json.loads(call("schema", "--format", "json")[1])
    without = json.loads(call("schema", "--format", "json", db=False)[1])
    as_new = [{**row, "type": row["type"].replace("FLOAT[2]", "FLOAT[d_model]")} for row in with_one]
    assert sorted(as_new, key=str) == sorted(without, key=str)
    markdown = call("schema", "--format", "markdown", db=False)[1]
    assert "## trigger (table)" in markdown and "## saturation (view)" in markdown
    assert call("schema", "trigger", "--format", "jsonl", db=False)[1].count("\n") == 10


def test_a_markdown_dictionary_is_the_same_on_screen_and_in_a_file(call, tmp_path: Path) -> None:
    call("schema", "--format", "markdown", "-o", str(tmp_path / "dictionary.md"), db=False)
    assert (tmp_path / "dictionary.md").read_text() == call("schema", "--format", "markdown", db=False)[1]


@pytest.mark.thorough
def test_status_takes_a_path_or_db_and_has_json(call, tiny_path: Path) -> None:
    code, out, _ = call("status", str(tiny_path), db=False)
    assert code == 0
    assert "tiny @ r0" in out and "tales" in out and "144" in out
    found = json.loads(call("status", "--json")[1])
    assert found["rows"]["trigger"] == 144


@pytest.mark.thorough
def test_verify_passes_a_good_atlas_and_fails_a_bad_one(call, tiny_copy, tmp_path: Path) -> None:
    code, out, err = call("verify")
    assert [line for line in out.splitlines() if line and not line.startswith("ok ")][:-1] == []
    assert (code, err) == (0, "")
    assert "ok      trigger_ranks" in out and "rules hold" in out
    tiny_copy.execute("DELETE FROM trigger WHERE corpus_id = 0 AND layer = 0 AND neuron = 2 AND tail = 'max' AND rank = 2")
    tiny_copy.close()
    code, out, err = call("verify", str(tmp_path / "copy.duckdb"), "--quiet", db=False)
    assert code == 1
    assert "BROKEN  trigger_ranks" in out and "BROKEN  trigger_complete" in out
    assert "2 of " in err and "rules are broken" in err


def test_show_is_a_page_with_the_token_marked(call) -> None:
    code, out, _ = call("show", "L0N1")
    assert code == 0
    assert "promotes    ␣sat · ␣*" in out
    assert "The cat« sat».↵The dog sat" in out
    assert "largest coefficients" in out and "smallest coefficients" in out
    assert "\x1b" not in out


def test_show_has_one_text_a_sequence_and_says_how_many_more_there_are(call) -> None:
    # of all corpora's largest of L0N0 the first three are at 2, 101 and 8, of the smallest at 103, 5 and 3, and 5 and 3 are of one sequence
    out = call("show", "L0N0")[1]
    largest, smallest = out.split("largest coefficients")[1].split("smallest coefficients")
    assert len(largest.strip().splitlines()) == 3 and "more" not in largest
    _, of_five = smallest.strip().splitlines()
    assert "«↵»" in of_five and of_five.endswith("(1 more in this sequence)")


def test_show_of_a_head_is_a_page_with_what_it_looks_at(call) -> None:
    code, out, _ = call("show", "l1h0")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "L1H0" and lines[1].startswith("copying_effective ")
    assert any(line.startswith("direction 1 (") and " reads " in line for line in lines)
    assert any(line.startswith("read by the keys of   L2H0 ") for line in lines)
    assert any(line.split()[:1] == ["induction"] and float(line.split()[1]) == 0.5 for line in lines)
    assert any(line.startswith("3.750 ") and "é« cat» → “␣[red]”  looks at “é” 0.50" in line for line in lines)
    assert "\x1b" not in out


def test_show_of_a_head_names_what_an_atlas_has_no_run_of(tiny_copy: duckdb.DuckDBPyConnection, call, tmp_path: Path) -> None:
    for kind, tables in {"circuit": ("head", "head_direction", "head_direction_token", "composition"), "head_statistics": ("head_statistics",)}.items():
        tiny_copy.execute("DELETE FROM run WHERE kind = ?", [kind])
        for table in tables:
            tiny_copy.execute(f"DELETE FROM {table}")
    tiny_copy.execute("DELETE FROM head_probe")
    tiny_copy.close()
    path = tmp_path / "copy.duckdb"
    code, out, _ = call("show", "L1H0", "--db", str(path), db=False)
    assert code == 0
    assert "no circuit run: `atlas ingest " in out and "--circuit`" in out
    assert "no head_statistics run: `atlas ingest " in out and "--head-statistics`" in out
    assert "predictions whose logit it raised most" in out and "what it looks at" not in out


def test_the_atlas_may_come_from_the_environment(tiny_path: Path) -> None:
    ran = atlas_process("ask", "corpus_summary", "--format", "csv", env={**os.environ, "ATLAS_DB": str(tiny_path)})
    assert ran.returncode == 0
    assert "tales" in ran.stdout


def test_without_an_atlas_the_options_are_named() -> None:
    env = {key: value for key, value in os.environ.items() if key != "ATLAS_DB"}
    ran = atlas_process("status", env=env)
    assert ran.returncode == 2
    assert "Give --db FILE, or set ATLAS_DB" in ran.stderr


def test_a_missing_file_is_named_and_not_made(call, tmp_path: Path) -> None:
    code, _, err = call("status", str(tmp_path / "no.duckdb"), db=False)
    assert code == 1
    assert "no such file" in err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_atlas_is_named(call, tmp_path: Path) -> None:
    (tmp_path / "x.duckdb").write_text("no database " * 1000)
    code, _, err = call("status", str(tmp_path / "x.duckdb"), db=False)
    assert code == 1
    assert "not an atlas" in err


def test_version_names_the_packages(call) -> None:
    code, out, _ = call("--version", db=False)
    assert code == 0
    assert {line.split()[0] for line in out.splitlines()} >= {"activation-atlas", "duckdb", "polars", "python"}


@pytest.mark.thorough
def test_debug_shows_the_traceback_in_any_place(tiny_path: Path) -> None:
    assert "Traceback" in atlas_process("ask", *TRIGGERS[:2], "9", "--neuron", "1", "--db", str(tiny_path), "--debug").stderr
    assert "Traceback" in atlas_process("--debug", "show", "x", "--db", str(tiny_path)).stderr
    assert "Traceback" not in atlas_process("show", "x", "--db", str(tiny_path)).stderr


def test_an_unexpected_error_is_one_line_too(call, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> click.Command:
        raise ZeroDivisionError("by zero\n\x1b[31mLINE 1")

    monkeypatch.setattr(sys.modules["atlas.cli.main"], "import_module", explode)
    code, _, err = call("status")
    assert (code, err) == (1, "Error: ZeroDivisionError: by zero \\x1b[31mLINE 1 (unexpected; --debug shows where)\n")


@pytest.mark.thorough
def test_a_reader_that_goes_away_is_no_error(tiny_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from atlas.cli import main; main()",
        "sql",
        "FROM range(900000)",
        "--max-rows",
        "900000",
        "--db",
        str(tiny_path),
        "--format",
        "jsonl",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


def test_an_interrupt_within_duckdb_is_one_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(*_: object, **__: object) -> None:
        # one thread: DuckDB raises in this one, and waits for what another has begun, which nobody has told to stop
        with duckdb.connect(config={"threads": 1}) as con:
            once_it_computes(lambda: signal.raise_signal(signal.SIGINT))
            # not a join that finds nothing: there it is not asked whether it was interrupted
            con.execute("SELECT sum(i) FROM range(10_000_000_000_000) AS t (i)")

    monkeypatch.setattr(cli, "main", answer)
    assert run([], False) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", [["status"], ["ask", "layer_summary"]])
def test_opening_an_atlas_and_what_lies_beside_it_imports_no_pandas(tiny_path: Path, arguments: list[str]) -> None:
    code = "import sys; from atlas.cli.main import run; run(sys.argv[1:], False); print(*sorted({'pandas', 'duckdb'} & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", code, *arguments, "--db", str(tiny_path)], capture_output=True, text=True, timeout=120)
    assert found.stdout.splitlines()[-1] == "duckdb"


def test_an_interrupt_exits_130(tiny_path: Path) -> None:
    endless = "SELECT count(*) FROM range(100000) a, range(100000) b, range(9999) c WHERE random() > 2"
    # a background job inherits that the signal is ignored
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from atlas.cli import main; main()"
    command = [sys.executable, "-c", code, "sql", endless, "--db", str(tiny_path)]
    process = subprocess.Popen([*command, "--timeout", "3600"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        child_at_statement(process.pid)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=HANG_S)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "interrupted" in err


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    from atlas.cli.options import use_color

    monkeypatch.setenv("NO_COLOR", "1")
    assert not use_color()
    monkeypatch.setenv("NO_COLOR", "")
    assert use_color()


def test_plugins_are_found_by_entry_point_and_imported_only_when_they_run() -> None:
    context = click.Context(cli)
    assert "ingest" in cli.list_commands(context)
    result: Result = CliRunner().invoke(cli, ["--help"])
    assert "ingest" in result.output
