"""Causal tracing and patching in every family, against cells read one by one with hooks written by hand on transformers in float64."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from ingest.acting.answers import Answer, Prompt
from ingest.acting.cells import Cell, cells_of, window_of
from ingest.acting.changes import DONOR, answers_under, begin_at_layer, first_layer
from ingest.acting.patching import LEAST, patch
from ingest.acting.runs import record_run
from ingest.acting.tracing import Trace, noise_arms, noise_deviation, trace
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.interventions.intervention import Intervention, Source
from schema.interventions.positions import Positions
from tests.ingest.acting_oracle import Hand, Names, by_hand, hashed, put, seen
from tests.ingest.prompts import OTHER, SUBJECT, TOKENS, N, exact, prompt_with_answer, unheard
from tests.ingest.tiny_models import FAMILIES, tiny_model

torch.set_num_threads(1)

every_family = pytest.mark.parametrize("family", FAMILIES)

DEVIATION, SEED, DRAWS = 0.8, 5, 2
CELLS = [Cell(site, 1, layer, index) for site in ("resid_post", "attn_out", "ffn_out") for layer in (0, 1) for index in (0, 2, N - 1)]
CELLS += [Cell("attn_out", 2, 1, 2), Cell("ffn_out", 2, 0, N - 1), Cell("attn_out", 10, 1, N - 1), Cell("ffn_out", 10, 0, 2)]


def traced(model: Model, prompt: Prompt, cells: Sequence[Cell] = CELLS) -> Trace:
    found = trace(model, prompt, SUBJECT, DEVIATION, cells, n_draws=DRAWS, seed=SEED, progress=unheard)
    assert found is not None
    return found


def site_module(names: Names, site: str, layer: int) -> str:
    return {"resid_post": names.block, "attn_out": names.attn_out, "ffn_out": names.ffn_out}[site](layer)


def restored_by_hand(hf: PreTrainedModel, names: Names, cell: Cell, donor: Tensor) -> list[Hand]:
    """The donor's states at the layers of a window that are there: from the layer's middle on, its end left out."""
    layers = [layer for layer in range(cell.layer - cell.window // 2, cell.layer - cell.window // 2 + cell.window) if layer in (0, 1)]
    modules = [site_module(names, cell.site, layer) for layer in layers]
    states = [seen(hf, donor, module, "out") for module in modules]
    return [(module, "out", put([cell.index], slice(None), x[cell.index])) for module, x in zip(modules, states, strict=True)]


def noised_by_hand(names: Names, draw: int) -> Hand:
    def noised(x: Tensor, t: int) -> Tensor:
        return x + DEVIATION * torch.randn(len(x), generator=torch.Generator().manual_seed(hashed(hashed(SEED, draw), t))).double()

    return names.embedding, "out", put(SUBJECT, slice(None), noised)


@pytest.mark.thorough
@every_family
def test_cells_in_batches_that_begin_higher_up_are_cells_read_one_by_one(family: str) -> None:
    """The answer is of two tokens: log p is summed, teacher-forced, and the difference is the first token's."""
    model, names = exact(family), Names(family)
    prompt = prompt_with_answer(model, 2)
    found = traced(model, prompt)
    rows, tokens = found.effects.to_pylist(), prompt.input_ids
    plain = by_hand(model.hf, tokens, [])[[N - 1, N]]
    order = plain[0].argsort(descending=True)
    foil = int(next(token for token in order if token != prompt.answer[0]))

    def by_one(hands: list[Hand]) -> tuple[float, float]:
        logits = by_hand(model.hf, tokens, hands)[[N - 1, N]]
        log = logits.log_softmax(-1)
        return float(log[0, prompt.answer[0]] + log[1, prompt.answer[1]]), float(logits[0, prompt.answer[0]] - logits[0, foil])

    def mean(hands: list[Hand]) -> tuple[Tensor, Tensor]:
        logprobs, differences = zip(*(by_one([noised_by_hand(names, draw), *hands]) for draw in range(DRAWS)), strict=True)
        return torch.tensor(logprobs).double(), torch.tensor(differences).double()

    clean, corrupted = torch.tensor(by_one([])).double(), mean([])
    assert torch.allclose(found.clean, clean, atol=1e-5)
    assert torch.allclose(found.corrupted, torch.stack(corrupted, -1), atol=1e-5)
    total = clean[0].exp() - corrupted[0].exp().mean()
    for cell, row in zip(CELLS, rows, strict=True):
        logprobs, differences = mean(restored_by_hand(model.hf, names, cell, tokens))
        p = logprobs.exp()
        expected = {
            "site": cell.site, "window": cell.window, "layer": cell.layer, "index": cell.index, "sources": None, "n_draws": 2,
            "prob": p.mean(), "prob_se": (p[0] - p[1]).abs() / 2, "logprob": logprobs.mean(), "logit_difference": differences.mean(),
            "effect": p.mean() - corrupted[0].exp().mean(), "total_effect": total,
        }  # fmt: skip
        assert row == {key: value if value is None or isinstance(value, str) else pytest.approx(float(value), abs=3e-5) for key, value in expected.items()}
    assert not found.is_first_noised
    assert torch.tensor([row["logit_difference"] for row in rows]).std() > 1e-3


