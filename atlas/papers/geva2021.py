"""The items of Geva et al. 2021, in the paper's order."""

from dataclasses import replace
from functools import partial

import altair as alt
import polars as pl

from atlas import charts
from atlas.address import Neuron
from atlas.papers.examples import EXAMPLES
from atlas.papers.items import Item, Paper
from atlas.papers.labels import label
from atlas.papers.words import at_layer, describe_count, ends, number, percent, proposal_note, total

KEYS_LEFT_OUT = "keys whose top trigger ends its document, and keys that no text switches on (largest coefficient not above 0)"
UNSURE_KEYS = "triggers with a coefficient not above 0"


def change(frame: pl.DataFrame) -> str:
    """Describe figure 3 for each removed token, averaged over the layers: the paper's mean change, and the mean change at the floor."""
    found = frame.group_by("removed").agg(pl.col("mean_change").mean(), pl.col("floored_change").mean()).sort("mean_change")
    return "; ".join(f"{removed} token {percent(mean)}, at the floor {percent(floored)}" for removed, mean, floored in found.iter_rows())


def agreeing_share(frame: pl.DataFrame, column: str) -> str:
    return percent(frame.filter(pl.col("site") == "ffn_out")[column].item(), 0)


def draw_fig6(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw agreement by bin of max p, each point at its bin's middle and with its number of keys."""
    shown = frame.filter(pl.col("n_keys") > 0).with_columns(middle=(pl.col("lower_edge") * pl.col("upper_edge")).sqrt())
    edges = (frame["lower_edge"].min(), frame["upper_edge"].max())
    names = {"x_title": "Maximum probability of the value", "y_title": "Agreement rate"}
    return charts.counted_points(shown, x="middle", x_domain=edges, y="agreement_rate", n="n_keys", **names)  # type: ignore[arg-type]


def draw_top_values(frame: pl.DataFrame) -> alt.Chart:
    """Draw the number of values with the largest maximum probability in each layer, by whether their top token follows a trigger."""
    counted = frame.group_by("layer").agg(followed=(pl.col("n_followed") > 0).sum(), never=(pl.col("n_followed") == 0).sum())
    parts = {"followed": "token follows a trigger", "never": "follows none"}
    return charts.stacked_bars(charts.every_layer(counted), parts=parts, y_title="Values", colors=[charts.VIRIDIS[1], charts.VIRIDIS[3]])


def draw_table2(frame: pl.DataFrame) -> alt.Chart:
    """Draw the precision of the best values, each under its address and token."""
    names = [f"{Neuron(layer, neuron)} {label(token)}" for layer, neuron, token in frame.select("layer", "neuron", "token").iter_rows()]
    return charts.ranked_bars(frame.with_columns(value=pl.Series(names)), y="value", x="precision_at_50", x_title="Precision@50", format="%")


def draw_fig8_agreeing(frame: pl.DataFrame) -> alt.Chart:
    """Draw the shares of stop words and short prefixes, among agreeing and all cases."""
    kinds = {"stop_word_share": "stop word", "short_share": "short prefix"}
    cases = {"agreeing_": "agreeing cases", "": "all cases"}
    rows = [
        {"group": f"{kinds[kind]}|{row['site']}", "cases": cases[which], "share": row[which + kind]}
        for row in frame.iter_rows(named=True)
        for kind in kinds
        for which in cases
    ]
    return charts.bars(pl.DataFrame(rows), x="group", y="share", y_title="Share of cases", series="cases", order=list(cases.values()), format="~%")


PATTERNS = Item(
    "geva2021_patterns",
    "Section 3",
    caption=lambda f: f"Patterns that annotators found in the triggers of keys, and the share of the triggers they explain.{proposal_note(f)}",
    n=lambda f: f"{total(f, 'n_keys', 'keys')}, {total(f, 'n_prefixes', 'triggers')}",
    columns={
        "annotator_kind": "by", "n_keys": "keys", "n_prefixes": "triggers", "patterns_per_key": "patterns a key", "shallow_per_key": "shallow",
        "semantic_per_key": "semantic", "keys_with_pattern": "keys with one", "covered": "covered",
    },
    headline="every key has at least one pattern, 3.6 on average, and 65-80% of the prefixes are covered",
    ours=lambda f: (
        f"{percent(f['keys_with_pattern'][0])} of the keys have one, {number(f['patterns_per_key'][0], '.1f')} on average, "
        f"and {percent(f['covered'][0])} of the triggers are covered"
    ),
)  # fmt: skip

FIG2 = Item(
    "geva2021_fig2",
    "Figure 2",
    chart=partial(
        charts.stacked_bars, parts={"shallow": "shallow", "shallow_and_semantic": "both", "semantic": "semantic", "uncovered": "uncovered"},
        y_title="Triggers", is_share=True, colors=[*charts.VIRIDIS[:3], "#F2F2F2"],
    ),
    caption=lambda f: f"Share of the keys' triggers that shallow patterns alone, semantic patterns alone, both or none explain, by layer.{proposal_note(f)}",
    n=lambda f: f"{total(f, 'n_prefixes', 'triggers')} of {total(f, 'n_keys', 'keys')}",
    columns={
        "layer": "layer", "n_keys": "keys", "n_prefixes": "triggers", "shallow": "shallow", "shallow_and_semantic": "both", "semantic": "semantic",
        "uncovered": "uncovered",
    },
    headline="shallow patterns prevail in layers 1-9, semantic ones in layers 10-16",
    ours=lambda f: f"shallow alone {ends(f, 'shallow')}; semantic alone {ends(f, 'semantic')}",
)  # fmt: skip

FIG3 = Item(
    "geva2021_fig3",
    "Figure 3",
    chart=partial(
        charts.lines,
        y="mean_change",
        y_title="Mean change of coefficient",
        series="removed",
        order={which: f"{which} token" for which in ("first", "last", "random")},
        format="%",
    ),
    caption=lambda f: (
        "Relative change (m' - m)/m of a trigger's coefficient when the first, the last or a random token of the prefix is removed and the rest is "
        "read again; mean over the triggers of the sampled keys of each layer. At the floor: over those whose coefficient is at least a tenth of the key's top "
        "one, since changes of the smallest can lead the mean."
    ),
    n=lambda f: total(f.filter(pl.col("removed") == "last"), "n_triggers", "triggers of ") + total(f.filter(pl.col("removed") == "last"), "n_keys", "keys"),
    exclusions="prefixes of one token, and triggers with a coefficient not above 0",
    columns={
        "layer": "layer",
        "removed": "removed",
        "mean_change": "mean change",
        "n_keys": "keys",
        "n_triggers": "triggers",
        "floored_change": "at the floor",
        "n_floored": "triggers, at the floor",
    },
    headline="losing the last token hurts most, and less so in upper layers",
    ours=lambda f: f"mean over layers: {change(f)}",
)

FIG4 = Item(
    "geva2021_fig4",
    "Figure 4",
    # chance is too small to show
    chart=partial(charts.lines, y="agreement_rate", y_title="Agreement rate", format="~%"),
    caption=lambda f: (
        "Agreement rate: share of a layer's keys whose value ranks first, by softmax(E v), the token that follows the key's top trigger. "
        f"Chance is {percent(f['chance'][0], 4)}."
    ),
    n=lambda f: total(f, "n_keys", "keys"),
    exclusions=KEYS_LEFT_OUT,
    columns={"layer": "layer", "agreement_rate": "agreement", "chance": "chance", "n_agreeing": "agreeing", "n_keys": "keys", "n_left_out": "left out"},
    headline="about 0 in layers 1-10, up to 3.5% in the upper ones; chance is 0.0004%",
    ours=lambda f: f"at most {at_layer(f, 'agreement_rate')}; chance is {percent(f['chance'][0], 4)}",
)

FIG5 = Item(
    "geva2021_fig5",
    "Figure 5",
    chart=partial(
        charts.boxes,
        low="lower_whisker",
        q1="q1",
        median="median",
        q3="q3",
        high="upper_whisker",
        y_title="Rank of the next token (log scale)",
        kind="log",
    ),
    caption=lambda f: (
        "Rank, in softmax(E v) of a value, of the token that follows its key's top trigger; rank 1 is the value's top token. "
        "Box: quartiles and median; whiskers: the furthest ranks within 1.5 interquartile ranges."
    ),
    n=lambda f: total(f, "n_keys", "keys"),
    exclusions=KEYS_LEFT_OUT,
    columns={"layer": "layer", "lower_whisker": "whisker", "q1": "q1", "median": "median", "q3": "q3", "upper_whisker": "whisker, upper", "n_keys": "keys"},
    headline="medians of 10,000 to 15,000 in low layers, 0 to 2,000 in layers 14-16",
    ours=lambda f: f"medians from {number(f['median'].min())} to {number(f['median'].max())}; {number(f.sort('layer')['median'][-1])} at the last layer",  # type: ignore[arg-type]
)

FIG6 = Item(
    "geva2021_fig6",
    "Figure 6",
    chart=draw_fig6,
    caption=lambda f: (
        "Agreement rate of the keys of all layers by the largest probability of their value, in ten bins of equal width in its logarithm; "
        "the numbers are the keys in each bin."
    ),
    n=lambda f: total(f, "n_keys", "keys"),
    exclusions=KEYS_LEFT_OUT,
    columns={"lower_edge": "max p from", "upper_edge": "to", "n_keys": "keys", "agreement_rate": "agreement"},
    headline="agreement rises with the maximum probability",
    ours=lambda f: "by rising maximum probability " + ", ".join(percent(rate) for rate in f.drop_nulls("agreement_rate")["agreement_rate"]),
)

TOP_VALUES_SUMMARY = Item(
    "geva2021_top_values_summary",
    "Section 4.2",
    caption=lambda f: (
        "The values with the largest maximum probability: how many lie in the upper three eighths of the layers, and for how many the top token "
        "follows at least one of their key's top 50 triggers."
    ),
    n=lambda f: total(f, "n_values", "values"),
    exclusions=UNSURE_KEYS,
    columns={"n_values": "values", "first_upper_layer": "upper from layer", "n_upper": "upper", "layers_share": "upper layers", "n_followed": "followed"},
    headline="97 of 100 in layers 11-16, 46 with at least one trigger followed by the token",
    ours=lambda f: f"{f['n_upper'][0]} of {f['n_values'][0]} from layer {f['first_upper_layer'][0]}, {f['n_followed'][0]} with one followed",
)

TOP_VALUES = Item(
    "geva2021_top_values",
    "Section 4.2",
    chart=draw_top_values,
    caption=lambda f: (
        "The values with the largest maximum probability, by layer, and whether their top token follows at least one of their key's top 50 triggers."
    ),
    n=lambda f: f"{f.height} values",
    exclusions=UNSURE_KEYS,
    columns={"rank": "rank", "layer": "layer", "neuron": "neuron", "token": "token", "max_prob": "max p", "n_followed": "followed", "n_triggers": "triggers"},
)

TABLE2 = Item(
    "geva2021_table2",
    "Table 2",
    chart=draw_table2,
    caption=lambda f: (
        "Values whose top token most often follows their key's triggers: the share of the top 50 triggers that are followed by it, "
        "and the strongest trigger that is, its end."
    ),
    n=lambda f: f"{f.height} values, the best of all keys, by {describe_count(f, 'n_triggers', 'triggers')} each",
    exclusions="keys with fewer triggers above 0 than others",
    columns={"layer": "layer", "neuron": "neuron", "token": "token", "precision_at_50": "precision", "max_prob": "max p", "example": "example"},
    headline="for instance 92%, 84% and 68%",
    ours=lambda f: "the best are " + ", ".join(percent(share, 0) for share in f["precision_at_50"].head(5)),
)

FIG7 = Item(
    "geva2021_fig7",
    "Figure 7",
    chart=partial(charts.lines, y="active_share", y_title="Active memories", format="~%"),
    assumes_relu=True,
    caption=lambda f: "Share of a layer's memories that are active at a position, mean over the traced positions.",
    n=lambda f: describe_count(f, "n_positions", "traced positions"),
    columns={
        "layer": "layer",
        "active_share": "active",
        "n_positions": "positions",
        "activation": "activation",
        "is_gated": "gated",
        "threshold": "active above",
    },
    headline="10-50%, with a dip at layer 10",
    ours=lambda f: f"from {at_layer(f, 'active_share', largest=False)} to {at_layer(f, 'active_share')}",
)

FIG8 = Item(
    "geva2021_fig8",
    "Figure 8",
    other_needs=("raw tops",),
    chart=partial(
        charts.column_lines, columns={"zero_agreement": "with the FFN’s output", "zero_agreement_block": "with the block’s output"},
        y_title="Positions without agreement", format="~%",
    ),
    assumes_relu=True,
    fixed={"projection": "raw"},
    caption=lambda f: (
        "Zero agreement: share of positions where no active value has for its top token the top token of the FFN's output, "
        "and the same for that of the block's output, with which the authors' code compares. All top tokens by the raw projection E z, "
        "as in the paper, whose model has no final norm."
    ),
    n=lambda f: describe_count(f, "n_positions", "traced positions"),
    columns={
        "layer": "layer", "zero_agreement": "ffn_out", "zero_agreement_block": "resid_post", "n_positions": "positions",
        "activation": "activation", "is_gated": "gated", "threshold": "active above",
    },
    headline="at least 68% in every layer",
    ours=lambda f: f"at least {at_layer(f, 'zero_agreement', largest=False)} (block's output: {at_layer(f, 'zero_agreement_block', largest=False)})",
)  # fmt: skip

FIG8_FINAL_NORM = replace(
    FIG8,
    name="geva2021_fig8_final_norm",
    question="geva2021_fig8",
    title="How often no active value alone predicts what the layer predicts, outputs by the logit lens",
    other_needs=(),
    fixed={"projection": "final_norm"},
    caption=lambda f: (
        "Zero agreement between values by the raw projection and outputs by the logit lens (final_norm): two projections, so that not agreeing may be "
        "the final norm's doing. The paper's figure has one."
    ),
    headline=None,
)

FIG8_AGREEING = Item(
    "geva2021_fig8_agreeing",
    "Section 5.1",
    other_needs=("raw tops",),
    chart=draw_fig8_agreeing,
    assumes_relu=True,
    fixed={"projection": "raw"},
    caption=lambda f: (
        "Where an active value's top token is the top token of the output, both by the raw projection: how often that token is a stop word, and how often "
        "the prefix has fewer than 5 tokens, beside the same shares of all cases."
    ),
    n=lambda f: f"{describe_count(f, 'n_cases', 'cases')}, each a traced position in a layer",
    columns={
        "site": "compared with", "n_cases": "cases", "n_agreeing": "agreeing", "agreeing_stop_word_share": "stop word, agreeing",
        "stop_word_share": "all", "agreeing_short_share": "short prefix, agreeing", "short_share": "all ",
    },
    headline="60% of the agreeing cases predict a stop word, 43% have a prefix under 5 tokens",
    ours=lambda f: f"{agreeing_share(f, 'agreeing_stop_word_share')} predict a stop word, {agreeing_share(f, 'agreeing_short_share')} have so short a prefix",
)  # fmt: skip

FIG9 = Item(
    "geva2021_fig9",
    "Figure 9",
    chart=partial(charts.lines, y="final_on_top_share", y_title="Final prediction leads", format="~%"),
    caption=lambda f: "Share of positions whose top token between attention and FFN (resid_mid, logit lens) is already the model's final prediction.",
    n=lambda f: describe_count(f, "n_positions", "traced positions"),
    columns={"layer": "layer", "final_on_top_share": "final prediction leads", "n_positions": "positions"},
    headline="a third in the bottom layers, rising fast from layer 10",
    ours=lambda f: ends(f, "final_on_top_share"),
)

FIG10 = Item(
    "geva2021_fig10",
    "Figure 10",
    chart=partial(charts.lines, y="mean_final_prob", y_title="Mean probability of the prediction"),
    caption=lambda f: "Mean probability of the model's final prediction between attention and FFN (resid_mid, logit lens).",
    n=lambda f: describe_count(f, "n_positions", "traced positions"),
    columns={"layer": "layer", "mean_final_prob": "mean probability", "n_positions": "positions"},
    headline="it grows with depth",
    ours=lambda f: ends(f, "mean_final_prob"),
)

FIG11 = Item(
    "geva2021_fig11",
    "Figure 11",
    other_needs=("raw tops",),
    chart=partial(charts.stacked_bars, parts={c: c for c in ("residual", "agreement", "composition", "ffn")}, y_title="Positions", is_share=True),
    fixed={"projection": "raw"},
    caption=lambda f: (
        "Whose top token the layer's output (resid_post) takes: the residual's (resid_mid), the FFN's (ffn_out), that of both (agreement) "
        "or of neither (composition). The shares sum to 1. The states' top tokens by the logit lens, the FFN's by the raw projection E z."
    ),
    n=lambda f: describe_count(f, "n_positions", "traced positions"),
    columns={c: c for c in ("layer", "residual", "agreement", "composition", "ffn")} | {"n_positions": "positions"},
    headline="residual and agreement dominate",
    ours=lambda f: f"residual and agreement together: {ends(f.with_columns(both=pl.col('residual') + pl.col('agreement')), 'both')}",
)

FIG11_FINAL_NORM = replace(
    FIG11,
    name="geva2021_fig11_final_norm",
    question="geva2021_fig11",
    title="Whose prediction a layer's output takes, the FFN's by the logit lens",
    other_needs=(),
    fixed={"projection": "final_norm"},
    caption=lambda f: (
        "Whose top token the layer's output (resid_post) takes: the residual's (resid_mid), the FFN's (ffn_out), that of both (agreement) "
        "or of neither (composition). The shares sum to 1. All top tokens by the logit lens, the FFN's too."
    ),
    headline=None,
)

LAST_LAYER = Item(
    "geva2021_last_layer",
    "Section 5.2",
    other_needs=("raw tops",),
    fixed={"projection": "raw"},
    caption=lambda f: (
        "Compositions at the last layer, where the prediction is neither the residual's top token nor the FFN's (by the raw projection), for a person to judge."
    ),
    n=lambda f: f"{f.height} positions, drawn by a hash",
    if_empty="no composition at the last layer among the traced positions",
    columns={"text_before": "text before", "token": "token", "residual_token": "residual", "ffn_token": "FFN", "output_token": "output", "next_token": "next"},
    headline="of 100, 66 outputs are far in meaning from the residual's token and 34 near (judged by people)",
)

GEVA2021 = Paper(
    name="geva2021",
    citation="Geva et al. 2021, Transformer Feed-Forward Layers Are Key-Value Memories",
    authors="Geva et al. 2021",
    model="WikiLM",
    model_note="16 layers × 4,096 neurons, ReLU, WikiText-103.",
    items=(
        EXAMPLES, PATTERNS, FIG2, FIG3, FIG4, FIG5, FIG6, TOP_VALUES_SUMMARY, TOP_VALUES, TABLE2, FIG7, FIG8, FIG8_FINAL_NORM, FIG8_AGREEING, FIG9, FIG10,
        FIG11, FIG11_FINAL_NORM, LAST_LAYER,
    ),
)  # fmt: skip
