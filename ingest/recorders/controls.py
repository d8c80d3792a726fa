"""Controls for the values: the token that follows each key's top trigger, and vectors that are not values.

Sources: Geva et al. 2021, section 4 (figure 5); Geva et al. 2022, section 4 (baselines of the concept counts).
"""

from collections.abc import Iterable

import duckdb
import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.models import Model
from ingest.model.ranking import rank_of, top_k
from ingest.recorders.loaded_rows import update_positions, updates
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.recorders.values import CHUNK, N_TOKENS
from ingest.text.survey import select_by_hash
from ingest.timing import fastest_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker


def next_token_rows(model: Model, layer: int, corpus_id: int, neurons: np.ndarray, token_ids: np.ndarray) -> pa.Table:
    """Compute the rows of `next_token_rank`: rank and probability of one token per neuron in softmax(E·value). neurons, token_ids: [n]."""
    values, tokens = model.values(layer), torch.from_numpy(token_ids.astype(np.int64)).to(model.device)
    ranks, probs = [np.empty(0, np.int32)], [np.empty(0, np.float32)]
    for start in range(0, len(neurons), CHUNK):
        part = slice(start, start + CHUNK)
        scores = model.unembed(values[torch.from_numpy(neurons[part].astype(np.int64)).to(model.device)])
        ranks.append(rank_of(scores, tokens[part]).cpu().numpy().astype(np.int32))
        own = scores.gather(1, tokens[part, None])[:, 0]
        probs.append((own - scores.logsumexp(1)).exp().cpu().numpy())
    return pa.table(
        {
            "corpus_id": np.full(len(neurons), corpus_id, np.int32),
            "layer": np.full(len(neurons), layer, np.int16),
            "neuron": neurons.astype(np.int32),
            "token_id": token_ids.astype(np.int32),
            "value_rank": np.concatenate(ranks),
            "value_prob": np.concatenate(probs),
        }
    )


def random_vectors(values: Tensor, layer: int, seed: int, n: int) -> Tensor:
    """Draw n vectors [n, d_model]: each dimension is normal, with its mean and population standard deviation over the layer's values."""
    generator = np.random.default_rng([seed % 2**64, layer])
    normal = torch.from_numpy(generator.standard_normal((n, values.shape[1]))).to(values)
    return values.mean(0) + values.std(0, correction=0) * normal


def control_rows(model: Model, layer: int, control: str, items: np.ndarray, vectors: Tensor) -> pa.Table:
    """Build the rows of `control_token`: the N_TOKENS tokens with the largest raw scores of each vector [n, d_model]. items: number of each vector, [n]."""
    scores, tokens = top_k(model.unembed(vectors), N_TOKENS)
    n, k = tokens.shape
    return pa.table(
        {
            "control": pa.repeat(control, n * k),
            "layer": np.full(n * k, layer, np.int16),
            "item": np.repeat(items.astype(np.int64), k),
            "rank": np.tile(np.arange(1, k + 1, dtype=np.int16), n),
            "token_id": tokens.cpu().numpy().astype(np.int32).ravel(),
            "score": scores.cpu().numpy().ravel(),
        }
    )


N_ITEMS = 10
"""Number of random vectors per layer, and the most FFN updates per layer."""


class ControlToken(Work):
    """Plans and costs of the pass `control_token`."""

    def note(self, basis: Basis) -> str | None:
        return None if len(update_positions(basis.con, 0)) else "note: no FFN updates in control_token: no position is traced; ingest again with --trace"

    def plans(self, basis: Basis) -> Iterable[Plan]:
        seed, n_updates = basis.request.seed, min(N_ITEMS, len(update_positions(basis.con, 0)))
        # what the atlas can give it is a setting, so that a run after a later trace is another run
        settings = {**basis.request.weights_settings(), "seed": seed, "items_per_layer": N_ITEMS, "updates_per_layer": n_updates}

        def jobs(run_id: int, layers: list[int]) -> Iterable[Job]:
            return (job(run_id, layer, compute, layer=layer, seed=seed, **missing_controls(basis.con, layer, seed, n_updates)) for layer in layers)

        yield Plan(settings, [1] * basis.model.n_layers, "layers", jobs)

    def rows(self, sample: CostSample) -> dict[str, int]:
        n_traced = len(sample.seen.sample) if sample.seen else 0
        return {"control_token": sample.model.n_layers * (N_ITEMS + min(N_ITEMS, n_traced)) * min(N_TOKENS, sample.model.d_vocab)}

    def seconds(self, sample: CostSample) -> float:
        return sample.model.n_layers * fastest_seconds(lambda: random_rows(sample.model, 0, 0))


def missing_controls(con: duckdb.DuckDBPyConnection, layer: int, seed: int, n_updates: int) -> dict[str, object]:
    """Find a layer's controls that the atlas lacks.

    Returns whether the atlas already has the random vectors, and position_ids [n] and vectors [n, d_model] of the FFN updates (ffn_out) to add.
    """
    there = {c for (c,) in con.execute("SELECT DISTINCT control FROM control_token WHERE layer = ?", [layer]).fetchall()}
    chosen = select_by_hash(seed, layer, update_positions(con, layer), 0 if "ffn_update" in there else n_updates)
    return {"has_vectors": "random_vector" in there, "position_ids": chosen, "vectors": updates(con, layer, chosen)}


def compute(worker: Worker, progress: Progress, *, layer: int, seed: int, has_vectors: bool, position_ids: np.ndarray, vectors: np.ndarray) -> Tables:
    rows = [] if has_vectors else [random_rows(worker.model, layer, seed)]
    if len(position_ids):
        rows.append(control_rows(worker.model, layer, "ffn_update", position_ids, torch.from_numpy(vectors).to(worker.model.device)))
    progress(1)
    return {"control_token": pa.concat_tables(rows)} if rows else {}


def random_rows(model: Model, layer: int, seed: int) -> pa.Table:
    """Build the rows of a layer's random vectors."""
    return control_rows(model, layer, "random_vector", np.arange(N_ITEMS), random_vectors(model.values(layer), layer, seed, N_ITEMS))
