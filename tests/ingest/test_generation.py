"""What a model goes on with under arms: with a cache as without, without arms as transformers goes on, and a row as it would be alone."""

import pytest
import torch
from torch import Tensor

from ingest.acting.acting import apply_arms
from ingest.acting.decoding import Decoding, Generated, OnToken, choose_token, continue_rows
from ingest.acting.edits import AssignedArm
from ingest.acting.effect import effect
from ingest.acting.generation import continue_under_arms, eos_ids, generate
from ingest.acting.places import shape_of
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.interventions.parse import arm_of
from schema.interventions.resolve import resolve
from tests.ingest.acting_oracle import hashed
from tests.ingest.test_acting import PROMPT, N, assign_arms, exact, n_hooks, resolved
from tests.ingest.tiny_models import FAMILIES, tiny_model, token_batch

torch.set_num_threads(1)

every_family = pytest.mark.parametrize("family", FAMILIES)

GREEDY, SAMPLE = Decoding(), Decoding("sample", 0.9, 0.8)
N_NEW = 7
ITEMS = [
    {"site": "coefficient", "layer": 1, "units": [3], "op": "set", "value": 4, "positions": "predicting"},
    {"site": "resid_post", "layer": 0, "op": "noise", "value": 0.5, "seed": 3, "positions": [2, 8, 10]},
    {"site": "attention", "layer": 0, "op": "block", "edges": [[8, 7], [10, 8], [11, 9], [12, 12]], "units": [1]},
    {"site": "head", "layer": 1, "units": [0], "op": "zero", "positions": "generated"},
]


def no(row: int, token_id: int) -> None:
    """Nobody listens."""


def go(
    model: Model, *arms: list[dict], decoding: Decoding = GREEDY, seed: int = 0, is_exact: bool = True, on_token: OnToken = no, n_new: int = N_NEW
) -> list[Generated]:
    asked = [arm_of(arm) for arm in arms]
    arms = [resolve(arm, shape_of(model), lambda *_: None) for arm in asked]
    return generate(model, {0: PROMPT}, 0, arms, n_new, {}, decoding=decoding, seed=seed, is_exact=is_exact, on_token=on_token)


def alone(model: Model, token_ids: Tensor, seeds: list[int], decoding: Decoding = SAMPLE, arms: list[AssignedArm] | None = None) -> list[tuple[int, ...]]:
    found = continue_under_arms(model, token_ids, N_NEW, arms or [], decoding=decoding, seeds=seeds, is_exact=True, adjust={}, on_token=no)
    return [one.token_ids for one in found]


@every_family
def test_with_a_cache_the_tokens_are_those_of_reading_everything_anew(family: str) -> None:
    """In float64, the logits of transformers' own head; bloom's ALiBi and windows that drop sources among them."""
    model = exact(family)
    arm = resolved(model, *ITEMS)
    eos, anew = sorted(eos_ids(model)), []
    for arms in ([], assign_arms(model, arm, n_positions=N + N_NEW - 1)):
        tokens = PROMPT[None]
        with apply_arms(model, arms), torch.no_grad():
            for _ in range(N_NEW):
                logits = model.hf(tokens, use_cache=False).logits[0, -1]
                logits[eos] = -torch.inf
                tokens = torch.cat((tokens, logits.argmax()[None, None]), dim=1)
        anew.append(Generated(tuple(tokens[0, N:].tolist()), "length"))
    assert go(model, ITEMS) == anew


@every_family
def test_without_arms_the_tokens_are_those_of_transformers(family: str) -> None:
    model, prompts = exact(family), token_batch(3, N, seed=1)
    eos = {0, model.hf.generation_config.eos_token_id} - {None}
    theirs = model.hf.generate(
        prompts, attention_mask=torch.ones_like(prompts), do_sample=False, max_new_tokens=12, min_new_tokens=12, eos_token_id=sorted(eos), pad_token_id=0
    )
    found = continue_under_arms(model, prompts, 12, [], decoding=GREEDY, seeds=[0] * 3, is_exact=True, adjust={}, on_token=no)
    assert [list(one.token_ids) for one in found] == theirs[:, N:].tolist()


