"""What heads look at, as published, against plain eager attention in float64."""

import numpy as np

from ingest.model.models import wrap
from ingest.recorders.repeated_tokens import N_SEQUENCES, probe_sequences
from schema.terms import PROBES
from tests.exact.checks import Case, equal
from tests.exact.published import Rows
from tests.ingest.head_oracle import check, copied, expected, plain_losses

WINDOWS = {"gemma2": (8, None, 8)}
"""Family of tests/exact/tiny.py → positions that a layer sees, where not all."""

SIZES = {"repeat": (32, 31), "olsson2022": (16, 15)}
"""Tokens of a block in a context of 64, without and with BOS."""


def windows(c: Case) -> list[int | None]:
    return list(WINDOWS.get(c.name, (None,) * c.n_layers))


def dicts(rows: Rows) -> list[dict]:
    """Rows of which every column is looked at."""
    for column in rows.frame.columns:
        rows[column]
    return rows.frame.to_dicts()


def check_head_statistics(c: Case) -> None:
    texts = [part.tolist() for part in np.split(c.cut.token_ids, np.cumsum(c.cut.lengths)[:-1])]
    statistics, distances = dicts(c.corpus_rows("head_statistics")), dicts(c.corpus_rows("attention_distance"))
    check(statistics, distances, expected(c.reference.hf, texts, windows(c)), 1e-5)


def check_head_probe(c: Case) -> None:
    model = wrap(c.reference.hf, c.tokenizer, c.name)
    probed, losses = dicts(c.published.table("head_probe")), dicts(c.published.table("probe_loss"))
    for probe in PROBES:
        # Olsson's probe has a BOS wherever there is one
        start = (0,) if probe == "olsson2022" or c.settings["bos"] is not None else ()
        texts = [s.token_ids.tolist() for s in probe_sequences(model, probe, start, c.settings["seed"])]
        size = SIZES[probe][len(start)]
        equal("tokens of a probe", np.array([len(text) for text in texts]), len(start) + size * (2 if probe == "repeat" else 4))
        assert len(texts) == N_SEQUENCES
        own = [row for row in probed if row["probe"] == probe]
        check(own, [], expected(c.reference.hf, texts, windows(c)), 1e-5)
        wanted = copied(c.reference.hf, texts)
        for i, column in enumerate(("attended_logit", "copying")):
            c.close(column, np.array([row[column] for row in own]), np.array([wanted[row["layer"], row["head"]][i] for row in own]), 1e-5, 1.0)
        of_tokens = plain_losses(c.reference.hf, texts)
        for row in (row for row in losses if row["probe"] == probe):
            first = len(start) + size * (row["block"] - 1)
            own = of_tokens[:, max(first, 1) - 1 : first + size - 1]
            equal("tokens of a loss", np.array([row["n"]]), own.size)
            c.close("loss of a probe", np.array([row["loss"]]), own.mean()[None], 1e-5)


HEAD_CHECKS = (check_head_statistics, check_head_probe)