@every_family
def test_all_states_of_a_layer_restored_give_the_clean_run_and_none_the_corrupted(family: str) -> None:
    model = exact(family)
    prompt = prompt_with_answer(model)
    answer, arms = Answer(prompt.answer, 3), noise_arms(SUBJECT, DEVIATION, DRAWS, SEED)
    everywhere = Intervention("resid_post", "patch", 0, positions=Positions("all"), source=Source(DONOR, None))
    donor = record_run(model, TOKENS, [("resid_post", 0)])
    corrupted, found = answers_under(model, TOKENS, arms, [(everywhere,), ()], donor, answer, unheard)
    plain = by_hand(model.hf, TOKENS, [])[-1:][None]
    assert torch.allclose(found[0], answer.readings(plain).expand(DRAWS, -1), atol=1e-5)
    assert torch.equal(found[1], corrupted)
    assert (found[0] - corrupted).abs().max() > 1e-3


@every_family
def test_a_state_that_no_noise_has_reached_has_no_effect(family: str) -> None:
    """Index 0 lies before the subject. Other noise in its cells would look like an effect."""
    model = exact(family)
    found = traced(model, prompt_with_answer(model), [cell for cell in CELLS if cell.index == 0])
    effects = torch.tensor(found.effects["effect"].to_pylist())
    assert torch.allclose(effects, torch.zeros(len(effects)), atol=1e-6)


@every_family
def test_noise_is_as_wide_as_what_the_embedding_module_gives(family: str) -> None:
    """Gemma's multiplies its weights by √d_model; other families' embeddings are the weights."""
    model = tiny_model(family)
    weights = model.hf.get_submodule(Names(family).embedding).weight[torch.tensor([4, 9, 4, 7])].double()
    factor = 4.0 if family.startswith("gemma") else 1.0  # d_model is 16
    assert noise_deviation(model, [[4, 9], [4], [7]]) == pytest.approx(3 * factor * float(weights.std()), rel=1e-4)
    assert noise_deviation(model, [[4, 9], [4], [7]], 1.5) == pytest.approx(1.5 * factor * float(weights.std()), rel=1e-4)


def test_windows_are_half_open_and_cut_at_the_ends() -> None:
    assert [window_of(layer, 10, 30) for layer in (0, 4, 12, 27)] == [range(5), range(9), range(7, 17), range(22, 30)]
    assert [window_of(layer, 9, 30) for layer in (0, 4, 12, 27)] == [range(5), range(9), range(8, 17), range(23, 30)]
    assert window_of(12, 1, 30) == range(12, 13)
    with pytest.raises(AtlasError, match="layer 30 was asked for; the model has layers 0 to 29"):
        window_of(30, 1, 30)


def test_a_pass_begins_where_the_first_of_its_changes_does() -> None:
    there = Positions("last")
    late, early = Intervention("resid_post", "zero", 2, positions=there), Intervention("attn_out", "zero", 1, positions=there)
    noise = Intervention("embedding", "noise", positions=there, value=1, seed=0)
    assert [first_layer(arm, 4) for arm in ((late,), (late, early), (late, noise), ())] == [3, 1, 0, 4]


