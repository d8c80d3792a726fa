"""Differences between two sentences of a test, at the position where they are compared: in every neuron's sub-update, and in the prediction."""

from collections.abc import Iterator
from math import log

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.hooks import LayerRecord
from ingest.model.models import Model
from ingest.recorders.base import Batch


class SignedNorms:
    """Recorder of m_i·‖v_i‖ of every neuron at sampled positions, times the scale of the norm after the FFN, if there is one.

    found: position_id → [n_layers, d_ffn] float32.
    """

    sites = frozenset({"coefficient", "ffn_scale"})

    def __init__(self, model: Model, value_norms: Tensor) -> None:
        self.n_layers, self.value_norms = model.n_layers, value_norms
        self.found: dict[int, np.ndarray] = {}
        self.layers: list[Tensor] = []
        self.batch: Batch | None = None

    def begin(self, batch: Batch) -> None:
        self.batch, self.layers = batch, []

    def take(self, layer: int, record: LayerRecord) -> None:
        self.layers.append(record["coefficient"].float() * self.value_norms[layer] * record["ffn_scale"].float()[:, None])
        if layer == self.n_layers - 1 and self.batch is not None:
            self.found |= zip(self.batch.position_ids.tolist(), torch.stack(self.layers, 1).cpu().numpy(), strict=True)
            self.layers = []


class LastPredictions:
    """Recorder of the log-probability of every token after sampled positions. found: position_id → [d_vocab] float64."""

    sites = frozenset({"resid_post"})

    def __init__(self, model: Model) -> None:
        self.model = model
        self.found: dict[int, np.ndarray] = {}
        self.batch: Batch | None = None

    def begin(self, batch: Batch) -> None:
        self.batch = batch

    def take(self, layer: int, record: LayerRecord) -> None:
        if layer == self.model.n_layers - 1 and self.batch is not None:
            logits = self.model.lens(record["resid_post"].to(self.model.device))
            self.found |= zip(self.batch.position_ids.tolist(), logits.double().log_softmax(-1).cpu().numpy(), strict=True)


class Contrast:
    """Mean, standard deviation and mean absolute value of each neuron's difference, over pairs of sentences. The sums are [n_layers, d_ffn] float64."""

    def __init__(self, n_layers: int, d_ffn: int) -> None:
        self.n, self.total, self.square, self.size = 0, *(np.zeros((n_layers, d_ffn)) for _ in range(3))

    def add(self, difference: np.ndarray) -> None:
        exact = difference.astype(np.float64)
        self.n += 1
        self.total += exact
        self.square += exact**2
        self.size += np.abs(exact)

    def columns(self) -> Iterator[tuple[str, np.ndarray]]:
        n_layers, d_ffn = self.total.shape
        mean = self.total / self.n
        yield "layer", np.repeat(np.arange(n_layers, dtype=np.int16), d_ffn)
        yield "neuron", np.tile(np.arange(d_ffn, dtype=np.int32), n_layers)
        yield "n_items", np.full(n_layers * d_ffn, self.n, np.int32)
        yield "mean", mean.ravel().astype(np.float32)
        yield "std", np.sqrt(np.maximum(self.square / self.n - mean**2, 0)).ravel().astype(np.float32)
        yield "mean_absolute", (self.size / self.n).ravel().astype(np.float32)


def contrast_rows(contrast: Contrast, corpus_id: int, suite: str, paradigm: str) -> pa.Table:
    """Build the rows of `neuron_contrast`."""
    n = contrast.total.size
    of = {"corpus_id": np.full(n, corpus_id, np.int32), "suite": pa.repeat(suite, n), "paradigm": pa.repeat(paradigm, n)}
    return pa.table({**of, **dict(contrast.columns())})


def divergence(one: np.ndarray, other: np.ndarray) -> float:
    """Compute the Jensen-Shannon divergence of two distributions from their log-probabilities, in nats (Lin 1991)."""
    middle = np.logaddexp(one, other) - log(2)
    return float(max(0.0, (np.exp(one) @ (one - middle) + np.exp(other) @ (other - middle)) / 2))
