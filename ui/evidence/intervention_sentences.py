"""Sentences on the rows of experiments, one for each question. Pure: rows in, words out; there is at least one row."""

from typing import Any

import polars as pl

from atlas.export.visible import visible_text
from atlas.papers.words import number, percent
from ui.evidence.sentences import first_row, format_signed
from ui.number_format import format_count

Row = dict[str, Any]

MOST_DRAWN = 256
"""Maximum number of tokens in a picture, the first ones of a prompt; files have all tokens."""

LONGEST = 60
"""Maximum characters of a token in a sentence."""

METHODS = {"integrated_gradients": "integrated gradients", "gradient_input": "gradient × input", "occlusion": "occlusion"}
SCORES = {"logit_difference": "logit difference", "logprob": "log probability", "prob": "probability"}
"""Score that is attributed → its name."""


MOST_KINDS = 8
"""Maximum number of kinds of experiment that a sentence names."""


def describe_experiments(frame: pl.DataFrame) -> str:
    kinds = frame["kind"].value_counts(sort=True)
    said = [f"{n} of {shorten_token(kind)}" for kind, n in kinds.head(MOST_KINDS).iter_rows()]
    others = [f"and more of {kinds.height - MOST_KINDS} other kinds"] if kinds.height > MOST_KINDS else []
    return f"{format_count(frame.height, 'experiment')} beside this atlas: {', '.join([*said, *others])}."


def describe_tracing(frame: pl.DataFrame) -> str:
    row = frame.sort("effect", descending=True).row(0, named=True)
    return (
        f"Restoring {row['site']} at layer {row['layer']} ({row['role'].replace('_', ' ')}) restores most: {format_signed(row['effect'], '+.3f')} of the "
        f"answer's probability, of the {row['total_effect']:.3f} that the noise took away, over {format_count(row['n_prompts'], 'prompt')}. "
        "This says where information is carried, not where to edit."
    )


def describe_knockout(frame: pl.DataFrame) -> str:
    row = frame.sort("change").row(0, named=True)
    return (
        f"The loss is largest where the last position cannot read the tokens of {row['sources'].replace('_', ' ')} around layer {row['layer']}: the answer's "
        f"probability changes by {format_signed(100 * row['change'], '+.0f')}%, over {format_count(int(row['n_prompts']), 'prompt')}."
    )


def describe_suppression(frame: pl.DataFrame) -> str:
    base, treated = frame.filter(role="base"), frame.filter(role="treatment").sort("over")
    if base.is_empty() or treated.is_empty():
        return "There is no base arm to compare with."
    best = treated.row(0, named=True)
    return (
        f"{best['name']}: {percent(best['over'])} of the continuations score 0.5 or more instead of {percent(base['over'][0])}, at perplexity "
        f"{number(best['perplexity'], '.1f')} instead of {number(base['perplexity'][0], '.1f')}, scored by {best['scorer']}."
    )


def describe_patching(frame: pl.DataFrame) -> str:
    """Describe up to which layer differing tokens carry the difference, from which layer on the last token does, and which update carries most."""
    shown = select_one_pair(frame)
    row, differs = first_row(shown), pl.col("token") != pl.col("from_token")
    carrying = shown.filter((pl.col("site") == "resid_post") & (pl.col("effect") >= 0.5))
    # where the last tokens differ, they carry it from the first layer on
    ends: dict[str, Any] = {
        "where the tokens differ, the state carries half of the difference or more up to": carrying.filter(differs)["layer"].max(),
        "at the last token, the state carries half or more from": carrying.filter(~differs, index=shown["index"].max())["layer"].min(),
    }
    said = [f"{where} layer {layer}" for where, layer in ends.items() if layer is not None]
    updates = shown.filter(pl.col("site") != "resid_post").drop_nulls("effect").sort("effect", descending=True)
    if updates.height:
        best = first_row(updates)
        said.append(f"of the updates, {best['site']} of layer {best['layer']} at {shorten_token(best['token'])} carries most ({best['effect']:.2f})")
    return (
        f"Prompt {row['prompt']} with states of prompt {row['from_prompt']}; an effect of 1 is the whole difference between the two, "
        f"{format_signed(row['total_effect'])} logits: {'; '.join(said) or 'none of the states carries half of the difference'}. This says where "
        f"information is carried, not where to edit.{describe_left_out(shown)}"
    )


def shorten_token(token: str) -> str:
    """Make every character of a token visible, and cut a long token to LONGEST characters."""
    return visible_text(token[:LONGEST])


def select_drawn_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Select the rows of the tokens that a picture shows."""
    return frame.filter(pl.col("index").rank("dense") <= MOST_DRAWN)


def describe_left_out(frame: pl.DataFrame) -> str:
    """Describe how much of a prompt the picture leaves out; '' if nothing."""
    n = frame["index"].n_unique()
    return f" The picture has the first {MOST_DRAWN} of the prompt's {n:,} tokens." if n > MOST_DRAWN else ""


def select_one_pair(frame: pl.DataFrame) -> pl.DataFrame:
    """Select the rows of one pair of prompts: that of the first prompt into which states of an earlier prompt were put, else the first pair."""
    forth = frame.filter(pl.col("from_prompt") < pl.col("prompt"))
    row = first_row(forth if forth.height else frame)
    return frame.filter(prompt=row["prompt"], from_prompt=row["from_prompt"])


def describe_saliency(frame: pl.DataFrame) -> str:
    shown = select_first_method(frame)
    row = first_row(frame)
    up, down = (shown.sort("attribution", descending=sign > 0).filter(pl.col("attribution") * sign > 0) for sign in (1, -1))
    said = [
        f"{shorten_token(of['token'][0])} {verb} most ({format_signed(of['attribution'][0])})"
        for of, verb in ((up, "adds"), (down, "takes away"))
        if not of.is_empty()
    ]
    total = "" if row["explained"] is None else f" of the difference, {format_signed(row['explained'])}"
    return (
        f"By {METHODS[row['method']]} against {shorten_token(row['baseline'])}, to the {SCORES[row['score']]} of the answer "
        f"{' and '.join(said) or 'no token adds any'}; all together {format_signed(row['sum'])}{total}. {describe_completeness(row)}{describe_left_out(shown)}"
    )


def describe_completeness(row: Row) -> str:
    if row["is_complete"] is None:
        return "Attributions of this method need not sum to the difference."
    return f"The sum is off by {percent(row['completeness_error'])}{'' if row['is_complete'] else ', too much to go by'}."


def select_first_method(frame: pl.DataFrame) -> pl.DataFrame:
    """Select the saliency rows of the first method, score and baseline. If one of them is complete, it comes first."""
    row = first_row(frame)
    return frame.filter(method=row["method"], score=row["score"], baseline=row["baseline"]).filter(pl.col("attribution").is_finite()).sort("index")
