"""The map: where a layout puts each vector in two dimensions."""

from sqlalchemy import REAL, BigInteger, Integer, MetaData, SmallInteger, String

from schema import terms
from schema.columns import FilledBy, column, one_of, table

ORDER = 100
MAP = FilledBy("map", "--model … --map", unit="points", counted="SELECT count(*) FROM map_point AS m WHERE m.run_id = r.run_id")


def tables(m: MetaData, _: int) -> None:
    coordinate = "coordinate, of no unit: only who lies near whom means something"
    table(
        "map_point",
        m,
        column("run_id", Integer, "The map run that made the layout; of several layouts of one kind the last counts.", "run.run_id"),
        column("layout", String, "What is placed: value, the values of all layers; resid_post, the states of traced positions there, at all layers."),
        column("layer", SmallInteger, "Transformer block of the value or state, counted from 0."),
        column("neuron", Integer, "Neuron of the value; null for states.", null=True),
        column("position_id", BigInteger, "Traced position of the state; null for values.", "position.position_id", null=True),
        column("x", REAL, f"Horizontal {coordinate}."),
        column("y", REAL, f"Vertical {coordinate}."),
        one_of("layout", terms.LAYOUTS),
        comment="Values, and states of traced positions, placed in the plane so that near ones by cosine lie near each other (UMAP).",
        grain=("run_id", "layout", "layer", "neuron", "position_id"),
        sort=("run_id", "layout", "layer", "neuron", "position_id"),
        filled_by=MAP,
        bytes_a_row=14,
    )
