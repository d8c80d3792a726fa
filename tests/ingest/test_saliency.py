"""Gradient × input, integrated gradients and occlusion in every family, against a float64 version that shares no code; and functions done on paper."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ingest.acting.answers import Prompt
from ingest.acting.integral import MOST_STEPS, integrate, integrated_gradients
from ingest.acting.saliency import ATTRIBUTION, ATTRIBUTION_TOTAL, default_baseline, embedding_as, saliency
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.terms import ATTRIBUTION_SCORES
from tests.ingest.acting_oracle import Names, by_hand
from tests.ingest.prompts import TOKENS, N, exact, prompt_with_answer, unheard
from tests.ingest.tiny_models import FAMILIES, tiny_model

torch.set_num_threads(1)

every_family = pytest.mark.parametrize("family", FAMILIES)
BASELINE = 17


def score_by_hand(score: str, logits: Tensor, prompt: Prompt, foil: int) -> Tensor:
    """Of the rows that predict the answer, [tokens, vocabulary]."""
    if score == "logit_difference":
        return logits[0, prompt.answer[0]] - logits[0, foil]
    log = sum(logits[place].log_softmax(-1)[token] for place, token in enumerate(prompt.answer))
    return log.exp() if score == "prob" else log


class Hand:
    """The score of embeddings [seq, width], by a hook of its own."""

    def __init__(self, model: Model, family: str, prompt: Prompt, score: str) -> None:
        self.hf, self.prompt, self.score = model.hf, prompt, score
        self.embedding = model.hf.get_submodule(Names(family).embedding)
        self.at = range(len(prompt.token_ids) - 1, len(prompt.input_ids))
        plain = by_hand(model.hf, prompt.input_ids, [])[self.at.start]
        self.foil = int(next(token for token in plain.argsort(descending=True) if token != prompt.answer[0]))

    def embed(self, tokens: Tensor) -> Tensor:
        return self.embedding(tokens).detach()

    def __call__(self, x: Tensor) -> Tensor:
        handle = self.embedding.register_forward_hook(lambda *_: x[None])
        logits = self.hf(input_ids=self.prompt.input_ids[None], use_cache=False).logits[0, list(self.at)]
        handle.remove()
        return score_by_hand(self.score, logits, self.prompt, self.foil)

    def gradient(self, x: Tensor) -> Tensor:
        leaf = x.clone().requires_grad_()
        self(leaf).backward()
        assert leaf.grad is not None
        return leaf.grad

    def integral(self, x: Tensor, baseline: Tensor, n: int) -> Tensor:
        """Nodes and weights as eigenvalues and eigenvectors of Legendre's recurrence (Golub and Welsch 1969)."""
        k = torch.arange(1, n, dtype=torch.float64)
        beside = k / (4 * k**2 - 1).sqrt()
        nodes, vectors = torch.linalg.eigh(torch.diag(beside, 1) + torch.diag(beside, -1))
        gradients = [float(v) ** 2 * self.gradient(baseline + (float(node) + 1) / 2 * (x - baseline)) for node, v in zip(nodes, vectors[0], strict=True)]
        return ((x - baseline) * sum(gradients)).sum(-1)


@pytest.mark.thorough
@every_family
def test_all_three_methods_by_hand(family: str) -> None:
    """The answer is of two tokens; its first, which is read too, and index 0 keep their own embeddings."""
    model = exact(family)
    prompt, tokens = prompt_with_answer(model, 2), prompt_with_answer(model, 2).input_ids
    for score in ATTRIBUTION_SCORES if family in ("llama", "gpt2") else ATTRIBUTION_SCORES[1:2]:
        rows, totals = (table.to_pylist() for table in saliency(model, prompt, score, BASELINE, unheard))
        hand = Hand(model, family, prompt, score)
        found = {method: [row["attribution"] for row in rows if row["method"] == method] for method in ("gradient_input", "integrated_gradients", "occlusion")}
        total = {row["method"]: row for row in totals}
        own = hand.embed(tokens)
        at_input, size = float(hand(own)), max(map(abs, found["occlusion"]))
        assert size > (1e-5 if score == "prob" else 1e-2)
        slack = 1e-3 * min(size, 0.1)
        assert found["gradient_input"] == pytest.approx((own * hand.gradient(own)).sum(-1)[:N].tolist(), abs=slack, rel=1e-4)

        base = hand.embed(torch.tensor([int(tokens[0]), *[BASELINE] * (N - 1), int(tokens[-1])]))
        n_steps = total["integrated_gradients"]["n_steps"]
        expected = hand.integral(own, base, n_steps)
        assert expected[0] == expected[-1] == 0
        assert found["integrated_gradients"][0] is None
        assert found["integrated_gradients"][1:] == pytest.approx(expected[1:N].tolist(), abs=slack, rel=1e-3)
        difference = at_input - float(hand(base))
        error = abs(float(expected.sum()) - difference) / max(abs(difference), 0.1)
        assert total["integrated_gradients"]["at_baseline"] == pytest.approx(at_input - difference, abs=slack)
        assert total["integrated_gradients"]["completeness_error"] == pytest.approx(error, abs=1e-3)

        for index in range(N):
            replaced = tokens.clone()
            replaced[index] = BASELINE
            after = score_by_hand(score, by_hand(model.hf, replaced, [])[[N - 1, N]], prompt, hand.foil)
            assert found["occlusion"][index] == pytest.approx(at_input - float(after), abs=slack)
        for method, row in total.items():
            assert row["at_input"] == pytest.approx(at_input, abs=slack)
            assert row["sum"] == pytest.approx(sum(value or 0 for value in found[method]), abs=slack)
            assert row["baseline"] == ("none" if method == "gradient_input" else model.tokenizer.convert_ids_to_tokens(BASELINE))
            assert (row["n_steps"] is None) is (row["completeness_error"] is None) is (method != "integrated_gradients")