def test_lower_blocks_are_not_computed_again() -> None:
    model = exact("llama", num_hidden_layers=6)
    prompt, called = prompt_with_answer(model), []
    for layer in range(6):
        model.layer_module(layer, "mlp").register_forward_hook(lambda _m, _a, _o, layer=layer: called.append(layer))
    traced(model, prompt, [Cell("resid_post", 1, 3, 2), Cell("ffn_out", 2, 5, 2)])
    # what the model says, what is put in and what is noised are whole passes; both cells begin at layer 4
    assert called == [*range(6)] * 3 + [4, 5]


def test_a_prompt_that_is_answered_otherwise_is_not_traced() -> None:
    model = exact("llama")
    prompt, of_two = prompt_with_answer(model), prompt_with_answer(model, 2).answer
    for wrong in (Prompt(prompt.token_ids, (prompt.answer[0] + 1,)), Prompt(prompt.token_ids, (of_two[0], of_two[1] + 1))):
        assert trace(model, wrong, SUBJECT, DEVIATION, CELLS[:1], n_draws=1, seed=0, progress=unheard) is None


def test_all_states_of_a_site_are_traced_and_noise_at_index_0_is_told() -> None:
    model = exact("llama")
    prompt, told = prompt_with_answer(model), list[tuple[int, int]]()
    cells = cells_of({"resid_post": 1, "ffn_out": 3}, [0, 1], N)
    found = trace(model, prompt, range(2), DEVIATION, cells, n_draws=3, seed=0, progress=lambda *n: told.append(n))
    assert found is not None and found.is_first_noised
    assert [(row["site"], row["window"], row["layer"], row["index"]) for row in found.effects.to_pylist()] == [
        (site, window, layer, index) for site, window in (("resid_post", 1), ("ffn_out", 3)) for layer in (0, 1) for index in range(N)
    ]
    assert told == [(n, 4 * N) for n in range(1, 4 * N + 1)]


def test_what_the_callback_raises_ends_the_work_and_leaves_the_model_as_it_was() -> None:
    model = exact("gptj")
    prompt, plain = prompt_with_answer(model), by_hand(model.hf, TOKENS, [])

    def stop(n: int, of: int) -> None:
        # those that begin highest come last
        if n == of:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trace(model, prompt, SUBJECT, DEVIATION, CELLS, n_draws=1, seed=0, progress=stop)
    assert not any("forward" in vars(module) or module._forward_hooks or module._forward_pre_hooks for module in model.hf.modules())
    assert torch.equal(by_hand(model.hf, TOKENS, []), plain)


