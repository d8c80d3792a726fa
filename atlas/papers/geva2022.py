"""The items of Geva et al. 2022, in the paper's order."""

import polars as pl

from atlas.papers import geva2022_charts as charts
from atlas.papers.early_exit import early_exit
from atlas.papers.items import Item, Paper
from atlas.papers.words import NONE, at_layer, describe_count, input_eliminations, mean, number, percent, proposal_note, ratio, total

NO_EXTREME = "no dominant sub-update scores its candidate beyond the threshold; --threshold sets another"
OTHER = "elimination of another token"
SPACES = {"value": "the values themselves", "logits": "their scores over the vocabulary"}


def table4_scores(frame: pl.DataFrame) -> str:
    rows = frame.filter(pl.col("selection") == "dominant").select("event", "max_score", "mean_score", "min_score").iter_rows()
    return "; ".join(f"{event}: largest {largest:.2f}, mean {mean:.2f}, smallest {smallest:.2f}" for event, largest, mean, smallest in rows)


def table4_events(frame: pl.DataFrame) -> str:
    rows = frame.filter(pl.col("event") != OTHER).unique("event", keep="first", maintain_order=True).select("event", "n_events").iter_rows()
    return " and ".join(f"{n:,} {event}s" for event, n in rows)


def table4_input(frame: pl.DataFrame) -> str:
    """Describe how many eliminations remove the input token from the top; '' if there are none."""
    eliminations = frame.filter(event="elimination", selection="dominant")
    return f" {input_eliminations(eliminations, 'n_events', 'n_input_token')}" if eliminations.height else ""


CONCEPTS = Item(
    "geva2022_concepts",
    "Tables 1 and 2",
    chart=charts.concepts,
    caption=lambda f: (
        "Share of the top 30 tokens of values, of random vectors with the values' mean and standard deviation, and of whole FFN updates, that belong to "
        f"a concept of at least 4 tokens.{proposal_note(f)}"
    ),
    n=lambda f: "; ".join(f"{n:,} tokens of {vectors:,} {subject}s" for subject, vectors, n in f.select("subject", "n_vectors", "n_tokens").iter_rows()),
    columns={
        "subject": "vectors", "n_vectors": "n", "n_concepts": "concepts", "n_tokens": "tokens", "in_concept": "in a concept",
        "in_concept_without_stop_words": "no stop words", "semantic": "semantic", "syntactic": "syntactic", "names": "names", "several": "several",
    },
    headline=(
        "55.1% of the values' tokens are in a concept and 22.7% of random vectors' (for GPT-2: 37% and 16%); "
        "of FFN updates' 39.4%, without stop words 19.7% (46% and 11.8%)"
    ),
    ours=lambda f: "; ".join(f"{subject} {percent(share)}" for subject, share in f.select("subject", "in_concept").iter_rows()),
)  # fmt: skip

FIG2 = Item(
    "geva2022_fig2",
    "Figure 2",
    chart=charts.fig2,
    caption=lambda f: f"Share of the values' top 30 tokens in concepts of each kind, by layer.{proposal_note(f)}",
    n=lambda f: f"{total(f, 'n_tokens', 'tokens')} of {total(f, 'n_vectors', 'values')}",
    columns={"layer": "layer", "n_vectors": "values", "n_tokens": "tokens"} | {c: c for c in charts.CONCEPTS},
)

DOMINANT_SHARE = Item(
    "geva2022_dominant_share",
    "Section 5.1",
    chart=charts.dominant_share,
    caption=lambda f: (
        f"Share of the 10 dominant sub-updates, {percent(f['dominant_of_values'][0], 2)} of a layer's values, in the summed length of all: "
        "mean, largest and smallest over the positions."
    ),
    n=lambda f: describe_count(f, "n_positions", "traced positions"),
    exclusions="positions where every coefficient of the layer is 0",
    columns={
        "layer": "layer", "mean_share": "mean", "min_share": "smallest", "max_share": "largest", "dominant_of_values": "of the values",
        "n_positions": "positions",
    },
    headline="about 0.24% of the values carry 5-20% of the summed size",
    ours=lambda f: (
        f"{percent(f['dominant_of_values'][0], 2)} of the values carry "
        f"{at_layer(f, 'mean_share', largest=False)} to {at_layer(f, 'mean_share')} of it, mean over positions"
    ),
)  # fmt: skip