@every_family
def test_integrated_gradients_sum_to_the_difference_with_a_token_as_the_baseline(family: str) -> None:
    model = tiny_model(family)
    _, totals = saliency(model, prompt_with_answer(model), "logprob", BASELINE, unheard)
    row = totals.to_pylist()[1]
    assert row["completeness_error"] <= 0.05
    assert abs(row["sum"] - (row["at_input"] - row["at_baseline"])) <= 0.05 * max(abs(row["at_input"] - row["at_baseline"]), 0.1)


ONES, HALVES = torch.ones(3, 2, dtype=torch.float64), torch.full((3, 2), 0.5, dtype=torch.float64)


def test_of_a_linear_score_they_are_the_gradient_times_the_difference() -> None:
    weights = torch.arange(6, dtype=torch.float64).view(3, 2) - 2
    found = integrated_gradients(lambda x: (x * weights).sum((1, 2)) + 7, ONES, HALVES, unheard)
    assert found.attribution.tolist() == pytest.approx([-1.5, 0.5, 2.5])
    assert (found.n_steps, found.at_input, found.at_baseline) == (32, 10, 8.5)
    assert found.error == pytest.approx(0, abs=1e-12)


def test_of_a_product_each_factor_has_its_share() -> None:
    """s = x·y from (½, ½) to (1, 1): both factors alike, ∫ y dx = ½·¾."""
    found = integrated_gradients(lambda x: x[:, 0, 0] * x[:, 1, 1], ONES, HALVES, unheard)
    assert found.attribution.tolist() == pytest.approx([0.375, 0.375, 0])


def test_steps_double_until_the_sum_is_complete() -> None:
    """A step as wide as 32 nodes are apart is missed by them."""
    told: list[tuple[int, int]] = []
    steep: Callable[[Tensor], Tensor] = lambda x: torch.sigmoid(2000 * (x[:, 0, 0] - 0.7513))  # noqa: E731
    found = integrated_gradients(steep, ONES, HALVES, lambda *n: told.append(n))
    assert found.is_complete and 32 < found.n_steps <= MOST_STEPS
    before = integrate(steep, ONES, HALVES, found.n_steps // 2, unheard)
    assert abs(float(before.sum()) - 1) > 0.05
    assert [n for n, of in told if n == of] == [32 * 2**i for i in range(len([n for n, of in told if n == of]))]
    assert told[-1] == (found.n_steps, found.n_steps)


def test_a_sum_that_never_comes_out_is_flagged() -> None:
    found = integrated_gradients(lambda x: (x[:, 0, 0] * 1.5).floor() + 0 * x.sum((1, 2)), ONES, HALVES, unheard)
    assert (found.n_steps, found.is_complete) == (512, False)
    assert found.error == pytest.approx(1)


def test_a_small_difference_is_held_for_a_tenth() -> None:
    """A jump of 0.001 has no gradient: its error is a hundredth, and not one."""
    found = integrated_gradients(lambda x: 0.001 * (x[:, 0, 0] * 1.5).floor() + 0 * x.sum((1, 2)), ONES, HALVES, unheard)
    assert found.error == pytest.approx(0.01) and found.is_complete


def test_gradients_are_taken_where_the_caller_takes_none_and_nothing_is_left_behind() -> None:
    model = tiny_model("llama")
    prompt = prompt_with_answer(model)
    plain = saliency(model, prompt, "prob", BASELINE, unheard)
    with torch.inference_mode():
        inside = saliency(model, prompt, "prob", BASELINE, unheard)
    assert plain[0].equals(inside[0]) and plain[1].equals(inside[1])

    def stop(_n: int, _of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        saliency(model, prompt, "prob", BASELINE, stop)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.hf.modules())
    assert all(parameter.grad is None for parameter in model.hf.parameters())
    assert plain[0].schema == ATTRIBUTION and plain[1].schema == ATTRIBUTION_TOTAL


def test_an_error_within_a_pass_leaves_the_embedding_as_it_was() -> None:
    model = tiny_model("llama")
    failing = model.layer_module(1, "mlp").register_forward_hook(lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError), embedding_as(model, torch.zeros(1, N, model.d_model)):
        model.hf(TOKENS[None])
    failing.remove()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.hf.modules())


def test_in_half_precision_there_are_numbers() -> None:
    model = tiny_model("llama", dtype=torch.bfloat16)
    rows, _ = saliency(model, Prompt(tuple(TOKENS.tolist()), (4,)), "logprob", BASELINE, unheard)
    assert all(row["attribution"] is not None or (row["index"], row["method"]) == (0, "integrated_gradients") for row in rows.to_pylist())


def test_what_is_not_there_is_refused() -> None:
    model = tiny_model("llama")
    prompt = Prompt(tuple(TOKENS.tolist()), (4,))
    with pytest.raises(AtlasError, match="score 'logit' is unknown; there are logit_difference, logprob, prob"):
        saliency(model, prompt, "logit", BASELINE, unheard)
    with pytest.raises(AtlasError, match="token 300 was asked for as the baseline; tiny-llama reads tokens 0 to 299"):
        saliency(model, prompt, "prob", 300, unheard)
    with pytest.raises(AtlasError, match="a prompt of 3 tokens with an answer of 0 was given"):
        Prompt((1, 2, 3), ())
    assert default_baseline(model) == 0
    model.tokenizer.eos_token = model.tokenizer.convert_ids_to_tokens(BASELINE)
    assert default_baseline(model) == BASELINE
    model.tokenizer.eos_token = None
    with pytest.raises(AtlasError, match="tiny-llama: its tokenizer has no end-of-text token"):
        default_baseline(model)
