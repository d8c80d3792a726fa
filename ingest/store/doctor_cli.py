"""`atlas doctor`: what is wrong with an atlas, and its repair."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schema.errors import AtlasError
from schema.open.lake import is_lake

if TYPE_CHECKING:
    from ingest.store.doctor import Finding


@click.command()
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--repair", is_flag=True, help="Make the proposed repairs. Without this option, nothing is changed.")
@click.option("--dry-run", is_flag=True, help="Also list each file that --repair would remove; change nothing.")
@click.option("--claim", is_flag=True, help="Declare that all files in the place of a lake belong to it; for a lake of an earlier version, which left no mark.")
def doctor(target: Path, repair: bool, dry_run: bool, claim: bool) -> None:
    """Report what is wrong with the atlas TARGET, with its working folder TARGET.work, or with a lake, and what to do.

    Repairs remove only left-overs and files that ingest computes again, rename files that may be of value, and never change annotations.
    Exit code 1 if something is wrong and was not repaired.
    """
    if not target.name:
        raise click.UsageError("TARGET is empty; name an atlas, such as gpt2.duckdb")
    repair = repair and not dry_run
    if claim and not is_lake(target):
        raise click.UsageError(f"--claim is for a lake, whose file ends in .lake, and not for {target}")
    from ingest.store.committer import check_free, lock_work_folder, work_folder
    from ingest.store.doctor import findings
    from ingest.store.doctor_work import work_findings

    if is_lake(target):
        from ingest.store.lake.doctor import lake_findings

        with lake_findings(target, claims=claim) as found:
            n_left = report(found, repair, dry_run)
    elif not work_folder(target).exists():
        check_free(target)
        n_left = report(findings(target), repair, dry_run)
    else:
        # an ingest that is running has drafts that are none
        with lock_work_folder(target):
            n_left = report(chain(findings(target), work_findings(target)), repair, dry_run)
    if n_left:
        raise AtlasError(f"faults left in {target}: {n_left}" + ("" if repair else "; --repair repairs what can be repaired"))
    click.echo(f"{target}: nothing {'more ' if repair else ''}to mend")


def report(found: "Iterable[Finding]", repair: bool, dry_run: bool) -> int:
    """Print each finding, and repair it if `repair`. In a dry run, also print the files that repairs would remove. Return the number of faults left."""
    n_left = 0
    for finding in found:
        mend = finding.repair if repair else None
        click.echo(f"{finding.what}\n    {'done' if mend else 'to do'}: {finding.remedy}")
        if dry_run:
            click.echo("".join(f"    would remove {path}\n" for path in finding.removes), nl=False)
        if mend:
            mend()
        n_left += finding.is_fault and not mend
    return n_left
