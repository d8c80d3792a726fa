"""Rank of the token after each key's top trigger among the tokens that the key's value promotes (Geva et al. 2021, figure 5); one shard per layer."""

from collections.abc import Iterable

import numpy as np

from ingest.recorders.controls import next_token_rows
from ingest.recorders.loaded_rows import top_triggers
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.recorders.removal import known_k
from ingest.recorders.values import CHUNK
from ingest.timing import fastest_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker


class NextTokenRank(Work):
    """Plans and costs of the pass `next_token_rank`."""

    def note(self, basis: Basis) -> str | None:
        return None if known_k(basis) else "note: no next_token_rank: this corpus has no finished sweep; ingest again with a sweep (--triggers)"

    def plans(self, basis: Basis) -> Iterable[Plan]:
        if not known_k(basis) or basis.text is None:
            return
        corpus_id = basis.text.corpus_id

        def jobs(run_id: int, layers: list[int]) -> Iterable[Job]:
            for layer in layers:
                neurons, tokens = tokens_after_triggers(basis, corpus_id, layer)
                yield job(run_id, layer, compute, layer=layer, corpus_id=corpus_id, neurons=neurons, next_token_ids=tokens)

        yield Plan(basis.request.weights_settings(), [1] * basis.model.n_layers, "layers", jobs, corpus_id)

    def rows(self, sample: CostSample) -> dict[str, int]:
        """Return an upper bound on the rows: triggers at the end of a document have none."""
        return {"next_token_rank": sample.model.n_layers * sample.model.d_ffn if sample.request.options["triggers"] else 0}

    def seconds(self, sample: CostSample) -> float:
        few = np.arange(min(CHUNK, sample.model.d_ffn))
        each = fastest_seconds(lambda: next_token_rows(sample.model, 0, 0, few, np.zeros(len(few)))) / len(few) if sample.request.options["triggers"] else 0.0
        return each * sample.model.n_layers * sample.model.d_ffn


def compute(worker: Worker, progress: Progress, *, layer: int, corpus_id: int, neurons: np.ndarray, next_token_ids: np.ndarray) -> Tables:
    rows = next_token_rows(worker.model, layer, corpus_id, neurons, next_token_ids)
    progress(1)
    return {"next_token_rank": rows} if len(rows) else {}


def tokens_after_triggers(basis: Basis, corpus_id: int, layer: int) -> tuple[np.ndarray, np.ndarray]:
    """Read the neurons of a layer whose top trigger a token follows, and that token, [n] each; empty if the atlas already has the layer's ranks."""
    has_ranks = basis.con.execute("SELECT count(*) FROM next_token_rank WHERE corpus_id = ? AND layer = ?", [corpus_id, layer]).fetchall() != [(0,)]
    found = top_triggers(basis.con, corpus_id, layer, 0 if has_ranks else 1)
    is_followed = found["next_token_id"] >= 0
    return found["neuron"][is_followed], found["next_token_id"][is_followed]
