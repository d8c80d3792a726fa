"""Triggers read again without one token."""

from sqlalchemy import REAL, MetaData, SmallInteger, String

from schema import terms
from schema.columns import FilledBy, column, corpus_id, layer, neuron, one_of, table

ORDER = 60
REMOVAL = FilledBy("removal", "--model … --corpus … --paper")


def tables(m: MetaData, _: int) -> None:
    table(
        "removal",
        m,
        corpus_id(),
        layer(),
        neuron(),
        column("rank", SmallInteger, "Rank of the trigger in the tail max, from 1; table trigger has its coefficient before the removal."),
        column("removed", String, "Which token of the prefix was left out: the first, the last or a random one; BOS stays."),
        column("coefficient", REAL, "m_i at the last token of what is left of the prefix, read alone."),
        one_of("removed", terms.REMOVALS),
        comment="Triggers read again without one token (Geva et al. 2021, figure 3), for a seeded sample of keys; prefixes of one token are left out.",
        grain=("corpus_id", "layer", "neuron", "rank", "removed"),
        sort=("corpus_id", "layer", "neuron", "rank", "removed"),
        filled_by=REMOVAL,
        bytes_a_row=6,
    )
