"""`atlas show L3N17`, `atlas show L3H7`: one neuron or one attention head on one page."""

from pathlib import Path

import click

from atlas.cli.options import db_option, open_atlas, use_color


@click.command()
@click.argument("address")
@db_option
def command(address: str, db: Path | None) -> None:
    """Show one neuron or one attention head on one page.

    \b
    L3N17  neuron 17 of layer 3: what its value promotes, what triggers its key
    L3H7   attention head 7 of layer 3: what it reads and writes, what it looks at, which predictions it raised

    Layers, neurons and heads count from 0.
    """
    from atlas.address import Head, parse_address
    from atlas.cli import show_head, show_neuron

    shown = parse_address(address)
    with open_atlas(db) as a:
        page = show_head.page(a.head(address)) if isinstance(shown, Head) else show_neuron.page(a.neuron(address))
        click.echo(page, color=None if use_color() else False)
