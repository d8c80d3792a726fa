"""Previews of neurons: each row is a link with promoted tokens, one coloured text and a small histogram. Pure: rows in, HTML out."""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from math import sqrt
from typing import Any, Literal

from atlas.address import Neuron
from atlas.export.visible import visible_line, visible_text
from ui import links
from ui.tokens import COLOURS, LEFTWARD, in_order, number, shade

CSS = """<style>
__LEFTWARD__
.chips{display:flex;flex-wrap:wrap;gap:.2rem .3rem}
.chips bdi{font-family:"Source Code Pro",monospace;font-size:.85rem;border:1px solid #8888;border-radius:.25rem;padding:0 .3rem;
white-space:pre-wrap}
.previews{display:flex;flex-direction:column;border:1px solid #8886;border-radius:.4rem}
.previews .row{position:relative;display:grid;grid-template-columns:6.6rem minmax(9rem,2fr) minmax(12rem,3fr) 5.6rem;gap:.2rem .8rem;align-items:center;
padding:.25rem .6rem;border-top:1px solid #8884;font-size:.9rem}
.previews .row:first-child{border-top:0}
.previews .row:hover{background:#8882}
.previews .row a::after{content:"";position:absolute;inset:0}
.previews .row a:focus-visible::after{outline:2px solid currentColor;outline-offset:-2px}
.previews .why{font-size:.8rem;display:block}
.previews .text{__COLOURS__;background:var(--paper);color:var(--ink);border-radius:.25rem;padding:0 .3rem;font-size:.82rem;
font-family:"Source Code Pro",monospace;
white-space:pre-wrap;overflow-wrap:anywhere}
.previews .text .peak{outline:1.5px solid var(--ink);display:inline-block;max-width:100%}
.previews .text .match{text-decoration:underline 2px;font-weight:600}
.previews .text .tail{font-family:"Source Sans",sans-serif}
.spark{display:block;width:100%;height:auto}
@media (max-width:640px){.previews .row{grid-template-columns:6.6rem 1fr}.previews .row .text{grid-column:1/-1}.previews .spark{max-width:5.6rem}}
</style>""".replace("__COLOURS__", COLOURS).replace("__LEFTWARD__", LEFTWARD)

WIDTH, HEIGHT = 68, 22
"""Size of a histogram in units of its own: its width is the number of bins of the histograms that an atlas stores."""

ZERO = 34
"""The bin of coefficients about 0."""


TAILS = {"max": "largest", "min": "smallest"}

NARROW, WIDE, LONGEST = 8, 80, 80
"""Tokens shown before a trigger, by default and for a search of words; characters before it in which the question neurons_with_words searches."""


@dataclass(frozen=True)
class Match:
    """The part of a text that a search matched: the trigger, the next token, or words in the text; '' if the match is not in a text."""

    kind: Literal["", "trigger", "next", "words"] = ""
    words: str = ""


def row(of: Mapping[str, Any], why: str, match: Match = Match()) -> str:
    """Build the HTML of a row of the question neuron_previews; `why`: the reason why the neuron was found, in words."""
    where = Neuron(of["layer"], of["neuron"])
    shown = f'<span>{links.anchor(links.component(where), str(where))}<span class="why">{escape(why)}</span></span>'
    return f'<div class="row" role="listitem">{shown}{chips(of["promotes"] or [])}{text(of, match)}{histogram(of["histogram"] or [])}</div>'


def rows(found: Iterable[tuple[Mapping[str, Any], str]], title: str, match: Match = Match()) -> str:
    """Build the HTML of rows, each with the reason why it was found."""
    return f'<div class="previews" role="list" aria-label="{escape(title)}">{"".join(row(of, why, match) for of, why in found)}</div>'


def chips(tokens: Sequence[str | None]) -> str:
    """Set tokens side by side, with every character visible."""
    return f'<span class="chips">{"".join(f"<bdi>{escape(visible_text(t))}</bdi>" for t in tokens)}</span>'


def text(of: Mapping[str, Any], match: Match) -> str:
    """Write the one text of a neuron: each token shaded by its coefficient, the trigger framed, the match underlined.

    Behind the text come the coefficient of the trigger, its tail and the next token.
    """
    if not of["tokens"]:
        return '<span class="text">not swept</span>'
    first = search_start(of["tokens"]) if match.kind == "words" else 0
    tokens, coefficients, largest = of["tokens"][first:], of["coefficients"][first:], abs(of["coefficient"])
    found = has_words(tokens, match.words) if match.kind == "words" else frozenset()
    kinds = [" ".join(kind for kind, is_so in (("peak", i == len(tokens) - 1), ("match", i in found)) if is_so) for i in range(len(tokens))]
    spans = [token(t, c, largest, kind) for t, c, kind in zip(tokens, coefficients, kinds, strict=True)]
    tail = f"{TAILS[of['tail']]} coefficient" if of["rank"] == 1 else f"rank {of['rank']} of the {TAILS[of['tail']]} coefficients"
    said = [f"{number(of['coefficient'])} <span class=tail>{tail}</span>"]
    if of["next_token"] is not None:
        said.append(f"<span class=tail>next</span> {token(of['next_token'], None, largest, 'match' if match.kind == 'next' else '')}")
    return f'<span class="text">{in_order(tokens, spans, [""] * len(spans))} {" · ".join(said)}</span>'


def search_start(tokens: Sequence[str]) -> int:
    """Find the index of the first token to search for words. The last token is searched, and those before it until they have LONGEST characters."""
    first, n = len(tokens) - 1, 0
    while first > 0 and n < LONGEST:
        first -= 1
        n += len(tokens[first])
    return first


def has_words(tokens: Sequence[str], words: str) -> frozenset[int]:
    """Find the indices of the tokens that hold the last occurrence of the words, ignoring case."""
    begins = list(accumulate(map(len, tokens), initial=0))
    start = "".join(tokens).lower().rfind(words.lower())
    return frozenset(i for i, begin in enumerate(begins[:-1]) if start >= 0 and begin < start + len(words) and start < begins[i + 1])


def token(text: str, coefficient: float | None, largest: float, kind: str) -> str:
    style = f' style="background:{shade(coefficient, largest)}"' if coefficient is not None else ""
    return f'<bdi class="{kind}"{style}>{escape(visible_line(text))}</bdi>'


def histogram(counts: Sequence[int]) -> str:
    """Draw a small histogram of coefficients over positions. Bar heights are the square roots of the counts, scaled to the largest. Empty if there are no
    counts, because no sweep was run.
    """
    largest = max(counts, default=0)
    if not largest:
        return "<span></span>"
    heights = ((i, HEIGHT * sqrt(n / largest)) for i, n in enumerate(counts) if n)
    bars = "".join(f"<rect x='{i}' y='{HEIGHT - h:.1f}' width='1' height='{h:.1f}'/>" for i, h in heights)
    zero = f"<rect x='{ZERO}' y='{HEIGHT}' width='1' height='2'/>"
    drawn = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT + 2}' fill='#3b8fc4'>{bars}{zero}</svg>"
    # as an image, because the browser's sanitiser lets no drawing stand in HTML
    return f'<img class="spark" alt="Coefficients, 0 in the middle" src="data:image/svg+xml;base64,{b64encode(drawn.encode()).decode()}">'
