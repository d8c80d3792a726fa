"""`atlas show L3N17`: one neuron on one page."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import polars as pl

    from atlas.card import Card

NORMS = ("key_norm", "gate_norm", "value_norm", "key_value_cosine", "gate_value_cosine", "value_max_prob", "value_top_token")
STATISTICS = ("corpus_id", "n_positions", "active_share", "mean", "std", "min", "max")
BEFORE = 50
"""Characters of text shown before the token; half as many are shown after it."""


def page(card: "Card") -> str:
    """Format the card as text with terminal styles."""
    from atlas.export.terminal import terminal_table

    lines = [click.style(card.address, bold=True), facts(card.facts), ""]
    lines += [f"promotes    {tokens(card.tokens, 'promoted')}", f"suppresses  {tokens(card.tokens, 'suppressed')}"]
    statistics = card.facts.select(STATISTICS).drop_nulls("corpus_id")
    lines += ["", terminal_table(statistics).rstrip()] if statistics.height else []
    for title, triggers in (("largest coefficients", card.top), ("smallest coefficients", card.bottom)):
        lines += ["", click.style(title, bold=True), *trigger_lines(triggers)] if triggers.height else []
    return "\n".join(lines)


def facts(frame: "pl.DataFrame") -> str:
    from atlas.export.cells import display_cells

    return "  ".join(f"{name} {display_cells(frame[name])[0]}" for name in NORMS if frame[name][0] is not None)


def tokens(frame: "pl.DataFrame", direction: str) -> str:
    from atlas.export.visible import visible_text

    return " · ".join(visible_text(t) for t in frame.filter(direction=direction)["token"].head(15))


def trigger_lines(triggers: "pl.DataFrame") -> list[str]:
    """Format one line per trigger: its coefficient, its token highlighted between the text before and after, and how many more triggers its sequence has.

    The text before is aligned flush right against the token.
    """
    from atlas.card import describe_more_triggers
    from atlas.export.cells import display_cells
    from atlas.export.terminal import crop
    from atlas.export.visible import visible_line

    coefficients = display_cells(triggers["coefficient"])
    widest = max(len(c) for c in coefficients)
    lines = []
    for coefficient, row in zip(coefficients, triggers.iter_rows(named=True), strict=True):
        after = crop(visible_line(row["text_after"]), BEFORE // 2, left=False)
        # top_triggers, of the tour, folds none
        more = f"  ({describe_more_triggers(row['n_folded'])})" if row.get("n_folded") else ""
        lines.append(f"{coefficient.rjust(widest)}  {highlight_token(row['text_before'], row['token'])}{after}{more}")
    return lines


def highlight_token(text_before: str, token: str) -> str:
    """Align the text before a token flush right against it, and highlight the token."""
    from atlas.export.terminal import crop
    from atlas.export.visible import visible_line

    before = crop(visible_line(text_before), BEFORE, left=True).rjust(BEFORE)
    return f"{before}«{click.style(visible_line(token), fg='green', bold=True, reverse=True)}»"
