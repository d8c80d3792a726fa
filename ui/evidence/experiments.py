"""Topic of experiments, in which the model was acted on: the last experiment of each kind, or the one that the reader chose."""

from functools import partial

import polars as pl
import streamlit as st

from atlas.papers import geva2022, geva2023, meng2022
from ui import data
from ui.evidence import intervention_sentences, pictures
from ui.evidence.topic import Choice, Panel, Topic

MOST_PROMPTS = 1_000
"""Maximum number of prompts of a saliency experiment to choose from, the first ones; files have all prompts."""


def list_finished(kind: str) -> list[str]:
    """List the numbers of the finished experiments of a kind, the latest first."""
    found = data.ask("experiment_summary").frame.filter(kind=kind, status="finished")
    return [str(i) for i in found["experiment"].sort(descending=True)]


def list_saliency_prompts() -> list[str]:
    """List the numbers of the prompts of the chosen saliency experiment, from 0."""
    experiments = list_finished("saliency")
    if not experiments:
        return []
    chosen = str(st.session_state.get("saliency", experiments[0]))
    asked = data.ask("experiment_summary").frame.filter(pl.col("experiment").cast(pl.String) == chosen)
    return [str(i) for n in asked["n_prompts"] for i in range(min(n, MOST_PROMPTS))]


TOPIC = Topic(
    "What happened when the model was acted on?",
    choices=(
        Choice("experiment", "tracing", "Tracing", partial(list_finished, "tracing"), of="indirect_effects"),
        Choice("experiment", "patching", "Patching", partial(list_finished, "patching"), of="patching"),
        Choice("experiment", "knockout", "Knockout", partial(list_finished, "knockout"), of="knockout"),
        Choice("experiment", "saliency", "Saliency", partial(list_finished, "saliency"), of="saliency"),
        Choice("prompt", "saliency_prompt", "Prompt of the saliency", list_saliency_prompts, of="saliency"),
        Choice("experiment", "suppression", "Suppression", partial(list_finished, "suppression"), of="geva2022_table5"),
    ),
    panels=(
        Panel("experiment_summary", intervention_sentences.describe_experiments),
        Panel("indirect_effects", intervention_sentences.describe_tracing, meng2022.AVERAGE.chart),
        Panel(
            "patching",
            intervention_sentences.describe_patching,
            pictures.draw_patching,
            ("prompt", "from_prompt", "site", "layer", "index", "token", "from_token", "effect", "logit_difference", "total_effect"),
            if_empty="No state was put in.",
        ),
        Panel("knockout", intervention_sentences.describe_knockout, geva2023.KNOCKOUT.chart),
        Panel(
            "saliency",
            intervention_sentences.describe_saliency,
            pictures.draw_attributions,
            ("method", "score", "baseline", "index", "token", "attribution", "explained", "completeness_error", "is_complete"),
            rows=50,
            if_empty="Nothing was attributed to the tokens of this prompt.",
        ),
        Panel(
            "geva2022_table5",
            intervention_sentences.describe_suppression,
            geva2022.draw_table5,
            ("name", "role", "scorer", "decoding", "n_continuations", "over", "over_change", "over_low", "over_high", "perplexity", "distinct_2"),
        ),
    ),
)
