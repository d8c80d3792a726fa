"""The commands for a lake: `atlas pull` and `atlas compact`."""

import re
from pathlib import Path

import click

from schema.errors import AtlasError
from schema.open.lake import is_lake


class LakeFile(click.Path):
    """Type of an argument that names the file of a lake."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(str(super().convert(value, param, ctx)))  # type: ignore[arg-type]
        if not is_lake(path):
            self.fail(f"{path} is not a lake: the file that describes a lake ends in .lake", param, ctx)
        return path


@click.command()
@click.argument("lake", type=LakeFile())
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--layers", metavar="LIST", help="Copy only these layers, such as 0-3,11; tables without layers are copied whole.  [default: all]")
@click.option("--memory", default="4GB", show_default=True, help="Memory that DuckDB may use; it spills the rest to a folder beside TARGET.")
def pull(lake: Path, target: Path, layers: str | None, memory: str) -> None:
    """Copy the last published state of LAKE into a new atlas file TARGET.

    \b
    atlas pull gpt2.lake gpt2.duckdb --layers 0-3,11
    """
    from ingest.store.lake.pull import pull as run

    run(lake, target, None if layers is None else numbers(layers), memory)
    click.echo(f"{target} is ready: {target.stat().st_size / 1e6:,.1f} MB")


@click.command()
@click.argument("lake", type=LakeFile())
@click.option(
    "--keep-hours", type=click.IntRange(0), default=24, show_default=True, help="Keep the files that a reader needs who opened the lake within these hours."
)
@click.option("--dry-run", is_flag=True, help="Say which files would be removed, and change nothing.")
def compact(lake: Path, keep_hours: int, dry_run: bool) -> None:
    """Merge the many small files of LAKE into few sorted files, and remove files that nobody needs. Not possible while an ingest writes to the lake.

    Only files with names that a lake gives are removed, and only from a place that has the lake's own mark.
    """
    from ingest.store.lake.compact import compact as run
    from ingest.store.lake.compact import plan

    if dry_run:
        planned = plan(lake)
        click.echo("".join(f"would remove {path}\n" for path in planned.removed) + "".join(f"may merge    {path}\n" for path in planned.merged), nl=False)
        click.echo(f"{lake}: {len(planned.removed):,} files would be removed, and those of {len(planned.merged):,} more that are merged; nothing was changed")
        return
    done = run(lake, keep_hours)
    before, after = (f"{n:,} files, {size / 1e6:,.1f} MB" for n, size in zip(done.files, done.bytes, strict=True))
    click.echo(f"{lake}: {before} before; {after} now; {done.n_removed:,} files removed")


def numbers(text: str) -> set[int]:
    """Parse numbers and ranges, such as '0-3,11'. Raises AtlasError for anything else."""
    found: set[int] = set()
    for part in text.split(","):
        ends = re.fullmatch(r"\s*([0-9]{1,5})\s*(?:-\s*([0-9]{1,5})\s*)?", part)
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            raise AtlasError(f"--layers takes numbers and ranges, such as 0-3,11; not {text!r}")
        found |= set(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return found
