"""Rows as a table of links: every part of a row leads to its neuron, head or position. Pure: frames in, HTML out; cells are plain text."""

from collections.abc import Mapping
from html import escape

import polars as pl

from atlas.address import Head
from ui import links, number_format

MOST = 300
"""Maximum number of rows shown; files have all rows."""

CSS = """<style>
.scroll{overflow:auto;border:1px solid #8886;border-radius:.4rem}
table.rows{border-collapse:collapse;width:100%;font-size:.85rem;font-variant-numeric:tabular-nums}
table.rows th{position:sticky;top:0;z-index:1;text-align:left;font-weight:400;padding:0;background:light-dark(#f0f2f6,#2b2a27)}
table.rows th button{all:unset;cursor:pointer;padding:.3rem .6rem;width:100%;box-sizing:border-box;white-space:nowrap}
table.rows th button:focus-visible{outline:2px solid currentColor;outline-offset:-2px}
table.rows th[aria-sort=descending] button::after{content:" ▾"}
table.rows th[aria-sort=ascending] button::after{content:" ▴"}
table.rows tr{position:relative}
table.rows tbody tr:hover{background:#8882}
table.rows td{padding:.2rem .6rem;border-top:1px solid #8884;max-width:34rem;overflow:hidden;text-overflow:ellipsis;white-space:pre}
table.rows td.number{text-align:right}
table.rows td a::after{content:"";position:absolute;inset:0}
table.rows td a.other{position:relative;z-index:1}
table.rows td a.other::after{content:none}
table.rows td a.other:focus-visible{outline:2px solid currentColor}
table.rows td a:focus-visible::after{outline:2px solid currentColor;outline-offset:-2px}
</style>"""

Named = tuple[str, links.Link] | None
"""Name of the neuron, head or position of a row, and the link to it; None if the row names none."""


def table(shown: pl.DataFrame, leads: list[Named], title: str, meanings: Mapping[str, str], height: int | None) -> str:
    """Build a table of text and numbers, given as they are to be shown. `leads`: target of each row; `height`: px above which it scrolls, None for no limit."""
    shown, leads = shown.head(MOST), leads[:MOST]
    names = [name for name, _ in filter(None, leads)]
    kind = "position" if all(name.isdecimal() for name in names) else "head" if all("H" in name for name in names) else "neuron"
    pairs = earlier(shown) if kind == "head" else None
    # the name of a component says both numbers
    shown = shown.drop([c for c in ("layer", kind, "from_layer", "from_head") if kind != "position" and c in shown.columns])
    cells = {c: number_format.cells(shown[c], str) for c in shown.columns}
    own = next((c for c in cells if [*map(str, shown[c])] == [lead[0] if lead else "" for lead in leads]), None)
    if own is None:
        cells = {kind: [lead[0] if lead else "" for lead in leads], **({"reads": [str(pair) for pair in pairs]} if pairs else {}), **cells}
    head = "".join(f'<th scope="col"{title_of(meanings.get(c))}><button type="button">{escape(c)}</button></th>' for c in cells)
    lines = (
        "".join(
            head_cell(pairs[i]) if pairs and c == "reads" else cell(c, values[i], shown, lead if c == (own or kind) else None) for c, values in cells.items()
        )
        for i, lead in enumerate(leads)
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    limit = f' style="max-height:{height}px"' if height else ""
    inner = f'<table class="rows"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(title)}"{limit}>{inner}</div>'


def earlier(shown: pl.DataFrame) -> list[Head] | None:
    """Find the earlier head of each row; None if rows are not pairs of heads."""
    if not {"layer", "head", "from_layer", "from_head"} <= set(shown.columns):
        return None
    return [Head(*place) for place in shown.select("from_layer", "from_head").iter_rows()]


def head_cell(head: Head) -> str:
    """Build a cell with a link of its own, which lies above the link of its row."""
    return f"<td>{links.anchor(links.component(head), str(head), class_='other')}</td>"


def title_of(meaning: str | None) -> str:
    return f' title="{escape(meaning)}"' if meaning else ""


def cell(column: str, text: str, shown: pl.DataFrame, lead: Named) -> str:
    kind = ' class="number"' if column in shown.columns and shown.schema[column].is_numeric() else ""
    inner = f"<bdi>{escape(text)}</bdi>"
    return f"<td{kind}>{links.anchor(lead[1], inner) if lead else inner}</td>"
