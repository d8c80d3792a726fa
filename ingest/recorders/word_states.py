"""States at chosen positions in chosen layers, in an unnamed file, which disappears when the process that opened it ends, even if it is killed."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from ingest.model.hooks import LayerRecord
from ingest.model.loading import attention_code
from ingest.model.models import Model
from ingest.recorders.base import Batch
from ingest.recorders.reading import batches, read_batch
from ingest.text.sequences import Sequence as TokenSequence
from schema.errors import AtlasError

Place = tuple[int, str]
"""Layer and site."""


def places(layers: Sequence[int]) -> list[Place]:
    """List the places of the states that enter the first layer and that leave each of `layers`."""
    return [(0, "resid_pre"), *((layer, "resid_post") for layer in layers)]


class WordStates:
    """Recorder of states at chosen positions, in the places that `places` lists.

    states: [n_places, n_positions, d_model] float16, on disk. position_ids: [n_positions], ascending.
    """

    sites = frozenset({"resid_pre", "resid_post"})

    def __init__(self, model: Model, layers: Sequence[int], position_ids: np.ndarray, folder: Path) -> None:
        self.name, self.position_ids = model.name, position_ids
        self.number = {place: i for i, place in enumerate(places(layers))}
        with TemporaryFile(dir=folder) as file:
            shape = (len(self.number), len(position_ids), model.d_model)
            # the mapping keeps the file, which has no name
            self.states = np.memmap(file, np.float16, "w+", shape=shape)
        self.rows = np.zeros(0, np.int64)

    def begin(self, batch: Batch) -> None:
        self.rows = np.searchsorted(self.position_ids, batch.position_ids)

    def take(self, layer: int, record: LayerRecord) -> None:
        for site in ("resid_pre", "resid_post"):
            if (layer, site) in self.number:
                self.keep(self.number[layer, site], layer, record[site])

    def keep(self, number: int, layer: int, states: Tensor) -> None:
        kept = states.to(torch.float16).cpu().numpy()
        if len(unfit := np.flatnonzero(~np.isfinite(kept).all(1))):
            raise AtlasError(
                f"--probe: the state of {self.name} at position {self.position_ids[self.rows[unfit[0]]]}, layer {layer}, does not fit in float16, whose "
                "largest number is 65,504; leave this layer out (--probe-layers)"
            )
        self.states[number, self.rows] = kept

    def states_at(self, place: Place, position_ids: np.ndarray) -> np.ndarray:
        """Look up the states at some of the positions, [n, d_model] float32."""
        return self.states[self.number[place]][np.searchsorted(self.position_ids, position_ids)].astype(np.float32)


def word_states(
    model: Model, layers: Sequence[int], position_ids: np.ndarray, sequences: Sequence[TokenSequence], batch_tokens: int, folder: Path
) -> WordStates:
    """Record the states at `position_ids`, which are positions of these sequences, ascending and each once."""
    found = WordStates(model, layers, position_ids, folder)
    for _ in read_sequences(model, found, sequences, batch_tokens):
        pass
    return found


def read_sequences(model: Model, found: WordStates, sequences: Sequence[TokenSequence], batch_tokens: int) -> Iterator[tuple[TokenSequence, ...]]:
    for batch in batches(sequences, batch_tokens):
        yield from read_batch(model, [(found, found.position_ids)], batch)


def untrained_model(model: Model, seed: int) -> Model:
    """Build a model of the same architecture with random weights, as they are before training."""
    config = deepcopy(model.hf.config)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made: Any = AutoModelForCausalLM.from_config(config, dtype=model.dtype, attn_implementation=attention_code(config))
    return replace(model, hf=made.to(model.device).eval().requires_grad_(False))


def states_of(
    model: Model, position_ids: np.ndarray, seed: int, kind: str, *, layers: Sequence[int], sequences: Sequence[TokenSequence], batch_tokens: int, folder: Path
) -> dict[str, WordStates]:
    """Record the states of the model, under the name `kind`, and those of the same model with random weights, under the name 'untrained'."""
    # words that are written as one end at one token
    positions = np.unique(position_ids)
    return {
        name: word_states(make(), layers, positions, sequences, batch_tokens, folder)
        for name, make in ((kind, lambda: model), ("untrained", lambda: untrained_model(model, seed)))
    }
