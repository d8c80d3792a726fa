"""Circuits computed from the weights: those of every head, and those of neurons that read what other neurons write. One shard per layer."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from torch import Tensor

from ingest.model.folding import folded_heads
from ingest.model.models import Model
from ingest.model.token_states import TokenStates
from ingest.recorders.composition import composition_rows, ov_write_factor, readings, squares
from ingest.recorders.directions import N_DIRECTIONS, N_ENDS, direction_tables
from ingest.recorders.distances import Distances, are_named, distance_settings, distances_of, read_context
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.recorders.spectra import eigenvalue_rows, own_first_shares, ratio, spectra
from ingest.recorders.virtual_weights import N_KEPT, virtual_weight_tables
from ingest.store.register import settings_of
from ingest.timing import measure_seconds
from ingest.workers.memory import apply_mmap_threshold, trim_heap
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker
from schema.terms import COMPOSITIONS, HEAD_CIRCUITS, HEAD_SIDES, HEAD_SPECTRA, TAILS

N_SOURCES = 500
"""Number of tokens over which head.own_first_share is computed."""

LARGEST = 2**31 - 1
"""Largest number that an INTEGER column can hold. A wider window is stored as this number."""

MAPPED = 1 << 22
"""Bytes from which an array is mapped outside the heap. In a model of 1B parameters most arrays have 8 to 33 MB, and would leave holes in the heap."""


class Circuit(Work):
    """Plans and costs of the pass `circuit`."""

    def note(self, basis: Basis) -> str | None:
        begun = settings_of(basis.con, "circuit")
        if begun is None or are_named(distance_settings(basis.con, basis.model, basis.request.context), begun):
            return None
        return "note: the atlas already has circuits with other distances (see the settings of their run); for those of this ingest, ingest into a new file"

    def plans(self, basis: Basis) -> Iterable[Plan]:
        # a run that goes on has the distances that it began with
        settings = settings_of(basis.con, "circuit") or {
            **basis.request.weights_settings(),
            **distance_settings(basis.con, basis.model, basis.request.context),
        }

        def jobs(run_id: int, layers: list[int]) -> Iterable[Job]:
            return (
                job(run_id, layer, compute, run_id=run_id, layer=layer, distances=distances_of(basis.con, basis.model, settings, layer)) for layer in layers
            )

        yield Plan(settings, [1] * basis.model.n_layers, "layers", jobs)

    def rows(self, sample: CostSample) -> dict[str, int]:
        n_layers, n_heads, d_head = sample.model.n_layers, sample.model.n_heads, sample.model.d_head
        heads, directions = n_layers * n_heads, min(N_DIRECTIONS, d_head)
        neurons = n_layers * sample.model.d_ffn * (4 if sample.model.is_gated else 2)
        return {
            "head": heads,
            "head_eigenvalue": heads * d_head * len(HEAD_SPECTRA),
            "head_direction": heads * len(HEAD_CIRCUITS) * directions,
            "head_direction_token": heads * len(HEAD_SIDES) * directions * len(TAILS) * N_ENDS,
            "composition": n_layers * (n_layers - 1) // 2 * n_heads**2 * len(COMPOSITIONS),
            "virtual_weight": neurons * N_KEPT,
            "virtual_weight_total": neurons,
        }

    def seconds(self, sample: CostSample) -> float:
        found: list = []
        distances = Distances(read_context(sample.model, sample.request.context))
        # what a layer costs grows with the layers before it
        return measure_seconds(lambda: found.append(TokenStates(sample.model))) + sample.model.n_layers * measure_seconds(
            lambda: circuit_tables(sample.model, sample.model.n_layers // 2, found[0], distances)
        )


def compute(worker: Worker, progress: Progress, *, run_id: int, layer: int, distances: Distances | None) -> Tables:
    with apply_mmap_threshold(MAPPED):
        tables = circuit_tables(worker.model, layer, worker.shared_state(run_id, lambda: TokenStates(worker.model)), distances)
    progress(1)
    return tables


def circuit_tables(model: Model, layer: int, states: TokenStates, distances: Distances | None) -> Tables:
    composed = {"composition": composition_rows(model, layer, states, distances)}
    tables = head_tables(model, layer, states) | composed | direction_tables(model, layer, states)
    # products with the vocabulary leave 0.6 GB in the heap of a model of 1B parameters, in which those of neurons find no room
    trim_heap()
    return tables | virtual_weight_tables(model, layer)


def head_tables(model: Model, layer: int, states: TokenStates) -> dict[str, pa.Table]:
    """Compute the rows of `head` and `head_eigenvalue` of one layer."""
    heads = folded_heads(model, layer)
    found = spectra(heads, states, layer)
    n, window = model.n_heads, model.attention(layer).window(model.hf.config, layer)
    ratios = {name: ratio(values).astype(np.float32) for name, values in found.items()}
    columns = {
        "layer": np.full(n, layer, np.int16),
        "head": np.arange(n, dtype=np.int16),
        "kv_head": (np.arange(n) // (n // model.n_kv_heads)).astype(np.int16),
        "window_size": pa.array([window and min(window, LARGEST)] * n, pa.int32()),
        "qk_norm": lengths(readings(heads, heads.w_q, heads.w_k)["k"]),
        "ov_norm": lengths(ov_write_factor(heads)),
        "bias_norm": heads.constant.norm(dim=-1).cpu().numpy(),
        "copying_token": ratios["ov_token"],
        "copying_effective": ratios["ov_effective"],
        "copying_uncentred": ratios["uncentred"],
        "stream_ratio": ratios["stream"],
        "matching": ratios["matching"],
        "own_first_share": own_first_shares(heads, states, layer, N_SOURCES),
    }
    return {"head": pa.table(columns), "head_eigenvalue": eigenvalue_rows(layer, {name: found[name] for name in HEAD_SPECTRA})}


def lengths(products: Tensor) -> np.ndarray:
    """Compute the Frobenius norm of each product, [n, …, …] to [n] float32."""
    return squares(products).sqrt().float().cpu().numpy()
