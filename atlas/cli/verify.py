"""`atlas verify`: every rule that the tables keep."""

from itertools import chain
from pathlib import Path

import click

from atlas.cli.options import db_option, open_atlas


@click.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@db_option
@click.option("--quiet", "-q", is_flag=True, help="Name only the rules that are broken.")
def command(path: Path | None, db: Path | None, quiet: bool) -> None:
    """Check an atlas against every rule of its tables: uniqueness, references, ranks, totals; and what lies beside it. PATH stands in for --db.

    Exit code 1 if a rule is broken.
    """
    from atlas.collections import rules as of_collections
    from atlas.experiments import rules as of_experiments
    from atlas.retrieval import rules as of_retrievals
    from schema.audits import run_audits
    from schema.errors import AtlasError

    n_audits, broken = 0, 0
    with open_atlas(path or db) as a:
        for finding in chain(run_audits(a.con), *(rules.findings(a.con) for rules in (of_collections, of_experiments, of_retrievals))):
            n_audits += 1
            broken += finding.n_rows > 0
            if finding.n_rows:
                click.echo(f"BROKEN  {finding.audit.name}: {finding.audit.rule}\n        {finding.n_rows} rows, such as {finding.example}")
            elif not quiet:
                click.echo(f"ok      {finding.audit.name}")
    if broken:
        raise AtlasError(f"{broken} of {n_audits} rules are broken in {path or db}")
    click.echo(f"all {n_audits} rules hold")
