"""Content of a component's tabs: one question each, asked when the tab is opened."""

from atlas.questions import question
from atlas.ranges import missing_run
from ui import blocks, data

COMMANDS = {
    "sweep": "--corpus …",
    "trace": "--corpus … --trace 300",
    "attribution": "--corpus … --trace 300 --attribution",
    "circuit": "--circuit",
    "head_statistics": "--corpus … --head-statistics",
    "head_probe": "--head-probe",
}
"""Pass → options with which `atlas ingest` runs it."""


def check_question_available(name: str) -> bool:
    """Check whether this atlas has the rows that a question reads; if not, show the command that adds them."""
    lacking = missing_run(data.atlas().con, question(name).sql)
    if lacking:
        blocks.explain_empty(
            f"{question(name).title}: the pass {lacking} has not been run.", f"atlas ingest NAME.duckdb --model … {COMMANDS.get(lacking, '')}".rstrip()
        )
    return lacking is None


def rows(name: str, note: str, columns: list[str] | None = None, **arguments: object) -> None:
    """Show a question's rows as a table, or the command to run if the atlas lacks them."""
    if check_question_available(name):
        blocks.table(data.ask(name, **arguments), name, columns=columns, height=460, note=note)


def card(name: str, **arguments: object) -> None:
    if check_question_available(name):
        blocks.card(data.ask(name, **arguments), name)
