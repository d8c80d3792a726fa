"""One neuron on one page: norms, the tokens that its value promotes, the texts that trigger its key."""

from dataclasses import dataclass
from html import escape

import duckdb
import polars as pl

from atlas.address import Neuron
from atlas.export.cells import display_cells
from atlas.export.visible import visible_text
from atlas.frames import fetch
from atlas.questions import question
from atlas.statement import statement

N_TRIGGERS = 10


@dataclass(frozen=True)
class Card:
    """A neuron: `facts` (question neuron_card, one row per corpus), `tokens` (value_tokens), `top` and `bottom` (sequence_triggers of
    both tails: one text per sequence)."""

    address: str
    facts: pl.DataFrame
    tokens: pl.DataFrame
    top: pl.DataFrame
    bottom: pl.DataFrame

    def _repr_html_(self) -> str:
        blocks = [f"<h3>{self.address}</h3>", facts_html(self.facts)]
        for title, triggers in (("Largest coefficients", self.top), ("Smallest coefficients", self.bottom)):
            blocks += [f"<h4>{title}</h4>", triggers_html(triggers)]
        return "\n".join(blocks)


def read_card(con: duckdb.DuckDBPyConnection, layer: int, neuron: int) -> Card:
    """Ask the four questions that a card is made of; layer and neuron count from 0."""

    def ask(name: str, **arguments: object) -> pl.DataFrame:
        defaults = {p.name: p.default_value for p in question(name).parameters}
        return fetch(con, statement(question(name), {**defaults, "layer": layer, "neuron": neuron, **arguments}))

    return Card(
        address=str(Neuron(layer, neuron)),
        facts=ask("neuron_card"),
        tokens=ask("value_tokens"),
        top=ask("sequence_triggers", n=N_TRIGGERS),
        bottom=ask("sequence_triggers", n=N_TRIGGERS, tail="min"),
    )


def facts_html(facts: pl.DataFrame) -> str:
    rows = [
        "".join(f"<td>{escape(cell)}</td>" for cell in (name, *display_cells(facts[name]))) for name in facts.columns if facts[name].null_count() < facts.height
    ]
    return f"<table>{''.join(f'<tr>{r}</tr>' for r in rows)}</table>"


def triggers_html(triggers: pl.DataFrame) -> str:
    rows = [
        f"<tr><td>{coefficient}</td><td style='text-align:right'>{escape(visible_text(before))}</td><td><b>{escape(visible_text(token))}</b></td>"
        f"<td>{escape(visible_text(after))}</td><td>{describe_more_triggers(n_folded)}</td></tr>"
        for coefficient, before, token, after, n_folded in zip(
            display_cells(triggers["coefficient"]), *(triggers[c] for c in ("text_before", "token", "text_after", "n_folded")), strict=True
        )
    ]
    return f"<table>{''.join(rows)}</table>"


def describe_more_triggers(n_folded: int) -> str:
    """Describe how many more triggers are in the same sequence; return '' if there are none."""
    return f"{n_folded} more in this sequence" if n_folded else ""
