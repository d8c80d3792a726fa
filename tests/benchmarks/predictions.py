"""Predictions beside a sweep: with the bare forward pass and its output head, and with the plain sweep; and counting by itself."""

import statistics

import numpy as np
import torch

from ingest.model.hooks import LayerRecord
from ingest.model.models import Model
from ingest.recorders.base import Batch
from ingest.recorders.kneser_ney import count_ngrams, score_documents
from ingest.recorders.predictions import ROWS, PredictionRecorder, word_marks
from ingest.recorders.reading import pad_sequences, read_batch
from ingest.recorders.torch_keys import new_keys
from ingest.recorders.triggers import TriggerRecorder
from tests.benchmarks import throughput
from tests.benchmarks.heads import in_turn, ratios
from tests.benchmarks.throughput import sequences_of, timed

N_COUNTED = 2**21
"""Tokens that are counted, and an eighth of them predicted."""


class HeadAlone:
    """Multiplies the last state with the output embedding, some rows at a time, and keeps nothing."""

    sites = frozenset({"resid_post"})

    def __init__(self, model: Model) -> None:
        self.model, self.logits = model, torch.empty(ROWS, model.d_vocab, device=model.device)

    def begin(self, _: Batch) -> None: ...

    def take(self, layer: int, record: LayerRecord) -> None:
        if layer == self.model.n_layers - 1:
            for states in record["resid_post"].split(ROWS):
                self.model.lens(states, self.logits[: len(states)])


def bench_predictions(model: Model) -> None:
    """Forward passes with their head, sweeps, and sweeps with predictions, in turn over the same batches."""
    batch, n = throughput.BATCH, throughput.SKIPPED + throughput.MEASURED
    sequences, recorder = sequences_of(model, batch * n), TriggerRecorder(new_keys(model, throughput.K), 0)
    predicted, head, times = PredictionRecorder(model, word_marks(model)), HeadAlone(model), []
    for i in range(n):
        some = tuple(sequences[i * batch : (i + 1) * batch])
        actions = {
            "bare": lambda some=some: model.backbone(pad_sequences(some, model.input_device)[0]),
            "head": lambda some=some: list(read_batch(model, [(head, None)], some)),
            "sweep": lambda some=some: list(read_batch(model, [(recorder, None)], some)),
            "both": lambda some=some: list(read_batch(model, [(recorder, None), (predicted, None)], some)),
            "alone": lambda some=some: list(read_batch(model, [(predicted, None)], some)),
        }
        times.append(in_turn(actions, i))
    times = times[throughput.SKIPPED :]
    print(f"\n(p) predictions: {model.name}, {model.dtype}, {model.device}; medians of rounds, done in turn, with the least and the largest")
    print(f"    a forward pass with its head {statistics.median(each['head'] for each in times):10.2f} s, batch {batch} x {throughput.CONTEXT}")
    print(f"    it takes                     {ratios(times, 'head', 'bare')}, of the pass without it")
    print(f"    predictions                  {ratios(times, 'alone', 'head')}")
    print(f"    sweep and predictions        {ratios(times, 'both', 'head')}; its rate over the pass's is one over that")
    print(f"    sweep and predictions        {ratios(times, 'both', 'sweep')}, of the plain sweep")


def bench_counting() -> None:
    """Random tokens as frequent as words are: n-grams of more kinds than a text has."""
    tokens = np.minimum(np.random.default_rng(0).zipf(1.3, N_COUNTED), 2**15).astype(np.int32)
    found: list = []
    counting = timed(lambda: found.append(count_ngrams(np.split(tokens, 2**8), 2**15 + 1)))
    ids = np.arange(N_COUNTED // 8)
    scoring = timed(lambda: score_documents(found[0], [(ids, tokens[: len(ids)])]))
    print(f"    counting {N_COUNTED:,} tokens  {counting:8.1f} s; predicting {len(ids):,} by 3-grams and 5-grams {scoring:.1f} s")
