"""Attention knockout in every family, against masks put in by hand on transformers in float64."""

import pytest
import torch
from torch import Tensor

from ingest.acting.answers import Prompt
from ingest.acting.knockout import knock_out, source_edges
from ingest.model.models import Model
from schema.errors import AtlasError
from tests.ingest.acting_oracle import Names, by_hand
from tests.ingest.prompts import SUBJECT, TOKENS, N, exact, prompt_with_answer, unheard
from tests.ingest.tiny_models import FAMILIES

torch.set_num_threads(1)

SOURCES = {"subject": [1, 2], "non_subject": [0, 3, 4, 5], "last": [6]}
"""Of the prompt, of which positions 1 and 2 are the subject."""


def masked_by_hand(model: Model, family: str, layers: range, edges: list[tuple[int, int]], tokens: Tensor) -> Tensor:
    """Logits with a mask of what the family passes, or of all that is not ahead, in which these edges are -∞ too."""
    handles, attention = [], Names(family).o_.rpartition(".")[0]

    def put(_module: object, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        mask = kwargs.get("attention_mask")
        n = len(tokens)
        may = torch.ones(n, n).tril().bool() if mask is None else mask[0, 0] if mask.dtype == torch.bool else mask[0, 0] >= 0
        made = torch.zeros(n, n, dtype=torch.float64).masked_fill(~may, -1e30)
        for destination, source in edges:
            made[destination, source] = -1e30
        return args, kwargs | {"attention_mask": made[None, None]}

    for layer in layers:
        module = model.hf.get_submodule(f"{Names(family).block(layer)}.{attention}")
        handles.append(module.register_forward_pre_hook(put, with_kwargs=True))
    found = by_hand(model.hf, tokens, [])
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_what_the_last_position_may_not_read_by_hand(family: str) -> None:
    model = exact(family)
    prompt = prompt_with_answer(model)
    found = knock_out(model, prompt, SUBJECT, unheard)
    p = float(by_hand(model.hf, TOKENS, [])[-1].softmax(-1)[prompt.answer[0]])
    assert float(found.clean[0].exp()) == pytest.approx(p, abs=1e-6)
    rows = found.effects.to_pylist()
    assert [(row["sources"], row["layer"]) for row in rows] == [(sources, layer) for sources in SOURCES for layer in (0, 1)]
    for row in rows:
        logits = masked_by_hand(model, family, range(2), [(N - 1, source) for source in SOURCES[row["sources"]]], TOKENS)[-1]
        changed = float(logits.softmax(-1)[prompt.answer[0]])
        assert row["prob"] == pytest.approx(changed, abs=2e-5)
        assert row["effect"] == pytest.approx((changed - p) / p, abs=1e-3)
        assert row["logprob"] == pytest.approx(float(logits.log_softmax(-1)[prompt.answer[0]]), abs=1e-4)
        assert (row["site"], row["window"], row["index"], row["total_effect"], row["n_draws"]) == ("attention", 9, None, None, 1)
    assert max(abs(row["effect"]) for row in rows) > 1e-3


@pytest.mark.thorough
def test_nine_layers_are_blocked_together_and_an_answer_of_two_tokens_is_kept_from_both() -> None:
    model = exact("llama", num_hidden_layers=12)
    prompt = prompt_with_answer(model, 2)
    found = knock_out(model, prompt, SUBJECT, unheard)
    sources = SOURCES | {"last": [6, 7]}
    assert len(found.effects) == 36
    for row in found.effects.to_pylist():
        layers = range(max(0, row["layer"] - 4), min(12, row["layer"] + 5))
        edges = [(to, source) for to in (6, 7) for source in sources[row["sources"]] if source <= to]
        log = masked_by_hand(model, "llama", layers, edges, prompt.input_ids)[[6, 7]].log_softmax(-1)
        assert row["logprob"] == pytest.approx(float(log[0, prompt.answer[0]] + log[1, prompt.answer[1]]), abs=1e-4)


def test_edges_are_from_what_predicts_to_what_is_there() -> None:
    prompt = Prompt((5, 6, 7), (8, 9))
    assert source_edges(prompt, range(1)) == {"subject": ((2, 0), (3, 0)), "non_subject": ((2, 1), (3, 1)), "last": ((2, 2), (3, 2), (3, 3))}
    # the subject is all that goes before
    assert list(source_edges(prompt, range(2))) == ["subject", "last"]


def test_a_position_with_nothing_left_to_read_and_a_subject_that_is_the_last_are_refused() -> None:
    model = exact("llama")
    prompt = prompt_with_answer(model)
    with pytest.raises(AtlasError, match="the subject is positions 5 to 6; knockout needs one that ends before the last position, 6"):
        knock_out(model, prompt, range(5, 7), unheard)
    windowed = exact("mistral", sliding_window=1)
    with pytest.raises(AtlasError, match="position 6 would have nothing left to read"):
        knock_out(windowed, prompt, SUBJECT, unheard)
