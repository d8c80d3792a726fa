"""Charts of probes of states and of relations in attention, each from the rows of its question; of several runs the last is drawn."""

from typing import TYPE_CHECKING

import polars as pl

from atlas.papers import charts

if TYPE_CHECKING:
    import altair as alt

ACCURACIES = {"accuracy": "labels", "control_accuracy": "control", "untrained_accuracy": "untrained"}
CODES = {"kilobits": "labels", "control_kilobits": "control"}
TREES = {"uuas": "model", "untrained_uuas": "untrained", "chain_uuas": "chain"}
MOST = 12
"""Most relations in a figure."""


def last_run(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("run_id") == pl.col("run_id").max())


def best_place(frame: pl.DataFrame, column: str = "uuas") -> pl.DataFrame:
    """Select the rows of the layer and site with the largest value of `column` in the last run."""
    rows = last_run(frame)
    best = rows.sort(column, descending=True, maintain_order=True).row(0, named=True)
    return rows.filter((pl.col("layer") == best["layer"]) & (pl.col("site") == best["site"])).sort("rank")


def accuracies(frame: pl.DataFrame) -> "alt.LayerChart":
    return over_blocks(frame, ACCURACIES, "Accuracy", ".0%")


def codes(frame: pl.DataFrame) -> "alt.LayerChart":
    return over_blocks(frame, CODES, "Code (kilobits)", "~f")


def trees(frame: pl.DataFrame) -> "alt.LayerChart":
    return over_blocks(frame, TREES, "Edges found (UUAS)", ".0%")


def over_blocks(frame: pl.DataFrame, names: dict[str, str], title: str, format: str) -> "alt.LayerChart":
    """Draw a line for each column of `names`, over the number of blocks that the states have passed through."""
    import altair as alt

    blocks = last_run(frame).with_columns(blocks=pl.when(pl.col("site") == "resid_pre").then(0).otherwise(pl.col("layer") + 1))
    x = alt.X("blocks:Q", title="Blocks read", axis=alt.Axis(tickMinStep=1, grid=False))
    return charts.lines(unpivot_columns(blocks, "blocks", names), x=x, y="value", y_title=title, series="series", order=list(names.values()), format=format)


def unpivot_columns(frame: pl.DataFrame, over: str, names: dict[str, str]) -> pl.DataFrame:
    return frame.select(over, *names).rename(names).unpivot(index=over, variable_name="series", value_name="value").drop_nulls()


def ranks(frame: pl.DataFrame) -> "alt.LayerChart":
    """Draw UUAS over the rank, which doubles from tick to tick."""
    import altair as alt

    embedding = last_run(frame).filter(site="resid_pre")
    shown = {"best state": (best_place(frame), "uuas"), "embedding": (embedding, "uuas"), "untrained": (best_place(frame, "untrained_uuas"), "untrained_uuas")}
    rows = pl.concat([found.select("rank", series=pl.lit(name), value=pl.col(column)) for name, (found, column) in shown.items()])
    values = rows["rank"].unique().sort().to_list()
    scale = alt.Scale(type="log", base=2, domain=[min(values), max(2 * min(values), *values)])
    x = alt.X("rank:Q", title="Rank of the probe", scale=scale, axis=alt.Axis(values=values, format="d", grid=False))
    return charts.lines(rows, x=x, y="value", y_title="Edges found (UUAS)", series="series", order=list(shown), format=".0%")


def relations(frame: pl.DataFrame) -> "alt.Chart":
    """Draw by how much the best head of each of the commonest relations is above the best offset."""
    rows = last_run(frame).head(MOST).with_columns(named=pl.format("{}, at the {}", "relation", "looks_at")).sort("gain", descending=True, maintain_order=True)
    return charts.ranked_bars(rows, y="named", x="gain", x_title="Share of pairs above the best offset", format=".0%")
