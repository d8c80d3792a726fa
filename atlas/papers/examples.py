"""Example keys with their triggers, as in table 1 of Geva et al. 2021: one key of each layer, drawn by a hash."""

from typing import TYPE_CHECKING

import polars as pl

from atlas.answers import read_answer
from atlas.cursors import fetch_rows
from atlas.papers.items import Item

if TYPE_CHECKING:
    from atlas.api import Atlas

TRIGGERS = 3
"""Triggers shown of each key."""

KEYS = "SELECT n.layer, arg_min(n.neuron, md5(n.layer || ' ' || n.neuron)) AS neuron FROM neuron AS n GROUP BY n.layer ORDER BY n.layer"

SOURCE = f"""-- of each layer a key drawn by a hash
{KEYS};
-- and of each of them
FROM sequence_triggers(layer, neuron, n := {TRIGGERS}, corpus := $corpus) WHERE coefficient > 0;"""


def examples(a: "Atlas", *, corpus: int | None) -> pl.DataFrame:
    """Find the strongest triggers of one key per layer, at most one a sequence: layer, neuron and the columns of sequence_triggers; no rows for a dead key."""
    found = [
        read_answer(a.con, "sequence_triggers", layer=layer, neuron=neuron, n=TRIGGERS, corpus=corpus)
        .select(pl.lit(layer).alias("layer"), pl.lit(neuron).alias("neuron"), pl.all())
        .filter(pl.col("coefficient") > 0)
        for layer, neuron in fetch_rows(a.con, KEYS)
    ]
    return pl.concat(found) if found else pl.DataFrame()


EXAMPLES = Item(
    "geva2021_table1",
    "Table 1",
    title="Example keys and the texts that trigger them most",
    compute=examples,
    accepts=("corpus",),
    source=SOURCE,
    caption=lambda f: f"The {TRIGGERS} strongest triggers, at most one of a sequence, of a key of each layer, and the token that follows each.",
    n=lambda f: f"{f.n_unique(['layer', 'neuron'])} keys, {f.height} triggers",
    exclusions="other triggers of the same sequence; texts at which the key does not fire (coefficient not above 0)",
    columns={"layer": "layer", "neuron": "neuron", "coefficient": "coefficient", "text_before": "text before", "token": "token", "next_token": "next"},
)
