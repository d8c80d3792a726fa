"""Text with coefficients as HTML, in which tokens are plain text. Pure: strings in, strings out."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from math import log10
from typing import Any

from atlas.export.scripts import stretches
from atlas.export.visible import visible_line, visible_text

POSITIVE, NEGATIVE = ((241, 163, 64), (139, 82, 6)), ((178, 171, 210), (98, 84, 158))
"""End colours of the scale, for positive and for negative values, each for a light and a dark page.

Colour-blind readers can tell them apart (ColorBrewer's PuOr; darker for a dark page).
"""

PAPER, INK, PALE = ((255, 255, 255), (28, 30, 36)), ((17, 17, 17), (236, 236, 236)), ((89, 89, 89), (168, 168, 168))
"""Colours of the background, of text, and of text that the model had not read, each for a light and a dark page; text has a contrast of 4.5:1 or more."""

FAINTEST = 0.05
"""Share of the full colour that the smallest value other than 0 has."""

LONGEST_FACT, MOST_FACTS = 30, 4
"""Maximum characters of a fact, and maximum number of facts beneath a text. Tables and files have all facts."""

Colour = tuple[int, int, int]


def adaptive(light: Colour, dark: Colour) -> str:
    """Write a colour that follows the page's theme and not the system's, since the reader may choose another; Streamlit tells the browser the page's theme."""
    return f"light-dark(rgb{light},rgb{dark})".replace(" ", "")


COLOURS = ";".join(
    f"--{name}:{adaptive(light, dark)}"
    for name, (light, dark) in {"paper": PAPER, "ink": INK, "pale": PALE, "positive": POSITIVE, "negative": NEGATIVE}.items()
)
"""Colours as CSS declarations, for every box of text with numbers."""

UNSEEN = "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap;user-select:none"
"""CSS of text that screen readers read aloud, and that is neither shown nor copied."""

LEFTWARD = """bdi[dir=rtl] bdi{unicode-bidi:normal;display:inline!important}
bdi[dir=rtl] sup{unicode-bidi:isolate;direction:ltr}"""
"""CSS of tokens that are read from right to left as one text, as `in_order` joins them."""

CSS = f"""<style>
{LEFTWARD}
/* what is written beneath a choice is too pale to read otherwise */
[data-testid=stCaptionContainer],[data-testid=stCaptionContainer] *{{color:inherit!important;opacity:1!important}}
.strip{{{COLOURS};background:var(--paper);color:var(--ink);font-family:"Source Code Pro",monospace;font-size:.9rem;white-space:pre-wrap;line-height:1.8;
padding:.25rem .6rem;border-radius:.4rem;overflow-wrap:anywhere;display:flex;gap:.8rem;direction:ltr}}
.strip .text{{position:relative;min-width:0}}
.strip .gutter{{flex:0 0 4.5rem;text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums;border-right:1px solid #888;padding-right:.6rem}}
.strip .peak{{outline:2px solid var(--ink);outline-offset:-1px;display:inline-block;max-width:100%}}
.strip .unread{{color:var(--pale)}}
.strip .unseen{{{UNSEEN}}}
.trigger{{margin-bottom:.6rem}}
.trigger .said{{font-size:.8rem;padding:.1rem .6rem;overflow-wrap:anywhere}}
</style>"""


def strength(value: float, largest: float) -> float:
    """Compute the strength of a value's colour, from 0 to 1, on a logarithmic scale, so that small values differ visibly from 0 and from each other."""
    share = min(abs(value) / largest, 1.0) if largest > 0 else 0.0
    return FAINTEST + (1 - FAINTEST) * log10(1 + 9 * share) if share else 0.0


def shade(value: float, largest: float) -> str:
    """Write the shade of a value as CSS, for a box with COLOURS, from none to the scale's end: |value| over `largest`, which all strips of a page share."""
    return f"color-mix(in srgb,var(--{'positive' if value >= 0 else 'negative'}) {strength(value, largest):.1%},transparent)"


def strip(tokens: Sequence[str], coefficients: Sequence[float | None], *, peak: int, largest: float) -> str:
    """Write one text: the coefficient of its peak in the gutter, each token on its shade.

    Tokens after the peak are grey, because the model had not read them. A token whose coefficient the atlas does not hold (None) has no shade. The meaning of
    colour, frame and grey is also given in words, for screen readers.
    """
    spans, said = zip(*(span(i, t, c, peak, largest) for i, (t, c) in enumerate(zip(tokens, coefficients, strict=True))), strict=True)
    own = coefficients[peak]
    text = in_order(tokens, spans, said)
    return f'<div class="strip"><span class="gutter">{number(own) if own is not None else ""}</span><span class="text">{text}</span></div>'


def in_order(tokens: Sequence[str], spans: Sequence[str], said: Sequence[str]) -> str:
    """Join the HTML of a text. spans: a <bdi> for each token; said: a note on each token for screen readers.

    Tokens that are read from right to left are put in one <bdi>, so that words keep their order and letters join across tokens. Their notes come after all of
    them, since a note within a number would split it.
    """
    parts = []
    for is_leftward, part in stretches(tokens):
        if is_leftward and part.stop - part.start > 1:
            parts += [f'<bdi dir="rtl">{"".join(spans[part])}</bdi>', *said[part]]
        else:
            parts += [html for both in zip(spans[part], said[part], strict=True) for html in both]
    return "".join(parts)


def span(i: int, token: str, coefficient: float | None, peak: int, largest: float) -> tuple[str, str]:
    """Write a token, and the note on it for screen readers."""
    # only numbers in attributes: the browser's sanitiser drops one whose text looks like markup
    kind = "peak" if i == peak else "unread" if i > peak else ""
    known = coefficient if i <= peak else None
    shown = f' style="background:{shade(known, largest)}" title="{known:+.4g}"' if known is not None else ""
    said = [*(["trigger"] if i == peak else ["not read from here on"] if i == peak + 1 else []), *([f"{known:+.3g}"] if known is not None else [])]
    # each token by itself: one that runs from right to left must not turn its neighbours round
    return f'<bdi class="{kind}"{shown}>{escape(visible_line(token))}</bdi>', screen_reader_text(", ".join(said))


def screen_reader_text(text: str) -> str:
    """Write a text for screen readers, in brackets; '' if it is empty."""
    return f'<span class="unseen"> ({text}) </span>' if text else ""


def number(value: float) -> str:
    """Format a number with its sign and a true minus."""
    return f"{value:+.3f}".replace("-", "−")


def trigger(row: Mapping[str, Any], largest: float, leads: str = "") -> str:
    """Write a row of the question trigger_contexts: its text, and beneath it the next token and the source of the text.

    The line beneath also gives how many more triggers the sequence has, and how many others have the same text. `leads`: HTML, a link to the prediction there.
    """
    said = [f"next {visible_text(row['next_token'])}" if row["next_token"] is not None else "the document ends here", row["document"], *facts(row["metadata"])]
    if row["n_in_sequence"] > 1:
        said.append(f"{row['n_in_sequence'] - 1} more in this sequence")
    if row["n_folded"]:
        said.append(f"{row['n_folded']} more with the same text")
    shown = " · ".join([*([leads] if leads else []), *(f"<bdi>{escape(visible_line(str(s)))}</bdi>" for s in said)])
    return f'<div class="trigger">{strip(row["tokens"], row["coefficients"], peak=row["peak"], largest=largest)}<div class="said">{shown}</div></div>'


def facts(metadata: str | None) -> list[str]:
    """List facts that the corpus has about a document, such as 'year 1790', as far as they fit beneath a text."""
    known = [f"{name} {value}" for name, value in json.loads(metadata or "{}").items() if value is not None]
    return [fact for fact in known if len(fact) <= LONGEST_FACT][:MOST_FACTS]
