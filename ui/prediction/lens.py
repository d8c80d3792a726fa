"""A prediction as HTML: its text, its outcome, and the leading token at every site. Pure: rows in, strings out; tokens are plain text."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from atlas.export.visible import visible_line, visible_text
from schema.terms import SITES
from ui.tokens import COLOURS, LEFTWARD, UNSEEN, in_order, screen_reader_text, shade

Row = Mapping[str, Any]

NUMBER = re.compile(r"[-+−\d.]+(e|$|%)")

SIGNS = {("saturation", True): "▲", ("elimination", True): "▼", ("elimination", False): "▽"}
"""(event, whether the paper counts it) → sign."""

LEGEND = {
    "▲": "saturation: this layer's FFN lifts the final prediction to the top, where it stays after every later layer",
    "▼": "elimination: this layer's FFN takes its candidate down; the largest fall at this position, which the paper counts",
    "▽": "another elimination",
    "bold": "is the model's final prediction",
}

CSS = f"""<style>
{LEFTWARD}
.lens{{{COLOURS};position:relative;background:var(--paper);color:var(--ink);border-radius:.4rem;padding:.4rem .6rem;font-size:.85rem;overflow-wrap:anywhere}}
.lens a{{color:inherit;text-decoration:none}}
.lens a:hover,.lens a:focus-visible{{text-decoration:underline}}
.lens th a,.lens td:first-child>a,.lens .said a,.lens .go,.lens .go a{{color:light-dark(#0b5394,#8ab8f0);text-decoration:underline dotted}}
.lens .passage{{font-family:"Source Code Pro",monospace;white-space:pre-wrap;line-height:1.9;direction:ltr}}
.lens .passage sup{{font-size:.65rem;font-variant-numeric:tabular-nums;padding-left:.1rem}}
.lens .traced{{border-bottom:2px solid light-dark(#0072B2,#56B4E9)}}
.lens .asked{{outline:2px solid var(--ink);outline-offset:1px;display:inline-block;max-width:100%}}
.lens .unread{{color:var(--pale)}}
.lens .unseen{{{UNSEEN}}}
.lens .token{{font-family:"Source Code Pro",monospace;border:1px solid #888;border-radius:.2rem;padding:0 .2rem}}
.lens .said{{line-height:1.9}}
.lens.wide{{overflow-x:auto}}
.lens.wide th,.lens.wide td{{overflow-wrap:normal}}
.lens.wide:not(.grid) td:last-child:not(.number){{min-width:15rem}}
.lens.grid td{{overflow-wrap:anywhere}}
.lens table{{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}}
.lens caption{{text-align:left;color:var(--ink);padding-bottom:.3rem}}
.lens th,.lens td{{border:1px solid light-dark(#ddd,#444);padding:.1rem .4rem;text-align:left;font-weight:400;color:var(--ink)}}
.lens bdi{{font-family:"Source Code Pro",monospace}}
.lens .number{{text-align:right;white-space:nowrap}}
.lens.grid table{{table-layout:fixed;min-width:38rem}}
.lens.grid th:first-child{{width:3.8rem;text-align:right;position:sticky;left:0;background:var(--paper)}}
.lens.grid td a{{display:block}}
.lens.grid td .prob{{float:right;margin-left:.4rem}}
.lens.grid td.final bdi{{font-weight:700}}
.lens.grid tr.opened th{{background:var(--ink)}}
.lens.grid tr.opened th a{{color:var(--paper)}}
.lens.fall th,.lens.fall td{{border:0;border-bottom:1px solid light-dark(#eee,#333)}}
.lens.fall th{{white-space:nowrap;width:1%}}
.lens.fall td:nth-child(2),.lens.fall td:nth-child(3){{text-align:right;white-space:nowrap;width:1%}}
.lens.fall thead th:last-child{{width:99%}}
.lens.fall td:last-child{{min-width:6rem}}
.lens.fall td span{{display:block;height:.8rem;min-width:1px}}
.lens.fall .up{{background:#E66101}}
.lens.fall .down{{background:light-dark(#5E3C99,#9A7BD0)}}
.lens.fall .sum *{{font-weight:700;border-top:1px solid var(--ink)}}
.lens .switch{{font-size:.75rem;padding-left:.5rem;white-space:nowrap}}
</style>"""

SPOKEN = {"asked": "the position asked for", "traced": "traced"}
"""Meaning of a token's frame and underline, for screen readers; grey text begins after the position asked for."""

Href = Callable[[Row], str | None]
"""Row → address that it leads to; None if it leads nowhere."""


def passage(tokens: Iterable[Row], href: Href = lambda _: None) -> str:
    """Write rows of the question position_tokens as running text.

    The position asked for is framed, traced positions are underlined, and text that the model had not read is grey.
    """
    rows, kinds, is_read = list(tokens), [], True
    for row in rows:
        marks = {"asked": row["is_asked"], "traced": row["is_traced"] and not row["is_asked"], "unread": not is_read}
        kinds.append(" ".join(kind for kind, is_so in marks.items() if is_so))
        is_read = is_read and not row["is_asked"]
    spans = [piece(row["token"], kind, href(row)) for row, kind in zip(rows, kinds, strict=True)]
    return f'<div class="lens"><div class="passage">{write_running_text([row["token"] for row in rows], spans, kinds)}</div></div>'


def shade_tokens(tokens: Iterable[Row], column: str, largest: float, number: Callable[[float], str], href: Href = lambda _: None) -> str:
    """Write running text. A token's number in `column`, if any, follows it and sets its shade, on a scale up to `largest`; the token asked for is framed."""
    rows, spans = list(tokens), []
    kinds = ["asked" if row["is_asked"] else "" for row in rows]
    for row, kind in zip(rows, kinds, strict=True):
        value = row[column]
        shown = "" if value is None else f' style="background:{shade(value, largest)}"'
        spans.append(piece(row["token"], kind, href(row), shown) + ("" if value is None else f"<sup>{escape(number(value))}</sup>"))
    return f'<div class="lens"><div class="passage">{write_running_text([row["token"] for row in rows], spans, kinds)}</div></div>'


def write_running_text(tokens: Sequence[str], spans: Sequence[str], kinds: Sequence[str]) -> str:
    """Write running text. The meaning of a token's styles is also given in words, for screen readers."""
    return in_order(tokens, spans, [screen_reader_text(", ".join(SPOKEN[word] for word in kind.split() if word in SPOKEN)) for kind in kinds])


def piece(text: str, kind: str, href: str | None, style: str = "") -> str:
    """Write a token of a text, isolated so that its direction of writing does not affect its neighbours."""
    return link_html(f'<bdi class="{kind}"{style}>{escape(visible_line(text))}</bdi>', href)


def link_html(html: str, href: str | None) -> str:
    return html if href is None else f'<a href="{escape(href, quote=True)}">{html}</a>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """Build a table. Cells are HTML; those that begin with a digit or a sign are numbers."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    lines = ["".join(f'<td class="number">{c}</td>' if NUMBER.match(c) else f"<td>{c}</td>" for c in row) for row in rows]
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<div class="lens wide"><table>{said}<thead><tr>{head}</tr></thead><tbody>{"".join(f"<tr>{line}</tr>" for line in lines)}</tbody></table></div>'


def token(text: str, href: str | None = None) -> str:
    return link_html(f'<bdi class="token">{escape(visible_text(text))}</bdi>', href)


def outcome(last: Row, facts: Iterable[str]) -> str:
    """Describe what the model predicts and how the corpus continues, from the last row of the question prediction_trace.

    `facts`: where the text is from.
    """
    said = f"The model predicts {token(last['final_token'])} with probability {last['final_token_prob']:.3g}."
    if last["next_token"] is None:
        said += " The document ends here."
    else:
        said += f" The corpus goes on with {token(last['next_token'])}, probability {last['next_token_prob']:.3g} and rank {last['next_token_rank']:,}."
    return f'<div class="lens"><div class="said">{said}</div><div>{" · ".join(f"<bdi>{escape(visible_line(f))}</bdi>" for f in facts)}</div></div>'


def list_scored_tokens(mid: Row) -> str:
    """List the tokens that sub-updates of a layer are scored for, from the layer's row of prediction_trace at resid_mid."""
    named = {"candidate (leads at resid_mid)": mid["top_token"], "final": mid["final_token"], "next": mid["next_token"]}
    return f'<div class="lens said">{" · ".join(f"{name} {token(text)}" for name, text in named.items() if text is not None)}</div>'


def marks(events: Iterable[Row]) -> dict[tuple[int, str], str]:
    """Map (layer, site) to the sign of its event, from rows of the question position_events: eliminations at resid_mid, saturations at resid_post."""
    return {(e["layer"], "resid_post" if e["event"] == "saturation" else "resid_mid"): SIGNS[e["event"], e["is_counted"]] for e in events}


def events(rows: Iterable[Row], href: Callable[[int], str]) -> str:
    """Tabulate rows of the question position_events, each layer a link."""
    heads = ["Layer", "Event", "Token", "Rank before", "Rank after", "Probability before", "Probability after", "Its input token"]
    cells = [
        [
            link_html(f"L{e['layer']}", href(e["layer"])), f"{SIGNS[e['event'], e['is_counted']]} {e['event']}", token(e["token"]), f"{e['rank_before']:,}",
            f"{e['rank_after']:,}", f"{e['prob_before']:.4f}", "" if e["prob_after"] is None else f"{e['prob_after']:.4f}",
            "yes" if e["is_input_token"] else "no",
        ]
        for e in rows
    ]  # fmt: skip
    return table(heads, cells)


def sentence(events: Iterable[Row], trace: Iterable[Row]) -> str:
    """Describe from which layer on the final token leads after every block, and which FFNs take candidates down."""
    leads = [row["final_token_rank"] == 1 for row in trace if row["site"] == "resid_post"]
    first = next((i for i in range(len(leads)) if all(leads[i:])), None)
    said = f"The final token {describe_lead(first, len(leads)) if any(leads) else 'never leads after a block'}."
    fallen = [event["layer"] for event in events if event["event"] == "elimination"]
    return said + (f" FFNs take a candidate down in {'layers' if len(fallen) > 1 else 'layer'} {', '.join(map(str, fallen))}." if fallen else "")


def describe_lead(first: int | None, n_layers: int) -> str:
    """Describe after which blocks a token leads for good. `first`: the first of these blocks, None if the token does not lead in the end."""
    if first is None:
        return "does not lead after the last block"
    after = f"layer {first}, the last" if first == n_layers - 1 else f"layer {first} and every later one"
    return f"leads after {after if first else 'every layer'}"


def grid(trace: Iterable[Row], signs: Mapping[tuple[int, str], str], href: Callable[[int], str], opened: int | None = None) -> str:
    """Tabulate rows of the question prediction_trace by layers and sites: the leading token, its probability as shade and number, signs of events.

    href: layer → its address. Each cell is a link to its layer; the tab key reaches only the link at the head of the row.
    """
    cells = {(row["layer"], row["site"]): row for row in trace}
    head = "".join(f'<th scope="col">{site}</th>' for site in ("Layer", *SITES))
    lines = []
    for layer in sorted({layer for layer, _ in cells}):
        to = href(layer)
        row = "".join(cell(cells.get((layer, site)), signs.get((layer, site), ""), to) for site in SITES)
        kind = ' class="opened"' if layer == opened else ""
        lines.append(f'<tr{kind}><th scope="row">{link_html(f"L{layer}", to)}</th>{row}</tr>')
    caption = "".join(f"<div>{sign} {escape(meaning)}</div>" for sign, meaning in LEGEND.items() if sign == "bold" or sign in signs.values())
    body = f"<caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="lens wide grid"><table>{body}</table></div>'


def cell(row: Row | None, sign: str, href: str) -> str:
    if row is None:
        return "<td></td>"
    # only numbers and addresses in attributes: the browser's sanitiser drops one whose text looks like markup
    final = ' class="final"' if row["final_token_rank"] == 1 else ""
    shown = f'<span class="prob">{percent(row["top_prob"])}</span>{f"{sign} " if sign else ""}<bdi>{escape(visible_text(row["top_token"]))}</bdi>'
    shown += screen_reader_text("the final prediction") if final else ""
    return f'<td{final} style="background:{shade(row["top_prob"], 1.0)}"><a tabindex="-1" href="{escape(href, quote=True)}">{shown}</a></td>'


def percent(prob: float) -> str:
    return "&lt;1%" if prob < 0.005 else f"{prob:.0%}"
