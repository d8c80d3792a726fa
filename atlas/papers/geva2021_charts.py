"""Charts of Geva et al. 2021, each from the rows of its question."""

from typing import TYPE_CHECKING

import polars as pl

from atlas.address import Neuron
from atlas.papers import charts
from atlas.papers.labels import label

if TYPE_CHECKING:
    import altair as alt


def fig2(frame: pl.DataFrame) -> "alt.Chart":
    """Draw the shares of triggers by what explains them."""
    parts = {"shallow": "shallow", "shallow_and_semantic": "both", "semantic": "semantic", "uncovered": "uncovered"}
    return charts.stacked_bars(frame, parts=parts, y_title="Triggers", is_share=True, colors=[*charts.VIRIDIS[:3], "#F2F2F2"])


def fig3(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw the change of the coefficient by removed token."""
    order = [f"{which} token" for which in ("first", "last", "random")]
    shown = frame.with_columns(pl.format("{} token", "removed").alias("removed"))
    return charts.lines(shown, y="mean_change", y_title="Mean change of coefficient", series="removed", order=order, format="%")


def fig4(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw the agreement rate; chance is too small to show, and is given in the caption."""
    return charts.lines(frame, y="agreement_rate", y_title="Agreement rate", format="~%")


def fig5(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw ranks as boxes, on a logarithmic scale: they span all magnitudes."""
    return charts.boxes(
        frame, low="lower_whisker", q1="q1", median="median", q3="q3", high="upper_whisker", y_title="Rank of the next token (log scale)", kind="log"
    )


def fig6(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw agreement by bin of max p, each point at its bin's middle and with its number of keys."""
    shown = frame.filter(pl.col("n_keys") > 0).with_columns(middle=(pl.col("lower_edge") * pl.col("upper_edge")).sqrt())
    edges = (frame["lower_edge"].min(), frame["upper_edge"].max())
    names = {"x_title": "Maximum probability of the value", "y_title": "Agreement rate"}
    return charts.counted_points(shown, x="middle", x_domain=edges, y="agreement_rate", n="n_keys", **names)  # type: ignore[arg-type]


def top_values(frame: pl.DataFrame) -> "alt.Chart":
    """Draw the number of values with the largest maximum probability in each layer, by whether their top token follows a trigger."""
    counted = frame.group_by("layer").agg(followed=(pl.col("n_followed") > 0).sum(), never=(pl.col("n_followed") == 0).sum())
    parts = {"followed": "token follows a trigger", "never": "follows none"}
    return charts.stacked_bars(charts.every_layer(counted), parts=parts, y_title="Values", colors=[charts.VIRIDIS[1], charts.VIRIDIS[3]])


def table2(frame: pl.DataFrame) -> "alt.Chart":
    """Draw the precision of the best values, each under its address and token."""
    names = [f"{Neuron(layer, neuron)} {label(token)}" for layer, neuron, token in frame.select("layer", "neuron", "token").iter_rows()]
    return charts.ranked_bars(frame.with_columns(value=pl.Series(names)), y="value", x="precision_at_50", x_title="Precision@50", format="%")


def fig7(frame: pl.DataFrame) -> "alt.LayerChart":
    return charts.lines(frame, y="active_share", y_title="Active memories", format="~%")


def fig8(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw zero agreement, in both variants."""
    names = {"zero_agreement": "with the FFN’s output", "zero_agreement_block": "with the block’s output"}
    return charts.column_lines(frame, names, y_title="Positions without agreement", format="~%")


def fig8_agreeing(frame: pl.DataFrame) -> "alt.Chart":
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


def fig9(frame: pl.DataFrame) -> "alt.LayerChart":
    return charts.lines(frame, y="final_on_top_share", y_title="Final prediction leads", format="~%")


def fig10(frame: pl.DataFrame) -> "alt.LayerChart":
    return charts.lines(frame, y="mean_final_prob", y_title="Mean probability of the prediction")


def fig11(frame: pl.DataFrame) -> "alt.Chart":
    parts = ("residual", "agreement", "composition", "ffn")
    return charts.stacked_bars(frame, parts={part: part for part in parts}, y_title="Positions", is_share=True)
