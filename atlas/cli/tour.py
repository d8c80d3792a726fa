"""`atlas tour`: a short walk through an atlas, each stop with the SQL behind it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from atlas.cli.options import db_option, open_atlas, use_color
from atlas.export.visible import visible_line
from schema.errors import AtlasError
from schema.table_facts import facts

if TYPE_CHECKING:
    from atlas.api import Atlas

THIRDS = ("lower", "middle", "upper")
N_TRIGGERS = 5

RUNS = """
SELECT r.kind, epoch(r.finished_at - r.started_at) AS seconds, r.device, CASE r.kind {counts} END AS n
FROM run AS r WHERE r.status = 'finished' AND n IS NOT NULL ORDER BY r.run_id
"""


@click.command()
@click.argument("path", required=False, type=click.Path(path_type=Path), metavar="[FILE]")
@db_option
def command(path: Path | None, db: Path | None) -> None:
    """Walk through an atlas in a minute: its size and speed, three telling keys, promotion against elimination."""
    with open_atlas(path or db) as a:
        for line in tour(a):
            click.echo(line, color=None if use_color() else False)


def tour(a: "Atlas") -> Iterator[str]:
    """Yield the lines of the tour."""
    yield from inventory(a)
    for key in a.sql((Path(__file__).parents[1] / "tour_keys.sql").read_text(encoding="utf-8")).iter_rows(named=True):
        yield from stop_at_key(a, key)
    yield from events(a)


def inventory(a: "Atlas") -> Iterator[str]:
    models = a.sql("FROM model")
    if models.is_empty():
        raise AtlasError(f"{a.path} holds no model yet; `atlas ingest` fills it")
    model = models.row(0, named=True)
    yield click.style(f"{a.path.name}: {a.path.stat().st_size / 1e6:.0f} MB, open to any DuckDB client", bold=True)
    yield f"model   {visible_line(model['name'])}, {model['n_layers']} layers of {model['d_ffn']} neurons, {visible_line(model['dtype'])}"
    for corpus in a.corpus_summary().iter_rows(named=True):
        name = visible_line(corpus["name"])
        yield f"corpus  {name}: {corpus['n_documents']} documents, {corpus['n_positions']:,} positions, {corpus['n_traced']:,} of them traced"
    measured = {name: told for name, told in facts().passes.items() if told.unit}
    counts = " ".join(f"WHEN '{name}' THEN ({told.counted})" for name, told in measured.items())
    for run in a.sql(RUNS.format(counts=counts)).iter_rows(named=True):
        rate = run["n"] / max(run["seconds"], 1e-3)
        yield f"{run['kind']:<7} {run['n']:,.0f} {measured[run['kind']].unit} in {run['seconds']:.0f} s on {visible_line(run['device'])} ({rate:,.1f} a second)"


def stop_at_key(a: "Atlas", key: dict) -> Iterator[str]:
    from atlas.address import Neuron
    from atlas.cli.show_neuron import tokens, trigger_lines

    layer, neuron, token = key["layer"], key["neuron"], visible_line(key["token"].strip())
    yield ""
    yield click.style(
        f"{Neuron(layer, neuron)}: {key['n_same']} of its 10 largest triggers end in “{token}” (the most of any key in the {THIRDS[key['third']]} layers)",
        bold=True,
    )
    yield f"  FROM top_triggers({layer}, {neuron}, n := {N_TRIGGERS})"
    yield from (f"  {line}" for line in trigger_lines(a.top_triggers(layer, neuron, n=N_TRIGGERS)))
    yield f"  FROM value_tokens({layer}, {neuron})"
    values = a.value_tokens(layer, neuron)
    yield f"  its value promotes    {tokens(values, 'promoted')}"
    yield f"  and suppresses        {tokens(values, 'suppressed')}"


def events(a: "Atlas") -> Iterator[str]:
    from atlas.export.terminal import terminal_table
    from atlas.papers.words import describe_table4_input

    traced = [corpus["corpus_id"] for corpus in a.corpus_summary().iter_rows(named=True) if corpus["n_traced"]]
    if not traced:
        return
    # it is a question of one text; where there are several, the first stands for them
    corpus = traced[0] if len(traced) > 1 else None
    scores = a.promotion_vs_elimination(corpus=corpus)
    if scores.is_empty():
        return
    yield ""
    yield click.style("Do FFN updates promote, or eliminate? Scores of single sub-updates at both events (Geva et al. 2022, table 4)", bold=True)
    yield f"  FROM promotion_vs_elimination({'' if corpus is None else f'corpus := {corpus}'})"
    yield from (f"  {line}" for line in terminal_table(scores).splitlines())
    if said := describe_table4_input(scores):
        yield f" {said}"
    yield "  scores are raw, m·(e·v), as in the paper; frozen scores are what the sub-updates add to the token's logit after the final norm"
