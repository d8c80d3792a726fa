"""The items of Geva et al. 2022, in the paper's order."""

from functools import partial

import altair as alt
import polars as pl

from atlas import charts
from atlas.papers.early_exit import early_exit
from atlas.papers.items import Item, Paper
from atlas.papers.labels import labels
from atlas.papers.words import NONE, at_layer, describe_count, describe_table4_input, input_eliminations, mean, number, percent, proposal_note, ratio, total

NO_EXTREME = "no dominant sub-update scores its candidate beyond the threshold; --threshold sets another"
OTHER = "elimination of another token"
SPACES = {"value": "the values themselves", "logits": "their scores over the vocabulary"}


def table4_scores(frame: pl.DataFrame) -> str:
    rows = frame.filter(pl.col("selection") == "dominant").select("event", "max_score", "mean_score", "min_score").iter_rows()
    return "; ".join(f"{event}: largest {largest:.2f}, mean {mean:.2f}, smallest {smallest:.2f}" for event, largest, mean, smallest in rows)


def table4_events(frame: pl.DataFrame) -> str:
    rows = frame.filter(pl.col("event") != OTHER).unique("event", keep="first", maintain_order=True).select("event", "n_events").iter_rows()
    return " and ".join(f"{n:,} {event}s" for event, n in rows)


SCORES = {"max_score": "largest", "mean_score": "mean", "min_score": "smallest"}
"""Score of ten sub-updates → its name in a legend."""

SCORE = "Raw score m·(e·v)"

CONCEPT_KINDS = ("semantic", "syntactic", "names", "several", "uncovered")

SUBJECTS = {"value": "values", "random_vector": "random|vectors", "ffn_update": "FFN|updates"}


def draw_concepts(frame: pl.DataFrame) -> alt.Chart:
    """Draw the shares of tokens by kind of concept, for values, random vectors and FFN updates."""
    shown = frame.with_columns(pl.col("subject").replace_strict(SUBJECTS))
    return charts.stacked_bars(shown, x="subject", parts={part: part for part in CONCEPT_KINDS[:-1]}, y_title="Tokens", is_share=True)