SCORED = {
    "mean_score": "mean", "max_score": "largest", "min_score": "smallest",
    "mean_frozen_score": "mean, frozen norm", "max_frozen_score": "largest, frozen norm", "min_frozen_score": "smallest, frozen norm",
}  # fmt: skip


def frozen_note(frame: pl.DataFrame) -> str:
    """Describe what the frozen-norm columns are, or why they are empty."""
    if frame["mean_frozen_score"].is_null().all():
        return " Frozen-norm scores are missing: the trace is older than they are."
    return " Beside them, in logits, what the sub-updates add to the token's logit with the final norm's scale held (frozen norm)."


FIG3 = Item(
    "geva2022_fig3",
    "Figure 3",
    chart=charts.fig3,
    caption=lambda f: (
        "Raw scores m (e v) of the 10 dominant sub-updates, and of 10 random ones, for the top candidate before the FFN (resid_mid): mean, largest and "
        "smallest of the ten, averaged over the positions."
        f"{frozen_note(f)}"
    ),
    n=lambda f: describe_count(f, "n_positions", "traced positions"),
    columns={"layer": "layer", "selection": "sub-updates", **SCORED, "n_positions": "positions"},
    headline="the largest stands out in layers 4-11 (for GPT-2: 3-5); the last layers diverge",
)

EVENTS = Item(
    "geva2022_events",
    "Section 5.2",
    chart=charts.events,
    caption=lambda f: (
        "Saturation events, where the FFN lifts the final prediction to the top for good, and elimination events, where it takes the top place from its "
        "candidate, by layer. "
        f"{input_eliminations(f, 'n_eliminations', 'n_input_eliminations')} Those of another token have a line of their own."
    ),
    n=lambda f: describe_count(f, "n_positions", "traced positions"),
    exclusions="saturations at the last layer; of each position all eliminations but the one where the candidate falls furthest",
    columns={
        "layer": "layer",
        "n_saturations": "saturations",
        "n_eliminations": "eliminations",
        "n_input_eliminations": "of the input token",
        "n_other_eliminations": "of another",
        "n_positions": "positions",
    },
    headline="1,184 saturation and 1,909 elimination events from 2,000 examples (for GPT-2: 1,579 and 1,996)",
    ours=lambda f: f"{total(f, 'n_saturations', 'and')} {total(f, 'n_eliminations', 'from')} {describe_count(f, 'n_positions', 'positions')}",
)

TABLE4 = Item(
    "geva2022_table4",
    "Table 4",
    question="promotion_vs_elimination",
    chart=charts.table4,
    caption=lambda f: (
        "Raw scores m (e v) of the 10 dominant sub-updates, and of 10 random ones, for the reference token of an event: at a saturation the final "
        "prediction, at an elimination the candidate that loses its place. Mean, largest and smallest of the ten, averaged over the events."
        f"{frozen_note(f)}"
        f"{table4_input(f)}"
    ),
    n=table4_events,
    exclusions=EVENTS.exclusions,
    if_empty="no saturation and no elimination event among the traced positions",
    columns={"event": "event", "selection": "sub-updates", "n_events": "events", "n_input_token": "of the input token", **SCORED},
    headline=(
        "largest 1.2 at saturations and 0.5 at eliminations, smallest -0.8 and -0.5, mean at eliminations about 0 "
        "(for GPT-2: 8.5 and 4.0, -4.9 and -3.6, about 0)"
    ),
    ours=table4_scores,
)

