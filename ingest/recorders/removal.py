"""Triggers read again without one token of their prefix (Geva et al. 2021, figure 3)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch

from ingest.model.device import in_parts
from ingest.model.hooks import read_layer
from ingest.model.models import Model
from ingest.recorders.reading import batches
from ingest.text.survey import hashes
from schema.terms import REMOVALS

Tokens = tuple[int, ...]

PAD = 0


@dataclass(frozen=True)
class Trigger:
    """A trigger of the tail max. token_ids: its prefix, from the start of the sequence to the trigger's own token; has_bos: the first is BOS."""

    neuron: int
    rank: int
    position_id: int
    token_ids: Tokens
    has_bos: bool


def removal_rows(
    model: Model, layer: int, corpus_id: int, triggers: list[Trigger], seed: int, batch_tokens: int, progress: Callable[[float], None]
) -> pa.Table:
    """Rows of `removal` for triggers of one layer. batch_tokens: tokens of a forward pass, padding included; progress: called with shares of the whole."""
    kept = [t for t in triggers if len(t.token_ids) - t.has_bos >= 2]
    places = random_places(kept, seed)
    edited = [(t, word, shortened(t, word, place)) for t, place in zip(kept, places, strict=True) for word in REMOVALS]
    neurons = sorted({t.neuron for t in kept})
    column = {neuron: i for i, neuron in enumerate(neurons)}
    read = read_ends(model, layer, {tokens for _, _, tokens in edited}, neurons, batch_tokens, progress)
    n = len(edited)
    return pa.table(
        {
            "corpus_id": np.full(n, corpus_id, np.int32),
            "layer": np.full(n, layer, np.int16),
            "neuron": np.array([t.neuron for t, _, _ in edited], np.int32),
            "rank": np.array([t.rank for t, _, _ in edited], np.int16),
            "removed": pa.array([word for _, word, _ in edited], pa.string()),
            "coefficient": np.array([read[tokens][column[t.neuron]] for t, _, tokens in edited], np.float32),
        }
    )


def random_places(triggers: list[Trigger], seed: int) -> np.ndarray:
    """Index, from 0, of the token to leave out of each prefix, BOS not counted: uniform, by hash of (seed, position).

    The same prefix loses the same token in every layer and for every key, so that layers are compared on the same texts.
    """
    lengths = np.array([len(t.token_ids) - t.has_bos for t in triggers], np.uint64)
    return (hashes(seed, 0, np.array([t.position_id for t in triggers], np.int64)) % lengths).astype(np.int64)


def shortened(trigger: Trigger, removed: str, place: int) -> Tokens:
    """The prefix without its first, its last or the token at `place`; BOS stays, and does not count."""
    index = {"first": 0, "last": len(trigger.token_ids) - trigger.has_bos - 1, "random": int(place)}[removed] + trigger.has_bos
    return trigger.token_ids[:index] + trigger.token_ids[index + 1 :]


def read_ends(
    model: Model, layer: int, texts: set[Tokens], neurons: list[int], batch_tokens: int, progress: Callable[[float], None]
) -> dict[Tokens, np.ndarray]:
    """Coefficients of some neurons at the last token of each text: text → [n_neurons] float32.

    Attention is causal, so a text that begins another is read within it: of all triggers in one sequence only the longest
    prefix costs a forward pass.
    """
    found: dict[Tokens, np.ndarray] = {}
    hosted = hosts(texts)
    total, chosen = sum(len(host) for host in hosted), torch.tensor(neurons, dtype=torch.int64)

    def read(part: tuple[Tokens, ...]) -> dict[Tokens, np.ndarray]:
        ids = torch.full((len(part), max(map(len, part))), PAD)
        for row, host in enumerate(part):
            ids[row, : len(host)] = torch.tensor(host)
        coefficients = read_layer(model, layer, ids)
        ends = coefficients[..., chosen.to(coefficients.device)].float().cpu().numpy()
        progress(sum(map(len, part)) / total)
        return {text: ends[row, len(text) - 1] for row, host in enumerate(part) for text in hosted[host]}

    for batch in batches(sorted(hosted), batch_tokens, len):
        for ends in in_parts(model, batch, len, read):
            found |= ends
    return found


def hosts(texts: set[Tokens]) -> dict[Tokens, list[Tokens]]:
    """The texts that begin no other, each with those it begins with (itself among them)."""
    found: dict[Tokens, list[Tokens]] = {}
    host: Tokens = ()
    # whatever a text begins stands right behind it in this order
    for text in sorted(texts, reverse=True):
        if host[: len(text)] != text:
            host = text
            found[host] = []
        found[host].append(text)
    return found
