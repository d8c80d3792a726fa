"""What heads look at, recorded, against sums by the letter over plain eager attention in float64."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from ingest.estimate import report
from ingest.model.hooks import PATTERN, LayerRecord
from ingest.model.models import Model
from ingest.recorders import attention_blocks, reading
from ingest.recorders.attention_blocks import n_bytes
from ingest.recorders.attention_sums import bin_of, n_bins
from ingest.recorders.base import Batch
from ingest.recorders.ffn_keys import CpuKeys
from ingest.recorders.heads import CorpusHeadRecorder
from ingest.recorders.reading import read_batch
from ingest.recorders.triggers import TriggerRecorder
from ingest.text.sequences import Sequence
from tests.ingest import head_oracle
from tests.ingest.attention_oracle import eager_model
from tests.ingest.head_oracle import distance_bin, expected
from tests.ingest.peak import peak
from tests.ingest.test_device import add_limit
from tests.ingest.tiny_models import FAMILIES, tiny_model

torch.set_num_threads(1)

WINDOWS = {"gpt_neo": [None, 4], "mistral": [4, 4], "qwen2": [None, 4], "qwen3": [None, 4], "gemma2": [4, None], "gemma3_text": [4, None]}
REPEATING = [5, 7, 7, 9, 5, 7, 11, 5, 5, 5, 20]
TEXTS_OF_IDS = [[0, *REPEATING, 9], REPEATING, [3, 4, 5, 6, 7], [8, 8], [8]]
"""With BOS (0) and without, several copies of a token, none, and sequences of two tokens and of one."""


def sequences(texts: list[list[int]]) -> tuple[Sequence, ...]:
    starts = np.cumsum([0, *map(len, texts)])
    return tuple(Sequence(i, 0, int(start), *[np.array(t, np.int32)] * 4) for i, (start, t) in enumerate(zip(starts, texts, strict=False)))


def recorded(model: Model, texts: list[list[int]], context: int = 16) -> CorpusHeadRecorder:
    recorder = CorpusHeadRecorder(model, context, 3)
    list(read_batch(model, [(recorder, None)], sequences(texts)))
    return recorder


def check(tables: dict[str, pa.Table], model: Model, texts: list[list[int]], windows: list[int | None]) -> None:
    head_oracle.check(tables["head_statistics"].to_pylist(), tables["attention_distance"].to_pylist(), expected(model.hf, texts, windows), 2e-6)


@pytest.mark.parametrize("model_type", FAMILIES)
def test_sums_are_those_by_the_letter(model_type: str) -> None:
    model = eager_model(model_type)
    check(recorded(model, TEXTS_OF_IDS).tables(lambda _: None), model, TEXTS_OF_IDS, WINDOWS.get(model_type, [None, None]))


@pytest.mark.parametrize(
    "changes",
    [{"num_attention_heads": 1, "num_key_value_heads": 1}, {"num_hidden_layers": 1}, {"num_key_value_heads": 2}],
    ids=["one head", "one layer", "grouped queries"],
)
def test_other_sizes(changes: dict) -> None:
    model = eager_model("llama", **changes)
    check(recorded(model, TEXTS_OF_IDS).tables(lambda _: None), model, TEXTS_OF_IDS, [None] * model.n_layers)


@pytest.mark.parametrize("name", ["AT_ONCE", "ROWS", "TOKENS"])
@pytest.mark.parametrize("model_type", ["gemma2", "bloom"])
def test_heads_destinations_and_sequences_some_at_a_time_are_the_same(monkeypatch: pytest.MonkeyPatch, model_type: str, name: str) -> None:
    model = eager_model(model_type)
    monkeypatch.setattr(attention_blocks, name, {"AT_ONCE": 1, "ROWS": 3, "TOKENS": 26}[name])
    check(recorded(model, TEXTS_OF_IDS).tables(lambda _: None), model, TEXTS_OF_IDS, WINDOWS.get(model_type, [None, None]))


@pytest.mark.parametrize("model_type", ["llama", "gpt2"])
def test_batches_of_any_size_say_the_same_but_for_the_rounding_of_the_forward_pass(model_type: str) -> None:
    model, whole, alone = eager_model(model_type), *(CorpusHeadRecorder(eager_model(model_type), 16, 3) for _ in range(2))
    list(read_batch(model, [(whole, None)], sequences(TEXTS_OF_IDS)))
    for each in sequences(TEXTS_OF_IDS):
        list(read_batch(model, [(alone, None)], (each,)))
    assert np.allclose(whole.looked, alone.looked, rtol=1e-5, atol=1e-6)
    assert np.allclose(whole.moved_evenly, alone.moved_evenly, rtol=1e-5, atol=1e-6)


def test_the_forward_pass_is_left_as_it_is() -> None:
    """Attention that gives no weights stays, so that what others hear beside it is the same to the bit."""
    model, batch = tiny_model("llama"), sequences(TEXTS_OF_IDS)
    found = []
    for others in ([], [(CorpusHeadRecorder(model, 16, 3), None)]):
        keys = CpuKeys(2, model.d_ffn, 3)
        model.layer_module(0, "self_attn").register_forward_hook(lambda *_: found.append(model.hf.config._attn_implementation))
        list(read_batch(model, [(TriggerRecorder(keys, 0), None), *others], batch))
        found.append(keys.triggers().coefficients.tobytes())
    assert found == ["sdpa", found[1], "sdpa", "sdpa", found[1]]


@pytest.mark.thorough
def test_long_contexts_take_no_more_memory_than_the_dry_run_says() -> None:
    """32 heads over 4,096 positions would have 2 GiB of weights a layer, and attention code that gives them holds them about three times."""
    changes = {"hidden_size": 128, "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 4, "num_hidden_layers": 1, "max_position_embeddings": 4096}
    model = tiny_model("llama", **changes)
    batch = (Sequence(0, 0, 0, *[np.random.default_rng(0).integers(0, 250, 4096).astype(np.int32)] * 4),)
    plain = peak(lambda: list(read_batch(model, [], batch)))
    beside = peak(lambda: list(read_batch(model, [(CorpusHeadRecorder(model, 4096, 0), None)], batch)))
    assert 0 < beside - plain < n_bytes(model, 4096) < 2**28


def test_the_dry_run_says_how_much_memory_a_pass_takes() -> None:
    model = eager_model("llama")
    said = report(model, None, {}, {"head_statistics": 61.0, "sweep": 2.0}, {"head_statistics": n_bytes(model, 4096), "sweep": None}).splitlines()
    assert [line.split() for line in said[-3:-1]] == [["head_statistics", "0:01:01", f"{n_bytes(model, 4096) / 1e6:.0f}", *BESIDE], ["sweep", "0:00:02"]]


BESIDE = ["MB", "beside", "a", "forward", "pass"]


def test_nothing_to_look_at_is_null_and_not_zero() -> None:
    rows = recorded(eager_model("llama"), [[8], [9]], 1).tables(lambda _: None)
    assert set(rows["head_statistics"]["n_destinations"].to_pylist()) == {0}
    assert rows["head_statistics"]["induction"].null_count == len(rows["head_statistics"])
    assert rows["attention_distance"].select(["bin", "weight", "n"]).to_pylist() == [{"bin": 0, "weight": 0.0, "n": 0}] * len(rows["attention_distance"])
    never = recorded(eager_model("llama"), [[8, 9]]).tables(lambda _: None)["head_statistics"]
    assert (never["previous"].null_count, never["duplicate"].null_count) == (0, len(never))


@pytest.mark.parametrize("most", [1, 3])
def test_where_memory_runs_out_every_destination_counts_once(most: int) -> None:
    model, whole = eager_model("llama"), eager_model("llama")
    came: list[int] = []
    add_limit(model, most, 1, came)
    keys = CpuKeys(2, model.d_ffn, 3)
    recorder = CorpusHeadRecorder(model, 16, 3)
    list(read_batch(model, [(TriggerRecorder(keys, 0), None), (recorder, None)], sequences(TEXTS_OF_IDS)))
    assert came[0] == len(TEXTS_OF_IDS)
    check(recorder.tables(lambda _: None), whole, TEXTS_OF_IDS, [None, None])


def test_batches_are_cut_until_their_attention_weights_fit_and_only_for_those_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    model, came = eager_model("llama"), []
    monkeypatch.setattr(reading, "PATTERN_BYTES", 4 * model.n_heads * 13**2 * 2)
    model.layer_module(0, "self_attn.q_proj").register_forward_pre_hook(lambda _, args: came.append(len(args[0])))
    list(read_batch(model, [(Rows(), None)], sequences(TEXTS_OF_IDS)))
    assert came == [2, 2, 1]
    list(read_batch(model, [(TriggerRecorder(CpuKeys(2, model.d_ffn, 3), 0), None)], sequences(TEXTS_OF_IDS)))
    assert came[3:] == [5]


class Rows:
    """Takes attention weights as they come."""

    sites = frozenset({PATTERN})

    def __init__(self) -> None:
        self.found: list[torch.Tensor] = []

    def begin(self, batch: Batch) -> None: ...

    def take(self, _: int, record: LayerRecord) -> None:
        self.found.append(record[PATTERN])


def test_sampled_positions_have_the_rows_of_the_whole() -> None:
    model, batch, whole, some = eager_model("llama"), sequences(TEXTS_OF_IDS[:3]), Rows(), Rows()
    list(read_batch(model, [(whole, None), (some, np.array([4, 13, 15]))], batch))
    for pattern, rows in zip(whole.found, some.found, strict=True):
        assert tuple(pattern.shape) == (3, model.n_heads, 13, 13)
        assert torch.equal(rows, torch.stack([pattern[0, :, 4], pattern[1, :, 0], pattern[1, :, 2]]))


def test_bins_end_with_powers_of_two() -> None:
    assert bin_of(np.arange(18)).tolist() == [0, 1, 2, 3, 3, 4, 4, 4, 4, *[5] * 8, 6]
    assert [n_bins(context) for context in (1, 2, 3, 4, 5, 6, 9, 10, 256)] == [1, 2, 3, 4, 4, 5, 5, 6, 10]
    assert all(n_bins(context) == distance_bin(context - 1) + 1 for context in range(1, 60))
