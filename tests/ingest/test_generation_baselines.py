"""What suppression is compared with and measured by: the word filter, self-debiasing, perplexity, repetition and intervals."""

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import NoBadWordsLogitsProcessor, PreTrainedTokenizerFast

from ingest.acting.bootstrap import paired_difference
from ingest.acting.decoding import Decoding
from ingest.acting.generation import continue_under_arms, eos_ids
from ingest.acting.perplexity import TextLoss, distinct_bigrams, text_loss, windows
from ingest.acting.self_debias import DESCRIPTIONS, debias_logits, self_debiased
from ingest.acting.suppression_arm import mean_loss
from ingest.acting.word_filter import forms_of, word_filter
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.interventions.parse import arm_of
from tests.ingest.test_acting import N, exact, n_hooks
from tests.ingest.test_generation import GREEDY, SAMPLE, no
from tests.ingest.tiny_models import tiny_model, tiny_tokenizer, token_batch

torch.set_num_threads(1)

NONE = (lambda *_: None, {})


def go(model: Model, rows: Tensor, adjust: dict, decoding: Decoding = SAMPLE) -> list[tuple[int, ...]]:
    found = continue_under_arms(model, rows, 12, [], decoding=decoding, seeds=range(len(rows)), is_exact=True, adjust=adjust, on_token=no)
    return [one.token_ids for one in found]


def test_a_listed_word_has_both_forms(byte_tokenizer: PreTrainedTokenizerFast, sentencepiece_tokenizer: PreTrainedTokenizerFast) -> None:
    tiny = tiny_tokenizer()
    ids = tiny.convert_tokens_to_ids
    assert forms_of(tiny, ["the"]) == {(ids("the"),), (ids("Ġthe"),)}
    assert forms_of(tiny, ["and he"]) == {(*ids(["and", "Ġ", "h", "e"]),), (*ids(["Ġand", "Ġ", "h", "e"]),)}
    pieces = sentencepiece_tokenizer.convert_tokens_to_ids
    assert forms_of(sentencepiece_tokenizer, ["the"]) == {(pieces("▁the"),), (*pieces(["t", "h", "e"]),)}
    for word, form in zip(("people", " people"), sorted(forms_of(byte_tokenizer, ["people"]), key=byte_tokenizer.decode, reverse=True), strict=True):
        assert byte_tokenizer.decode(form) == word
    assert forms_of(tiny, []) == frozenset()
    with pytest.raises(AtlasError, match="the words to be filtered contain an empty one"):
        forms_of(tiny, ["the", " "])


def test_a_listed_word_is_not_completed_as_in_the_filter_of_transformers() -> None:
    generator = torch.Generator().manual_seed(0)
    forms = {(3,), (1, 2), (1, 4), (2, 1, 4), (5, 5), (0, 1, 2, 3, 4, 0)}
    adjust, theirs = word_filter(frozenset(forms)), NoBadWordsLogitsProcessor([list(form) for form in sorted(forms)], eos_token_id=[])
    n_banned = set()
    for _ in range(300):
        text = torch.randint(0, 6, (7,), generator=generator)
        logits = torch.randn(6, generator=generator)
        found = adjust(text.tolist(), logits)
        assert torch.equal(found, theirs(text[None], logits[None].clone())[0])
        assert torch.isfinite(logits).all()
        n_banned.add(int(found.isinf().sum()))
    assert n_banned >= {1, 2, 3}
    # a text shorter than a word
    assert adjust([1], torch.zeros(6)).isinf().tolist() == [False, False, True, True, True, False]


def test_an_empty_filter_is_the_base_and_a_filter_acts_on_its_rows_alone() -> None:
    model, rows = exact("llama"), token_batch(1, N, seed=3).expand(3, -1)
    base = go(model, rows, {})
    assert go(model, rows, dict.fromkeys(range(3), word_filter(frozenset()))) == base
    bigrams = frozenset(zip(base[1], base[1][1:], strict=False))
    filtered = go(model, rows, {1: word_filter(bigrams)})
    assert (filtered[0], filtered[2]) == (base[0], base[2])
    assert filtered[1][0] == base[1][0] and not bigrams & {*zip(filtered[1], filtered[1][1:], strict=False)}


