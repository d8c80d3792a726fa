"""`atlas ask NAME`: each question is a command, its options made from the question's header."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from atlas.cli.options import OUTPUT, db_option, emit, open_atlas, output_options
from atlas.questions import Parameter, Question, explain_unknown_name, questions

LONGEST_SHOWN = 80
"""Maximum characters of a refused value that the error message shows."""


class PositionIds(click.ParamType):
    """Position ids separated by commas, in brackets or without."""

    name = "ID,ID,…"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        parts = [part.strip() for part in str(value).strip().removeprefix("[").removesuffix("]").split(",")]
        try:
            return [int(part) for part in parts]
        except ValueError:
            self.fail(f"'{str(value)[:LONGEST_SHOWN]}' is not a list of whole numbers separated by commas", param, ctx)


TYPES: dict[str, Any] = {"integer": int, "bigint": int, "double": float, "text": str, "bigint[]": PositionIds()}


class Asks(click.Group):
    """One command for each question."""

    to_file = False
    """Whether -o must be given."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(questions())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return ask_command(questions()[name], to_file=self.to_file) if name in questions() else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in names:
            raise click.UsageError(explain_unknown_name(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Questions"):
            formatter.write_dl([(name, questions()[name].title if name in questions() else "One SELECT.") for name in self.list_commands(ctx)])


def option(p: Parameter) -> click.Option:
    """Build the option for a parameter. A required option gets no default: click takes an explicit default of None for a given value."""
    shown = "" if p.default in (None, "NULL") else f" [default: {p.default}]"
    default: dict[str, Any] = {} if p.is_required else {"default": p.default_value}
    meaning = f"{p.meaning[0].upper()}{p.meaning[1:]}.{shown}"
    return click.Option([f"--{p.name.replace('_', '-')}", p.name], type=TYPES[p.type], required=p.is_required, help=meaning, **default)


def help_text(q: Question) -> str:
    # \b keeps click from joining the lines
    columns = "\n".join(f"  {name}: {meaning}" for name, meaning in q.columns.items())
    return f"{q.sentence}\n\nSource: {q.source}.\n\nOne row per {', '.join(q.grain)}.\n\n\b\nColumns:\n{columns}"


def ask_command(q: Question, *, to_file: bool) -> click.Command:
    @db_option
    @output_options(to_file=to_file)
    def callback(db: Path | None, **values: Any) -> None:
        out = {name: values.pop(name) for name in OUTPUT}
        answer(q, values, db, **out)

    command = click.command(name=q.name, help=help_text(q))(callback)
    command.params = [*(option(p) for p in q.parameters), *command.params]
    return command


def answer(q: Question, arguments: dict[str, object], db: Path | None, **out: Any) -> None:
    """Ask a question, and print or write the rows."""
    with open_atlas(db) as a:
        from atlas.answers import explain_no_rows, read_answer
        from atlas.export.provenance import provenance
        from atlas.left_out import describe_left_out
        from atlas.notes import notes
        from atlas.ranges import unfilled_columns

        frame = read_answer(a.con, q.name, **arguments)
        if frame.is_empty():
            why = explain_no_rows(a.con, a.path, q)
            click.echo(f"note: no rows{f', {why}' if why else ''}", err=True)
        for note in filter(None, [*notes(q, frame, arguments), describe_left_out(a.con, q.catalog)]):
            click.echo(f"note: {note}", err=True)
        if any(frame[c].is_null().all() for c in frame.columns) and (old := unfilled_columns(a.con, q.sql)):
            runs = ", ".join(sorted(set(old.values())))
            note = (
                f"note: {', '.join(old)}: empty, because this atlas's {runs} is older than these columns; "
                f"`atlas ingest` with a larger --{runs} fills them in the rows that it adds"
            )
            click.echo(note, err=True)
        source = partial(provenance, a.con, a.path, sql=q.sql, n_rows=frame.height, question=q.name, parameters=arguments)
        emit(frame, provenance=source, **with_caption(q, out))


def with_caption(q: Question, out: dict[str, Any]) -> dict[str, Any]:
    from atlas.export.latex import tex

    return {**out, "caption": out["caption"] or tex(q.sentence)}


@click.group(cls=Asks, subcommand_metavar="QUESTION [OPTIONS]")
def command() -> None:
    """Ask a question by name; `atlas ask QUESTION --help` explains its options."""
