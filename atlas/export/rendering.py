"""Charts as PDF, SVG and PNG. The renderer, its JavaScript and its font come with vl-convert: nothing is fetched."""

from typing import TYPE_CHECKING

from atlas.export.lettering import redraw_labels
from schema.errors import AtlasError

if TYPE_CHECKING:
    import altair as alt

DPI = 300
"""Resolution of PNG, in dots per inch. A length of 1 in a chart is 1 pt, in PDF and SVG too."""

FIGURE_FORMATS = ("pdf", "svg", "png")

PACKAGES = ("altair", "vl-convert-python")


def need_renderer() -> None:
    """Raise AtlasError, saying what to install, unless charts can be made and rendered."""
    try:
        import altair  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise AtlasError(f"figures need {' and '.join(PACKAGES)}: pip install 'activation-atlas[export]' ({error})") from error


def render_figure(chart: "alt.Chart | alt.LayerChart | alt.FacetChart | alt.ConcatChart", format: str) -> bytes:
    """Render the chart in one of FIGURE_FORMATS. SVG and PNG are the same bytes every time; PDF holds the fonts it uses."""
    return convert_svg(figure_svg(chart), format)


def convert_svg(svg: str, format: str) -> bytes:
    """Convert a chart's SVG to one of FIGURE_FORMATS: rendering takes longer than all conversions, so several formats share it."""
    import vl_convert as vlc

    if format == "pdf":
        return vlc.svg_to_pdf(svg)
    return vlc.svg_to_png(svg, ppi=DPI) if format == "png" else svg.encode()


def figure_svg(chart: "alt.Chart | alt.LayerChart | alt.FacetChart | alt.ConcatChart") -> str:
    """Render the chart as SVG, with all labels in one font."""
    import altair as alt
    import vl_convert as vlc

    # Altair's own limit is for notebooks, which hold a copy of the rows
    with alt.data_transformers.enable("default", max_rows=None):
        described = chart.to_dict()
    return redraw_labels(vlc.vegalite_to_svg(described, allowed_base_urls=[]))
