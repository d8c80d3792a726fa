"""`atlas doctor`: what is wrong with an atlas, and its repair."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schema.errors import AtlasError
from schema.lake import is_lake

if TYPE_CHECKING:
    from ingest.store.doctor import Finding


@click.command()
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--repair", is_flag=True, help="Do what is proposed. Without it, nothing is changed.")
def doctor(target: Path, repair: bool) -> None:
    """Say what is wrong with the atlas TARGET and the folder TARGET.work in which it is made, or with a lake, and what to do.

    Repairs remove only what ingest computes again, set aside what they cannot judge, and never touch annotations.
    Exit code 1 if something is wrong and was not repaired.
    """
    if not target.name:
        raise click.UsageError("TARGET is empty; name an atlas, such as gpt2.duckdb")
    from ingest.store.committer import check_free, held, work_folder
    from ingest.store.doctor import findings
    from ingest.store.doctor_work import work_findings

    if is_lake(target):
        from ingest.store.lake.doctor import lake_findings

        with lake_findings(target) as found:
            n_left = report(found, repair)
    elif not work_folder(target).exists():
        check_free(target)
        n_left = report(findings(target), repair)
    else:
        # an ingest that is running has drafts that are none
        with held(target):
            n_left = report(chain(findings(target), work_findings(target)), repair)
    if n_left:
        raise AtlasError(f"{n_left} left to mend in {target}" + ("" if repair else "; --repair does what can be done"))
    click.echo(f"{target}: nothing {'more ' if repair else ''}to mend")


def report(found: "Iterable[Finding]", repair: bool) -> int:
    """Print each finding and do what it proposes if asked; returns how many are left."""
    n_left = 0
    for finding in found:
        mend = finding.repair if repair else None
        click.echo(f"{finding.what}\n    {'done' if mend else 'to do'}: {finding.remedy}")
        if mend:
            mend()
        n_left += finding.is_fault and not mend
    return n_left
