"""Subcommands of `atlas experiment`: `run FILE.toml`; one for each kind, which builds the same spec from options; and `export`.

`export` writes the file that repeats an experiment. On a terminal, progress is one line that changes; elsewhere it is one line per part, with the seconds
since the start.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, get_type_hints

import click

from ingest.experiments.base import Kind
from ingest.experiments.kinds import kinds
from ingest.experiments.spec import Spec, read_file, spec_of, to_toml
from schema.errors import AtlasError, what_there_is
from schema.fields import allowed_values, item_of, scalar_of
from schema.grouped_help import GroupedCommand
from schema.open.open_with_beside import open_with_beside

if TYPE_CHECKING:
    from ingest.experiments.driver import Tell


@contextmanager
def print_progress(to: TextIO) -> "Iterator[Tell]":
    width, began, last = 0, time.monotonic(), ""

    def tell(what: str, share: float = 0.0) -> None:
        nonlocal width, last
        line = f"{what} {share:.0%}" if share else what
        if to.isatty():
            to.write(f"\r{line:<{width}}\r")
            width = len(line)
        elif what != last:
            to.write(f"{time.monotonic() - began:8.1f} s  {what}\n")
            last = what
        to.flush()

    try:
        yield tell
    finally:
        if to.isatty():
            tell("")


WANTED = "SELECT e.kind, e.title, e.seed, e.settings::TEXT FROM experiments.experiment AS e WHERE e.experiment_id = $id"
IDS = "SELECT e.experiment_id FROM experiments.experiment AS e ORDER BY e.experiment_id"


def spec_in(path: Path | str, experiment_id: int) -> Spec:
    """Read an experiment's spec. Raises AtlasError if the experiment does not exist, or if no command made it, such as a live prompt that a user saved."""
    with closing(open_with_beside(path)) as con:
        ids = [one for (one,) in con.execute(IDS).fetchall()]
        # DuckDB takes no number of any size
        if experiment_id not in ids:
            raise AtlasError(f"no experiment {experiment_id}; {what_there_is(', '.join(map(str, ids)))}")
        kind, title, seed, settings = con.execute(WANTED, {"id": experiment_id}).fetchall()[0]
    try:
        asked = json.loads(settings)
    except RecursionError:
        raise AtlasError(f"the settings of experiment {experiment_id} are nested too deeply to be read, so that no file can be written") from None
    if not isinstance(asked, dict) or "prompts" not in asked:
        raise AtlasError(f"experiment {experiment_id} is of kind {kind} and was saved by hand: no file can repeat it")
    return spec_of({"kind": kind, "title": title, "seed": seed, "settings": asked.get("settings", {}), "prompts": asked["prompts"]})


USUAL = (
    click.Option(["--db"], type=click.Path(path_type=Path), envvar="ATLAS_DB", metavar="FILE", show_envvar=True, required=True, help="The atlas."),
    click.Option(["--model"], help="The atlas's own model, named as for `atlas ingest`; needed if it is not found under the name in the atlas."),
    click.Option(["--device"], default="auto", show_default=True, help="As for `atlas ingest`."),
    click.Option(["--dry-run"], is_flag=True, help="Print the number of forward passes and the minutes that the experiment takes; store nothing."),
)


def run_command() -> click.Command:
    def run(file: Path, **given: Any) -> None:
        carry_out(read_file(file), **given)

    file = click.Argument(["file"], type=click.Path(exists=True, dir_okay=False, path_type=Path))
    doc = """Run the experiment that FILE describes: TOML with kind, title, seed, settings and prompts.

    The experiment runs in this process. Each part is stored once it is computed; after an interruption, the same command continues where it stopped.
    `atlas experiment export` writes the file of a stored experiment.
    """
    return click.Command("run", callback=run, params=[file, *USUAL], help=doc, short_help="Run the experiment that a file describes.")


def export_command() -> click.Command:
    def export(experiment: int, db: Path) -> None:
        click.echo(to_toml(exported_spec(db, experiment)), nl=False)

    doc = "Print the file with which `atlas experiment run` repeats EXPERIMENT, a number; on the same machine, the results are the same to the bit."
    number = click.Argument(["experiment"], type=int)
    return click.Command("export", callback=export, params=[number, USUAL[0]], help=doc, short_help="Print the file that repeats an experiment.")


