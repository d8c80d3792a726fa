"""`make docs`: docs/reference, written from the code. tests/test_docs.py compares it, so that nothing new goes unnamed.

It lies among the tests because nothing else may see all packages at once: what reads an atlas knows no ingest, and the families are ingest's.
"""

import inspect
import re
from collections.abc import Iterable, Iterator
from copy import copy
from pathlib import Path
from typing import NamedTuple

import click
import polars as pl
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from atlas.beside.experiments.rules import RULE
from atlas.cli.ask import Asks
from atlas.cli.main import COMMANDS, PLUGIN_GROUP, PLUGINS, cli
from atlas.dictionary import ANY_WIDTH, describe_blank
from atlas.export.markdown import escape
from atlas.questions import Parameter, Question, header, questions
from ingest import passes as ingest_passes
from ingest.experiments import kinds as experiment_kinds
from ingest.model import architectures
from ingest.model.architectures import ARCHITECTURES
from ingest.passes import passes
from ingest.passes.base import Pass, RecordingPass
from ingest.text import suites
from schema import release
from schema.audits import audits, companion_audits, companion_metadata
from schema.open import kinds as companions
from schema.open.kinds import kinds
from schema.release import view_files
from schema.table_facts import facts
from schema.tables import metadata
from tests.ingest.recognised import IN_MEMORY, RECOGNISED, WITHOUT_HEADS
from tests.rooms import ROOT, cut_sentence, first_sentence, folders, rooms_used

FOLDER = ROOT / "docs" / "reference"
HELP_WIDTH = 110


def code(text: str) -> str:
    return f"`{text}`"


def prose(text: str) -> str:
    """Text whose only markup is code in backticks."""
    return "".join(part if part.startswith("`") else escape(part) for part in re.split(r"(`[^`]*`)", text))


