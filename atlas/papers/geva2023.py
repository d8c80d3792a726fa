"""The item of attention knockout (Geva et al. 2023, section 5)."""

import altair as alt
import polars as pl

from atlas import charts
from atlas.papers.experiment_rows import knockouts
from atlas.papers.items import Item, Paper
from atlas.papers.meng2022 import NOT_SAID
from atlas.papers.words import describe_count
from atlas.questions import question

SOURCES = {"subject": "subject", "non_subject": "other tokens", "last": "itself"}
"""Sources in a row → their name in a legend."""


def curves(frame: pl.DataFrame) -> alt.LayerChart:
    in_percent = frame.with_columns(pl.col("change") * 100)
    return charts.lines(in_percent, y="change", y_title="Change of p (%)", series="sources", order=SOURCES)


def deepest(frame: pl.DataFrame) -> str:
    """Describe the largest fall for each kind of source, and its layer."""
    found = frame.sort("change").unique("sources", keep="first", maintain_order=True)
    return "; ".join(f"{SOURCES[row['sources']]} {row['change']:+.0%} at layer {row['layer']}" for row in found.rows(named=True))


KNOCKOUT = Item(
    "geva2023_knockout",
    "Section 5",
    chart=curves,
    caption=lambda f: (
        f"What becomes of the probability of the answer where the last position cannot read the subject, the other tokens before it, or itself, in "
        f"{describe_count(f, 'window_layers', 'layers')} around each. Among the other tokens is the first, on which many heads rest. {NOT_SAID}"
    ),
    n=lambda f: f"{describe_count(f, 'n_prompts', 'prompts')} of {describe_count(f, 'n_clusters', 'templates')}",
    exclusions="prompts that the model answers otherwise",
    columns={
        "sources": "not read", "window_layers": "window", "layer": "layer", "n_prompts": "prompts", "n_clusters": "templates", "change": "change",
        "change_se": "se",
    },
    ours=deepest,
    compute=knockouts,
    accepts=("experiment",),
    title="Which tokens must the last position read, layer by layer?",
    source=question("knockout").sql,
)  # fmt: skip

GEVA2023 = Paper(
    name="geva2023",
    citation="Geva et al. 2023, Dissecting Recall of Factual Associations in Auto-Regressive Language Models",
    authors="Geva et al. 2023",
    model="GPT-2 XL and GPT-J",
    model_note="48 and 28 layers.",
    items=(KNOCKOUT,),
    counts_from_one=False,
)
