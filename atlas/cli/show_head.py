"""`atlas show L18H6`: one attention head on one page."""

from typing import TYPE_CHECKING

import click

from atlas.address import Head
from atlas.cli.show_neuron import highlight_token

if TYPE_CHECKING:
    import polars as pl

    from atlas.head_card import HeadCard

FACTS = ("copying_effective", "own_first_share", "matching", "stream_ratio", "qk_norm", "ov_norm", "bias_norm", "kv_head", "window_size")
ENDS = {"read": "reads", "write": "writes"}


def page(card: "HeadCard") -> str:
    """Format the card as text with terminal styles; for each run that its atlas lacks, a line gives the command that makes it."""
    from atlas.export.terminal import terminal_table

    lines = [click.style(card.address, bold=True), *facts(card), *directions(card.directions), *readers(card.read_by)]
    if card.behaviours.height:
        lines += ["", click.style("what it looks at", bold=True), terminal_table(card.behaviours).rstrip()]
    if card.positions.height:
        lines += ["", click.style("predictions whose logit it raised most", bold=True), *predictions(card.positions)]
    return "\n".join([*lines, *(f"\nno {run} run: `{how}`" for run, how in card.missing.items())])


def facts(card: "HeadCard") -> list[str]:
    from atlas.export.cells import display_cells

    if card.facts.is_empty():
        return []
    numbers = "  ".join(f"{name} {display_cells(card.facts[name])[0]}" for name in FACTS if card.facts[name][0] is not None)
    strongest = card.facts["strongest"][0]
    return [numbers] + ([f"reads most            {'  '.join(strongest)}   (composition above chance)"] if strongest is not None and len(strongest) else [])


def directions(frame: "pl.DataFrame") -> list[str]:
    """Format the tokens at both ends of each direction, with the direction's share of the OV circuit."""
    from atlas.export.visible import visible_text

    lines = []
    for rank, share, side, top in frame.select("direction_rank", "share", "side", "top").iter_rows():
        start = f"direction {rank} ({share:.0%} of OV)" if side == "read" else ""
        lines.append(f"{start:<28} {ENDS[side]:<6} {' · '.join(visible_text(token) for token in top)}")
    return ["", *lines] if lines else []


def readers(frame: "pl.DataFrame") -> list[str]:
    found = "  ".join(f"{Head(layer, head)} {excess:+.3f}" for layer, head, excess in frame.select("layer", "head", "excess").iter_rows())
    return ["", f"read by the keys of   {found}   (K-composition above chance)"] if found else []


def predictions(frame: "pl.DataFrame") -> list[str]:
    """Format one line per prediction: the logit, the text up to the token, the prediction that the head raised, and the token it looked at most."""
    from atlas.export.cells import display_cells
    from atlas.export.visible import visible_text

    logits = display_cells(frame["centred_logit"])
    widest = max(map(len, logits))
    lines = []
    for logit, row in zip(logits, frame.iter_rows(named=True), strict=True):
        looked = f"  looks at “{visible_text(row['source'])}” {row['source_weight']:.2f}" if row["source"] is not None else ""
        lines.append(f"{logit.rjust(widest)}  {highlight_token(row['text_before'], row['token'])} → “{visible_text(row['final_token'])}”{looked}")
    return lines