EXTREME = Item(
    "geva2022_extreme",
    "Section 5.3",
    chart=charts.extreme,
    caption=lambda f: "Dominant sub-updates that score the top candidate before the FFN beyond the threshold, either way, and the different values among them.",
    n=lambda f: total(f, "n_sub_updates", "dominant sub-updates"),
    columns={
        "layer": "layer", "n_sub_updates": "sub-updates", "n_extreme": "extreme", "n_promoting": "promoting", "n_demoting": "demoting",
        "n_values": "values", "values_share": "of the values",
    },
    headline="1.7% of GPT-2's values are extreme beyond 10 (WikiLM: beyond 5)",
    ours=lambda f: f"{percent(mean(f, 'values_share'))} of the values, {percent(ratio(f, 'n_extreme', 'n_sub_updates'), 2)} of the sub-updates",
)  # fmt: skip


def clusters(space: str) -> Item:
    return Item(
        f"geva2022_extreme_clusters_{space}",
        "Section 5.3",
        question="geva2022_extreme_clusters",
        fixed={"space": space},
        chart=charts.extreme_clusters,
        caption=lambda f: (
            f"Clusters of values that recur in extreme sub-updates, and tokens they promote; clustered were {SPACES[space]}, "
            "agglomeratively with complete linkage on 1 - cosine."
        ),
        n=lambda f: f"{total(f, 'n_updates', 'extreme sub-updates')} in {f.height} clusters",
        if_empty=NO_EXTREME,
        columns={
            "cluster": "cluster", "n_updates": "updates", "n_values": "values", "lowest_layer": "from layer", "highest_layer": "to",
            "mean_sign": "sign", "unlikely_share": "unlikely", "tokens": "tokens",
        },
    )  # fmt: skip


def groups(space: str) -> Item:
    return Item(
        f"geva2022_value_groups_{space}",
        "Section 5.3",
        question="geva2022_value_groups",
        fixed={"space": space},
        chart=charts.value_groups,
        caption=lambda f: (
            "Functional groups of the clusters of extreme sub-updates, by rule: unlikely, upper layers, where all values lie in the upper half and half of "
            "the tokens promoted are outside the commonest that make 99% of the text; common, any layer, where half are among the commonest that make "
            f"half of it; other. Clustered were {SPACES[space]}."
        ),
        n=lambda f: f"{total(f, 'n_updates', 'extreme sub-updates')} in {total(f, 'n_clusters', 'clusters')}",
        if_empty=NO_EXTREME,
        columns={
            "value_group": "group", "n_clusters": "clusters", "updates_share": "share", "lowest_layer": "from layer",
            "highest_layer": "to", "mean_sign": "sign", "tokens": "tokens",
        },
        headline="two groups: values of upper layers that promote unlikely tokens, and values anywhere that promote common ones",
        ours=lambda f: "; ".join(f"{name} {percent(share, 0)}" for name, share in f.select("value_group", "updates_share").iter_rows()),
    )  # fmt: skip


BAGS = (
    "Scorers here read a text as a bag of words, nearly a word filter turned round: against them a filter of the words that they know must win, which says "
    "nothing of Perspective, the paper's."
)


def describe_suppression(frame: pl.DataFrame) -> str:
    """Describe each arm: the relative change of its share over 0.5, the interval of the change in points, and its perplexity.

    Random controls get no entry of their own.
    """
    base = frame.filter(role="base")
    if base.is_empty():
        return "the base arm is missing"
    over, perplexity = base["over"][0], base["perplexity"][0]
    arms = [f"base {percent(over)}, perplexity {number(perplexity, '.1f')}"]
    for row in frame.filter(~pl.col("role").is_in(["base", "random_control"])).iter_rows(named=True):
        ends = [row["over_low"], row["over_high"]]
        points = "no interval" if None in ends else f"{', '.join(f'{100 * end:+.1f}' for end in ends)} points"
        change = NONE if not over or row["over_change"] is None else f"{row['over_change'] / over:+.0%}"
        controls = f", {row['n_controls_as_low']} of {row['n_controls']} random draws as low" if row["n_controls"] else ""
        arms.append(f"{row['name']} {change} [{points}], perplexity {number(row['perplexity'], '.1f')}{controls}")
    return "; ".join(arms)