def test_rows_of_one_batch_and_one_seed_are_each_as_it_is_alone() -> None:
    """What is drawn for a row does not depend on the rows beside it; another seed and another step are another draw."""
    model = exact("llama")
    prompts, arm = token_batch(3, N, seed=2), resolved(model, *ITEMS)
    together = alone(model, prompts, [5, 6, 7], arms=[AssignedArm(arm, slice(1, 2), N, N + N_NEW)])
    assert together[0] == alone(model, prompts[:1], [5])[0]
    assert together[1] == alone(model, prompts[1:2], [6], arms=[AssignedArm(arm, slice(0, 1), N, N + N_NEW)])[0]
    assert together[2] == alone(model, prompts[1:], [0, 7])[1]
    assert len({*alone(model, prompts[:1].expand(6, -1), [1, 1, 2, 3, 4, 5])}) == 5
    flat = alone(model, prompts[:1], [1], Decoding("sample", 1e6))
    assert len(set(flat[0])) > 1


def test_what_is_drawn_is_a_hash_of_seed_and_step() -> None:
    """Of a thousand tokens that are alike the one at the place of the hash: rows of one seed draw the same, and each step draws anew."""
    found = continue_rows(lambda _: torch.zeros(3, 1000), PROMPT.expand(3, -1), 4, Decoding("sample"), [8, 9, 8], frozenset(), False, {}, no)
    expected = [tuple(int(hashed(seed, step) * 1000 / 2**63) for step in range(4)) for seed in (8, 9, 8)]
    assert [one.token_ids for one in found] == expected and len({*expected[0], *expected[1]}) == 8


def test_generated_leaves_the_first_new_token_and_predicting_does_not() -> None:
    model = exact("llama")

    def tokens(positions: str) -> list[tuple[int, ...]]:
        steer = {"site": "resid_post", "layer": 1, "op": "noise", "value": 50, "seed": 0, "positions": positions}
        return [one.token_ids for one in go(model, [steer])]

    base, generated = tokens("generated")
    assert generated[0] == base[0] and generated[1] != base[1]
    base, predicting = tokens("predicting")
    assert predicting[0] != base[0]
    steer = {"site": "resid_post", "layer": 1, "op": "noise", "value": 50, "seed": 0, "positions": "predicting"}
    first = effect(model, {0: PROMPT}, 0, [arm_of([steer])], [N - 1], lambda *_: None, {}).logits[:, 0]
    first[:, sorted(eos_ids(model))] = -torch.inf
    assert first.argmax(-1).tolist() == [base[0], predicting[0]]


