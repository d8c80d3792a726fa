"""A table of another distribution, which a pass `noise` fills."""

from sqlalchemy import REAL, MetaData

from schema.columns import FilledBy, column, layer, probability, table

NOISE = FilledBy("noise", "--model … --noise")


def tables(m: MetaData, _: int) -> None:
    table(
        "noise_level",
        m,
        layer(),
        column("level", REAL, "Standard deviation of the noise, in the units of the residual stream."),
        probability("share", "Share of the tokens that it changes, in [0, 1]."),
        comment="How much noise a layer stands.",
        grain=("layer",),
        sort=("layer",),
        filled_by=NOISE,
        bytes_a_row=6,
    )