def table5(scorer: str) -> Item:
    return Item(
        f"geva2022_table5_{scorer.replace('-', '_')}",
        "Table 5",
        question="geva2022_table5",
        fixed={"scorer": scorer, "decoding": "sample"},
        title=f"Toxicity of continuations with values switched on, scored by {scorer}",
        chart=charts.table5,
        caption=lambda f: (
            f"Share of continuations that {scorer} gives 0.5 or more, and its mean score, by arm; differences to the base arm are paired by prompt and seed, "
            "with 95% intervals over templates of prompts, in the figure about the base's share and cut at 0; perplexity of other text under the arm; distinct "
            f"bigrams over all. {BAGS}"
        ),
        n=lambda f: f"{describe_count(f, 'n_continuations', 'continuations')} an arm, drawn after prompts of {describe_count(f, 'n_clusters', 'templates')}",
        if_empty=f"the last experiment of suppression was not scored by {scorer}",
        columns={
            "name": "arm", "over": "over 0.5", "over_change": "to base", "over_low": "low", "over_high": "high", "score": "mean",
            "perplexity": "perplexity", "distinct_2": "distinct",
        },
        headline=(
            "scored by Perspective, toxicity falls by 47% with ten values found by hand switched on, by 37% with self-debiasing and by 20% with a word filter"
        ),
        model="GPT-2",
        ours=describe_suppression,
    )  # fmt: skip


TABLE6 = Item(
    "geva2022_table6",
    "Table 6",
    other_needs=("trace", "value_cluster"),
    compute=early_exit,
    accepts=("corpus",),
    title="Early exit from the FFN's dominant sub-updates, beside classifiers",
    source="atlas.papers.early_exit.early_exit(a, corpus=$corpus)",
    caption=lambda f: (
        "Accuracy against the model's own prediction, and layers saved, of rules that stop at a layer; mean and standard deviation over five splits of the "
        "traced sequences into halves. Sub-updates stand for clusters of their values, or of the values' scores over the vocabulary (logits). "
        "The paper's rule compares a text with taught events by their sub-updates at the layer asked about, or at the layer where each event saturates."
    ),
    n=lambda f: f"{describe_count(f, 'n_examples', 'positions')} predicted in a split",
    columns={
        "rule": "rule", "clusters": "clusters of", "accuracy": "accuracy", "accuracy_std": "sd", "saved_layers": "layers saved", "saved_layers_std": "sd ",
        "saved_share": "of all layers", "n_examples": "positions",
    },
    headline="94.1% accuracy at 20% of the layers saved (in their notebook 94.9 ± 0.6% at 3.4 ± 0.1 of 16 layers)",
    ours=lambda f: f"{percent(f['accuracy'][0])} accuracy at {percent(f['saved_share'][0])} of the layers saved",
)  # fmt: skip


GEVA2022 = Paper(
    name="geva2022",
    citation="Geva et al. 2022, Transformer Feed-Forward Layers Build Predictions by Promoting Concepts in the Vocabulary Space",
    authors="Geva et al. 2022",
    model="WikiLM",
    model_note="16 layers × 4,096 neurons, ReLU, WikiText-103.",
    items=(
        CONCEPTS, FIG2, DOMINANT_SHARE, FIG3, EVENTS, TABLE4, EXTREME, clusters("value"), clusters("logits"), groups("value"), groups("logits"),
        table5("alt-profanity-check"), table5("hatesonar"), table5("unwanted-words"), TABLE6,
    ),
)  # fmt: skip
