"""`atlas experiment`: experiments on a model's forward passes, stored beside its atlas."""

from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from atlas.cli.options import db_option, emit, open_atlas, output_options, require_path, use_color
from schema.registry import find_parts

if TYPE_CHECKING:
    from atlas.beside.experiments.card import Experiment


PLUGIN_GROUP = "activation_atlas.experiment_commands"
"""Group of entry points, each of which names commands by name. It is for ours alone, which run a model: this package does not import theirs."""


class Experiments(click.Group):
    """Group that imports the commands that run a model only when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(find_parts(PLUGIN_GROUP, self.commands, EntryPoint.load))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return super().get_command(ctx, name) or find_parts(PLUGIN_GROUP, self.commands, EntryPoint.load).get(name)


@click.group(cls=Experiments)
def command() -> None:
    """Run, list, show and remove experiments: prompts, interventions in the forward pass, and their outcomes.

    \b
    atlas experiment run tracing.toml --db demo.duckdb     the experiment that a file describes; tracing, knockout, … take options instead
    atlas experiment list --db demo.duckdb                 all experiments
    atlas experiment show 0 --db demo.duckdb               one experiment: settings, prompts, arms
    atlas ask arm_effects --experiment 0 --db demo.duckdb  the effects of its arms; also before_after, causal_trace, knockout, saliency, …

    Experiments are stored beside the atlas, in demo.experiments.duckdb, and stay when the atlas is ingested again. In SQL they are
    in the database experiments: FROM experiments.arm.
    """


@command.command(name="list")
@db_option
@output_options()
def list_command(db: Path | None, **out: Any) -> None:
    """List experiments: what was done, with how many prompts and arms, by whom and when."""
    with open_atlas(db) as a:
        from atlas.answers import read_answer
        from atlas.export.provenance import provenance
        from atlas.left_out import describe_left_out
        from atlas.questions import question

        frame = read_answer(a.con, "experiment_summary")
        if said := describe_left_out(a.con, "experiments") or ("no experiments yet" if frame.is_empty() else ""):
            click.echo(f"note: {said}", err=True)
        sql = question("experiment_summary").sql
        emit(frame, provenance=partial(provenance, a.con, a.path, sql=sql, n_rows=frame.height, question="experiment_summary"), **out)


@command.command(name="show")
@click.argument("experiment", type=int)
@db_option
def show_command(experiment: int, db: Path | None) -> None:
    """Show one experiment on one page: how it was made, its prompts, its arms and what they change. EXPERIMENT is its number."""
    with open_atlas(db) as a:
        from atlas.beside.experiments.card import read_experiment

        click.echo(page(read_experiment(a.con, experiment)), color=None if use_color() else False)


@command.command(name="remove")
@click.argument("experiment", type=int)
@db_option
def remove_command(experiment: int, db: Path | None) -> None:
    """Remove one experiment with all its rows. EXPERIMENT is its number; other experiments keep their numbers."""
    from atlas.beside.experiments.store import remove

    path = require_path(db)
    open_atlas(path).close()
    remove(path, experiment)
    click.echo(f"experiment {experiment} is removed", err=True)


def page(found: "Experiment") -> str:
    """Format the experiment as text with terminal styles."""
    from atlas.export.terminal import terminal_table
    from atlas.export.visible import visible_line

    title = f"experiment {found.facts['experiment_id']}: {visible_line(found.facts['title'])}"
    width = max(len(name) for name in found.facts)
    facts = [f"{name.ljust(width)}  {visible_line(str(value))}" for name, value in found.facts.items() if value is not None]
    lines = [click.style(title, bold=True), *facts]
    for name, frame in (("prompts", found.prompts), ("arms", found.arms), ("rows", found.rows), ("notes", found.notes)):
        lines += ["", click.style(name, bold=True), terminal_table(frame).rstrip()] if frame.height else []
    return "\n".join(lines)
