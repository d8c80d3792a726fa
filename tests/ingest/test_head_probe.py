"""The probe: random tokens that repeat, and what is made of them, against plain eager attention and logits in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ingest.model.models import Model
from ingest.recorders import reading, repeated_tokens
from ingest.recorders.repeated_tokens import CopyingRecorder, probe_sequences, probe_tables, raised_logits, start_tokens
from schema.errors import AtlasError
from tests.ingest.attention_oracle import eager_model
from tests.ingest.head_oracle import check, copied, expected, plain_losses
from tests.ingest.tiny_models import tiny_model

torch.set_num_threads(1)

CASES = [("repeat", "auto", 0, 10, 2), ("repeat", "always", 1, 10, 2), ("olsson2022", "auto", 1, 5, 4)]
"""Probe, BOS rule, tokens before the first block, tokens of a block in a context of 21, blocks."""


def small(monkeypatch: pytest.MonkeyPatch) -> Model:
    """A windowed model with grouped queries and room for 21 tokens; two sequences a probe."""
    monkeypatch.setattr(repeated_tokens, "N_SEQUENCES", 2)
    model = eager_model("mistral")
    model.hf.config.max_position_embeddings = 21
    return model


@pytest.mark.parametrize(("probe", "bos", "n_before", "size", "n_times"), CASES)
def test_heads_and_losses_are_those_by_the_letter(
    monkeypatch: pytest.MonkeyPatch, probe: str, bos: str, n_before: int, size: int, n_times: int
) -> None:  # fmt: skip
    model = small(monkeypatch)
    tables = probe_tables(model, probe, bos, 5)
    texts = [s.token_ids.tolist() for s in probe_sequences(model, probe, start_tokens(model, probe, bos), 5)]
    assert [len(text) for text in texts] == [n_before + size * n_times] * 2
    rows = tables["head_probe"].to_pylist()
    assert {row["probe"] for row in rows} == {probe}
    assert {(row["n_destinations"], row["n_repeated"]) for row in rows} == {(2 * (len(texts[0]) - 1), 2 * size * (n_times - 1))}
    check(rows, [], expected(model.hf, texts, [4, 4]), 2e-6)
    for cell, wanted in copied(model.hf, texts).items():
        row = next(row for row in rows if (row["layer"], row["head"]) == cell)
        assert (row["attended_logit"], row["copying"]) == pytest.approx(wanted, rel=1e-5, abs=1e-5)
    losses = plain_losses(model.hf, texts)
    for block, row in enumerate(tables["probe_loss"].to_pylist(), start=1):
        first = n_before + size * (block - 1)
        own = losses[:, max(first, 1) - 1 : first + size - 1]
        assert (row["probe"], row["block"], row["n"]) == (probe, block, own.size)
        assert row["loss"] == pytest.approx(own.mean(), abs=1e-5)


def test_a_block_has_different_tokens_that_are_not_special_and_comes_again() -> None:
    model = tiny_model("bloom")  # of no bounded context
    drawn = [probe_sequences(model, "repeat", (), seed) for seed in (0, 0, 1)]
    blocks = [[s.token_ids.reshape(2, 50) for s in sequences] for sequences in drawn]
    for first, second in blocks[0]:
        assert first.tolist() == second.tolist()
        assert len(set(first.tolist())) == 50
        assert first.min() > 0 and first.max() < len(model.tokenizer)
    assert np.array_equal(blocks[0], blocks[1])
    assert len({tuple(block[0]) for probe in blocks[1:] for block in probe}) == 20


def test_a_context_without_room_is_an_error() -> None:
    model = replace(tiny_model("llama"))
    model.hf.config.max_position_embeddings = 3
    with pytest.raises(AtlasError, match="the probe repeat reads at least two tokens 2 times in one context; the model has a context of 3"):
        probe_tables(model, "repeat", "auto", 0)


def test_sequences_some_at_a_time_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(monkeypatch)
    whole = probe_tables(model, "repeat", "auto", 5)["head_probe"].to_pylist()
    monkeypatch.setattr(reading, "PATTERN_BYTES", 1)
    for row, some in zip(whole, probe_tables(model, "repeat", "auto", 5)["head_probe"].to_pylist(), strict=True):
        assert some == {name: x if isinstance(x, str) else pytest.approx(x, abs=1e-6) for name, x in row.items()}


def test_a_head_that_raises_nothing_copies_nothing() -> None:
    """Two heads of two destinations that look at themselves: the first raises what it looks at and nothing else, the second nothing."""
    weights, logits = torch.eye(2).expand(2, 2, 2), torch.tensor([[[2.0, -1.0], [-3.0, 4.0]], [[-1.0, -1.0], [-1.0, -1.0]]])
    attended, own, every = raised_logits(weights, logits, torch.tensor([True, True]))
    assert (attended.tolist(), own.tolist(), every.tolist()) == ([[2.0, 4.0], [-1.0, -1.0]], [[2.0, 4.0], [0.0, 0.0]], [[2.0, 4.0], [0.0, 0.0]])
    recorder = CopyingRecorder(tiny_model("llama", num_hidden_layers=1))
    recorder.found = {0: np.array([[[6.0, -2.0]], [[6.0, 0.0]], [[6.0, 0.0]]])}
    assert {name: column.to_pylist() for name, column in recorder.columns(2).items()} == {"attended_logit": [3.0, -1.0], "copying": [1.0, None]}
