"""The documents name what exists, all of it and nothing else, and their examples run."""

import ast
import re
import shlex
import shutil
import tomllib
from difflib import unified_diff
from pathlib import Path

import click
import duckdb
import polars as pl
import pytest

import atlas
import install
from atlas.api import Atlas
from atlas.cli.main import cli
from atlas.dictionary import describe_blank
from atlas.questions import questions
from ingest.model.architectures import ARCHITECTURES
from ingest.passes import passes
from schema import terms
from schema.audits import companion_metadata
from schema.open.kinds import kinds
from schema.release import view_files
from schema.tables import metadata
from tests.docs import FOLDER, pages
from tests.ingest.recognised import RECOGNISED
from tests.rooms import PACKAGES

ROOT = Path(__file__).parents[1]
REFERENCE = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
FOLDERS = (ROOT, ROOT / "docs", ROOT / "docs" / "patterns")
WRITTEN = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for folder in FOLDERS for path in folder.glob("*.md")}
"""Documents written by hand."""
DOCUMENTS = {**WRITTEN, **{f"docs/reference/{name}.md": text for name, text in REFERENCE.items()}}
README, GLOSSARY = WRITTEN["README.md"], WRITTEN["GLOSSARY.md"]
PATTERNS = "docs/patterns/"
"""A page for each, which its own README.md lists."""
DEVELOPING, PAPERS = WRITTEN["docs/developing.md"], WRITTEN["docs/papers.md"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
LIVE = ".live()"
"""In code that needs a model: tests/live/test_live_trace.py runs it."""

TOUR = re.compile("<!-- tour -->.*<!-- /tour -->", re.DOTALL)


def blocks(language: str) -> list[str]:
    """Code blocks of the documents, the tour left out: it is the output of a program."""
    return [block for text in WRITTEN.values() for block in re.findall(rf"```{language}\n(.*?)```", TOUR.sub("", text), re.DOTALL)]


def table_names(heading: str, text: str) -> set[str]:
    """First cells, in backticks, of the tables under `| heading | … |`."""
    tables = re.findall(rf"^\| {heading} \|.*\n\|[-| ]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert tables, f"no table of {heading}s"
    return {name for table in tables for name in re.findall(r"^\| \[?`([^`]+)`", table, re.MULTILINE)}


def test_the_reference_is_what_the_code_says() -> None:
    there, said = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}, pages()
    lines = {name: (there.get(name, "").splitlines(), said.get(name, "").splitlines()) for name in sorted(there.keys() | said.keys())}
    stale = [line for name, (old, new) in lines.items() for line in unified_diff(old, new, name, "from the code", n=0, lineterm="")]
    assert stale == [], "docs/reference is not what the code says: `make docs` renews it"


def test_the_reference_lists_every_table() -> None:
    declared = {name for m in (metadata(2), *map(companion_metadata, kinds())) for name in m.tables}
    digests = {f"{kind}.table_digest" for kind in ("annotations", "collections", "experiments", "retrievals")}
    assert table_names("table", REFERENCE["tables"]) == declared | digests


def test_the_reference_lists_every_view() -> None:
    assert {name for name in table_names("view", REFERENCE["views"]) if "." not in name} == set(view_files())


def test_the_reference_lists_every_question() -> None:
    assert table_names("question", REFERENCE["questions"]) == {q.macro for q in questions().values()}


def test_the_reference_lists_every_command() -> None:
    assert table_names("command", REFERENCE["commands"]) == {f"atlas {name}" for name in cli.list_commands(click.Context(cli))}


def test_the_reference_lists_every_family() -> None:
    assert table_names("model type", REFERENCE["families"]) == {*ARCHITECTURES, *RECOGNISED}


def test_the_reference_says_the_rule_of_every_file_of_audits() -> None:
    listed = re.findall(r"^\| (\S+) \| .+ \|$", REFERENCE["audits"].replace("\\", ""), re.MULTILINE)
    assert {path.stem for path in (ROOT / "schema" / "audits").glob("*.sql")} <= set(listed)


def test_the_reference_lists_every_pass_in_its_order() -> None:
    assert re.findall(r"^\| `(\w+)` \|", REFERENCE["passes"], re.MULTILINE) == list(passes())


def test_adding_lists_every_group_of_entry_points() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    groups = set(re.findall(r'^[A-Z_]+ = "activation_atlas\.(\w+)"', sources, re.MULTILINE))
    assert len(groups) >= 10
    assert {group for group in groups if f"`{group}`" not in REFERENCE["adding"]} == set()


def test_papers_lists_every_question_of_theirs_with_what_it_must_be_given() -> None:
    listed = {name for name in table_names("question", PAPERS) if name.endswith(")")}
    called = {f"{q.macro}({', '.join(p.name for p in q.parameters if p.is_required)})": q for q in questions().values()}
    assert listed <= set(called)
    assert {call for call, q in called.items() if q.catalog == "annotations" or q.name.startswith(("geva", "khandelwal"))} <= listed


def test_experiments_lists_every_question_of_theirs_with_what_it_must_be_given() -> None:
    called = {f"{q.macro}({', '.join(p.name for p in q.parameters if p.is_required)})" for q in questions().values() if q.catalog == "experiments"}
    assert table_names("question", WRITTEN["docs/experiments.md"]) == called


def test_retrieval_lists_every_question_of_theirs_with_what_it_must_be_given() -> None:
    called = {f"{q.macro}({', '.join(p.name for p in q.parameters if p.is_required)})" for q in questions().values() if q.catalog == "retrievals"}
    assert table_names("question", WRITTEN["docs/retrieval.md"]) == called


def test_readme_is_a_door() -> None:
    """A newcomer reads it whole; what is longer lies in docs/."""
    assert 5_000 <= len(README.encode()) <= 7_000


def links_in(text: str) -> set[str]:
    return set(re.findall(r"\]\(([^)#\s]+)", text))


def test_readme_leads_to_every_document() -> None:
    patterns = {name for name in DOCUMENTS if name.startswith(PATTERNS)} - {f"{PATTERNS}README.md"}
    assert set(DOCUMENTS) - {"README.md"} - patterns - links_in(README) == set()
    assert patterns - {PATTERNS + name for name in links_in(WRITTEN[f"{PATTERNS}README.md"])} == set()


def test_readme_lists_every_extra() -> None:
    assert table_names("extra", README) == set(EXTRAS) - {"dev"}


def test_readme_says_which_extras_make_installs() -> None:
    (readme,) = re.findall(r"^`make install` brings the extras (.+?)\. ", README, re.MULTILINE)
    assert tuple(re.findall(r"`(\w+)`", readme)) == install.EXTRAS


def test_developing_lists_every_target_of_make() -> None:
    documented = set(re.findall(r"^([a-z0-9-]+):.*##", MAKEFILE, re.MULTILINE))
    assert table_names("target", DEVELOPING) == {f"make {target}" for target in documented - {"help"}}


def test_ci_calls_only_targets_that_developing_names() -> None:
    called = set(re.findall(r"^make ([a-z0-9-]+)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE))
    assert called
    assert {f"make {target}" for target in called} <= table_names("target", DEVELOPING)


@pytest.mark.parametrize("sql", [block for block in blocks("sql") if "ATTACH" not in block])
def test_the_queries_run(a: atlas.Atlas, sql: str) -> None:
    assert a.sql(sql).width > 0


def shown_answers(text: str) -> list[tuple[str, str]]:
    """Statements over one atlas, each with the answer that is shown of it."""
    found = re.findall(r"```sql\n((?:(?!```).)*?)```\n+```text\n(.*?)```", text, re.DOTALL)
    return [(sql, answer) for sql, answer in found if "ATTACH" not in sql]


@pytest.mark.parametrize(("sql", "answer"), [pair for name, text in WRITTEN.items() if name.startswith(PATTERNS) for pair in shown_answers(text)])
def test_the_answers_of_patterns_have_the_columns_of_their_questions(a: atlas.Atlas, sql: str, answer: str) -> None:
    heads, *_ = answer.splitlines()
    assert heads.split() == a.sql(sql).columns


@pytest.mark.parametrize(("sql", "answer"), shown_answers(README))
def test_the_answers_of_readme_have_the_columns_of_their_questions(a: atlas.Atlas, sql: str, answer: str) -> None:
    heads, _, *rows = answer.splitlines()
    assert heads.split() == a.sql(sql).columns
    assert len(rows) == 3


def test_the_statements_compare_two_atlases(tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand, in a database of nobody; the second atlas has every cosine of the first with the other sign, and one layer fewer."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(tiny_path, "demo.duckdb")
    with duckdb.connect(shutil.copy(tiny_path, "gpt2.duckdb")) as con:
        con.execute("UPDATE neuron SET key_value_cosine = -key_value_cosine")
        con.execute("DELETE FROM neuron WHERE layer = 2")
    (block,) = re.findall(r"```sql\n(ATTACH .*?)```", WRITTEN["docs/sql.md"], re.DOTALL)
    with duckdb.connect() as con:
        answers = [con.execute(statement).fetchall() for statement in block.strip().rstrip(";").split(";")]
    _, _, cosines, _, _, _, summaries = answers
    assert [layer for layer, _, _ in cosines] == [0, 1, 2]
    assert [other for _, _, other in cosines] == [pytest.approx(-cosines[0][1]), pytest.approx(-cosines[1][1]), None]
    assert len(summaries) == 2


@pytest.mark.parametrize("block", [block for block in blocks("sql") if "ATTACH" in block])
def test_the_statements_over_two_atlases_run(block: str, tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in re.findall(r"ATTACH '([\w.]+)'", block):
        shutil.copy(tiny_path, name)
    with duckdb.connect() as con:
        answers = [con.execute(statement).fetchall() for statement in block.strip().rstrip(";").split(";")]
    assert any(answers), "ATTACH gives no rows, and a question some"


@pytest.mark.parametrize("sql", re.findall(r"`(FROM \w+\([^`]*\));?`", "".join(WRITTEN.values())))
def test_the_questions_in_the_text_run(a: atlas.Atlas, sql: str) -> None:
    assert a.sql(sql).width > 0


@pytest.mark.parametrize("code", [code for code in blocks("python") if LIVE not in code])
def test_the_python_runs(code: str, tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the tiny atlas, whose layer 0 stands in for every neuron it does not have."""
    shutil.copy(tiny_path, tmp_path / "demo.duckdb")
    monkeypatch.chdir(tmp_path)
    code = code.replace("(3, 17", "(0, 1").replace("L3N17", "L0N1")
    results: dict[str, object] = {"atlas": atlas}
    for node in ast.parse(code).body:
        if isinstance(node, ast.Expr):
            value = eval(ast.unparse(node.value), results)
            assert value is None or isinstance(value, pl.DataFrame) or hasattr(value, "_repr_html_")
        else:
            exec(ast.unparse(node), results)
    assert isinstance(results["a"], Atlas)


def command_lines() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines() if line.startswith("atlas ")]


@pytest.mark.parametrize("line", command_lines())
def test_the_command_lines_use_options_that_exist(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found, line
        command = found
    known = {option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]}
    assert {word for word in words if word.startswith("-") and word != "-"} <= known


def anchors(text: str) -> set[str]:
    """What a link may name after #: the headings, as GitHub writes them."""
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    folder = (ROOT / name).parent
    targets = re.findall(r"\]\(([^)\s]+)\)", TOUR.sub("", DOCUMENTS[name]))
    for target in targets:
        file, _, anchor = target.partition("#")
        if target.startswith("https://"):
            continue
        path = (folder / file).resolve() if file else ROOT / name
        assert path.exists(), target
        assert not anchor or anchor in anchors(path.read_text(encoding="utf-8")), target


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:schema|ingest|atlas|ui|tests|docs)/[\w./]*)`", "".join(DOCUMENTS.values())))))
def test_the_files_that_the_documents_name_exist(path: str) -> None:
    assert (ROOT / path).exists()


def glossary() -> dict[str, str]:
    """Term → definition."""
    lines = re.findall(r"^(\*\*.+?) — (.+)$", GLOSSARY, re.MULTILINE)
    return {term: definition for heads, definition in lines for term in re.findall(r"\*\*(.+?)\*\*", heads)}


PASSES = sorted({t.info["filled_by"] for t in metadata(1).tables.values()} - {""})
STORED_WORDS = [*terms.SITES, "promoted", "suppressed", "dominant", *PASSES, *terms.PROJECTIONS]
CHANGES = ["agreement", "residual", "ffn", "composition"]
NEURONS = ["layer", "neuron", "key", "value", "coefficient", "active", "sub-update", "site", "score", "promotion", "trigger", "tail"]
HEADS = ["head", "query", "attention key", "attention value", "attention score", "attention pattern", "head output", "window", "RoPE", "ALiBi", "QK norm"]
PREDICTIONS = ["candidate", "final", "saturation", "elimination", "projection", "frozen_norm"]
TEXT = ["corpus", "document", "sequence", "position", "prefix", "token", "BOS"]
INGEST = ["atlas", "snapshot", "run", "shard", "question", "audit"]
PHRASES = ["residual stream", "residual state", "logit lens", "next token", "gated FFN", "parallel block", "output embedding", "prediction change"]


@pytest.mark.parametrize("term", [*STORED_WORDS, *CHANGES, *NEURONS, *HEADS, *PREDICTIONS, *TEXT, *INGEST, *PHRASES])
def test_the_glossary_defines(term: str) -> None:
    definition = glossary()[term]
    assert len(definition.split()) > 4
    assert definition.endswith((".", ":"))


def test_the_glossary_defines_a_term_once() -> None:
    found = re.findall(r"\*\*(.+?)\*\*", "\n".join(re.findall(r"^(\*\*.+?) — ", GLOSSARY, re.MULTILINE)))
    assert sorted(found) == sorted(set(found))


def test_the_glossary_names_only_relations_and_columns_that_exist() -> None:
    dictionary = describe_blank()
    known = {*dictionary["relation"], *dictionary["column"], *(f"{r}.{c}" for r, c in dictionary.select("relation", "column").iter_rows())}
    known |= {*STORED_WORDS, *CHANGES, *terms.TAILS, *terms.SELECTIONS, *questions(), *terms.RUN_STATUSES}
    used = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)?)`", GLOSSARY))
    assert used - known == set()


def test_every_column_of_tables_and_views_has_a_meaning() -> None:
    dictionary = describe_blank()
    without = dictionary.filter(pl.col("meaning").is_null() | pl.col("description").is_null())
    assert without.select("relation", "column").rows() == []