def test_self_debiasing_is_the_formula_of_its_paper() -> None:
    generator = torch.Generator().manual_seed(1)
    plain, one, two = (torch.randn(2, 50, generator=generator) * 3 for _ in range(3))
    p, p1, p2 = (np.exp(x.double().numpy()) / np.exp(x.double().numpy()).sum(1, keepdims=True) for x in (plain, one, two))
    delta = p - np.maximum(p1, p2)
    weights = p * np.maximum(np.exp(50 * np.minimum(delta, 0)), 0.01)
    expected = weights / weights.sum(1, keepdims=True)
    assert (weights == p).any() and np.isclose(weights, 0.01 * p).any() and ((weights > 0.011 * p) & (weights < 0.99 * p)).any()
    assert np.allclose(torch.softmax(debias_logits(plain, [one, two], 50), dim=-1).numpy(), expected, atol=1e-6)
    # with no strength no bit is another
    assert torch.equal(debias_logits(plain, [one, two], 0), plain)


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("decoding", [GREEDY, SAMPLE])
@pytest.mark.parametrize("family", ["bloom", "gemma2"])
def test_with_no_strength_self_debiasing_is_the_base_and_else_all_sequences_go_on_with_what_is_chosen(family: str, decoding: Decoding) -> None:
    model = exact(family)
    rows = token_batch(2, N, seed=4)
    rows[:, 0] = model.tokenizer.bos_token_id
    descriptions = ["and the", "the the the the"]

    def debiased_rows(strength: float) -> list[tuple[int, ...]]:
        found = self_debiased(model, rows, 12, strength=strength, descriptions=descriptions, decoding=decoding, seeds=range(2), is_exact=True, on_token=no)
        return [one.token_ids for one in found]

    assert debiased_rows(0.0) == go(model, rows, {}, decoding)
    # anew at each step: what transformers says of the whole sequences, each after a BOS and its description
    found, eos = debiased_rows(500.0), sorted(eos_ids(model))
    assert found != go(model, rows, {}, decoding)
    if decoding == GREEDY:
        for row, tokens in zip(rows.tolist(), found, strict=True):
            text = row[1:]
            for token in tokens:
                p, *of_descriptions = (said(model, [0, *model.tokenizer(one).input_ids, *text]) for one in ("", *descriptions))
                delta = p - np.maximum(*of_descriptions)
                weights = p * np.maximum(np.exp(500 * np.minimum(delta, 0)), 0.01)
                weights[eos] = 0
                # logits are float32, and of equals either may come first
                assert weights[token] > (1 - 1e-6) * weights.max()
                text.append(token)


def said(model: Model, text: list[int]) -> np.ndarray:
    with torch.no_grad():
        return torch.softmax(model.hf(torch.tensor([text]), use_cache=False).logits[0, -1], dim=-1).numpy()


def test_a_description_that_leaves_no_room_is_refused() -> None:
    model = tiny_model("gpt2")
    with pytest.raises(AtlasError, match="model tiny-gpt2: 3 new tokens after a prompt of .* are more than its context of 64"):
        self_debiased(model, token_batch(1, N), 3, strength=50, descriptions=["the " * 60], decoding=GREEDY, seeds=[0], is_exact=True, on_token=no)
    assert n_hooks(model) == 0 and len({*DESCRIPTIONS}) == 6


@pytest.mark.parametrize("family", ["gpt2", "gemma2", "bloom", "opt"])
def test_the_loss_of_the_empty_arm_is_the_models_and_that_of_an_arm_its_own(family: str) -> None:
    model = exact(family)
    text = token_batch(1, 50, seed=5)[0]
    zero = {"site": "resid_post", "layer": 1, "op": "zero", "positions": "predicting"}
    late = {"site": "ffn_out", "layer": 1, "op": "zero", "positions": "generated"}
    base, zeroed, silent = (text_loss(model, windows(text, 20, None), arm, *NONE) for arm in ((), arm_of([zero]), arm_of([late])))
    with torch.no_grad():
        pieces = (text[:20], text[20:40], text[40:])
        losses = [float(model.hf(window[None], labels=window[None], use_cache=False).loss) * (len(window) - 1) for window in pieces]
    assert base.n_tokens == 19 + 19 + 9
    assert base.loss == pytest.approx(sum(losses) / 47, rel=1e-6)
    assert base.perplexity == pytest.approx(np.exp(sum(losses) / 47), rel=1e-5)
    assert abs(silent.loss - base.loss) > 1e-3
    # a state of nothing says the same everywhere
    constant = torch.log_softmax(model.lens(torch.zeros(model.d_model)).double(), dim=-1)
    expected = -torch.cat([constant[window[1:]] for window in pieces]).mean()
    assert zeroed.loss == pytest.approx(float(expected), rel=1e-6)


def test_an_arm_that_takes_states_of_its_own_text_takes_them_from_the_whole_window() -> None:
    model, text = tiny_model("llama"), token_batch(1, 12, seed=5)[0]
    resample = {"site": "attn_out", "layer": 0, "op": "resample", "positions": "all", "seed": 3}
    base, arm = (text_loss(model, [text], arm, *NONE) for arm in ((), arm_of([resample])))
    assert arm.n_tokens == 11 and abs(arm.loss - base.loss) > 1e-3
    # one token is left over, and predicts nothing
    assert text_loss(model, windows(text, 11, None), (), *NONE).n_tokens == 10
    with pytest.raises(AtlasError, match="a text of 1 tokens was given to predict"):
        windows(text[:1], 11, None)
    # behind a BOS every token is predicted
    assert [piece.tolist() for piece in windows(torch.tensor([5, 6, 7]), 3, 0)] == [[0, 5, 6], [0, 7]]


def test_a_loss_counts_each_token_once_and_a_forbidden_one_not_at_all() -> None:
    """Whatever windows they are in: (1 + 2 + 3 + 8) / 4."""
    windows_of = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([torch.inf, 8.0]), torch.tensor([torch.inf])]
    assert mean_loss(windows_of) == TextLoss(4, 3.5)
    with pytest.raises(AtlasError, match="the filter forbids every token"):
        mean_loss(windows_of[2:])


def test_repetition_is_the_share_of_bigrams_that_differ() -> None:
    assert distinct_bigrams([[1, 2, 3], [7], [1, 1, 1, 1, 1]]) == pytest.approx((1 + 0.25) / 2)
    assert distinct_bigrams([[1], []]) is None


def test_a_difference_needs_a_score_a_base_and_a_cluster_of_each() -> None:
    with pytest.raises(AtlasError, match="2 scores, 1 of the base and 2 clusters were given"):
        paired_difference([1.0, 2.0], [0.0], ["a", "b"], seed=0)
