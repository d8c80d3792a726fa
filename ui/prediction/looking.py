"""Where a head looks from a position: the sources that move most, as rows and over the text."""

from typing import Any

import polars as pl
import streamlit as st

from atlas.address import Head
from ui.prediction import hrefs, lens, waterfall
from ui.prediction.source import Source, lacks

LEAST_WIDTH, MOST_WIDTH = 48, 1024
"""Tokens of the text on each side."""


def panel(source: Source, head: Head) -> None:
    st.header(f"Where does {head} look from here?")
    links = [lens.link_html("Close it", hrefs.of_view(source.view.with_changes(head=None))), lens.link_html(f"{head} itself", hrefs.of_component(head))]
    st.html(f'<div class="lens"><span class="go">{" · ".join(links)}</span></div>')
    found = source.ask_at_position("attention_sources", layer=head.layer, head=head.head)
    if found.frame.is_empty():
        if source.is_live:
            st.text("Where its heads look is not told of a switched run, and not of a prompt that was not taken apart.")
        else:
            lacks("Rows of attention are not in this atlas.", "attribution")
        return
    listed = found.frame.drop_nulls("source_index")
    st.text(sentence(found.frame, str(head)))
    st.html(lens.shade_tokens(tokens_with_shares(source, listed), "moved_share", 1.0, lambda share: f"{share:.0%}", lambda row: to_position(source, row)))
    heads = ["Token", "Back", "Weight", "Moves", "Share", "Adds to the prediction"]
    source.show_html(lens.table(heads, (row_of(row) for row in found.frame.iter_rows(named=True))), found, f"sources-{head}")


def sentence(rows: pl.DataFrame, head: str) -> str:
    """Describe which token brings most."""
    first, total = rows.row(0, named=True), rows["final_logit"].sum()
    back = "the position itself" if first["distance"] == 0 else f"{first['distance']} back"
    return (
        f"{head} adds {waterfall.format_signed(float(total))} logits to the prediction. What moves most comes from {back}: {first['moved_share']:.0%} of it, "
        f"at a weight of {first['weight']:.2f}. In the text each source has its share of what is moved."
    )


def tokens_with_shares(source: Source, listed: pl.DataFrame) -> list[dict[str, Any]]:
    """Read the text up to the position, with the share of each source that is listed."""
    furthest = int(listed["distance"].max() or 0)  # type: ignore[arg-type]
    around = source.ask("position_tokens", at_position=source.position, width=min(MOST_WIDTH, max(LEAST_WIDTH, furthest)))
    shares = dict(listed.select("source_index", "moved_share").iter_rows())
    rows = around.frame.filter(pl.col("position_id") <= source.position).iter_rows(named=True)
    return [{**row, "moved_share": shares.get(row["index"])} for row in rows]


def to_position(source: Source, row: lens.Row) -> str | None:
    """Find where a token leads: a traced position to its own prediction, a token of a live prompt to the prediction after it; None if nowhere."""
    if source.is_live:
        return hrefs.of_view(source.view.with_changes(index=row["index"]))
    return hrefs.of_position(row["position_id"]) if row["is_traced"] and not row["is_asked"] else None


def row_of(row: dict[str, Any]) -> list[str]:
    name = "all others" if row["source_index"] is None else lens.token(row["token"], hrefs.of_token(row["token"]))
    back = "" if row["distance"] is None else str(row["distance"])
    return [name, back, f"{row['weight']:.3f}", waterfall.number(row["moved"]), f"{row['moved_share']:.1%}", waterfall.format_signed(row["final_logit"])]
