"""Attention heads: their statistics beside a sweep, attribution beside a trace, and the weights pass over the products that it cannot do without."""

import statistics
from collections.abc import Callable, Mapping

import numpy as np
import torch

from ingest.model.folding import folded_heads
from ingest.model.models import Model
from ingest.model.parts import mean_reader
from ingest.model.token_states import CHUNK, TokenStates, of_every_token, states_before
from ingest.recorders.attribution_recorder import AttributionRecorder
from ingest.recorders.base import Recorder
from ingest.recorders.circuits import circuit_tables
from ingest.recorders.directions import N_DIRECTIONS
from ingest.recorders.distances import Distances
from ingest.recorders.heads import CorpusHeadRecorder
from ingest.recorders.reading import pad_sequences, read_batch
from ingest.recorders.torch_keys import new_keys
from ingest.recorders.trace_recorder import TraceRecorder
from ingest.recorders.traces import TraceSettings
from ingest.recorders.triggers import TriggerRecorder
from ingest.recorders.virtual_weights import readers
from schema.terms import HEAD_SIDES, STREAM_SITES
from tests.benchmarks import throughput
from tests.benchmarks.throughput import sequences_of, timed

REPEATS = 3


def in_turn(actions: Mapping[str, Callable[[], object]], first: int) -> dict[str, float]:
    """Seconds of each action, done one after the other from one of them on."""
    names = list(actions)
    start = first % len(names)
    return {name: timed(actions[name]) for name in names[start:] + names[:start]}


def ratios(times: list[dict[str, float]], name: str, over: str) -> str:
    """Median of the rounds' ratios, and the least and the largest."""
    found = [each[name] / each[over] for each in times]
    return f"{statistics.median(found):10.3f} times that ({min(found):.3f} to {max(found):.3f})"


def bench_heads(model: Model) -> None:
    bench_statistics(model)
    bench_attribution(model)
    bench_circuit(model)


def bench_statistics(model: Model) -> None:
    """Bare forward passes, sweeps, and sweeps with what every head looks at, in turn over the same batches."""
    batch, n = throughput.BATCH, throughput.SKIPPED + throughput.MEASURED
    sequences, recorder = sequences_of(model, batch * n), TriggerRecorder(new_keys(model, throughput.K), 0)
    heads, times = CorpusHeadRecorder(model, throughput.CONTEXT, 0), []
    for i in range(n):
        some = tuple(sequences[i * batch : (i + 1) * batch])
        actions = {
            "bare": lambda some=some: model.backbone(pad_sequences(some, model.input_device)[0]),
            "sweep": lambda some=some: list(read_batch(model, [(recorder, None)], some)),
            "heads": lambda some=some: list(read_batch(model, [(recorder, None), (heads, None)], some)),
        }
        times.append(in_turn(actions, i))
    times = times[throughput.SKIPPED :]
    print(f"\n(h) heads: {model.name}, {model.dtype}, {model.device}; medians of rounds, done in turn, with the least and the largest")
    print(f"    a bare forward pass          {statistics.median(each['bare'] for each in times):10.2f} s, batch {batch} x {throughput.CONTEXT}")
    print(f"    sweep and head statistics    {ratios(times, 'heads', 'bare')}")
    print(f"    a sweep                      {statistics.median(each['sweep'] for each in times):10.2f} s")
    print(f"    sweep and head statistics    {ratios(times, 'heads', 'sweep')}; its rate over the sweep's is one over that")


def bench_attribution(model: Model) -> None:
    """Reading the sequences of some sampled positions and tracing these, with and without their predictions as sums and rows of attention."""
    batch = throughput.BATCH
    sequences = sequences_of(model, batch)
    sample = np.array([s.first_position_id + i for s in sequences for i in throughput.SAMPLED])
    value_tops, mean = np.zeros((model.n_layers, model.d_ffn), np.int64), mean_reader(model)

    def read(*others: Recorder) -> None:
        recorders: list[Recorder] = [TraceRecorder(model, value_tops, 0, TraceSettings(STREAM_SITES, 100, 0)), *others]
        list(read_batch(model, [(each, sample) for each in recorders], tuple(sequences)))
        with torch.inference_mode():
            for each in recorders:
                each.tables(lambda _: None)

    actions = {"trace": read, "both": lambda: read(AttributionRecorder(model, 0, mean))}
    times = [in_turn(actions, i) for i in range(REPEATS + 1)][1:]
    print(f"    a trace, its reading too     {1e3 * statistics.median(each['trace'] for each in times) / len(sample):10.1f} ms a position")
    print(f"    trace and attribution        {ratios(times, 'both', 'trace')}")


def bench_circuit(model: Model) -> None:
    """A layer in the middle, and what all layers share, over the largest products of the same matrices with nothing made of them."""
    layer, seen = model.n_layers // 2, Distances(throughput.CONTEXT)
    with torch.inference_mode():
        states = TokenStates(model)
        first, later = (states_before(model, layer, states.norm) for layer in (0, 1))
        tokens_out = of_every_token(model, lambda ids: model.logit_readers(ids.to(model.device)))
        shared = {"products": lambda: shared_products(first, later, tokens_out), "pass": lambda: TokenStates(model)}
        whole = {"products": lambda: layer_products(model, layer, states, tokens_out), "pass": lambda: circuit_tables(model, layer, states, seen)}
        for what, actions in (("what all layers share", shared), ("one layer", whole)):
            times = [in_turn(actions, i) for i in range(REPEATS)]
            print(f"    bare products, {what:22}{statistics.median(each['products'] for each in times):10.2f} s")
            print(f"    circuits, {what:22}     {ratios(times, 'pass', 'products')}")


def shared_products(first: torch.Tensor, later: torch.Tensor, readers: torch.Tensor) -> None:
    """The tokens' five products over the vocabulary, in float64 as there. Each [n_tokens, d_model]."""
    for one, other in ((first, readers), (later, readers), (first, first), (first, later), (later, later)):
        for x, y in zip(one.split(CHUNK), other.split(CHUNK), strict=True):
            x.double().T @ y.double()


def layer_products(model: Model, layer: int, states: TokenStates, tokens_out: torch.Tensor) -> None:
    """Heads with the vocabulary and with the heads of the layers before, singular directions with it, and keys with the values of all other layers."""
    heads, tokens = folded_heads(model, layer), states.sources(layer)
    for w_o in heads.w_o:
        tokens_out @ w_o
    for _ in HEAD_SIDES:
        tokens @ heads.w_v[:, :N_DIRECTIONS].flatten(0, 1).T
    for earlier in range(layer):
        written = folded_heads(model, earlier).w_o.movedim(1, 0).flatten(1)
        for read in (heads.w_q, heads.w_k, heads.w_v) if model.architecture.attention.rotary is None else (heads.w_q, heads.w_k) * 2 + (heads.w_v,):
            read.flatten(0, 1) @ written
    for other in range(model.n_layers):
        for rows in readers(model, max(layer, other)).values() if other != layer else ():
            rows @ model.values(min(layer, other)).T
