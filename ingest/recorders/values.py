"""Facts about every neuron from the weights alone: norms, cosines, the tokens that its value promotes, its nearest values.

Source: Geva et al. 2021, section 4 (value distributions), and 2022, section 3 (values as concepts in the vocabulary).
"""

from collections.abc import Iterable
from itertools import groupby

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from ingest.model.models import Model
from ingest.model.ranking import top_k
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.timing import measure_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker

N_TOKENS = 30
N_NEIGHBOURS = 20
CHUNK = 256
"""Number of values projected at once, which bounds the memory for their scores over the vocabulary."""


def weight_tables(model: Model, layer: int, unit_values: list[Tensor]) -> dict[str, pa.Table]:
    """Compute the rows of `neuron`, `value_token` and `value_neighbour` for one layer. unit_values: see `all_unit_values`."""
    values, keys, gate = model.values(layer), model.keys(layer), model.gate_keys(layer)
    projected = [project(model, values[i : i + CHUNK]) for i in range(0, len(values), CHUNK)]
    joined = {name: torch.cat([p[name] for p in projected]).cpu().numpy() for name in projected[0]}
    neuron = np.arange(len(values), dtype=np.int32)
    columns = {
        "layer": np.full(len(values), layer, np.int16),
        "neuron": neuron,
        "key_norm": keys.norm(dim=1).cpu().numpy(),
        "gate_norm": None if gate is None else gate.norm(dim=1).cpu().numpy(),
        "value_norm": values.norm(dim=1).cpu().numpy(),
        "key_value_cosine": cosine_similarity(keys, values).cpu().numpy(),
        "gate_value_cosine": None if gate is None else cosine_similarity(gate, values).cpu().numpy(),
        "value_max_prob": joined["max_prob"],
        "value_top_token_id": joined["promoted_token"][:, 0].astype(np.int32),
    }
    empty = pa.nulls(len(values), pa.float32())
    return {
        "neuron": pa.table({name: empty if c is None else c for name, c in columns.items()}),
        "value_token": pa.concat_tables([token_rows(layer, direction, joined) for direction in ("promoted", "suppressed")]),
        "value_neighbour": neighbour_rows(layer, *find_neighbours(layer, unit_values), len(values)),
    }


def project(model: Model, values: Tensor) -> dict[str, Tensor]:
    """Compute scores E·v and softmax of values [n, d_model]; return the top and bottom N_TOKENS of each value, and its largest probability."""
    scores = model.unembed(values)
    promoted, promoted_token = top_k(scores, N_TOKENS)
    # in place from here on: another block of this size costs more to map than to fill
    suppressed, suppressed_token = top_k(scores.neg_(), N_TOKENS)
    largest = promoted[:, :1]
    log_total = largest + scores.add_(largest).neg_().exp_().sum(-1, keepdim=True).log()
    return {
        "promoted_score": promoted, "promoted_token": promoted_token, "promoted_prob": (promoted - log_total).exp(),
        "suppressed_score": -suppressed, "suppressed_token": suppressed_token, "suppressed_prob": (-suppressed - log_total).exp(),
        "max_prob": (promoted[:, 0] - log_total[:, 0]).exp(),
    }  # fmt: skip


def token_rows(layer: int, direction: str, joined: dict[str, np.ndarray]) -> pa.Table:
    n, k = joined[f"{direction}_token"].shape
    return pa.table(
        {
            "layer": np.full(n * k, layer, np.int16),
            "neuron": np.repeat(np.arange(n, dtype=np.int32), k),
            "direction": pa.array([direction]).take(pa.array(np.zeros(n * k, np.int8))),
            "rank": np.tile(np.arange(1, k + 1, dtype=np.int16), n),
            "token_id": joined[f"{direction}_token"].astype(np.int32).ravel(),
            "score": joined[f"{direction}_score"].ravel(),
            "prob": joined[f"{direction}_prob"].ravel(),
        }
    )


def all_unit_values(model: Model) -> list[Tensor]:
    """Divide every value by its length, on the device of its layer; a value of length 0 stays 0.

    Returns one tensor [layers, d_ffn, d_model] for each run of layers on one device.
    """
    return [units_of(model, list(layers), device) for device, layers in groupby(range(model.n_layers), model.layer_device)]


def units_of(model: Model, layers: list[int], device: torch.device) -> Tensor:
    """Divide the values of some layers by their lengths, [layers, d_ffn, d_model], without a second copy in memory."""
    found = torch.empty(len(layers), model.d_ffn, model.d_model, device=device)
    for into, layer in zip(found, layers, strict=True):
        into.copy_(normalize(model.values(layer), dim=1))
    return found


def find_neighbours(layer: int, unit_values: list[Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """Find, for each value of a layer, the N_NEIGHBOURS other values with the largest cosine: cosines and flat indices, [d_ffn, N_NEIGHBOURS]."""
    mine = [values for run in unit_values for values in run][layer]
    d_ffn, n = len(mine), sum(len(run) for run in unit_values) * len(mine)
    cosines, indices = [], []
    for start in range(0, d_ffn, CHUNK):
        part = mine[start : start + CHUNK]
        found = [(part.to(run.device) @ run.flatten(0, 1).T).to(part.device) for run in unit_values]
        similarity = found[0] if len(found) == 1 else torch.cat(found, 1)
        itself = torch.arange(len(similarity), device=part.device)
        similarity[itself, layer * d_ffn + start + itself] = -torch.inf
        best, index = top_k(similarity, min(N_NEIGHBOURS, n - 1))
        cosines.append(best.cpu().numpy())
        indices.append(index.cpu().numpy())
    return np.concatenate(cosines), np.concatenate(indices)


def neighbour_rows(layer: int, cosines: np.ndarray, indices: np.ndarray, d_ffn: int) -> pa.Table:
    n, k = cosines.shape
    return pa.table(
        {
            "layer": np.full(n * k, layer, np.int16),
            "neuron": np.repeat(np.arange(n, dtype=np.int32), k),
            "rank": np.tile(np.arange(1, k + 1, dtype=np.int16), n),
            "neighbour_layer": (indices // d_ffn).astype(np.int16).ravel(),
            "neighbour_neuron": (indices % d_ffn).astype(np.int32).ravel(),
            "cosine": cosines.ravel(),
        }
    )


class Weights(Work):
    """Plans and costs of the pass `weights`."""

    def plans(self, basis: Basis) -> Iterable[Plan]:
        def jobs(run_id: int, layers: list[int]) -> Iterable[Job]:
            return (job(run_id, layer, compute, run_id=run_id, layer=layer) for layer in layers)

        yield Plan(basis.request.weights_settings(), [1] * basis.model.n_layers, "layers", jobs)

    def rows(self, sample: CostSample) -> dict[str, int]:
        neurons = sample.model.n_layers * sample.model.d_ffn
        return {"neuron": neurons, "value_token": 2 * N_TOKENS * neurons, "value_neighbour": N_NEIGHBOURS * neurons}

    def seconds(self, sample: CostSample) -> float:
        units: list = []
        return measure_seconds(lambda: units.extend(all_unit_values(sample.model))) + sample.model.n_layers * measure_seconds(
            lambda: weight_tables(sample.model, 0, units)
        )


def compute(worker: Worker, progress: Progress, *, run_id: int, layer: int) -> Tables:
    tables = weight_tables(worker.model, layer, worker.shared_state(run_id, lambda: all_unit_values(worker.model)))
    progress(1)
    return tables
