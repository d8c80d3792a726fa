"""Predictions at every position, against the logits of transformers' own forward pass and numpy in float64."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from ingest.model.hooks import LayerRecord
from ingest.model.models import Model
from ingest.recorders import predictions as recorders
from ingest.recorders.base import Batch
from ingest.recorders.ffn_keys import CpuKeys
from ingest.recorders.predictions import PredictionRecorder, by_kernel, by_torch, word_marks
from ingest.recorders.reading import read_batch
from ingest.recorders.triggers import TriggerRecorder
from ingest.text.sequences import Sequence
from tests.ingest.test_device import add_limit
from tests.ingest.tiny_models import FAMILIES, tiny_model

torch.set_num_threads(1)

TEXTS = [[0, 5, 7, 7, 9, 5, 7, 11, 5, 5, 5, 20], [33, 4, 9, 254, 6, 7, 258, 3], [3, 4, 5, 6, 7], [8, 8], [8]]
"""With BOS (0) and without, and sequences of two tokens and of one."""


def sequences(texts: list[list[int]]) -> tuple[Sequence, ...]:
    """Each of a document of its own, but the first two, of which one goes on with the other."""
    starts = np.cumsum([0, *map(len, texts)])
    ids = [np.array(text, np.int32) for text in texts]
    following = [np.append(one[1:], np.int32(ids[1][0] if i == 0 else -1)) for i, one in enumerate(ids)]
    return tuple(Sequence(i, 0, 100 + int(starts[i]), ids[i], following[i], ids[i], ids[i]) for i in range(len(texts)))


def recorded(model: Model, texts: list[list[int]], *others: tuple) -> pa.Table:
    recorder = PredictionRecorder(model, word_marks(model))
    list(read_batch(model, [(recorder, None), *others], sequences(texts)))
    return recorder.tables(lambda _: None)["position_prediction"]


def expected(logits: np.ndarray, following: int, marked: np.ndarray) -> tuple:
    """A row by the definitions. logits: of one position, float64."""
    logs = logits - logits.max()
    logs -= np.log(np.exp(logs).sum())
    p = np.exp(logs)
    better = [t for t in range(len(p)) if logits[t] > logits[following] or (logits[t] == logits[following] and t < following)]
    known = (-logs[following], len(better) + 1) if following >= 0 else (None, None)
    top = min(t for t in range(len(p)) if logits[t] == logits.max())
    return known[0], -(p * logs).sum(), known[1], top, p[top], p[marked].sum()


def own_marks(model: Model) -> np.ndarray:
    """By what the tokenizer makes of each token behind a letter."""
    pipeline, special = model.tokenizer.backend_tokenizer, set(model.tokenizer.all_special_ids)
    n = len(model.tokenizer)
    texts = [pipeline.decode([t], skip_special_tokens=False) for t in range(n)]
    return np.array([t < n and (t in special or texts[t][:1].isspace()) for t in range(model.d_vocab)])


def check(rows: pa.Table, model: Model, texts: list[list[int]]) -> None:
    marked, at = own_marks(model), 0
    assert 0 < marked.sum() < len(marked) / 2
    assert rows["position_id"].to_pylist() == list(range(100, 100 + sum(map(len, texts))))
    for s in sequences(texts):
        with torch.no_grad():
            logits = model.hf(torch.from_numpy(s.token_ids.astype(np.int64))[None]).logits[0].double().numpy()
        for i, row in enumerate(rows.slice(at, len(s.token_ids)).to_pylist()):
            surprisal, entropy, rank, top, prob, starts = expected(logits[i], int(s.next_token_ids[i]), marked)
            assert row["surprisal"] == (None if surprisal is None else pytest.approx(surprisal, abs=2e-5))
            numbers = row["entropy"], row["top_prob"], row["starts_word_prob"]
            assert numbers == (pytest.approx(entropy, abs=2e-5), pytest.approx(prob, abs=1e-5), pytest.approx(starts, abs=1e-5))
            assert (row["next_token_rank"], row["top_token_id"]) == (rank, top)
        at += len(s.token_ids)


@pytest.mark.parametrize("model_type", FAMILIES)
def test_numbers_are_those_of_the_models_own_logits(model_type: str) -> None:
    model = tiny_model(model_type)
    check(recorded(model, TEXTS), model, TEXTS)


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [("granite", {"logits_scaling": 3.0}), ("gemma2", {"final_logit_softcapping": 2.0})],
)
def test_logits_are_scaled_and_capped_as_the_model_does_it(model_type: str, changes: dict) -> None:
    model, other = tiny_model(model_type, **changes), tiny_model(model_type)
    check(recorded(model, TEXTS), model, TEXTS)
    assert not recorded(model, TEXTS)["entropy"].equals(recorded(other, TEXTS)["entropy"])


def test_rows_some_at_a_time_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    whole = recorded(model, TEXTS)
    monkeypatch.setattr(recorders, "ROWS", 3)
    some = recorded(model, TEXTS)
    check(some, model, TEXTS)
    assert some["top_token_id"].equals(whole["top_token_id"])


@pytest.mark.parametrize("most", [1, 3])
def test_where_memory_runs_out_every_position_is_there_once(most: int) -> None:
    model, came = tiny_model("llama"), []
    add_limit(model, most, 1, came)
    check(recorded(model, TEXTS, (TriggerRecorder(CpuKeys(2, model.d_ffn, 3), 0), None)), tiny_model("llama"), TEXTS)
    assert came[0] == len(TEXTS)


class Full:
    """Has no memory left when the last layer comes with more than one sequence."""

    sites = frozenset({"resid_post"})

    def begin(self, batch: Batch) -> None:
        self.n = len(batch.sequences)

    def take(self, layer: int, _: LayerRecord) -> None:
        if layer == 1 and self.n > 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")


def test_where_memory_runs_out_behind_it_every_position_is_there_once() -> None:
    model = tiny_model("llama")
    check(recorded(model, TEXTS, (Full(), None)), model, TEXTS)


@pytest.mark.parametrize("read", [by_kernel, by_torch])
@pytest.mark.parametrize("n_tokens", [2, 255, 256, 257, 1000])
def test_readings_of_logits_agree_with_float64(read: object, n_tokens: int) -> None:
    """Ties of the top token and of the one that follows, a sure row, an even row, logits far apart, and none that follows."""
    rng = np.random.default_rng(n_tokens)
    logits = rng.normal(0, 3, (9, n_tokens)).astype(np.float32)
    logits[1], logits[2, :] = logits[1].round(), 0
    logits[3, -1], logits[4] = 200, logits[4] * 100
    following = rng.integers(0, n_tokens, 9)
    following[5], following[3] = -1, n_tokens - 1
    following[2] = n_tokens // 2
    marked = rng.random(n_tokens) < 0.3
    found = read(torch.from_numpy(logits), following, torch.from_numpy(marked.astype(np.float32)))
    for i in range(9):
        surprisal, entropy, rank, top, prob, starts = expected(logits[i].astype(np.float64), int(following[i]), marked)
        wanted = [surprisal or 0.0, entropy, prob, starts]
        np.testing.assert_allclose(found.numbers[i], wanted, rtol=2e-6, atol=2e-6)
        assert (found.ranks[i], found.tops[i]) == (rank or 0, top)


def test_threads_change_no_bit() -> None:
    logits, following = torch.randn(11, 700), np.arange(11)
    marked = (torch.rand(700) < 0.3).float()
    one = by_kernel(logits, following, marked)
    try:
        torch.set_num_threads(3)
        three = by_kernel(logits, following, marked)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)
    assert all(np.array_equal(a, b) for a, b in zip(one, three, strict=True))


@pytest.mark.parametrize("read", [by_kernel, by_torch])
def test_nothing_finite_comes_of_a_nan(read: object) -> None:
    logits = torch.randn(2, 500)
    logits[1, 77] = torch.nan
    found = read(logits, np.array([3, 3]), torch.ones(500))
    assert np.isfinite(found.numbers[0]).all()
    assert not np.isfinite(found.numbers[1]).all()
