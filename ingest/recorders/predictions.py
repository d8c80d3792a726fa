"""The model's prediction at every position, recorded while the text is read: the output head on the last state, some rows at a time."""

from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.hooks import LayerRecord
from ingest.model.models import Model
from ingest.model.ranking import rank_of, top_k
from ingest.recorders.base import Batch, ResumableRecorder
from ingest.recorders.plans import Basis, CostSample, Recording, Text, Work
from ingest.recorders.prediction_kernel import read_logits
from ingest.text.tokens import token_rows
from ingest.workers.worker import Progress, Tables, Worker

ROWS = 512
"""Number of rows whose logits are in memory at once. With more rows, the product with the output embedding takes as long per row."""


class Predictions(NamedTuple):
    """Predictions at n positions.

    numbers: [n, 4] float32: surprisal (0 if no token follows), entropy, probability of the top token and of a token that begins a word.
    ranks: rank of the token that follows, 0 for none, [n]. tops: the top token, [n].
    """

    numbers: np.ndarray
    ranks: np.ndarray
    tops: np.ndarray


class PredictionRecorder(ResumableRecorder):
    """Recorder of the predictions of a shard.

    found: maps the first position_id of a forward pass to its position_ids, whether a token follows each, and its predictions.
    marked: 1 for tokens that do not continue the word before them, else 0, [d_vocab] float32 on the model's device (`word_marks`).
    """

    sites = frozenset({"resid_post"})
    held = ("found",)

    def __init__(self, model: Model, marked: Tensor) -> None:
        self.model, self.marked = model, marked
        self.found: dict[int, tuple[np.ndarray, np.ndarray, Predictions]] = {}
        self.batch: Batch | None = None
        self.logits = torch.empty(0)

    def begin(self, batch: Batch) -> None:
        self.batch = batch

    def take(self, layer: int, record: LayerRecord) -> None:
        if layer < self.model.n_layers - 1 or self.batch is None:
            return
        real = np.flatnonzero(self.batch.position_ids >= 0)
        following = self.batch.next_token_ids[real]
        states = record["resid_post"].to(self.model.device)
        parts = [self.predict_rows(states, real[i : i + ROWS], following[i : i + ROWS]) for i in range(0, len(real), ROWS)]
        # by the first position: what ran out of memory at its very end comes again under the same
        self.found[int(self.batch.position_ids[0])] = self.batch.position_ids[real], following >= 0, join_predictions(parts)

    def predict_rows(self, states: Tensor, rows: np.ndarray, following: np.ndarray) -> Predictions:
        """Compute the predictions at some rows of states [n, d_model]. following: the token after each of these rows, -1 for none."""
        if not len(self.logits):
            # one piece of memory for all: to be given it anew takes as long as to write it
            self.logits = torch.empty(ROWS, self.model.d_vocab, device=self.model.device)
        index = torch.from_numpy(rows).to(states.device)
        return predictions(self.model.lens(states[index], self.logits[: len(rows)]), following, self.marked)

    def tables(self, _: Progress) -> Tables:
        positions, is_followed, found = (list(parts) for parts in zip(*self.found.values(), strict=True))
        ids, followed, (numbers, ranks, tops) = np.concatenate(positions), np.concatenate(is_followed), join_predictions(found)
        order = np.argsort(ids)
        ids, none, numbers = ids[order], ~followed[order], numbers[order]
        columns = {
            "surprisal": pa.array(numbers[:, 0], mask=none),
            "entropy": numbers[:, 1],
            "next_token_rank": pa.array(ranks[order], mask=none),
            "top_token_id": tops[order],
            "top_prob": numbers[:, 2],
            "starts_word_prob": numbers[:, 3],
        }
        return {"position_prediction": pa.table({"position_id": ids, **columns})}


def join_predictions(parts: list[Predictions]) -> Predictions:
    return Predictions(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def predictions(logits: Tensor, following: np.ndarray, marked: Tensor) -> Predictions:
    """Compute the predictions from rows of logits [n, d_vocab] float32, on any device."""
    return by_kernel(logits, following, marked) if logits.device.type == "cpu" else by_torch(logits, following, marked)


def by_kernel(logits: Tensor, following: np.ndarray, marked: Tensor) -> Predictions:
    n, n_threads = len(logits), torch.get_num_threads()
    found = Predictions(np.empty((n, 4), np.float32), np.empty(n, np.int32), np.empty(n, np.int32))
    read_logits(logits.numpy(), following.astype(np.int64), marked.numpy(), *found, n_threads)
    # numba's first parallel loop sets the number of OpenMP's threads, which torch shares, to that of all cores
    torch.set_num_threads(n_threads)
    return found


def by_torch(logits: Tensor, following: np.ndarray, marked: Tensor) -> Predictions:
    """Compute the same as `by_kernel` by torch's operations, on any device."""
    none = torch.from_numpy(following < 0).to(logits.device)
    token = torch.from_numpy(following.astype(np.int64)).to(logits.device).clamp(min=0)
    logs = logits.log_softmax(-1)
    probs = logs.exp()
    _, top = top_k(logits, 1)
    numbers = torch.stack(
        [
            -logs.gather(1, token[:, None])[:, 0].masked_fill(none, 0),
            -(probs * logs).sum(-1),
            probs.gather(1, top)[:, 0],
            probs @ marked,
        ],
        1,
    )
    ranks = rank_of(logits, token).masked_fill(none, 0)
    return Predictions(numbers.cpu().numpy(), ranks.int().cpu().numpy(), top[:, 0].int().cpu().numpy())


def word_marks(model: Model) -> Tensor:
    """Mark the tokens that do not continue the word before them: 1 for those that begin with white space or are special, 0 for all others.

    Returns [d_vocab] float32.
    """
    rows = token_rows(model.tokenizer, model.d_vocab)
    marks = [row["bytes"] is not None and (row["is_special"] or row["text"][:1].isspace()) for row in rows.to_pylist()]
    return torch.tensor(marks, dtype=torch.float32, device=model.device)


def prediction_recorder(worker: Worker, run_id: int) -> PredictionRecorder:
    return PredictionRecorder(worker.model, worker.shared_state(run_id, lambda: word_marks(worker.model)))


class Prediction(Work):
    """Plans and costs of the pass `prediction`."""

    def recording(self, basis: Basis, text: Text) -> Recording:
        request = basis.request
        settings = {**request.weights_settings(), "batch_size": request.batch_size, "shard_positions": request.shard_positions}
        return Recording(settings, lambda run_id: partial(prediction_recorder, run_id=run_id))

    def rows(self, sample: CostSample) -> dict[str, int]:
        return {"position_prediction": sample.seen.n_positions} if sample.seen else {}

    def seconds(self, sample: CostSample) -> float:
        return sample.recording_seconds(PredictionRecorder(sample.model, word_marks(sample.model)))

    def n_bytes(self, sample: CostSample) -> int:
        """Count the bytes of the logits of ROWS rows; on devices other than the CPU, also those of their probabilities and of intermediate results."""
        return ROWS * sample.model.d_vocab * 4 * (1 if sample.model.device.type == "cpu" else 4)
