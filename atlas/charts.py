"""Stock charts of papers and pages: frame in, Altair chart out, sized for print. Nothing is read or written here, so that screen and paper show the same.

A length of 1 is 1 pt. Every series has its own colour, dash and marker, and colours differ in lightness: a chart survives grey printing.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

COLUMN, PAGE = 234, 486
"""Widths in pt: one column (3.25 in) and a whole page (6.75 in)."""

HEIGHT = 150

PADDING = {"left": 3, "right": 3, "top": 3, "bottom": 3}
"""Padding of each side: Streamlit takes no single number for all."""

FONT = "Liberation Sans, Arial, Helvetica, Source Sans, sans-serif"
"""Fonts of a chart. The renderer has the first; any machine that shows a page has one of the others, as wide or narrower: wider text would be cut off."""

PRINT = {"labelColor": "#000", "titleColor": "#000", "labelFont": FONT, "titleFont": FONT}
"""Colours and fonts as the renderer has them; set explicitly, because a page in dark mode puts its own in their place."""

OKABE_ITO = ["#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7", "#56B4E9", "#E69F00"]
"""Okabe and Ito's palette without its yellow, which is too light for lines."""

VIRIDIS = ["#440154", "#31688E", "#35B779", "#FDE725"]
"""Four steps from dark to light, for areas."""

DASHES: list[list[float]] = [[1, 0], [5, 2], [1.5, 1.5], [6, 2, 1.5, 2], [3, 3], [8, 2], [2, 4]]
MARKERS = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke"]

SYMBOL, CHARACTER, AXIS = 20, 3.9, 42
"""Widths in pt: a legend's symbol with the space around it, a character at 8 pt on average, and the y axis."""


def apply_print_theme(chart: Any, *, width: int, height: int) -> Any:
    """Style the chart for print, `width` × `height` pt in all."""
    small = {"labelFontSize": 8, "titleFontSize": 8, "titleFontWeight": "normal", "labelLimit": 0, "titleLimit": 0, **PRINT}
    return (
        chart.properties(width=width, height=height, autosize=alt.AutoSizeParams(type="fit", contains="padding"), background="white", padding=PADDING)
        .configure(font=FONT)
        .configure_axis(**small, gridColor="#DDDDDD", gridWidth=0.5, domainColor="#333333", tickColor="#333333", tickSize=3, labelPadding=2, titlePadding=4)
        .configure_legend(**small, orient="top", title=None, symbolStrokeWidth=1.2, symbolSize=30, columnPadding=8, rowPadding=1, offset=2, padding=0)
        .configure_view(stroke=None)
    )


def layer_axis() -> alt.X:
    """Build an axis of layers as whole numbers; labels are left out where they would touch."""
    return alt.X("layer:O", title="Layer (from 0)", axis=alt.Axis(labelAngle=0, labelOverlap="parity", labelSeparation=2, grid=False))


def group_axis(x: str, groups: Sequence[str]) -> alt.X:
    """Build an axis of groups in the order given, their names broken into lines at |."""
    return alt.X(f"{x}:N", title=None, sort=list(groups), axis=alt.Axis(labelAngle=0, labelExpr="split(datum.label, '|')", ticks=False))


def y_axis(y: str, title: str, format: str, kind: str = "linear", *, is_from_zero: bool = True) -> alt.Y:
    zero = {} if is_from_zero else {"zero": False}
    return alt.Y(f"{y}:Q", title=title, scale=alt.Scale(type=kind, nice=True, **zero), axis=alt.Axis(format=format, tickCount=5))  # type: ignore[arg-type]


def legend(names: Sequence[str], width: int, **options: Any) -> alt.Legend:
    """Build a legend in one row above the chart if the names fit there, else in rows of two: a wider legend would be cut off."""
    room = sum(SYMBOL + CHARACTER * len(name) for name in names)
    return alt.Legend(columns=len(names) if room <= width - AXIS else 2, **options)


