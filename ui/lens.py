"""A prediction as HTML: its text, what came of it, and the leading token at every site. Pure: rows in, strings out; a token is text and nothing else."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from atlas.export.visible import visible, visible_line
from schema.terms import SITES
from ui.tokens import COLOURS, UNSEEN, shade, unseen

Row = Mapping[str, Any]

SIGNS = {("saturation", True): "▲", ("elimination", True): "▼", ("elimination", False): "▽"}
"""Event and whether the paper counts it → sign."""

LEGEND = {
    "▲": "saturation: this layer's FFN lifts the final prediction to the top, where it stays after every later layer",
    "▼": "elimination: this layer's FFN takes its candidate down; of this position the fall that is largest, and which the paper counts",
    "▽": "another elimination",
    "bold": "is the model's final prediction",
}

CSS = f"""<style>
.lens{{{COLOURS};position:relative;background:var(--paper);color:var(--ink);border-radius:.4rem;padding:.4rem .6rem;font-size:.85rem;overflow-wrap:anywhere}}
.lens .passage{{font-family:"Source Code Pro",monospace;white-space:pre-wrap;line-height:1.9;direction:ltr}}
.lens .traced{{border-bottom:2px solid light-dark(#0072B2,#56B4E9)}}
.lens .asked{{outline:2px solid var(--ink);outline-offset:1px}}
.lens .unread{{color:var(--pale)}}
.lens .unseen{{{UNSEEN}}}
.lens .token{{font-family:"Source Code Pro",monospace;border:1px solid #888;border-radius:.2rem;padding:0 .2rem}}
.lens .said{{line-height:1.9}}
.lens .wide{{overflow-x:auto}}
.lens table{{border-collapse:collapse;width:100%;min-width:36rem;table-layout:fixed;font-variant-numeric:tabular-nums}}
.lens caption{{text-align:left;color:var(--ink);padding-bottom:.3rem}}
.lens th,.lens td{{border:1px solid light-dark(#ddd,#444);padding:.1rem .4rem;text-align:left;font-weight:400;color:var(--ink)}}
.lens th:first-child{{width:3.8rem;text-align:right}}
.lens td .prob{{float:right;margin-left:.4rem}}
.lens td bdi{{font-family:"Source Code Pro",monospace}}
.lens td.final bdi{{font-weight:700}}
</style>"""

SPOKEN = {"asked": "the position asked for", "traced": "traced"}
"""What a frame and a line beneath a token say, for those who listen; grey begins after the position asked for."""


def passage(tokens: Iterable[Row]) -> str:
    """Rows of the question position_tokens as running text: the position asked for in a frame, traced ones underlined, what had not been read in grey."""
    spans, is_read = [], True
    for row in tokens:
        marks = {"asked": row["is_asked"], "traced": row["is_traced"] and not row["is_asked"], "unread": not is_read}
        kinds = [kind for kind, is_so in marks.items() if is_so]
        said = unseen(", ".join(SPOKEN[kind] for kind in kinds if kind in SPOKEN))
        # each token by itself: one that runs from right to left must not turn its neighbours round
        spans.append(f'<bdi class="{" ".join(kinds)}">{escape(visible_line(row["token"]))}</bdi>{said}')
        is_read = is_read and not row["is_asked"]
    return f'<div class="lens"><span class="passage">{"".join(spans)}</span></div>'


def token(text: str) -> str:
    return f'<bdi class="token">{escape(visible(text))}</bdi>'


def outcome(last: Row, facts: Iterable[str]) -> str:
    """What the model predicts and what the corpus has, from the last row of the question prediction_trace; `facts` say where the text is from."""
    said = f"The model predicts {token(last['final_token'])} with probability {last['final_token_prob']:.3g}."
    if last["next_token"] is None:
        said += " The document ends here."
    else:
        said += f" The corpus goes on with {token(last['next_token'])}, probability {last['next_token_prob']:.3g} and rank {last['next_token_rank']:,}."
    return f'<div class="lens"><div class="said">{said}</div><div>{" · ".join(f"<bdi>{escape(visible_line(f))}</bdi>" for f in facts)}</div></div>'


def scored(mid: Row) -> str:
    """The tokens that sub-updates of a layer are scored for, from its row of prediction_trace at resid_mid."""
    named = {"candidate (leads at resid_mid)": mid["top_token"], "final": mid["final_token"], "next": mid["next_token"]}
    return f'<div class="lens said">{" · ".join(f"{name} {token(text)}" for name, text in named.items() if text is not None)}</div>'


def marks(events: Iterable[Row]) -> dict[tuple[int, str], str]:
    """Rows of the question position_events → sign of each (layer, site): beside the token taken down at resid_mid, beside the one settled at resid_post."""
    return {(e["layer"], "resid_post" if e["event"] == "saturation" else "resid_mid"): SIGNS[e["event"], e["is_counted"]] for e in events}


def grid(trace: Iterable[Row], signs: Mapping[tuple[int, str], str]) -> str:
    """Rows of the question prediction_trace as a table of layers and sites: the leading token, its probability as shade and number, signs of events."""
    cells = {(row["layer"], row["site"]): row for row in trace}
    head = "".join(f'<th scope="col">{site}</th>' for site in ("Layer", *SITES))
    lines = [
        f'<tr><th scope="row">{layer}</th>{"".join(cell(cells.get((layer, site)), signs.get((layer, site), "")) for site in SITES)}</tr>'
        for layer in sorted({layer for layer, _ in cells})
    ]
    caption = "".join(f"<div>{sign} {escape(meaning)}</div>" for sign, meaning in LEGEND.items() if sign == "bold" or sign in signs.values())
    table = f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="lens"><div class="wide" tabindex="0">{table}</div></div>'


def cell(row: Row | None, sign: str) -> str:
    if row is None:
        return "<td></td>"
    # only numbers in attributes: the browser's sanitiser drops one whose text looks like markup
    final = ' class="final"' if row["final_token_rank"] == 1 else ""
    said = "" if row["final_token_rank"] != 1 else unseen("the final prediction")
    shown = f'<span class="prob">{percent(row["top_prob"])}</span>{f"{sign} " if sign else ""}<bdi>{escape(visible(row["top_token"]))}</bdi>{said}'
    return f'<td{final} style="background:{shade(row["top_prob"], 1.0)}" title="{row["top_prob"]:.4g}">{shown}</td>'


def percent(prob: float) -> str:
    return "&lt;1%" if prob < 0.005 else f"{prob:.0%}"
