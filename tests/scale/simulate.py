"""`make scale`: synthetic shards through the real load path, beside what the model says of them.

    python -m tests.scale.simulate [--fit] [--seed 0]

Prints docs/scale.md's table of predicted against simulated. --fit simulates other, smaller sweeps, and prints the constants that they give.
"""

from collections.abc import Iterator

import click

from tests.scale.constants import LOAD_SECONDS, SHARD_BYTES, SHARD_SECONDS
from tests.scale.fit import fitted, total
from tests.scale.markdown import table
from tests.scale.model import publish_seconds, publish_units, published_bytes, published_units, shard_units, work_bytes, work_units
from tests.scale.runs import CHECKED, FITTED, Simulated, simulate
from tests.scale.shapes import Shape, Sweep, candidates

UNITS = {"neuron": "neuron_statistics", "trigger": "trigger", "position": "position"}
"""What SHARD_SECONDS and the like count → table whose rows those are."""


def measures(s: Simulated) -> dict[str, tuple[float, float]]:
    """Name → what the model says of a whole sweep, and what the simulation found."""

    def all_shards(cost: dict[str, float]) -> float:
        return s.sweep.n_shards * total(shard_units(s.shape, s.sweep), cost)

    return {
        "candidates": (candidates(s.shape, s.sweep, s.sweep.k), s.loaded_rows("trigger")),
        "shards, MB": (all_shards(SHARD_BYTES) / 1e6, sum(load.n_bytes for load in s.loads) / 1e6),
        "making them, s": (all_shards(SHARD_SECONDS), sum(s.made)),
        "loading them, s": (all_shards(LOAD_SECONDS), sum(load.seconds for load in s.loads)),
        "committer's file, MB": (work_bytes(s.shape, s.sweep) / 1e6, s.loaded.work_bytes / 1e6),
        "publishing, s": (publish_seconds(s.shape, s.sweep), s.loaded.publish_seconds),
        "snapshot, MB": (published_bytes(s.shape, s.sweep) / 1e6, s.loaded.published_bytes / 1e6),
    }


def comparison(simulated: list[Simulated]) -> str:
    """Predicted / simulated (ratio), a row a sweep."""
    rows = []
    for s in simulated:
        found = measures(s)
        cells = [f"{predicted:,.0f} / {seen:,.0f} ({predicted / seen:.2f})" for predicted, seen in found.values()]
        what = f"{s.shape.n_layers} × {s.shape.d_ffn}, {s.sweep.n_shards} × {s.sweep.shard_positions:,}, {s.sweep.n_workers}"
        rows.append([what, *cells])
    return table(["layers × neurons, shards × positions, workers", *found], rows)


def constants(simulated: list[Simulated]) -> Iterator[str]:
    """The constants that simulated sweeps give, as lines of Python."""
    shards = [brought(s) for s in simulated]
    found = {
        "SHARD_SECONDS": fitted(shards, [sum(s.made) for s in simulated]),
        "SHARD_BYTES": fitted(shards, [sum(load.n_bytes for load in s.loads) for s in simulated]),
        "LOAD_SECONDS": fitted(shards, [sum(load.seconds for load in s.loads) for s in simulated]),
        "WORK_BYTES": fitted([work_units(s.shape, s.sweep) for s in simulated], [s.loaded.work_bytes for s in simulated]),
        "PUBLISH_SECONDS": fitted([publish_units(s.shape, s.sweep) for s in simulated], [s.loaded.publish_seconds for s in simulated]),
        "PUBLISHED_BYTES": fitted([published_units(s.shape, s.sweep) for s in simulated], [s.loaded.published_bytes for s in simulated]),
    }
    for name, costs in found.items():
        yield f"{name} = {{{', '.join(f'{unit!r}: {cost:.3g}' for unit, cost in costs.items())}}}".replace("'", '"')


def brought(s: Simulated) -> dict[str, float]:
    """Units of all its shards. Not shard by shard: a few loads bear the checkpoints of many."""
    rows = {unit: sum(load.n_rows[table] for load in s.loads) for unit, table in UNITS.items()}
    return {"shard": s.sweep.n_shards, **rows}


def simulated(sweeps: list[tuple[Shape, Sweep]], seed: int) -> list[Simulated]:
    found = []
    for i, (shape, sweep) in enumerate(sweeps, 1):
        click.echo(f"{i} of {len(sweeps)}: {shape.name}, {sweep.n_shards} shards", err=True)
        found.append(simulate(shape, sweep, seed))
    return found


@click.command()
@click.option("--fit", is_flag=True, help="Print constants instead.")
@click.option("--seed", default=0, show_default=True)
def main(fit: bool, seed: int) -> None:
    if fit:
        click.echo("\n".join(constants(simulated(FITTED, seed))))
    else:
        click.echo(comparison(simulated(CHECKED, seed)))


if __name__ == "__main__":
    main()
