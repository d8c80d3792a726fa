"""One attention head on one page: what its weights read and write, what it looks at, which predictions it raised."""

from dataclasses import dataclass
from html import escape
from pathlib import Path

import duckdb
import polars as pl

from atlas.address import Head
from atlas.commands import ingest_command
from atlas.export.cells import display_cells
from atlas.frames import fetch
from atlas.questions import question
from atlas.ranges import missing_run
from atlas.statement import statement

N_DIRECTIONS, N_HEADS, N_POSITIONS = 3, 3, 10

READ_BY = "read_by"


@dataclass(frozen=True)
class HeadCard:
    """Data on one head.

    `facts`: question head_card, one row. `directions`: head_tokens of the OV circuit, both ends of the three directions with the largest singular values.
    `read_by`: composition_from, the later heads whose keys read this head most. `behaviours`: head_behaviours. `positions`: head_positions.
    A frame has no rows if its pass was not run; `missing` maps each such pass to the command that runs it.
    """

    address: str
    facts: pl.DataFrame
    directions: pl.DataFrame
    read_by: pl.DataFrame
    behaviours: pl.DataFrame
    positions: pl.DataFrame
    missing: dict[str, str]

    def _repr_html_(self) -> str:
        titles = {"facts": "Weights", "directions": "What it reads and writes", READ_BY: "Which heads read it by their keys"}
        titles |= {"behaviours": "What it looks at", "positions": "Predictions that it raised most"}
        blocks = [f"<h3>{self.address}</h3>"]
        for name, title in titles.items():
            frame: pl.DataFrame = getattr(self, name)
            blocks += [f"<h4>{title}</h4>", table_html(frame)] if frame.height else []
        blocks += [f"<p>no {run} run: <code>{escape(how)}</code></p>" for run, how in self.missing.items()]
        return "\n".join(blocks)


def read_head_card(con: duckdb.DuckDBPyConnection, path: Path, layer: int, head: int) -> HeadCard:
    """Ask the questions that make up a card; layer and head count from 0. path: path of the atlas, for the commands that run missing passes."""
    missing: dict[str, str] = {}

    def ask(name: str, **arguments: object) -> pl.DataFrame:
        q = question(name)
        defaults = {p.name: p.default_value for p in q.parameters}
        frame = fetch(con, statement(q, {**defaults, "layer": layer, "head": head, **arguments}))
        if frame.is_empty() and (run := missing_run(con, q.sql)):
            missing[run] = ingest_command(con, path, run)
        return frame

    return HeadCard(
        address=str(Head(layer, head)),
        facts=ask("head_card"),
        directions=ask("head_tokens").filter(pl.col("direction_rank") <= N_DIRECTIONS),
        read_by=ask("composition_from", n=N_HEADS),
        behaviours=ask("head_behaviours"),
        positions=ask("head_positions", n=N_POSITIONS),
        missing=missing,
    )


def table_html(frame: pl.DataFrame) -> str:
    """Build an HTML table of those columns of the frame that have a value."""
    shown = [name for name in frame.columns if frame[name].null_count() < frame.height]
    cells = [display_cells(frame[name]) for name in shown]
    header = "".join(f"<th>{escape(name)}</th>" for name in shown)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in zip(*cells, strict=True))
    return f"<table><tr>{header}</tr>{rows}</table>"
