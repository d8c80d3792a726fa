"""Charts of one prediction. Pure: rows of its questions in, Altair out."""

import altair as alt
import polars as pl

from atlas.address import Neuron
from atlas.charts import DASHES, MARKERS, OKABE_ITO
from atlas.export.visible import visible_text
from ui.charts import PANEL, AnyChart

BAR = 14
"""Height of a bar, in px on screen and pt in print."""

TOKENS = ("candidate", "final", "next")
"""Names of the tokens that dominant_sub_updates scores."""


def select_target_series(trace: pl.DataFrame) -> pl.DataFrame:
    """Select from prediction_trace the columns layer, series, rank, prob at resid_post.

    The next token is left out if there is none, or if it is the final one.
    """
    after = trace.filter(pl.col("site") == "resid_post")
    parts = [part(after, "final")]
    # ranks and not texts, because two tokens may have the same text
    if (after["next_token_rank"] != after["final_token_rank"]).any():
        parts.append(part(after, "next"))
    return pl.concat(parts, how="vertical_relaxed")


def part(after: pl.DataFrame, which: str) -> pl.DataFrame:
    name = f"{which} {visible_text(after[f'{which}_token'][0])}"
    return after.select("layer", pl.lit(name).alias("series"), pl.col(f"{which}_token_rank").alias("rank"), pl.col(f"{which}_token_prob").alias("prob"))


def ranks(trace: pl.DataFrame) -> AnyChart:
    """Draw the rank of the final and the next token after each layer."""
    rows = select_target_series(trace)
    worst = max(10, *rows["rank"])
    scale = alt.Scale(type="log", domain=[worst, 1], nice=False)
    axis = alt.Axis(format=",", values=[10**i for i in range(len(str(worst)))])
    return over_layers(rows, alt.Y("rank:Q", title="Rank (1 is the top), log scale", scale=scale, axis=axis))


def probs(trace: pl.DataFrame) -> AnyChart:
    """Draw the probability of the final and the next token after each layer."""
    return over_layers(select_target_series(trace), alt.Y("prob:Q", title="Probability", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5)))


def over_layers(rows: pl.DataFrame, y: alt.Y) -> AnyChart:
    names = rows["series"].unique(maintain_order=True).to_list()
    legend = alt.Legend(title=None, orient="top", labelLimit=300)
    color = alt.Color("series:N", scale=alt.Scale(domain=names, range=OKABE_ITO[: len(names)]), legend=legend)
    base = alt.Chart(rows).encode(
        x=alt.X("layer:O", title="After the block of layer (from 0)", axis=alt.Axis(labelAngle=0, labelOverlap="parity", labelSeparation=5)),
        y=y,
        color=color,
        tooltip=["series:N", "layer:O", alt.Tooltip("rank:Q", format=","), alt.Tooltip("prob:Q", title="probability", format=".4g")],
    )
    # a mark for each dash: a scale of dashes would fray the legend's symbols
    drawn = [
        base.transform_filter(alt.FieldEqualPredicate(field="series", equal=name)).mark_line(strokeDash=dash) for name, dash in zip(names, DASHES, strict=False)
    ]
    point = base.mark_point(filled=True, size=40).encode(shape=alt.Shape("series:N", scale=alt.Scale(domain=names, range=MARKERS[: len(names)]), legend=legend))
    return alt.layer(*drawn, point).properties(height=PANEL * 1.5)


def score_of(updates: pl.DataFrame) -> str:
    """Choose the ending of the score columns: 'frozen_score', in logits, or 'score', the raw scores of an older trace that has no others."""
    return "score" if updates["candidate_frozen_score"].is_null().all() else "frozen_score"


def scores(updates: pl.DataFrame) -> alt.Chart:
    """Draw what each dominant sub-update adds to the logits of the candidate, the final and the next token.

    Scores are raw if the trace has no others; the sub-update that promotes the candidate most is on top.
    """
    kind = score_of(updates)
    columns = {f"{token}_{kind}": token for token in TOKENS}
    shown = updates.sort(f"candidate_{kind}", descending=True)
    addresses = [str(Neuron(*cell)) for cell in shown.select("layer", "neuron").iter_rows()]
    long = shown.select(pl.Series("neuron", addresses), *columns).rename(columns).unpivot(index="neuron", variable_name="token", value_name="score")
    long = long.drop_nulls("score")
    names = [name for name in TOKENS if name in set(long["token"])]
    return (
        alt.Chart(long)
        .mark_bar()
        .encode(
            y=alt.Y("neuron:N", title=None, sort=addresses),
            yOffset=alt.YOffset("token:N", sort=names),
            x=alt.X("score:Q", title="Raw score m·(e·v)" if kind == "score" else "Frozen-norm score, logits", axis=alt.Axis(tickCount=8)),
            color=alt.Color("token:N", scale=alt.Scale(domain=names, range=OKABE_ITO[: len(names)]), legend=alt.Legend(title=None, orient="top")),
            tooltip=["neuron:N", "token:N", alt.Tooltip("score:Q", format="+.4g")],
        )
        .properties(height=max(PANEL, BAR * long.height))
    )


def waterfall(steps: pl.DataFrame) -> alt.Chart:
    """Draw the parts of a logit, each from the sum before it to the sum after it. steps: columns name, amount, before, after."""
    return (
        alt.Chart(steps)
        .mark_bar()
        .encode(
            y=alt.Y("name:N", title=None, sort=None),
            x=alt.X("before:Q", title="Sum of the parts so far, logits"),
            x2="after:Q",
            color=alt.condition(alt.datum.amount >= 0, alt.value("#E66101"), alt.value("#5E3C99")),
            tooltip=["name:N", alt.Tooltip("amount:Q", format="+.4g"), alt.Tooltip("after:Q", format=".4g")],
        )
        .properties(height=BAR * steps.height)
    )