def draw_fig3(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw scores over the layers, of dominant and random sub-updates."""
    order = [name + which for name in SCORES.values() for which in ("", ", random")]
    long = frame.rename(SCORES).unpivot(index=["layer", "selection"], on=list(SCORES.values()), variable_name="score", value_name="value")
    long = long.with_columns(series=pl.col("score") + pl.when(pl.col("selection") == "random").then(pl.lit(", random")).otherwise(pl.lit("")))
    # the random ones below the others, which they would hide
    long = long.sort(pl.col("selection") != "random", maintain_order=True)
    gray = "#9A9A9A"
    colors = [color for dominant in charts.OKABE_ITO for color in (dominant, gray)]
    markers = [marker for marker in charts.MARKERS for _ in range(2)]
    return charts.lines(long, y="value", y_title=SCORE, series="series", order=order, colors=colors, markers=markers, width=charts.PAGE)


def draw_table4(frame: pl.DataFrame) -> alt.Chart:
    """Draw scores by event and selection."""
    event = pl.col("event").str.replace(" of ", "|of ")
    shown = frame.select(pl.format("{}|{}", event, "selection").alias("group"), *SCORES).rename(SCORES)
    long = shown.unpivot(index="group", variable_name="of the ten", value_name="score")
    return charts.bars(long, x="group", y="score", y_title=SCORE, series="of the ten", order=list(SCORES.values()), width=charts.PAGE)


def draw_extreme_clusters(frame: pl.DataFrame) -> alt.Chart:
    """Draw the number of extreme sub-updates of each cluster; a cluster is named by its number and the tokens that it promotes."""
    names = [f"{cluster}: {labels(tokens)}" for cluster, tokens in frame.select("cluster", "tokens").iter_rows()]
    return charts.ranked_bars(frame.with_columns(name=pl.Series(names)), y="name", x="n_updates", x_title="Extreme sub-updates", format="d")


ARMS = {"base": "base", "treatment": "concept", "positive_control": "positive control", "random_control": "random values"}
"""Role of an arm → name of its series; arms of the role baseline go by their own names."""


def draw_table5(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw the share of continuations over 0.5 against perplexity; a bar is the interval of the difference, placed around the base's share."""
    over = frame.filter(role="base")["over"]
    base = float(over[0]) if len(over) else 0.0
    shown = frame.select(
        "over",
        "perplexity",
        arm=pl.when(pl.col("role") == "baseline").then(pl.col("name")).otherwise(pl.col("role").replace(ARMS)),
        strength=pl.when(pl.col("role").is_in(["treatment", "positive_control"])).then(pl.col("name").str.extract(r"(× .*)$")).otherwise(pl.lit("")),
        low=pl.when(pl.col("role") != "random_control").then((base + pl.col("over_low")).clip(0, 1)),
        high=pl.when(pl.col("role") != "random_control").then((base + pl.col("over_high")).clip(0, 1)),
    ).drop_nulls("perplexity")
    order = [*ARMS.values(), *frame.filter(role="baseline")["name"].unique(maintain_order=True)]
    names = [name for name in order if name in set(shown["arm"])]
    places = [order.index(name) for name in names]
    colors, markers = (
        ["#000000", "#0072B2", "#D55E00", "#9A9A9A", "#009E73", "#CC79A7"],
        ["diamond", "circle", "square", "triangle-down", "triangle-up", "cross"],
    )
    legend = charts.legend(names, charts.PAGE)
    drawn = alt.Chart(shown).encode(
        x=alt.X(
            "perplexity:Q", title="Perplexity of other text (log scale)", scale=alt.Scale(type="log", nice=False, padding=20),
            axis=alt.Axis(format="~r", tickCount=6, labelOverlap=True, grid=False),
        ),
        color=alt.Color("arm:N", scale=alt.Scale(domain=names, range=[colors[i % len(colors)] for i in places]), legend=legend),
    )  # fmt: skip
    y = charts.y_axis("over", "Continuations over 0.5", "~%")
    point = drawn.mark_point(filled=True, size=40, opacity=1).encode(
        y=y, shape=alt.Shape("arm:N", scale=alt.Scale(domain=names, range=[markers[i % len(markers)] for i in places]), legend=legend)
    )
    bar = drawn.mark_rule(strokeWidth=1).encode(y=alt.Y("low:Q"), y2="high:Q")
    label = drawn.mark_text(dx=6, dy=-5, align="left", fontSize=7).encode(y=y, text="strength:N")
    return charts.apply_print_theme(alt.layer(bar, point, label), width=charts.PAGE, height=200)


CONCEPTS = Item(
    "geva2022_concepts",
    "Tables 1 and 2",
    chart=draw_concepts,
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
    chart=partial(charts.stacked_bars, parts={part: part for part in CONCEPT_KINDS}, y_title="Tokens", is_share=True, colors=[*charts.VIRIDIS, "#F2F2F2"]),
    caption=lambda f: f"Share of the values' top 30 tokens in concepts of each kind, by layer.{proposal_note(f)}",
    n=lambda f: f"{total(f, 'n_tokens', 'tokens')} of {total(f, 'n_vectors', 'values')}",
    columns={"layer": "layer", "n_vectors": "values", "n_tokens": "tokens"} | {c: c for c in CONCEPT_KINDS},
)

DOMINANT_SHARE = Item(
    "geva2022_dominant_share",
    "Section 5.1",
    chart=partial(
        charts.column_lines, columns={"max_share": "largest", "mean_share": "mean", "min_share": "smallest"}, y_title="Share of summed length", format="~%"
    ),
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
    chart=draw_fig3,
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
    chart=partial(
        charts.column_lines,
        columns={"n_saturations": "saturations", "n_eliminations": "eliminations", "n_other_eliminations": "not of the input token"},
        y_title="Events",
    ),
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
    chart=draw_table4,
    caption=lambda f: (
        "Raw scores m (e v) of the 10 dominant sub-updates, and of 10 random ones, for the reference token of an event: at a saturation the final "
        "prediction, at an elimination the candidate that loses its place. Mean, largest and smallest of the ten, averaged over the events."
        f"{frozen_note(f)}"
        f"{describe_table4_input(f)}"
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
    chart=partial(
        charts.stacked_bars, parts={"n_promoting": "promote the candidate", "n_demoting": "demote it"}, y_title="Extreme sub-updates",
        colors=[charts.VIRIDIS[1], charts.VIRIDIS[3]],
    ),
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
        chart=draw_extreme_clusters,
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
        chart=partial(charts.ranked_bars, y="value_group", x="updates_share", x_title="Share of extreme sub-updates", format="~%"),
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
        chart=draw_table5,
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
