"""What the rows of experiments say, in one sentence each. Pure: rows in, words out; of the rows there is at least one."""

import polars as pl

from atlas.papers.words import number, percent
from ui.evidence.sentences import signed
from ui.numbers import counted


def experiments(frame: pl.DataFrame) -> str:
    kinds = frame["kind"].value_counts(sort=True)
    return f"{counted(frame.height, 'experiment')} beside this atlas: {', '.join(f'{n} of {kind}' for kind, n in kinds.iter_rows())}."


def tracing(frame: pl.DataFrame) -> str:
    row = frame.sort("effect", descending=True).row(0, named=True)
    return (
        f"Putting back {row['site']} at layer {row['layer']} ({row['role'].replace('_', ' ')}) brings most back: {signed(row['effect'], '+.3f')} of the "
        f"answer's probability, of the {row['total_effect']:.3f} that noise took, over {counted(row['n_prompts'], 'prompt')}. "
        "It says where information is carried, not where to edit."
    )


def knockout(frame: pl.DataFrame) -> str:
    row = frame.sort("change").row(0, named=True)
    return (
        f"Most is lost where the last position cannot read the tokens of {row['sources'].replace('_', ' ')} about layer {row['layer']}: the answer's "
        f"probability changes by {signed(100 * row['change'], '+.0f')}%, over {counted(int(row['n_prompts']), 'prompt')}."
    )


def suppression(frame: pl.DataFrame) -> str:
    base, treated = frame.filter(role="base"), frame.filter(role="treatment").sort("over")
    if base.is_empty() or treated.is_empty():
        return "There is no base arm to compare with."
    best = treated.row(0, named=True)
    return (
        f"{best['name']}: {percent(best['over'])} of the continuations score 0.5 or more instead of {percent(base['over'][0])}, at perplexity "
        f"{number(best['perplexity'], '.1f')} instead of {number(base['perplexity'][0], '.1f')}, scored by {best['scorer']}."
    )