def table(heads: list[str], rows: Iterable[Iterable[str]]) -> str:
    """A pipe table of cells that are Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(title: str, *parts: str) -> str:
    return "\n\n".join((f"# {title}", "<!-- `make docs` writes this page from the code. -->", *parts)) + "\n"


def anchor(heading: str) -> str:
    """The link that Markdown makes of a heading in code type."""
    return f"[`{heading}`](#{heading.replace('.', '').replace(' ', '-')})"


def grains() -> dict[str, str]:
    """What one row of each table and view is, as the names of its columns."""
    tables = {t.fullname: t.info["grain"] for m in (metadata(ANY_WIDTH), *map(companion_metadata, kinds())) for t in m.tables.values()}
    views = {name: dict(header(sql)).get("grain", "").split(", ") for name, sql in view_files().items()}
    return {name: ", ".join(map(code, grain)) or "atlas" for name, grain in {**tables, **views}.items()}


def filled_by() -> dict[str, str]:
    """The pass that fills each table; '' for those of the atlas itself."""
    return {t.name: t.info["filled_by"] for t in metadata(ANY_WIDTH).tables.values()}


def relations(kind: str) -> str:
    """A list of the tables or views, and a section with the columns of each."""
    found = describe_blank().filter(pl.col("kind") == kind)
    if kind == "view":
        found = found.sort(pl.col("relation").str.contains(".", literal=True), "relation", maintain_order=True)
    grain, passes = grains(), filled_by()
    listed, sections = [], []
    for (name, description), columns in found.group_by("relation", "description", maintain_order=True):
        filled = f" Filled by the pass `{passes[name]}`." if passes.get(name) else ""
        row = f" One row per {grain[name]}." if name in grain else ""
        listed.append([anchor(name), prose(description), *([code(passes[name]) if passes.get(name) else ""] if kind == "table" else [])])
        cells = [[code(c["column"]), code(c["type"]) + (" or null" if c["is_nullable"] else ""), prose(c["meaning"])] for c in columns.iter_rows(named=True)]
        sections.append(f"## `{name}`\n\n{prose(description)}{row}{filled}\n\n{table(['column', 'type', 'meaning'], cells)}")
    return "\n\n".join([table(["table", "holds", "filled by"] if kind == "table" else ["view", "shows"], listed), *sections])


def tables_page() -> str:
    return page(
        "Tables",
        "Every table of an atlas, and of the annotations, collections, experiments and retrievals beside it. `atlas schema` prints the same, and so does\n"
        "`duckdb_columns()` in any DuckDB client.",
        relations("table"),
    )


def views_page() -> str:
    return page("Views", "Views are stored in the file, and read like tables.", relations("view"))


def parameter_cells(p: Parameter) -> list[str]:
    return [code(p.name), code(p.type), "must be given" if p.is_required else code(p.default or ""), prose(p.meaning)]


def question_section(q: Question) -> str:
    parts = [f"## `{q.macro}`", f"{prose(q.sentence)} One row per {', '.join(map(code, q.grain))}.", f"Source: {prose(q.source)}.", code(q.signature)]
    if q.parameters:
        parts.append(table(["argument", "type", "default", "meaning"], map(parameter_cells, q.parameters)))
    return "\n\n".join([*parts, table(["column", "meaning"], [[code(name), prose(meaning)] for name, meaning in q.columns.items()])])


def questions_page() -> str:
    listed = [[anchor(q.macro), ", ".join(code(p.name) for p in q.parameters if p.is_required), prose(q.title)] for q in questions().values()]
    return page(
        "Questions",
        "A question is a table function stored in the file: `FROM top_triggers(3, 17)` in SQL, `atlas ask top_triggers --layer 3 --neuron 17` on the command\n"
        "line, `a.top_triggers(3, 17)` in Python. `atlas questions WORD…` finds some of them, `atlas questions NAME` prints one with its SQL.",
        table(["question", "must be given", "answers"], listed),
        *map(question_section, questions().values()),
    )


def commands(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[tuple[str, str]]:
    """(what is typed, its help) of a command and those below it; questions are no commands here."""
    command = copy(command)
    # click keeps the help option of whoever asked first, who may have called it alone, by other names
    command._help_option = None
    context = click.Context(command, parent=parent, info_name=name, terminal_width=HELP_WIDTH, max_content_width=HELP_WIDTH, help_option_names=["-h", "--help"])
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group) and not isinstance(command, Asks):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from commands(found, below, context)


def commands_page() -> str:
    lines = {name: line for name, (_, line) in COMMANDS.items()} | PLUGINS
    listed = [[anchor(f"atlas {name}"), prose(lines.get(name, ""))] for name in cli.list_commands(click.Context(cli))]
    return page(
        "Commands",
        "Results go to standard output, progress and errors to standard error. Exit codes: 0 done, 1 failed, 2 misused, 130 interrupted.",
        table(["command", "does"], listed),
        *(f"## `{typed}`\n\n```text\n{text}\n```" for typed, text in commands(cli, "atlas")),
    )


def families_page() -> str:
    def types_table(names: Iterable[str]) -> str:
        return table(["model type", "class"], [[code(name), code(str(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[name]))] for name in sorted(names)])

    return page(
        "Model families",
        "`model_type` is what a model's `config.json` says; the class is that of transformers. Every model is checked on its own weights before\n"
        "anything is stored. [How to add a family](adding.md).",
        types_table(ARCHITECTURES),
        "## Recognised without an entry\n\nTiny random models of these types are recognised and hold every identity (`tests/ingest/test_recognition.py`).\n"
        "[How](../models.md#models-without-an-entry), and which variants are not.\n\n### Down to where their heads look",
        types_table(RECOGNISED.keys() - WITHOUT_HEADS - IN_MEMORY),
        "### Their FFNs, their stream and their predictions\n\nPasses that read heads refuse them.",
        types_table(WITHOUT_HEADS - IN_MEMORY),
        "### In memory alone\n\nParts of these take memory that no weight shows: `ingest.model.models.wrap` reads them, and `atlas ingest` does not.",
        types_table(IN_MEMORY),
    )


def audits_page() -> str:
    rows = [[prose(a.name), prose(a.rule)] for a in [*audits(ANY_WIDTH), *(audit for kind in kinds() for audit in companion_audits(kind)), RULE]]
    return page("Audits", "The rules that `atlas verify` checks, each a query for the rows that break it.", table(["audit", "rule"], rows))


def pass_cells(each: Pass) -> list[str]:
    asked_by = facts().passes[each.name].asked_by.removeprefix("--model …").strip()
    options = ["/".join([*option.opts, *option.secondary_opts]) for option in each.options]
    filled = [f"[{code(name)}](tables.md#{name})" for name, by in filled_by().items() if by == each.name]
    does = cut_sentence(inspect.getdoc(type(each)) or "")
    return [code(each.name), code(asked_by) if asked_by else "every ingest that it applies to", ", ".join(map(code, options)), ", ".join(filled), prose(does)]


def passes_page() -> str:
    sharing = ", ".join(code(name) for name, each in passes().items() if isinstance(each, RecordingPass))
    return page(
        "Passes",
        "A pass is what an ingest can be asked to compute. A run is one pass over one corpus, or over the model. An ingest does the passes that it is asked\n"
        "for in this order, each after those that it reads from. Each is asked for beside `--model …`; the help of every option is in\n"
        "[commands](commands.md#atlas-ingest).",
        f"These record while a text is read, and share its forward passes: {sharing}.",
        table(["pass", "asked for with", "its options", "fills", "does"], map(pass_cells, passes().values())),
    )


def room_section(folder: Path) -> str:
    files, uses = sorted(folder.glob("*.py")), rooms_used(folder)
    rows = [[code(file.name), prose(first_sentence(file))] for file in files if file.name != "__init__.py"]
    purpose = prose(first_sentence(folder / "__init__.py")) if (folder / "__init__.py").exists() else ""
    used = f"Imports {', '.join(map(code, uses))}." if uses else "Imports nothing of ours."
    listed = table(["file", "what it is"], rows) if rows else ""
    return "\n\n".join(part for part in (f"## `{folder.relative_to(ROOT).as_posix()}/`", purpose, used, listed) if part)


def rooms_page() -> str:
    return page(
        "What lies where",
        "Every folder of the four packages, what it imports of ours, and the first sentence of each file.\n"
        "[How the atlas is built](../architecture.md) says why.",
        *map(room_section, folders()),
    )


class Addition(NamedTuple):
    """A kind of thing that can be added.

    place: where its file goes, as a pattern of the files that there are. group: the group of entry points of other distributions, '' if there is none. names:
    what an entry point names. besides: what it needs besides its file. tests: those that hold it, as files and folders. marker: what only a file that adds one
    has in it.
    """

    thing: str
    place: str
    besides: str
    group: str
    names: str
    tests: tuple[str, ...]
    holds: str
    marker: str = ""


ADDITIONS = (
    Addition(
        "a model family", "ingest/model/families/*.py", "a row of `FAMILIES` there", architectures.GROUP, "a mapping from model_type to `Architecture`",
        ("tests/ingest/test_architectures.py", "tests/ingest/test_heads.py"),
        "on a tiny random model the identities hold, and heads are as transformers' attention",
        "\nFAMILIES = ",
    ),
    Addition(
        "a pass", "ingest/passes/*.py", "a row of `PASSES` there, its `Work` and recorder in `ingest/recorders/`, and its tables",
        ingest_passes.GROUP, "a `Pass`",
        ("tests/ingest/test_passes.py", "tests/ingest/test_other_pass.py", "tests/test_layout.py"),
        "command line, dry run, progress, resuming and `atlas status` find it by listing",
        "\nPASSES = ",
    ),
    Addition(
        "a table", "schema/tables/*.py", "the recorder that fills it", release.TABLE_GROUP, "a module like those",
        ("tests/schema/test_tables.py",),
        "DDL, dictionary and audits of grain, references, numbers, bounds and rows per shard follow; one that leaves out a fact cannot be declared",
        "\ndef tables(",
    ),
    Addition(
        "a column of a table that there is", "",
        "`added(…)` in the table's file, its recorder, and, if shards of the table are merged, `ingest/store/merges/*.sql`", "", "",
        ("tests/schema/test_older.py", "tests/exact/test_tiny_models.py"),
        "it may be null: older atlases read it so, and a merge that forgets it leaves it so; questions name the run that fills it",
    ),
    Addition(
        "another change of a table", "schema/migrations/*.sql", "", "", "", ("tests/schema/test_older.py",), "it is run on an atlas of the first kept release",
    ),
    Addition("a view", "schema/views/*.sql", "", "", "", ("tests/schema/test_views.py",), "it must build, with a comment on every column"),
    Addition("an audit", "schema/audits/*.sql", "a row of the test that breaks it", "", "", ("tests/schema/test_audits.py",), "that row is found"),
    Addition(
        "a question", "atlas/questions/*.sql", "its expected rows in `tests/atlas/questions/`", release.QUESTION_GROUP,
        "a function that returns the SQL of each, by name", ("tests/atlas/questions",), "it answers with those rows",
    ),
    Addition(
        "a figure or table of a paper", "atlas/papers/*.py",
        "a question (with `-- needs:` where its tables do not tell which passes it needs), its entry in the paper, and its line in `docs/papers.md`", "", "",
        ("tests/atlas/papers",),
        "every item is made, drawn and compiled",
        " = Paper(",
    ),
    Addition(
        "a file beside an atlas", "atlas/beside/*/__init__.py", "its tables, views, questions and audits in SQL beside it", companions.GROUP, "a `Companion`",
        ("tests/schema/test_beside.py",), "another distribution adds one; what table headers say is audited",
        " = Companion(",
    ),
    Addition(
        "a kind of experiment", "ingest/experiments/kinds/*.py", "", experiment_kinds.GROUP, "a `Kind`", ("tests/experiments/test_running.py",),
        "it goes on where it stopped, repeats to the bit and costs what it says",
        "\nKINDS = ",
    ),
    Addition(
        "a format of test suites", "ingest/text/suites/*.py", "its line in `ingest/text/suites/__init__.py`", suites.GROUP,
        "a mapping from suffix to reader", ("tests/ingest/test_suites.py",), "what a suite may say, and what is refused in one line",
        "path: Path, suite: str, ",
    ),
    Addition(
        "a command", "atlas/cli/*.py", "its line in `atlas/cli/main.py`", PLUGIN_GROUP, "a click command", ("tests/test_layout.py", "tests/atlas/test_cli.py"),
        "every module with a command is listed, and [commands](commands.md) has its help",
        "\n@click.command(",
    ),
    Addition(
        "a panel of the page Evidence", "", "its entry in `ui/evidence/topics.py`, of questions that there are", "", "", ("tests/ui/test_promises.py",),
        "every panel has a picture or rows, or says which command brings them",
    ),
    Addition(
        "a function for typed SQL", "", "its name in `atlas/typed/allowed.py`", "", "", ("tests/atlas/test_judge.py",),
        "whatever DuckDB lists beside it is refused",
    ),
)  # fmt: skip


def smallest_file(a: Addition) -> str:
    """The shortest of the files that add such a thing, as a link with its number of lines; '' where none does."""
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(ROOT.glob(a.place or ".none"))}
    lines = {name: len(text.splitlines()) for name, text in texts.items() if a.marker in text}
    return f"{link_file(shortest)}, {lines[shortest]} lines" if (shortest := min(lines, key=lines.__getitem__, default="")) else ""


def link_file(name: str) -> str:
    assert (ROOT / name).exists(), name
    return f"[{code(name)}](../../{name})"


def addition_cells(a: Addition) -> list[str]:
    place = a.besides if not a.place else f"{code(a.place)}; {a.besides}" if a.besides else code(a.place)
    by = f"{code(a.group.removeprefix('activation_atlas.'))}: {a.names}" if a.group else ""
    return [a.thing, place, smallest_file(a), by, f"{a.holds}: {', '.join(map(link_file, a.tests))}"]


def adding_page() -> str:
    return page(
        "What can be added",
        "A file in the folder named here is found by listing it; no other file of the four packages is edited but what stands beside it. Tests that list\n"
        "what there is are red until they have it: rows of the tiny atlas, a brute-force check of each column, `tests/features.py`. Another distribution adds\n"
        "the same by an entry point; `passes` stands for the group `activation_atlas.passes`. Two things of one name are refused with both that bring\n"
        "them, and what does not load is refused with its distribution (`schema/registry.py`, held by `tests/schema/test_registry.py`).\n"
        "`make docs` then writes the [reference](.) and the facts of tables anew; tests are red until it has.",
        table(["thing", "goes in", "the shortest file of such", "entry point of another distribution", "what holds it"], map(addition_cells, ADDITIONS)),
        "Two more groups, `experiment_commands` and `experiment_store`, are for this distribution alone: by them its packages reach what they may not import.",
    )


PAGES = {
    "tables": tables_page,
    "views": views_page,
    "questions": questions_page,
    "commands": commands_page,
    "families": families_page,
    "audits": audits_page,
    "passes": passes_page,
    "rooms": rooms_page,
    "adding": adding_page,
}


def pages() -> dict[str, str]:
    """File name → its text."""
    return {f"{name}.md": make() for name, make in PAGES.items()}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
