"""A thousand requests to one model process, some refused and some not waited for: its memory, handles and threads stay flat.

python -m tests.crash.live_soak [--requests 1000] [--seed 0]
"""

import random
import tempfile
from collections import Counter
from pathlib import Path

import click

import atlas
from tests.crash.live_clients import ask_once
from tests.crash.soak_figures import HANDLES, MEGABYTES, SHARE, Usage, usage
from tests.live.conftest import live_process, private_sockets, world_in

N_ROWS = 10
"""Equal parts of the requests, after each of which figures are taken."""


def live_soak(pid: int, path: Path, requests: int, seed: int) -> tuple[Counter[str], list[Usage]]:
    """What became of the requests, and the process's figures after each tenth of them."""
    rng, found, rows = random.Random(seed), Counter[str](), list[Usage]()
    with atlas.open(path) as a:
        for n in range(1, requests + 1):
            found[ask_once(a, rng)] += 1
            if n % (requests // N_ROWS) == 0:
                rows.append(usage(pid))
                click.echo(f"{n:6} requests {rows[-1].megabytes:7.0f} MB {rows[-1].handles:4} handles")
    return found, rows


def grown(rows: list[Usage]) -> list[str]:
    """What the last row has beyond the first by more than is allowed."""
    first, last = rows[0], rows[-1]
    found = [f"memory grew from {first.megabytes:.0f} to {last.megabytes:.0f} MB"] if last.megabytes > first.megabytes * (1 + SHARE) + MEGABYTES else []
    return found + ([f"handles grew from {first.handles} to {last.handles}"] if last.handles > first.handles + HANDLES else [])


@click.command()
@click.option("--requests", default=1000, show_default=True, type=click.IntRange(N_ROWS))
@click.option("--seed", default=0, show_default=True)
def main(requests: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder, private_sockets():
        world = world_in(Path(folder))
        with live_process(world) as process:
            found, rows = live_soak(process.pid, world.atlas, requests, seed)
    if wrong := grown(rows):
        raise click.ClickException("; ".join(wrong))
    click.echo(f"{requests} requests ({', '.join(f'{name} {n}' for name, n in sorted(found.items()))}): nothing grew")


if __name__ == "__main__":
    main()