def lines(
    frame: pl.DataFrame,
    *,
    y: str,
    y_title: str,
    series: str | None = None,
    order: Sequence[str] | Mapping[str, str] = (),
    format: str = "~f",
    colors: Sequence[str] = OKABE_ITO,
    markers: Sequence[str] = MARKERS,
    width: int = COLUMN,
    x: alt.X | None = None,
    is_from_zero: bool = True,
) -> alt.LayerChart:
    """Draw a line over the layers, or over `x`, for each series of the column `series`; a point at every layer.

    order: the series from first to last, each with its name in the legend if that is another.
    """
    if isinstance(order, Mapping):
        frame, order = frame.with_columns(pl.col(str(series)).replace_strict(order)), list(order.values())
    base = alt.Chart(frame).encode(x=x or layer_axis(), y=y_axis(y, y_title, format, is_from_zero=is_from_zero))
    point = base.mark_point(filled=True, size=14, opacity=1)
    if series is None:
        color = alt.value(colors[0])
        return apply_print_theme(alt.layer(base.mark_line(strokeWidth=1.2).encode(color=color), point.encode(color=color)), width=width, height=HEIGHT)
    domain, n, shown = list(order), len(order), legend(order, width)
    hue = alt.Color(f"{series}:N", scale=alt.Scale(domain=domain, range=list(colors[:n])), legend=shown)
    shape = alt.Shape(f"{series}:N", scale=alt.Scale(domain=domain, range=list(markers[:n])), legend=shown)
    # a mark for each dash: a scale of dashes would fray the legend's symbols
    drawn = [
        base.transform_filter(alt.FieldEqualPredicate(field=series, equal=name)).mark_line(strokeWidth=1.2, strokeDash=dash).encode(color=hue)
        for name, dash in zip(order, DASHES, strict=False)
    ]
    return apply_print_theme(alt.layer(*drawn, point.encode(color=hue, shape=shape)), width=width, height=HEIGHT)


def column_lines(frame: pl.DataFrame, columns: dict[str, str], *, y_title: str, format: str = "~f") -> alt.LayerChart:
    """Draw several columns over the layers, one line for each column. columns: column → name in the legend."""
    return lines(unpivot_columns(frame, "layer", columns), y="value", y_title=y_title, series="series", order=list(columns.values()), format=format)


def unpivot_columns(frame: pl.DataFrame, over: str, columns: dict[str, str]) -> pl.DataFrame:
    """Turn columns into rows of `over`, series and value: column → name of its series."""
    return frame.select(over, *columns).rename(columns).unpivot(index=over, variable_name="series", value_name="value")


def every_layer(frame: pl.DataFrame) -> pl.DataFrame:
    """Add to the frame a row of zeros for each lower layer that it lacks."""
    layers = pl.DataFrame({"layer": range(int(frame["layer"].max() or 0) + 1)}, schema_overrides={"layer": frame.schema["layer"]})  # type: ignore[arg-type]
    return layers.join(frame, on="layer", how="left", maintain_order="left").fill_null(0)


def stacked_bars(
    frame: pl.DataFrame,
    *,
    parts: dict[str, str],
    y_title: str,
    x: str = "layer",
    is_share: bool = False,
    colors: Sequence[str] = VIRIDIS,
) -> alt.Chart:
    """Draw a stacked bar for each `x`: the columns `parts` (column → name in the legend), the first at the bottom; shares fill the axis from 0 to 1."""
    names = list(parts.values())
    long = frame.select(x, *parts).rename(parts).unpivot(index=x, variable_name="part", value_name="amount")
    long = long.with_columns(place=pl.col("part").replace_strict(names, list(range(len(names)))))
    axis = alt.Axis(format="%", tickCount=5) if is_share else alt.Axis(format="d", tickMinStep=1, tickCount=5)
    drawn = (
        alt.Chart(long)
        .mark_bar(stroke="#333333", strokeWidth=0.3)
        .encode(
            x=layer_axis() if x == "layer" else group_axis(x, frame[x].to_list()),
            y=alt.Y("amount:Q", title=y_title, stack="zero", scale=alt.Scale(domain=[0, 1]) if is_share else alt.Scale(), axis=axis),
            color=alt.Color("part:N", scale=alt.Scale(domain=names, range=list(colors[: len(names)])), legend=legend(names, COLUMN, symbolType="square")),
            order=alt.Order("place:Q"),
        )
    )
    return apply_print_theme(drawn, width=COLUMN, height=HEIGHT)


