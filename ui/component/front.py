"""Summary of a component, seen first, without scrolling. Pure: rows in, HTML out; tokens are plain text."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from atlas.address import Head
from atlas.export.visible import visible_line, visible_text
from ui import previews
from ui.tokens import number, strip

Row = Mapping[str, Any]

CSS = """<style>
.front{display:grid;grid-template-columns:minmax(0,5fr) minmax(0,6fr);gap:.4rem 1.4rem;font-size:.92rem}
.front h2{font-size:.92rem;font-weight:600;margin:0;padding:.35rem 0 .2rem}
.front p{margin:0;overflow-wrap:anywhere}
.front .strip{line-height:1.45;padding:.1rem .4rem;margin-bottom:.2rem;font-size:.84rem}
.front .more{font-size:.8rem}
.front .chips{display:inline-flex}
.front .spark{max-width:19rem}
.front table{border-collapse:collapse;font-variant-numeric:tabular-nums}
.front th,.front td{padding:.1rem .7rem .1rem 0;text-align:left;font-weight:400}
.front th[scope=col]{text-align:right;vertical-align:bottom}
.front td.number{text-align:right}
.tabs{display:flex;flex-wrap:wrap;gap:.1rem 1rem;border-bottom:1px solid #8886;padding:.3rem 0 0}
[data-testid=stHtml] .tabs a{color:inherit;text-decoration:none;padding:.25rem 0;border-bottom:2px solid transparent}
.tabs a:hover{text-decoration:underline}
.tabs a[aria-current]{font-weight:600;border-bottom-color:currentColor}
@media (max-width:640px){.front{grid-template-columns:minmax(0,1fr)}}
</style>"""

SWEEP = "atlas ingest NAME.duckdb --model … --corpus …"
MEASURE_HEADS = "atlas ingest NAME.duckdb --model … --corpus … --head-statistics --head-probe"
"""Commands that find what triggers a neuron, and where a head looks."""


def neuron(note: str, annotations: Sequence[str], card: Row, bins: Sequence[Row], tails: Mapping[str, Sequence[Row]], sweep: str) -> str:
    """Lay out a neuron's note, its first annotation, its promoted and suppressed tokens, and the histogram of its coefficient.

    The first texts of both tails are beside them, on one scale. `sweep`: the command that finds these texts.
    """
    promoted = f"<h2>Promotes</h2>{previews.chips(card['promotes'] or [])}<h2>Suppresses</h2>{previews.chips(card['suppresses'] or [])}"
    texts = "".join(f"<h2>{escape(heading)}</h2>{strips(rows, largest_coefficient(tails.values()), sweep)}" for heading, rows in tails.items())
    more = f" · {len(annotations) - 1} more under Annotations" if len(annotations) > 1 else ""
    said = f"<p>Annotated: {annotations[0]}{more}</p>" if annotations else ""
    return f'<div class="front"><div><p>{note}</p>{said}{promoted}{spread(bins)}</div><div>{texts}</div></div>'


def largest_coefficient(tails: Iterable[Sequence[Row]]) -> float:
    return max((abs(row["coefficient"]) for rows in tails for row in rows), default=0.0)


def strips(rows: Sequence[Row], largest: float, sweep: str) -> str:
    """Draw the first texts of a tail, or name the command that finds them."""
    drawn = "".join(strip(row["tokens"], row["coefficients"], peak=row["peak"], largest=largest) for row in rows)
    if n_more := sum(row["n_in_sequence"] - 1 for row in rows):
        drawn += f'<p class="more">One text per sequence; {"this sequence has" if len(rows) == 1 else f"these {len(rows)} sequences have"} {n_more} more.</p>'
    return drawn or f"<p>No text has been swept, so what triggers this neuron is not known: {escape(sweep)}</p>"


def spread(bins: Sequence[Row]) -> str:
    """Draw the histogram of the coefficient over positions; '' without a sweep."""
    if not bins:
        return ""
    counts = [0] * previews.WIDTH
    for row in bins:
        counts[row["bin"]] = row["n_positions"]
    return f"<h2>Coefficients at {bins[0]['n_read']:,} positions (square root of the share; 0 in the middle)</h2>{previews.histogram(counts)}"


def neuron_note(card: Row, density: Row | None, texts: Sequence[Row]) -> str:
    """Describe the numbers of a neuron in words. density: its row of neurons_by_density; None without a sweep."""
    said = []
    if density:
        # what is not everywhere is not rounded to it
        percent_of = 100.0 if density["share"] == 1 else min(100 * density["share"], 99.9)
        fires = "nowhere" if density["share"] == 0 else f"at {percent_of:.3g}% of positions"
        lies = f"lies between {number(card['min'])} and {number(card['max'])}"
        said.append(f"A {density['density']} key: its coefficient exceeds {density['threshold']:.3g} in size {fires} and {lies}.")
    if texts:
        first = texts[0]
        said.append(f"It is largest at {token(first['tokens'][first['peak']])}.")
    said.append(f"Its value makes {token(card['value_top_token'])} most probable ({card['value_max_prob']:.2g}).")
    return " ".join(said)


def format_annotation(row: Row) -> str:
    """Format an annotation of a neuron, with its kind and the annotator."""
    return f"<bdi>{escape(visible_line(row['description']))}</bdi> ({escape(row['kind'])}, <bdi>{escape(visible_line(row['annotator']))}</bdi>)"


def token(text: str | None) -> str:
    return f'<span class="chips" style="display:inline"><bdi>{escape(visible_text(text))}</bdi></span>'


LOOKS = {
    "previous": "the token before", "self": "the token itself", "first": "the first token", "duplicate": "an earlier copy of the token",
    "induction": "the token after an earlier copy", "first_moved": "the first token, by what it moves",
}  # fmt: skip
"""Behaviour → what a head that shows it looks at."""


def head(card: Row | None, behaviours: Sequence[Row], directions: Sequence[Row], alike: Sequence[str], probe: str) -> str:
    """Lay out what an attention head copies, reads and writes, and beside that where it looks.

    `alike`: links to the heads whose attention is most like this head's; `probe`: the command that measures where it looks.
    """
    near = f"<p>Heads that look at the same: {' · '.join(alike)}</p>" if alike else ""
    left = f"<p>{head_note(card, behaviours)}</p>{near}" + "".join(direction(d) for d in directions[:4])
    return f'<div class="front"><div>{left}</div><div>{looks(behaviours, probe)}</div></div>'


def head_note(card: Row | None, behaviours: Sequence[Row]) -> str:
    """Describe the numbers of a head in words."""
    said = []
    over = [(row[kind] - row[f"{kind}_uniform"], row, kind) for row in behaviours for kind in ("text", "probe") if row[kind] is not None]
    if over:
        gain, row, kind = max(over, key=lambda found: found[0])
        where = "on text" if kind == "text" else "on random tokens that repeat"
        if gain > 0:
            said.append(f"It looks at {LOOKS[row['behaviour']]} more than equal weights would: {row[kind]:.0%} {where}, against {row[f'{kind}_uniform']:.0%}.")
    if card:
        copies = card["copying_effective"]
        does = (
            "writes the tokens that it reads"
            if copies > 0.3
            else "takes away the tokens that it reads"
            if copies < -0.3
            else "writes other tokens than it reads"
        )
        said.append(f"By its weights it {does} (copying {number(copies)}, between −1 and 1).")
    return " ".join(said) or "Nothing is known of it yet."


def describe_nearest(row: Row) -> str:
    """Describe how far the nearest head differs from this one, and on which behaviour most, from the first row of the question nearest_heads."""
    return (
        f"{Head(row['layer'], row['head'])} is nearest: {row['n_compared']} of its mean weights differ by {row['distance']:.3f} on average from this head's, "
        f"most for {LOOKS[row['differs_most']]}, where it has {abs(row['difference']):.2f} {'more' if row['difference'] > 0 else 'less'}."
    )


def direction(row: Row) -> str:
    """Format one side of a direction of the head's weights, with the tokens of its two ends."""
    ends = f"{previews.chips(row['top'][:6])} <span>against</span> {previews.chips(row['bottom'][:3])}"
    return f"<h2>Direction {row['direction_rank']} {escape(row['side'])}s ({row['share']:.0%} of its weights)</h2>{ends}"


def looks(behaviours: Sequence[Row], probe: str) -> str:
    """Tabulate where a head looks, or name the command that measures it."""
    if not behaviours:
        return f"<h2>Where it looks</h2><p>Not known: {escape(probe)}</p>"
    titles = {"probe": "on repeats", "probe_uniform": "equal weights", "text": "on text", "text_uniform": "equal weights"}
    top = "".join(f'<th scope="col">{name}</th>' for name in ("", *titles.values()))
    lines = "".join(
        f'<tr><th scope="row">{LOOKS[row["behaviour"]]}</th>{"".join(f"""<td class="number">{percent(row[c])}</td>""" for c in titles)}</tr>'
        for row in behaviours
    )
    return f"<h2>Where it looks</h2><table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"
