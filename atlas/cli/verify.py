"""`atlas verify`: a check that an atlas and the files beside it are as they were written, and that every rule of the tables holds."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from atlas.cli.options import db_option, open_atlas, require_path
from atlas.export.visible import visible_line

if TYPE_CHECKING:
    from atlas.api import Atlas
    from schema.audits import Finding
    from schema.metadata_audits import Audit


@click.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@db_option
@click.option("--quick", is_flag=True, help="Check only the rules, without reading most of the atlas.")
@click.option("--quiet", "-q", is_flag=True, help="Name only what is damaged, and the rules that are broken.")
def command(path: Path | None, db: Path | None, quick: bool, quiet: bool) -> None:
    """Read an atlas, its keys and the files beside it from end to end, and compare them with what was written; then check every rule of the tables:
    uniqueness, references, ranks, totals. PATH stands in for --db.

    Exit code 1 if something is damaged or a rule is broken.
    """
    from schema.open.lake import is_lake
    from schema.open.store import is_duckdb, refuse_name

    path = require_path(path or db)
    refuse_name(path)

    def tell(line: str) -> None:
        if not quiet:
            click.echo(visible_line(f"ok      {line}"))

    # before it is opened, which not every damaged file lets pass; what is none is said when it is opened
    is_read = not quick and path.is_file() and (is_lake(path) or is_duckdb(path))
    read = check_written(path, tell) if is_read else "; rows were not read"
    with open_atlas(path) as a:
        n_audits = check_rules(a, tell)
    click.echo(f"all {n_audits} rules hold{read}")


def check_written(path: Path, tell: Callable[[str], None]) -> str:
    """Read the atlas and the files beside it, and summarise the result. Raises AtlasError, once all faults are printed, if a file is not as it was written."""
    from schema.errors import AtlasError
    from schema.open.lake import is_lake
    from schema.reading_back import read_back, read_lake

    n_compared, damaged, untold = 0, [], []
    for reading in [read_lake(path)] if is_lake(path) else read_back(path):
        for fault in (*reading.faults, *reading.key_faults):
            click.echo(visible_line(f"DAMAGED {reading.path}: {fault}"))
        if reading.faults or reading.key_faults:
            damaged.append(reading.path)
        elif reading.is_compared:
            n_compared += 1
            tell(f"{reading.path}: {reading.told} are as they were written")
        else:
            untold.append(reading.path)
            tell(f"{reading.path}: {reading.told} can be read")
    if damaged:
        raise AtlasError(f"damaged: {', '.join(damaged)}. Restore it from a backup, or see what `atlas doctor {path}` proposes")
    said = f"; {n_compared} {'file is as it was' if n_compared == 1 else 'files are as they were'} written" if n_compared else ""
    return said + (f"; no digests tell whether {', '.join(untold)} is as it was written" if untold else "")


def companion_findings(a: "Atlas", audits: "Iterable[Audit]") -> "Iterator[Finding]":
    """Run the audits of a kind of file, those of its tables first.

    If a table has rows twice, the other audits are skipped: rows from a stranger could make them join without end.
    """
    from schema.audits import run_audit

    has_twice = False
    for audit in audits:
        if has_twice and not audit.name.partition(":")[0].count("."):
            click.echo(f"NOT CHECKED  {audit.name}: a table has rows twice, named above")
            continue
        finding = run_audit(a.con, audit)
        has_twice |= bool(finding.n_rows) and audit.name.endswith(": grain")
        yield finding


def check_rules(a: "Atlas", tell: Callable[[str], None]) -> int:
    """Check every rule, and return how many there are. Raises AtlasError, once the broken rules are printed, if there are any."""
    from atlas.beside.experiments.rules import arm_finding
    from schema.audits import companion_audits, run_audits
    from schema.errors import AtlasError
    from schema.open.kinds import kinds

    n_audits, broken = 0, 0
    beside = chain.from_iterable(companion_findings(a, companion_audits(kind)) for kind in kinds())
    # what an arm's JSON says is not SQL's to read
    for finding in chain(run_audits(a.con), beside, [arm_finding(a.con, None)]):
        n_audits += 1
        broken += finding.n_rows > 0
        if finding.n_rows:
            click.echo(f"BROKEN  {finding.audit.name}: {finding.audit.rule}\n        {visible_line(f'{finding.n_rows} rows, such as {finding.example}')}")
        else:
            tell(finding.audit.name)
    if broken:
        raise AtlasError(f"{broken} of {n_audits} rules are broken in {a.path}")
    return n_audits
