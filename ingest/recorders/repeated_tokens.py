"""Probes with repeated random tokens: where heads look, and how well the model predicts (Elhage et al. 2021; Olsson et al. 2022).

Copying (Olsson et al. 2022) is whether heads raise the logits of the tokens that they look at. It is computed directly from what the heads write. The logits
are those of the tokens of a sequence, less the vocabulary's mean logit, with the final norm's scale frozen and before a soft-cap.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.hooks import PATTERN, LayerRecord
from ingest.model.models import Model
from ingest.model.parts import mean_reader, writers
from ingest.recorders.base import Batch
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
"""For each probe, the tokens of a block and how often the block is read. Blocks are shorter if they would not fit in the model's context."""


def probe_tables(model: Model, probe: str, bos: str, seed: int) -> Tables:
    """Compute the rows of `head_probe` and `probe_loss`. bos: the rule by which sequences of a corpus begin, one of BOS_RULES or a token's name."""
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
    """Choose the tokens before the first block: BOS as in a corpus or, in Olsson's probe, whenever the tokenizer has a BOS."""
    token = model.tokenizer.bos_token_id if probe == "olsson2022" else bos_token(model.tokenizer, bos)
    return () if token is None else (token,)


def probe_sequences(model: Model, probe: str, start: tuple[int, ...], seed: int) -> tuple[Sequence, ...]:
    """Draw sequences, each of which repeats a block of different tokens.

    Blocks are drawn by a hash of (seed, sequence, token) among tokens that are not special. Raises AtlasError if blocks of two tokens do not fit in the
    model's context, or if the model has fewer than two tokens that are not special.
    """
    size, n_times = SHAPES[probe]
    tokens = np.flatnonzero(~token_rows(model.tokenizer, model.n_embeddings)["is_special"].to_numpy())
    room = len(tokens) if model.max_context is None else min(len(tokens), (model.max_context - len(start)) // n_times)
    size = min(size, room)
    if size < 2:
        raise AtlasError(
            f"model {model.name}: the probe {probe} reads at least two tokens {n_times} times in one context; the model has a context of "
            f"{model.max_context}, and {len(tokens)} tokens that are not special"
        )
    found = []
    for i in range(N_SEQUENCES):
        block = tokens[np.argsort(hashes(seed, i, tokens), kind="stable")[:size]]
        ids = np.array([*start, *np.tile(block, n_times)], np.int32)
        nowhere = np.zeros(len(ids), np.int32)
        found.append(Sequence(i, 0, i * len(ids), ids, np.append(ids[1:], np.int32(NO_NEXT_TOKEN)), nowhere, nowhere))
    return tuple(found)


class LossRecorder:
    """Recorder of the negative log-probability, in nats, of every token of a sequence but the first. found: sequence_id → [n - 1] float32."""

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

    def rows(self, sample: CostSample) -> dict[str, int]:
        n_blocks = sum(n_times for _, n_times in SHAPES.values())
        return {"head_probe": len(PROBES) * sample.model.n_layers * sample.model.n_heads, "probe_loss": n_blocks}

    def seconds(self, sample: CostSample) -> float:
        return len(PROBES) * measure_seconds(lambda: probe_tables(sample.model, PROBES[0], sample.request.bos, sample.request.seed))


def compute(worker: Worker, progress: Progress, *, probe: str, bos: str, seed: int) -> Tables:
    tables = probe_tables(worker.model, probe, bos, seed)
    progress(1)
    return tables


class CopyingRecorder:
    """Recorder of copying: sums of `raised_logits` over the destinations of each sequence. The sequences have no padding.

    found: sequence_id → the sums, [3, n_layers, n_heads] float64.
    """

    sites = frozenset({PATTERN, "gathered", "attn_scale", "resid_post"})

    def __init__(self, model: Model) -> None:
        self.model, self.mean = model, mean_reader(model)[0]
        self.found: dict[int, np.ndarray] = {}
        self.sequences: tuple[Sequence, ...] = ()
        self.layers: list[Tensor] = []

    def begin(self, batch: Batch) -> None:
        self.sequences, self.layers = batch.sequences, []

    def take(self, layer: int, record: LayerRecord) -> None:
        device, n = self.model.device, len(self.sequences)
        pattern, gathered, scale = (record[name].to(device).float() for name in (PATTERN, "gathered", "attn_scale"))
        by_head, w_o = gathered.unflatten(0, (n, -1)).unflatten(-1, (self.model.n_heads, -1)), writers(self.model, layer)
        self.layers.append(
            torch.stack([self.of_sequence(*each, w_o) for each in zip(self.sequences, pattern, by_head, scale.unflatten(0, (n, -1)), strict=True)])
        )
        if layer == self.model.n_layers - 1:
            final = self.model.final_scale(record["resid_post"].to(device).float()).unflatten(0, (n, -1))
            # ReLU knows no scale, so what every destination is divided by may come last
            sums = (torch.stack(self.layers, 2) / final[:, None, None, None])[..., 1:].sum(-1, dtype=torch.float64)
            self.found |= {s.sequence_id: each for s, each in zip(self.sequences, sums.cpu().numpy(), strict=True)}

    def of_sequence(self, s: Sequence, weights: Tensor, gathered: Tensor, scale: Tensor, w_o: Tensor) -> Tensor:
        """Compute `raised_logits` of one sequence, before division by the final norm's scale.

        gathered: [seq, n_heads, d_head]; scale: [seq]; w_o: [n_heads, d_model, d_head].
        """
        ids = torch.from_numpy(s.token_ids.astype(np.int64)).to(weights.device)
        by_token = torch.einsum("jm,hmd->hjd", self.model.logit_readers(ids) - self.mean, w_o)
        logits = torch.einsum("ihd,hjd->hij", gathered, by_token) * scale[:, None]
        first = np.zeros(n_tokens(s), bool)
        first[np.unique(s.token_ids, return_index=True)[1]] = True
        return raised_logits(weights, logits, torch.from_numpy(first).to(weights.device))

    def columns(self, n_destinations: int) -> dict[str, pa.Array]:
        """Compute the columns of `head_probe` about copying: one row for each layer and head, in that order.

        copying: own/(own + all), which is between 0 and ½, rescaled to [-1, 1]; null if no logit is raised.
        """
        attended, own, every = np.sum(list(self.found.values()), 0).reshape(3, -1)
        whole = own + every
        copying = pa.array(4 * own / np.where(whole == 0, 1, whole) - 1, mask=whole == 0)
        return {"attended_logit": pa.array(attended / n_destinations), "copying": copying}


def raised_logits(weights: Tensor, logits: Tensor, is_first: Tensor) -> Tensor:
    """Compute three numbers for each head and destination: [3, n_heads, seq].

    The first is what the head adds to the logits of the tokens that it looks at, weighted by its attention. The second is the same, with only the logits that
    it raises. The third is how much it raises the logits of all tokens of the sequence together.
    weights, logits: [n_heads, seq (destination), seq (source)]. is_first: [seq], true at one place of each token, so that a repeated token counts once.
    """
    up = logits.clamp_min(0)
    return torch.stack([(weights * logits).sum(-1), (weights * up).sum(-1), up[..., is_first].sum(-1)])