def test_an_error_within_a_pass_leaves_the_model_as_it_was() -> None:
    """Within one that is recorded, and within one that begins higher up: what hears of cells is called between them."""
    model = exact("llama")
    plain, states = by_hand(model.hf, TOKENS, []), torch.zeros(1, N, model.d_model, dtype=torch.float64)
    failing = model.layer_module(1, "mlp").register_forward_hook(lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        record_run(model, TOKENS, [("resid_post", 0), ("attn_out", 1)])
    with pytest.raises(ZeroDivisionError), begin_at_layer(model, 1, states, False):
        model.backbone(TOKENS[None])
    failing.remove()
    assert not any("forward" in vars(module) or module._forward_hooks or module._forward_pre_hooks for module in model.hf.modules())
    assert torch.equal(by_hand(model.hf, TOKENS, []), plain)


def test_one_draw_has_no_standard_error_and_another_seed_another_noise() -> None:
    model = exact("gpt2")
    prompt = prompt_with_answer(model)
    one, two = (trace(model, prompt, SUBJECT, DEVIATION, CELLS[:2], n_draws=1, seed=seed, progress=unheard) for seed in (1, 2))
    assert one is not None and two is not None
    assert one.effects["prob_se"].to_pylist() == [None, None]
    assert not torch.allclose(one.corrupted, two.corrupted, atol=1e-3)


@pytest.mark.parametrize(
    ("subject", "n_draws", "cell", "message"),
    [
        (range(3, 9), 1, Cell("resid_post", 1, 0, 0), "the subject is positions 3 to 8; the prompt has positions 0 to 6"),
        (range(3, 3), 1, Cell("resid_post", 1, 0, 0), "the subject is positions 3 to 2"),
        (SUBJECT, 0, Cell("resid_post", 1, 0, 0), "0 draws of noise were asked for"),
        (SUBJECT, 1, Cell("resid_post", 1, 2, 0), "layer 2 was asked for; the model has layers 0 to 1"),
        (SUBJECT, 1, Cell("resid_post", 1, 0, 7), "position 7 was asked for; the sequence has positions 0 to 6"),
    ],
)
def test_what_is_not_there_is_refused(subject: range, n_draws: int, cell: Cell, message: str) -> None:
    model = exact("llama")
    with pytest.raises(AtlasError, match=message):
        trace(model, prompt_with_answer(model), subject, DEVIATION, [cell], n_draws=n_draws, seed=0, progress=unheard)
    with pytest.raises(AtlasError, match="no subject has a token"):
        noise_deviation(model, [[]])


@pytest.mark.thorough
@every_family
def test_patching_is_what_cells_read_one_by_one_are(family: str) -> None:
    """Both ways: each prompt is once the one that is acted on and once the donor."""
    model, names = exact(family), Names(family)
    plain = [by_hand(model.hf, tokens, [])[-1] for tokens in (TOKENS, OTHER)]
    a, b = (int((sign * (plain[1] - plain[0])).argmax()) for sign in (1, -1))
    own, theirs = (logits[a] - logits[b] for logits in plain)
    assert abs(own - theirs) > LEAST, family
    effects = {}
    for acted, donor, start, end in ((TOKENS, OTHER, own, theirs), (OTHER, TOKENS, theirs, own)):
        found = patch(model, acted, donor, Answer((a,), b), CELLS, unheard)
        assert found.own[1] == pytest.approx(float(start), abs=1e-5) and found.donor[1] == pytest.approx(float(end), abs=1e-5)
        for cell, row in zip(CELLS, found.effects.to_pylist(), strict=True):
            logits = by_hand(model.hf, acted, restored_by_hand(model.hf, names, cell, donor))[-1]
            difference = logits[a] - logits[b]
            assert row["logit_difference"] == pytest.approx(float(difference), abs=1e-5)
            assert row["effect"] == pytest.approx(float((difference - start) / (end - start)), abs=1e-4)
            assert row["total_effect"] == pytest.approx(float(end - start), abs=1e-5)
            assert row["prob"] == pytest.approx(float(logits.softmax(-1)[a]), abs=1e-5)
            assert row["n_draws"] == 1 and row["prob_se"] is None
        effects[int(acted[0])] = torch.tensor(found.effects["effect"].to_pylist())
    forth, back = effects.values()
    # the last state of the last layer is all there is to the prediction; elsewhere the two ways do not mirror each other
    last = CELLS.index(Cell("resid_post", 1, 1, N - 1))
    assert forth[last] == pytest.approx(1, abs=1e-5) and back[last] == pytest.approx(1, abs=1e-5)
    assert (forth + back - 1).abs().max() > 1e-2


def test_prompts_that_the_logits_hardly_tell_apart_have_no_effect() -> None:
    model = exact("llama")
    own, theirs = (by_hand(model.hf, tokens, [])[-1] for tokens in (TOKENS, OTHER))
    apart = (theirs - theirs[3]) - (own - own[3])
    for a, is_enough in ((int((apart.abs() - 0.49).abs().argmin()), False), (int((apart.abs() - 0.51).abs().argmin()), True)):
        assert (float(apart[a].abs()) >= LEAST) is is_enough and abs(float(apart[a].abs()) - LEAST) < 0.05
        found = patch(model, TOKENS, OTHER, Answer((a,), 3), CELLS[:4], unheard)
        assert [effect is not None for effect in found.effects["effect"].to_pylist()] == [is_enough] * 4
        assert found.effects["total_effect"].to_pylist() == pytest.approx([float(apart[a])] * 4, abs=1e-5)


def test_prompts_of_unequal_length_and_answers_of_several_tokens_are_refused() -> None:
    model = exact("llama")
    with pytest.raises(AtlasError, match="the prompts have 7 and 6 tokens"):
        patch(model, TOKENS, OTHER[1:], Answer((3,), 4), CELLS, unheard)
    with pytest.raises(AtlasError, match="an answer of 2 was given"):
        patch(model, TOKENS, OTHER, Answer((3, 5), 4), CELLS, unheard)
