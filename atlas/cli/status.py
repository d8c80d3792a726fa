"""`atlas status`: what an atlas holds."""

from pathlib import Path

import click

from atlas.cli.options import db_option, open_atlas


@click.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@db_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(path: Path | None, db: Path | None, as_json: bool) -> None:
    """Say what an atlas holds: model, corpora, runs, rows. PATH stands in for --db."""
    place = path or db
    if place is not None and not place.exists():
        from atlas.status_notes import describe_unfinished_ingest

        if note := describe_unfinished_ingest(place):
            raise click.ClickException(f"no atlas at {place} yet: {note}")
    with open_atlas(place) as a:
        status = a.status()
    from atlas.export.cells import to_json
    from atlas.export.terminal import terminal_table
    from atlas.inventory import headline

    if as_json:
        click.echo(to_json(status.to_dict(), indent=2))
        return
    click.echo(f"{status.path} ({status.bytes / 1e6:,.1f} MB)\n{headline(status)}")
    for title, frame in (("Corpora", status.corpora), ("Runs", status.runs), ("Rows", status.tables.filter(status.tables["n_rows"] > 0))):
        if frame.height:
            click.echo(f"\n{title}\n{terminal_table(frame)}", nl=False)
    for note in status.notes:
        click.echo(f"\nnote: {note}")
