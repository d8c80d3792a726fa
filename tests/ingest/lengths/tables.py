"""The table of a pass of another distribution."""

from sqlalchemy import REAL, MetaData

from schema.columns import FilledBy, column, layer, position_id, table

ORDER = 1000


def tables(m: MetaData, _: int) -> None:
    table(
        "state_length",
        m,
        position_id(),
        layer(),
        column("length", REAL, "‖resid_post‖, in the units of the residual stream."),
        comment="How long the state of every position is after each layer.",
        grain=("position_id", "layer"),
        sort=("position_id", "layer"),
        filled_by=FilledBy("state_length", "--model … --corpus … --state-length"),
        bytes_a_row=5,
    )