def kind_command(kind: Kind) -> click.Command:
    """Build the command of a kind; its options are the fields of its settings and prompts."""
    texts = click.Argument(["prompts"], nargs=-1, metavar=f"{fields(kind.prompt)[0].name.upper()}…")
    of_prompt = [option(kind.prompt, name, is_prompt=True) for name in names(kind.prompt)[1:]]
    of_settings = [option(kind.settings, name) for name in names(kind.settings)]
    own = [
        *(click.Option([f"--{name}"], is_flag=True, help="Use the prompts that come with the atlas instead of your own.") for name in kind.shipped),
        click.Option(["--title"], help="Title of the experiment.  [default: the first prompt]"),
        click.Option(["--seed"], default=0, show_default=True, type=click.IntRange(0), help="Seed of the random draws."),
    ]

    def command(prompts: tuple[str, ...], title: str | None, seed: int, **given: Any) -> None:
        settings = {name: given.pop(name) for name in names(kind.settings)}
        of_kind = {name: given.pop(name) for name in names(kind.prompt)[1:]}
        shipped = [name for name in kind.shipped if given.pop(name)]
        if shipped and prompts:
            raise click.UsageError(f"prompts and --{shipped[0]} were given: give only one of them")
        of = shipped[0] if shipped else kind.usual if kind.usual and not prompts else zip_prompts(kind, prompts, of_kind)
        asked = {"kind": kind.name, "title": title or (of if isinstance(of, str) else prompts[0]), "seed": seed, "settings": settings, "prompts": of}
        carry_out(spec_of(asked), **{name: value for name, value in given.items() if name in ("db", "model", "device", "dry_run")})

    doc = f"{kind.help}\n\nGive each option of a prompt once per prompt, in the order of the prompts.\n\n\b\n{kind.example}"
    groups = {"The prompts": of_prompt, "The experiment": [*own, *of_settings], "Where and how": USUAL}
    return GroupedCommand(
        kind.name, callback=command, params=[texts, *of_prompt, *own, *of_settings, *USUAL], help=doc, short_help=kind.help,
        groups={heading: [str(each.name) for each in options] for heading, options in groups.items()},
    )  # fmt: skip


def names(of: type) -> list[str]:
    return [f.name for f in fields(of)]


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def option(of: type, name: str, is_prompt: bool = False) -> click.Option:
    found = next(f for f in fields(of) if f.name == name)
    bounds, hint = allowed_values(found), get_type_hints(of)[name]
    item = item_of(hint)
    kind: Any = click.Choice(bounds.among) if bounds.among else (item or scalar_of(hint))
    has_default = not is_prompt and found.default is not MISSING
    return click.Option(
        [flag(name)],
        type=kind,
        multiple=is_prompt or item is not None,
        default=found.default if has_default else None,
        show_default=has_default,
        help=f"{bounds.help[0].upper()}{bounds.help[1:]}{', one a prompt' if is_prompt else ''}.",
    )


def zip_prompts(kind: Kind, texts: Sequence[str], of_prompt: dict[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Build the fields of each prompt. Raises UsageError if there is no prompt, or if a given or required option does not occur once per prompt."""
    if not texts:
        raise click.UsageError(f"no prompt was given{''.join(f': give one, or --{name}' for name in kind.shipped)}")
    for name, given in of_prompt.items():
        if given and len(given) != len(texts):
            raise click.UsageError(f"{len(texts)} prompts were given, and {flag(name)} {len(given)} times: give it once for each prompt")
    for f in fields(kind.prompt)[1:]:
        if f.default is MISSING and not of_prompt[f.name]:
            raise click.UsageError(f"{flag(f.name)} is missing: {allowed_values(f).help}; give one for each prompt")
    first = names(kind.prompt)[0]
    return [{first: text, **{name: given[i] for name, given in of_prompt.items() if given}} for i, text in enumerate(texts)]


def carry_out(spec: Spec, db: Path, model: str | None, device: str, dry_run: bool) -> None:
    from schema.open.store import open_reader

    open_reader(db).close()
    click.echo("starting torch", err=True)
    from ingest.experiments.driver import open_context, plan_experiment, run

    try:
        with stderr_progress() as tell:
            if dry_run:
                from ingest.experiments.costs import report

                with open_context(db, model, device, tell) as world:
                    click.echo(report(plan_experiment(world, spec), world.model))
                return
            ran = run(db, spec, model=model, device=device, tell=tell)
    except KeyboardInterrupt:
        click.echo("interrupted; finished parts are kept. Run the same command again to go on.", err=True)
        sys.exit(130)
    for name, note in ran.notes.items():
        click.echo(f"{name}: {note}", err=True)
    resumed = f", {ran.n_resumed} of {ran.n_parts} parts computed earlier" if ran.n_resumed else ""
    click.echo(f"kept as experiment {ran.experiment_id}{resumed}: atlas experiment show {ran.experiment_id} --db {db}", err=True)


def exported_spec(db: Path, experiment: int) -> Spec:
    """Read an experiment's spec to export it. Raises AtlasError as `spec_in` does."""

    return spec_in(db, experiment)


def stderr_progress() -> Any:

    return print_progress(sys.stderr)


def commands() -> dict[str, Callable[[], click.Command]]:
    found: dict[str, Callable[[], click.Command]] = {"run": run_command, "export": export_command}
    return found | {name: lambda kind=kind: kind_command(kind) for name, kind in kinds().items()}


COMMANDS = {name: make() for name, make in commands().items()}
"""Subcommands that this package adds to `atlas experiment`."""
