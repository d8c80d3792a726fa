"""Random tokens that repeat, and what heads and the model make of them (Elhage et al. 2021; Olsson et al. 2022)."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from ingest.model.hooks import LayerRecord
from ingest.model.models import Model
from ingest.recorders.base import Batch
from ingest.recorders.copying import CopyingRecorder
from ingest.recorders.heads import HeadRecorder
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.recorders.reading import n_tokens, read_batch
from ingest.text.sequences import NO_NEXT_TOKEN, Sequence, bos_token
from ingest.text.survey import hashes
from ingest.text.tokens import token_rows
from ingest.timing import measure_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker
from schema.errors import AtlasError
from schema.terms import PROBES

N_SEQUENCES = 10

SHAPES = dict(zip(PROBES, ((50, 2), (25, 4)), strict=True))
"""Tokens of a block, and how often it is read. Shorter blocks where the model's context has no room for them."""


def probe_tables(model: Model, probe: str, bos: str, seed: int) -> Tables:
    """Rows of `head_probe` and `probe_loss`. bos: the rule by which sequences of a corpus begin, one of BOS_RULES or a token's name."""
    start = start_tokens(model, probe, bos)
    sequences = probe_sequences(model, probe, start, seed)
    length = n_tokens(sequences[0])
    heads, copies, losses = HeadRecorder(model, length), CopyingRecorder(model), LossRecorder(model)
    list(read_batch(model, [(each, None) for each in (heads, copies, losses)], sequences))
    columns, n_times = {**heads.statistics(), **copies.columns(len(sequences) * (length - 1))}, SHAPES[probe][1]
    # the first token of all is from nothing; BOS belongs to no block
    blocks = (np.arange(1, length) - len(start)) * n_times // (length - len(start)) + 1
    seen = np.stack([losses.found[s.sequence_id] for s in sequences])
    each = [seen[:, blocks == block] for block in range(1, n_times + 1)]
    return {
        "head_probe": pa.table({"probe": [probe] * len(columns["layer"]), **columns}),
        "probe_loss": pa.table(
            {
                "probe": [probe] * n_times,
                "block": np.arange(1, n_times + 1, dtype=np.int16),
                "loss": np.array([x.mean() for x in each], np.float32),
                "n": np.array([x.size for x in each], np.int64),
            }
        ),
    }


def start_tokens(model: Model, probe: str, bos: str) -> tuple[int, ...]:
    """Choose what comes before the first block: BOS as in a corpus; in Olsson's probe wherever the tokenizer has one."""
    token = model.tokenizer.bos_token_id if probe == "olsson2022" else bos_token(model.tokenizer, bos)
    return () if token is None else (token,)


def probe_sequences(model: Model, probe: str, start: tuple[int, ...], seed: int) -> tuple[Sequence, ...]:
    """Sequences of one block of different tokens, read again and again. Blocks are drawn by a hash of (seed, sequence, token) among tokens that are
    not special. Raises AtlasError where the model has no room for blocks of two tokens, or no two such tokens."""
    size, n_times = SHAPES[probe]
    tokens = np.flatnonzero(~token_rows(model.tokenizer, model.n_embeddings)["is_special"].to_numpy())
    room = len(tokens) if model.max_context is None else min(len(tokens), (model.max_context - len(start)) // n_times)
    size = min(size, room)
    if size < 2:
        raise AtlasError(f"model {model.name}: the probe {probe} needs two tokens {n_times} times; context {model.max_context}, {len(tokens)} tokens")
    found = []
    for i in range(N_SEQUENCES):
        block = tokens[np.argsort(hashes(seed, i, tokens), kind="stable")[:size]]
        ids = np.array([*start, *np.tile(block, n_times)], np.int32)
        nowhere = np.zeros(len(ids), np.int32)
        found.append(Sequence(i, 0, i * len(ids), ids, np.append(ids[1:], np.int32(NO_NEXT_TOKEN)), nowhere, nowhere))
    return tuple(found)


class LossRecorder:
    """Negative log-probability, in nats, of each token of each sequence but the first. found: sequence_id → [n - 1] float32."""

    sites = frozenset({"resid_post"})

    def __init__(self, model: Model) -> None:
        self.model = model
        self.found: dict[int, np.ndarray] = {}
        self.sequences: tuple[Sequence, ...] = ()

    def begin(self, batch: Batch) -> None:
        self.sequences = batch.sequences

    def take(self, layer: int, record: LayerRecord) -> None:
        if layer < self.model.n_layers - 1:
            return
        states = record["resid_post"].to(self.model.device).unflatten(0, (len(self.sequences), -1))
        for s, state in zip(self.sequences, states, strict=True):
            log_probs = self.model.lens(state[: n_tokens(s) - 1]).log_softmax(-1).cpu().numpy()
            self.found[s.sequence_id] = -log_probs[np.arange(n_tokens(s) - 1), s.token_ids[1:]]


class HeadProbe(Work):
    """Plans and costs of the pass `head_probe`."""

    def plans(self, basis: Basis) -> Iterable[Plan]:
        request = basis.request
        of = {"bos": request.bos, "seed": request.seed}

        def jobs(run_id: int, probes: list[int]) -> Iterable[Job]:
            return (job(run_id, i, compute, probe=PROBES[i], **of) for i in probes)

        yield Plan({**request.weights_settings(), **of}, [1] * len(PROBES), "probes", jobs)

    def rows(self, probe: CostSample) -> dict[str, int]:
        n_blocks = sum(n_times for _, n_times in SHAPES.values())
        return {"head_probe": len(PROBES) * probe.model.n_layers * probe.model.n_heads, "probe_loss": n_blocks}

    def seconds(self, probe: CostSample) -> float:
        return len(PROBES) * measure_seconds(lambda: probe_tables(probe.model, PROBES[0], probe.request.bos, probe.request.seed))


def compute(worker: Worker, progress: Progress, *, probe: str, bos: str, seed: int) -> Tables:
    tables = probe_tables(worker.model, probe, bos, seed)
    progress(1)
    return tables