def counted_points(frame: pl.DataFrame, *, x: str, x_title: str, x_domain: Sequence[float], y: str, y_title: str, n: str) -> alt.LayerChart:
    """Draw points over a logarithmic axis, joined, each with the number of cases behind it."""
    scale = alt.Scale(type="log", domain=list(x_domain), nice=False)
    base = alt.Chart(frame).encode(
        x=alt.X(f"{x}:Q", title=x_title, scale=scale, axis=alt.Axis(format="~g", tickCount=5, labelOverlap=True, grid=False)),
        y=y_axis(y, y_title, "~%"),
    )
    line = base.mark_line(strokeWidth=1.2, color=OKABE_ITO[0])
    point = base.mark_point(filled=True, size=18, opacity=1, color=OKABE_ITO[0])
    counts = alt.Text(f"{n}:Q", format=".3~s")
    halo = base.mark_text(dy=-7, fontSize=7, stroke="white", strokeWidth=2).encode(text=counts)
    count = base.mark_text(dy=-7, fontSize=7, color="#333333").encode(text=counts)
    return apply_print_theme(alt.layer(line, point, halo, count), width=COLUMN, height=HEIGHT)


def ranked_bars(frame: pl.DataFrame, *, y: str, x: str, x_title: str, format: str) -> alt.Chart:
    """Draw horizontal bars in the frame's order, one per text in `y`."""
    drawn = (
        alt.Chart(frame)
        .mark_bar(color=VIRIDIS[1])
        .encode(
            y=alt.Y(f"{y}:N", title=None, sort=frame[y].to_list(), axis=alt.Axis(ticks=False)),
            x=alt.X(f"{x}:Q", title=x_title, axis=alt.Axis(format=format, tickCount=5)),
        )
    )
    return apply_print_theme(drawn, width=COLUMN, height=30 + 11 * frame.height)


def boxes(frame: pl.DataFrame, *, low: str, q1: str, median: str, q3: str, high: str, y_title: str, kind: str = "linear") -> alt.LayerChart:
    """Draw a box for each layer from columns that hold its quantiles; whiskers go from `low` to `high`."""
    base = alt.Chart(frame).encode(x=layer_axis())
    y = y_axis(low, y_title, "~s", kind=kind)
    step = (COLUMN - 40) / max(frame.height, 1)
    box = max(min(0.6 * step, 14), 2)
    whisker = base.mark_rule(color="#333333", strokeWidth=0.8).encode(y=y, y2=f"{high}:Q")
    body = base.mark_bar(size=box, fill="#9ECAE1", stroke="#333333", strokeWidth=0.6).encode(y=alt.Y(f"{q1}:Q", title=y_title), y2=f"{q3}:Q")
    middle = base.mark_tick(color="black", thickness=1.6, size=box).encode(y=alt.Y(f"{median}:Q", title=y_title))
    return apply_print_theme(alt.layer(whisker, body, middle), width=COLUMN, height=HEIGHT)


def bars(frame: pl.DataFrame, *, x: str, y: str, y_title: str, series: str, order: Sequence[str], format: str = "~f", width: int = COLUMN) -> alt.Chart:
    """Draw bars in groups: one for each text in `x`, in the frame's order, with a bar for each series. The names of groups are broken into lines at |."""
    groups = frame[x].unique(maintain_order=True).to_list()
    drawn = (
        alt.Chart(frame)
        .mark_bar(stroke="#333333", strokeWidth=0.4)
        .encode(
            x=group_axis(x, groups),
            xOffset=alt.XOffset(f"{series}:N", sort=list(order)),
            y=y_axis(y, y_title, format),
            color=alt.Color(
                f"{series}:N", scale=alt.Scale(domain=list(order), range=VIRIDIS[1 : 1 + len(order)]), legend=legend(order, width, symbolType="square")
            ),
        )
    )
    return apply_print_theme(drawn, width=width, height=HEIGHT)


