"""Text with coefficients as HTML in which a token is text and nothing else. Pure: strings in, strings out."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from atlas.export.visible import visible, visible_line

POSITIVE, NEGATIVE, PAPER = (241, 163, 64), (178, 171, 210), (255, 255, 255)
"""Ends of a scale that colour-blind readers tell apart (ColorBrewer's PuOr), each 4.5:1 or more against the ink on it."""

LONGEST_FACT, MOST_FACTS = 30, 4
"""Characters; how many beneath a text. Tables and files have all."""

CSS = """<style>
/* what is written beneath a choice is too pale to read otherwise */
[data-testid=stCaptionContainer],[data-testid=stCaptionContainer] *{color:inherit!important;opacity:1!important}
.strip{background:#fff;color:#111;font-family:"Source Code Pro",monospace;font-size:.9rem;white-space:pre-wrap;line-height:1.8;padding:.25rem .6rem;
border-radius:.4rem;overflow-wrap:anywhere;display:flex;gap:.8rem}
.strip .gutter{flex:0 0 4.5rem;text-align:right;font-variant-numeric:tabular-nums;border-right:1px solid #bbb;padding-right:.6rem}
.strip .peak{outline:2px solid #111;outline-offset:-1px}
.strip .unread{color:#595959}
.trigger{margin-bottom:.6rem}
.trigger .said{font-size:.8rem;padding:.1rem .6rem;overflow-wrap:anywhere}
</style>"""


def shade(value: float, largest: float) -> str:
    """From paper to the end of the scale: |value| over `largest`, which all strips of a page share."""
    share = min(abs(value) / largest, 1.0) if largest > 0 else 0.0
    end = POSITIVE if value >= 0 else NEGATIVE
    return "rgb(" + ",".join(str(round(p + (e - p) * share)) for p, e in zip(PAPER, end, strict=True)) + ")"


def strip(tokens: Sequence[str], coefficients: Sequence[float | None], *, peak: int, largest: float) -> str:
    """One text: the coefficient of its peak in the gutter, each token on its shade; what follows the peak is grey, as the model had not read it.

    A token whose coefficient the atlas does not hold (None) has no shade.
    """
    spans = "".join(span(i, t, c, peak, largest) for i, (t, c) in enumerate(zip(tokens, coefficients, strict=True)))
    own = coefficients[peak]
    return f'<div class="strip"><span class="gutter">{number(own) if own is not None else ""}</span><bdi>{spans}</bdi></div>'


def span(i: int, token: str, coefficient: float | None, peak: int, largest: float) -> str:
    # only numbers in attributes: the browser's sanitiser drops one whose text looks like markup
    kind = "peak" if i == peak else "unread" if i > peak else ""
    shown = f' style="background:{shade(coefficient, largest)}" title="{coefficient:+.4g}"' if coefficient is not None and i <= peak else ""
    return f'<span class="{kind}"{shown}>{escape(visible_line(token))}</span>'


def number(value: float) -> str:
    """Signed, with a true minus."""
    return f"{value:+.3f}".replace("-", "−")


def trigger(row: Mapping[str, Any], largest: float) -> str:
    """A row of the question trigger_contexts: its text, and beneath it what followed, where it is from, and how many more read the same."""
    said = [f"next {visible(row['next_token'])}" if row["next_token"] is not None else "the document ends here", row["document"], *facts(row["metadata"])]
    if row["n_folded"]:
        said.append(f"{row['n_folded']} more with the same text")
    shown = " · ".join(f"<bdi>{escape(visible_line(str(s)))}</bdi>" for s in said)
    return f'<div class="trigger">{strip(row["tokens"], row["coefficients"], peak=row["peak"], largest=largest)}<div class="said">{shown}</div></div>'


def facts(metadata: str | None) -> list[str]:
    """What the corpus says of a document, 'year 1790', as far as it fits beneath a text."""
    known = [f"{name} {value}" for name, value in json.loads(metadata or "{}").items() if value is not None]
    return [fact for fact in known if len(fact) <= LONGEST_FACT][:MOST_FACTS]
