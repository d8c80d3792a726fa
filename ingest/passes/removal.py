"""Triggers read again without one token of their prefix (Geva et al. 2021, figure 3): one shard a layer."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from ingest.passes.base import Basis, Plan, PlannedPass, Probe, flag

if TYPE_CHECKING:
    from ingest.recorders.removal import Trigger
    from ingest.request import Request
    from ingest.text.survey import Survey
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker

N_TRIGGERS = 50


class Removal(PlannedPass):
    name = "removal"
    after = ("sweep",)
    reads = ("trigger", "position", "sequence", "removal")
    needs_corpus = True
    options = (
        flag("removal", "Read triggers again without their first, their last or a random token (part of --paper)."),
        click.Option(["--paper-keys"], type=click.IntRange(1), default=100, show_default=True, help="Keys of each layer whose triggers --paper reads again."),
    )

    def is_wanted(self, request: "Request") -> bool:
        return request.corpus is not None and bool(request.options["removal"])

    def note(self, basis: Basis) -> str | None:
        return None if known_k(basis) else "note: no removal: this corpus has no finished sweep (--triggers); ask again when it has"

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.workers.pool import job

        k, request = known_k(basis), basis.request
        if not k or basis.text is None:
            return
        corpus_id = basis.text.corpus_id
        settings = {
            **request.weights_settings(),
            "seed": request.seed,
            "batch_size": request.batch_size,
            "keys_per_layer": request.options["paper_keys"],
            "triggers_per_key": min(N_TRIGGERS, k),
        }
        # the forward pass of a layer's shard ends there
        amounts = range(1, basis.model.n_layers + 1)
        of = {"corpus_id": corpus_id, "seed": request.seed, "batch_tokens": request.batch_tokens}

        def jobs(run_id: int, layers: list[int]) -> "Iterable[Job]":
            return (job(run_id, i, compute, layer=i, triggers=triggers_of(basis, settings, corpus_id, i), cost=amounts[i], **of) for i in layers)

        yield Plan(settings, amounts, "layers", jobs, corpus_id)

    def rows(self, probe: Probe) -> dict[str, int]:
        """At most: short prefixes have none."""
        from schema.terms import REMOVALS

        if probe.seen is None:
            return {}
        return {"removal": probe.model.n_layers * n_reread(probe, probe.seen) * len(REMOVALS)}

    def seconds(self, probe: Probe) -> float:
        from ingest.recorders.removal import read_ends
        from ingest.timing import fastest

        if probe.seen is None:
            return 0.0
        texts, last = {tuple(s.token_ids.tolist()) for s in probe.batch}, probe.model.n_layers - 1
        batch_tokens = probe.request.batch_tokens
        forward = fastest(lambda: read_ends(probe.model, last, texts, [0], batch_tokens, lambda _: None)) / sum(map(len, texts))
        return forward * reread_tokens(n_reread(probe, probe.seen), probe.seen) * (probe.model.n_layers + 1) / 2


def compute(
    worker: "Worker", progress: "Progress", *, cost: float, layer: int, corpus_id: int, triggers: "list[Trigger]", seed: int, batch_tokens: int
) -> "Tables":
    from ingest.recorders.removal import removal_rows
    from ingest.workers.worker import report_shares

    rows = report_shares(lambda share: removal_rows(worker.model, layer, corpus_id, triggers, seed, batch_tokens, share), progress, cost)
    return {"removal": rows} if len(rows) else {}


def known_k(basis: Basis) -> int:
    """Triggers of each key that a finished sweep of the text has kept; 0 without one."""
    if basis.text is None:
        return 0
    sql = "SELECT (settings ->> 'triggers')::INTEGER FROM run WHERE kind = 'sweep' AND corpus_id = ? AND status = 'finished'"
    return next((k for (k,) in basis.con.execute(sql, [basis.text.corpus_id]).fetchall()), 0)


def triggers_of(basis: Basis, settings: dict, corpus_id: int, layer: int) -> "list[Trigger]":
    """What is to be read again of a layer: the top triggers of seeded keys that the atlas has no removals of."""
    import numpy as np

    from ingest.recorders.reads import prefixed, top_triggers
    from ingest.text.survey import smallest

    sampled = smallest(settings["seed"], layer, np.arange(basis.model.d_ffn), settings["keys_per_layer"])
    known = {n for (n,) in basis.con.execute("SELECT DISTINCT neuron FROM removal WHERE corpus_id = ? AND layer = ?", [corpus_id, layer]).fetchall()}
    found = top_triggers(basis.con, corpus_id, layer, settings["triggers_per_key"])
    wanted = np.isin(found["neuron"], [n for n in sampled if n not in known])
    return prefixed(basis.con, {name: column[wanted] for name, column in found.items()})


def n_reread(probe: Probe, seen: "Survey") -> int:
    """Triggers of a layer that are read again, at most: those with one token before them are left out."""
    options = probe.request.options
    return min(options["paper_keys"], probe.model.d_ffn) * min(N_TRIGGERS, options["triggers"], seen.n_positions)


def reread_tokens(n: int, seen: "Survey") -> float:
    """Tokens of a layer's forward passes for n triggers, in the mean half-way through their sequences. All prefixes of a sequence share
    the passes without their first and their last token; those without a random one share none."""
    of_each = n * seen.n_positions / seen.n_sequences / 2
    return of_each + 2 * min(of_each, seen.n_positions)


PASS = Removal()
