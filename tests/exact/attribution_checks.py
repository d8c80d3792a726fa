"""Predictions taken apart, as they are published, against brute force in float64."""

from types import SimpleNamespace

import numpy as np
import torch

from tests.exact.checks import Case
from tests.ingest.parts_checks import Checked, check_all
from tests.ingest.parts_oracle import Oracle

TABLES = ("attribution", "contribution", "neuron_contribution", "attention", "head_activity")
EVERY = 4
"""Of the positions, so many are left to each that is looked at: a position has hundreds of rows."""


def check_attribution(c: Case) -> None:
    oracle = Oracle(SimpleNamespace(hf=c.reference.hf, model_type=c.reference.config.model_type))
    # only eager attention gives its weights
    oracle.hf.set_attn_implementation("eager")
    tables = {}
    for name in TABLES:
        rows = c.traced_rows(name)
        tables[name] = rows.frame
        rows.seen |= {(name, column) for column in rows.frame.columns}
    for name in ("contribution", "neuron_contribution", "attention", "head_activity"):
        assert set(tables[name]["position_id"]) == set(c.traced)
    run_id = int(c.published.rows("SELECT run_id FROM run WHERE kind = 'attribution'")[c.corpus_id][0])
    starts, taken, places = np.cumsum(c.cut.lengths) - c.cut.lengths, {}, {}
    for position in c.activations.kept[::EVERY].tolist():
        number = int(c.cut.sequence[position])
        if number not in taken:
            start = int(starts[number])
            taken[number] = oracle.take(torch.from_numpy(c.cut.token_ids[start : start + c.cut.lengths[number]]).long())
        places[c.base + position] = (taken[number], int(c.cut.index[position]), int(c.cut.next_token_ids[position]))
    check_all(Checked(oracle, tables, places, run_id))


ATTRIBUTION_CHECKS = (check_attribution,)