DIVERGING = ["#0072B2", "#FFFFFF", "#D55E00"]
"""Colours for below 0, 0 and above 0: the darker, the further from 0."""

SITE_NAMES = {"resid_post": "state", "attn_out": "attention", "ffn_out": "FFN"}

ROW, GAP, AROUND = 11, 0.8, 88
"""Height of a row in pt; the gap between sites, in columns; the height of axis, legend and names of sites, in pt."""


def heat_map(frame: pl.DataFrame, names: Sequence[str], title: str) -> alt.LayerChart:
    """Draw a heat map of the columns row (from 0), site, layer and effect in one view.

    Each site has its own stretch of the x axis, because the width of views side by side cannot be set.
    """
    # another cell cannot be placed, or has no colour
    frame = frame.filter(pl.col("site").is_in(list(SITE_NAMES)) & pl.col("effect").is_finite())
    layers = sorted(frame["layer"].unique().to_list())
    step = len(layers) + GAP
    sites = [site for site in SITE_NAMES if site in set(frame["site"])]
    start = {site: i * step for i, site in enumerate(sites)}
    shown = frame.select(
        (
            pl.col("site").replace_strict(start, default=None, return_dtype=pl.Float64)
            + pl.col("layer").replace_strict({layer: column for column, layer in enumerate(layers)}, default=None, return_dtype=pl.Int64)
        ).alias("x"),
        "row",
        "effect",
    ).with_columns((pl.col("x") + 1).alias("x2"))
    most = max(float(frame["effect"].abs().max() or 0.0), 1e-9)  # type: ignore[arg-type]
    x = alt.X("x:Q", title="Layer (from 0)", scale=alt.Scale(domain=[0, len(sites) * step - GAP], nice=False), axis=layer_ticks(layers, len(sites), step))
    row_names = alt.Axis(labelExpr=f"{json.dumps(list(names))}[datum.value]", grid=False, ticks=False, domain=False, labelOverlap=False)
    y = alt.Y("row:O", title=None, sort=None, scale=alt.Scale(domain=[*range(len(names))], padding=0), axis=row_names)
    color = alt.Color(
        "effect:Q",
        scale=alt.Scale(domain=[-most, 0, most], range=DIVERGING, interpolate="rgb"),
        legend=alt.Legend(title=title, titleOrient="left", gradientLength=160, gradientThickness=8, format="~g", tickCount=3, offset=16),
    )
    cells = alt.Chart(shown).mark_rect(stroke=None).encode(x=x, x2="x2:Q", y=y, color=color)
    stretches = pl.DataFrame([{"x": at, "x2": at + len(layers)} for at in start.values()], schema={"x": pl.Float64, "x2": pl.Float64})
    heads = pl.DataFrame([{"x": at + len(layers) / 2, "site": SITE_NAMES[site]} for site, at in start.items()], schema={"x": pl.Float64, "site": pl.String})
    # with the axis of the cells: of several that are merged another's rules would hold
    border = alt.Chart(stretches).mark_rect(fill=None, stroke="#333333", strokeWidth=0.5).encode(x=x, x2="x2:Q", y=alt.value(0), y2=alt.value("height"))
    over = alt.Chart(heads).mark_text(dy=-6, fontSize=8, color="#767676").encode(x=x, y=alt.value(0), text="site:N")
    return apply_print_theme(alt.layer(cells, border, over), width=PAGE, height=AROUND + ROW * len(names))


def layer_ticks(layers: Sequence[int], n_sites: int, step: float) -> alt.Axis:
    """Put ticks under the middle of columns: under all of few layers, and at regular steps, at most 10 for each site, of many."""
    every = max(1, -(-len(layers) // 10))
    at = {round(site * step + column + 0.5, 3): layer for site in range(n_sites) for column, layer in enumerate(layers) if column % every == 0}
    return alt.Axis(
        values=list(at), labelExpr=f"{json.dumps({f'{x:g}': str(layer) for x, layer in at.items()})}[format(datum.value, '.4~g')]", grid=False, domain=False
    )
