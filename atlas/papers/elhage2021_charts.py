"""Charts of Elhage et al. 2021, each from the rows of its question."""

from typing import TYPE_CHECKING

import polars as pl

from atlas.papers import charts

if TYPE_CHECKING:
    import altair as alt

EMBEDDINGS = {"uncentred": "uncentred", "token": "centred", "effective": "centred, as layers find them"}
"""Kind of token embedding in a row of elhage2021_copying → its name in a legend."""

KINDS = {"k": "keys", "q": "queries", "v": "values"}


def bigram(frame: pl.DataFrame) -> "alt.Chart":
    """Draw both KL divergences over growing numbers of commonest tokens of the first corpus."""
    names = {"kl_direct": "direct path", "kl_unigram": "unigram"}
    first = frame.filter(corpus_id=frame["corpus_id"].min()).rename(names).with_columns(tokens=pl.format("{}", "n_tokens"))
    long = first.unpivot(index="tokens", on=list(names.values()), variable_name="path", value_name="nats")
    return charts.bars(long, x="tokens", y="nats", y_title="KL divergence (nats)", series="path", order=list(names.values()))


def copying_histogram(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw the histogram of copying ratios as steps, for each embedding."""
    import altair as alt

    names = list(EMBEDDINGS.values())
    last = frame.filter(pl.col("bin") == 20).with_columns(lower_edge=pl.lit(1.0))
    shown = pl.concat([frame.with_columns(pl.col("lower_edge").cast(pl.Float64)), last], how="vertical_relaxed").with_columns(
        embedding=pl.col("embedding").replace_strict(EMBEDDINGS)
    )
    steps = alt.Chart(shown).encode(
        x=alt.X("lower_edge:Q", title="Sum of eigenvalues / sum of moduli", scale=alt.Scale(domain=[-1, 1]), axis=alt.Axis(tickCount=5)),
        y=charts.y_axis("n_heads", "Heads", "d"),
        color=alt.Color("embedding:N", scale=alt.Scale(domain=names, range=charts.OKABE_ITO[:3]), legend=charts.legend(names, charts.COLUMN)),
    )
    # a mark for each dash, as in charts.lines
    drawn = [
        steps.transform_filter(alt.FieldEqualPredicate(field="embedding", equal=name)).mark_line(interpolate="step-after", strokeWidth=1.2, strokeDash=dash)
        for name, dash in zip(names, charts.DASHES, strict=False)
    ]
    return charts.apply_print_theme(alt.layer(*drawn), width=charts.COLUMN, height=charts.HEIGHT)


def composition(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw the largest score above chance with which a head of each layer reads an earlier one."""
    largest = frame.group_by("kind", "layer").agg(pl.col("max_excess").max()).sort("kind", "layer").with_columns(pl.col("kind").replace_strict(KINDS))
    return charts.lines(largest, y="max_excess", y_title="Largest score above chance", series="kind", order=list(KINDS.values()))


def terms(frame: pl.DataFrame) -> "alt.Chart":
    """Draw by how much each kind of path lowers the loss on the first corpus."""
    shown = frame.filter(pl.col("corpus_id") == frame["corpus_id"].min(), pl.col("most_heads").is_not_null())
    return charts.ranked_bars(shown, y="part", x="fall", x_title="Loss lower by (nats)", format="~f")


def birth(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw the share of the loss saved, and the weights of the induction head and the previous-token head, over the steps of training."""
    import altair as alt

    names = {"saved": "loss saved", "induction": "induction", "previous": "previous token"}
    long = frame.select("step", *names).rename(names).unpivot(index="step", variable_name="series", value_name="share")
    order = list(names.values())
    base = alt.Chart(long).encode(
        x=alt.X("step:Q", title="Training step", axis=alt.Axis(format="~s", tickCount=5, grid=False)),
        y=charts.y_axis("share", "Share of loss, of weight", "~%"),
        color=alt.Color("series:N", scale=alt.Scale(domain=order, range=charts.OKABE_ITO[:3]), legend=charts.legend(order, charts.COLUMN)),
    )
    # a mark for each dash, as in charts.lines
    drawn = [
        base.transform_filter(alt.FieldEqualPredicate(field="series", equal=name)).mark_line(strokeWidth=1.2, strokeDash=dash)
        for name, dash in zip(order, charts.DASHES, strict=False)
    ]
    return charts.apply_print_theme(alt.layer(*drawn), width=charts.COLUMN, height=charts.HEIGHT)


def induction(frame: pl.DataFrame) -> "alt.Chart":
    """Draw each head by the copying of its OV circuit and the matching of its QK circuit, coloured by its induction on random tokens."""
    import altair as alt

    ends = alt.Scale(domain=[-1, 1])
    drawn = (
        # the strongest on top of the others
        alt.Chart(frame.drop_nulls("matching").sort("induction"))
        .mark_point(filled=True, opacity=1, stroke="#333333", strokeWidth=0.3, size=24)
        .encode(
            x=alt.X("copying_effective:Q", title="OV circuit: copying", scale=ends, axis=alt.Axis(tickCount=5)),
            y=alt.Y("matching:Q", title="QK circuit through the earlier head: matching", scale=ends, axis=alt.Axis(tickCount=5)),
            color=alt.Color(
                "induction:Q",
                scale=alt.Scale(scheme="viridis", domain=[0, 1], reverse=True),
                legend=alt.Legend(title="Induction on random tokens that repeat", gradientLength=100, format="~%"),
            ),
        )
    )
    return charts.apply_print_theme(drawn, width=charts.COLUMN, height=charts.COLUMN)