def test_an_arm_that_changes_nothing_is_the_base_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the products of a larger model do, equal rows here differ by rounding, so that of two tokens that are alike each row takes another."""
    model = exact("llama")
    lens = Model.lens

    def rounded(self: Model, z: Tensor, out: Tensor | None = None) -> Tensor:
        logits = lens(self, z, out)
        return logits if z.dim() < 2 else logits + 50 * torch.eye(*logits.shape, dtype=logits.dtype).roll(9, 1)

    monkeypatch.setattr(Model, "lens", rounded)
    same = {"site": "coefficient", "layer": 1, "units": "all", "op": "scale", "value": 1, "positions": "all"}
    late = {"site": "resid_post", "layer": 1, "op": "zero", "positions": [N + 1]}
    base, empty, unchanged, later = (one.token_ids for one in go(model, [], [same], [late]))
    assert base == (9,) * N_NEW == empty == unchanged
    assert later == (9, 9, *(12,) * (N_NEW - 2))


def test_a_text_ends_at_its_end_or_has_as_many_tokens_as_were_asked_for() -> None:
    model = exact("llama")
    whole = go(model)[0].token_ids
    model.hf.generation_config.eos_token_id = [whole[3], 10**6]
    assert eos_ids(model) == {0, whole[3]}
    heard: list[tuple[int, int]] = []
    found = go(model, ITEMS, is_exact=False, on_token=lambda *told: heard.append(told))
    end = whole.index(whole[3]) + 1
    assert found[0] == Generated(whole[:end], "eos")
    assert [token for row, token in heard if row == 0] == list(whole[:end])
    assert tuple(token for row, token in heard if row == 1) == found[1].token_ids
    # the other row goes on as if the first had not ended
    assert found[1].finish == "length" and len(found[1].token_ids) == N_NEW
    for one in go(model, ITEMS):
        assert one.finish == "length" and len(one.token_ids) == N_NEW and not eos_ids(model) & {*one.token_ids}


def test_whoever_hears_of_tokens_may_end_the_generation_and_no_hook_is_left() -> None:
    model, heard = tiny_model("gemma2"), []

    def two(row: int, token_id: int) -> None:
        heard.append(row)
        if len(heard) == 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        go(model, ITEMS, on_token=two)
    assert heard == [0, 1, 0, 1, 0]
    assert n_hooks(model) == 0


def nucleus(probs: list[float], top_p: float) -> dict[int, float]:
    """By hand: the likeliest until they have top_p, and how likely each is among them."""
    kept: dict[int, float] = {}
    for token in sorted(range(len(probs)), key=lambda token: (-probs[token], token)):
        if sum(kept.values()) >= top_p:
            break
        kept[token] = probs[token]
    return {token: p / sum(kept.values()) for token, p in kept.items()}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("top_p", [0.001, 0.3, 0.5, 0.95, 1.0])
def test_tokens_are_drawn_as_often_as_they_are_likely_among_the_likeliest(temperature: float, top_p: float) -> None:
    logits = torch.tensor([0.1, 2.0, -1.0, 2.0, -torch.inf, 0.5, -8.0])
    weights = [float(torch.exp(logit.double() / temperature)) for logit in logits]
    expected = nucleus([weight / sum(weights) for weight in weights], top_p)
    n = 400
    drawn = [choose_token(logits, Decoding("sample", temperature, top_p), (i + 0.5) / n) for i in range(n)]
    assert {*drawn} <= expected.keys()
    for token, p in expected.items():
        assert drawn.count(token) / n == pytest.approx(p, abs=1.5 / n)


def test_of_equals_the_lowest_id_comes_first() -> None:
    assert choose_token(torch.tensor([1.0, 3.0, 3.0]), GREEDY, 0.9) == 1
    assert choose_token(torch.tensor([1.0, 3.0, 3.0]), Decoding("sample", 1, 0.01), 0.9) == 1


def test_what_cannot_be_is_refused() -> None:
    model = tiny_model("gpt2")
    with pytest.raises(AtlasError, match="model tiny-gpt2: 60 new tokens after a prompt of 9 are more than its context of 64"):
        go(model, n_new=60)
    with pytest.raises(AtlasError, match="0 new tokens after a prompt of 9 were asked for; give at least 1 of each"):
        go(model, n_new=0)
    late = {"site": "resid_post", "layer": 0, "op": "zero", "positions": [N + N_NEW - 1]}
    with pytest.raises(AtlasError, match="position 15 was asked for; the sequence has positions 0 to 14"):
        go(model, [late])
    blown = {"site": "resid_post", "layer": 1, "op": "noise", "value": 1e39, "seed": 0, "positions": "generated"}
    with pytest.raises(AtlasError, match="no token can follow in row 1, 1 tokens after its prompt: the largest logit is nan"):
        go(model, [blown])
    for wrong, message in (
        (("beam",), "decoding 'beam' is unknown; give greedy or sample"),
        (("sample", 0.0), "a temperature of 0 was asked for; give one above 0"),
        (("sample", float("nan")), "a temperature of nan was asked for"),
        (("sample", 1.0, 1.01), "top_p of 1.01 was asked for; it must be above 0 and at most 1"),
        (("sample", 1.0, 0.0), "top_p of 0 was asked for"),
    ):
        with pytest.raises(AtlasError, match=message):
            Decoding(*wrong)
