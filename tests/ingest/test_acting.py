"""Every site and op in every family, against hooks written by hand on transformers in float64; and what acting must leave as it was."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from ingest.acting.acting import apply_arms
from ingest.acting.edits import AssignedArm, vector_sha256
from ingest.acting.effect import effect
from ingest.acting.places import shape_of
from ingest.acting.runs import record_run, wanted_sites
from ingest.model.architectures import ARCHITECTURES
from ingest.model.hooks import coefficients, listen, output_state, record_layers
from ingest.model.models import Model, wrap
from ingest.model.modules import find
from schema.errors import AtlasError
from schema.interventions.parse import arm_of
from schema.interventions.resolve import resolve
from tests.ingest.acting_oracle import PARALLEL, UNGATED, Hand, Names, by_hand, hashed, put, seen
from tests.ingest.tiny_models import FAMILIES, tiny_hf, tiny_model, tiny_tokenizer, token_batch, with_facts
from tests.rounding import bound_logits

torch.set_num_threads(1)

every_family = pytest.mark.parametrize("family", FAMILIES)

N = 9
PROMPT, OTHER = token_batch(2, N)
ALL = range(N)
Case = tuple[dict, Hand]


def resolved(model: Model, *items: dict) -> tuple:
    return resolve(arm_of(list(items)), shape_of(model), lambda *_: None)


def exact(family: str) -> Model:
    return wrap(tiny_hf(family, dtype=torch.float64), tiny_tokenizer(), f"exact-{family}")


def vector(width: int) -> Tensor:
    return torch.linspace(-1, 2, width)


def cases(family: str, model: Model) -> Iterator[Case]:
    """What is asked, and the same by hand."""
    hf, names, multiplier = model.hf, Names(family), getattr(model.hf.config, "residual_multiplier", 1.0)
    d, d_head = model.d_model, model.d_head
    steer, head_mean = vector(d).double(), vector(d_head).double()

    def coefficient(op: str, units: object, positions: object, **more: object) -> dict:
        return {"site": "coefficient", "layer": 1, "units": units, "op": op, "positions": positions, **more}

    def at(site: str, op: str, positions: object, layer: int | None = 0, **more: object) -> dict:
        return {"site": site, "op": op, "positions": positions, **({} if layer is None else {"layer": layer}), **more}

    down, gathered = names.down(1), names.o(1)
    yield coefficient("set", [3, 5], [4], value=2.5), (down, "in", put([4], [3, 5], 2.5))
    yield coefficient("scale", [3], "predicting", value=-2), (down, "in", put([N - 1], [3], lambda x, _: -2 * x))
    yield coefficient("add", [0], "all", value=0.75, skip_first=True), (down, "in", put(ALL[1:], [0], lambda x, _: x + 0.75))
    yield coefficient("zero", "all", "prompt"), (down, "in", put(ALL, slice(None), 0.0))
    yield coefficient("mean", [7], [[2, 5]], value=0.3, corpus_id=0), (down, "in", put([2, 3, 4], [7], 0.3))
    theirs = seen(hf, OTHER, down, "in")
    yield coefficient("patch", [1, 2], [3, 6], **{"from": {"prompt_id": 1, "index": 2}}), (down, "in", put([3, 6], [1, 2], theirs[2, [1, 2]]))
    own = seen(hf, PROMPT, down, "in")

    def another(position: int) -> int:
        others = [index for index in range(1, N) if index != position]
        return others[hashed(5, position) % len(others)]

    yield coefficient("resample", [4], "all", seed=5), (down, "in", put(ALL, [4], lambda _, t: own[another(t), [4]]))
    if family in UNGATED:
        yield at("pre_activation", "set", [4], units=[3], value=3), (names.up(0), "out", put([4], [3], 3.0))

    columns, last_head = slice(d_head, 2 * d_head), model.n_heads - 1
    heads = seen(hf, OTHER, gathered, "in")
    yield at("head", "zero", "last", 1, units=[1]), (gathered, "in", put([N - 1], columns, 0.0))
    yield at("head", "scale", "all", 1, units=[last_head], value=0.5), (gathered, "in", put(ALL, slice(-d_head, None), lambda x, _: x * 0.5))
    mean = at("head", "mean", "all", 1, units=[0, 1], corpus_id=0, vector=vector_sha256(head_mean))
    yield mean, (gathered, "in", put(ALL, slice(0, 2 * d_head), head_mean.repeat(2)))
    yield at("head", "patch", [2, 7], 1, units=[1], **{"from": {"prompt_id": 1}}), (gathered, "in", put([2, 7], columns, lambda _, t: heads[t, columns]))
    own_heads = seen(hf, PROMPT, gathered, "in")
    yield at("head", "resample", "all", 1, units=[1], seed=5), (gathered, "in", put(ALL, columns, lambda _, t: own_heads[another(t), columns]))

    for site, module in (("attn_out", names.attn_out(1)), ("ffn_out", names.ffn_out(1))):
        yield at(site, "zero", [0, 3], 1), (module, "out", put([0, 3], slice(None), 0.0))
        # a mean is in the units of the stream
        yield at(site, "mean", [3], 1, corpus_id=0, vector=vector_sha256(steer)), (module, "out", put([3], slice(None), steer / multiplier))
        donor = seen(hf, OTHER, module, "out")
        yield at(site, "patch", "all", 1, **{"from": {"prompt_id": 1, "index": 8}}), (module, "out", put(ALL, slice(None), donor[8]))
        mine = seen(hf, PROMPT, module, "out")
        yield at(site, "resample", [6], 1, seed=5), (module, "out", put([6], slice(None), mine[another(6)]))

    def noised(x: Tensor, t: int) -> Tensor:
        return x + 0.7 * torch.randn(len(x), generator=torch.Generator().manual_seed(hashed(11, t))).double()

    weight = hf.get_submodule(names.down(1)).weight
    value = (weight if family == "gpt2" else weight.T)[6] * multiplier
    if names.is_normed:
        gain = hf.get_submodule(names.ffn_out(1)).weight
        value = value * (gain + 1 if family.startswith("gemma") else gain)
    for site, layer, module, side in (
        ("resid_post", 0, names.block(0), "out"),
        ("resid_pre", 0, names.block(0), "in"),
        ("resid_pre", 1, names.block(0), "out"),
    ):
        states = seen(hf, OTHER, module, side)
        yield at(site, "zero", [5], layer), (module, side, put([5], slice(None), 0.0))
        yield at(site, "patch", [5], layer, **{"from": {"prompt_id": 1, "index": 3}}), (module, side, put([5], slice(None), states[3]))
        yield at(site, "noise", [5, 6], layer, value=0.7, seed=11), (module, side, put([5, 6], slice(None), noised))
        yield at(site, "add_vector", "last", layer, vector=vector_sha256(steer), value=-2), (module, side, put([8], slice(None), lambda x, _: x - 2 * steer))
        yield at(site, "add_value", [5], layer, of=[1, 6], value=1.5), (module, side, put([5], slice(None), lambda x, _: x + 1.5 * value))
    if family not in PARALLEL:
        wanted = seen(hf, OTHER, names.read(1), "in")
        # attention's output is changed, and not the norm's input, which the FFN alone would see
        before = seen(hf, PROMPT, names.block(1), "in")
        put_mid = put([5], slice(None), lambda _, t: (wanted[2] - before[t]) / multiplier)
        yield at("resid_mid", "patch", [5], 1, **{"from": {"prompt_id": 1, "index": 2}}), (names.attn_out(1), "out", put_mid)
        added = put([5], slice(None), lambda x, _: x + 3 * steer / multiplier)
        yield at("resid_mid", "add_vector", [5], 1, vector=vector_sha256(steer), value=3), (names.attn_out(1), "out", added)
    embedded = seen(hf, OTHER, names.embedding, "out")
    yield at("embedding", "noise", [2, 3], None, value=0.7, seed=11), (names.embedding, "out", put([2, 3], slice(None), noised))
    yield at("embedding", "patch", [2], None, **{"from": {"prompt_id": 1, "index": 4}}), (names.embedding, "out", put([2], slice(None), embedded[4]))


def assign_arms(model: Model, *arms: tuple, vectors: dict | None = None, n_positions: int = N) -> list[AssignedArm]:
    """Arms on a row each of what begins with PROMPT."""
    runs = {prompt: record_run(model, PROMPT if prompt is None else OTHER, sites) for prompt, sites in wanted_sites(arms).items()}
    return [AssignedArm(arm, slice(row, row + 1), N, n_positions, runs, vectors or {}) for row, arm in enumerate(arms)]


def vectors_of(model: Model) -> dict[str, Tensor]:
    return {vector_sha256(found): found for found in (vector(model.d_model), vector(model.d_head))}


@every_family
def test_every_site_and_op_is_what_a_hook_written_by_hand_does(family: str) -> None:
    model = exact(family)
    asked, hands = zip(*cases(family, model), strict=True)
    arms = [resolved(model, item) for item in asked]
    base = by_hand(model.hf, PROMPT, [])
    with apply_arms(model, assign_arms(model, *arms, vectors=vectors_of(model))), torch.no_grad():
        logits = model.hf(PROMPT.expand(len(arms), -1), use_cache=False).logits
    # one batch of all and each alone; a value comes in float32, which rounds it where a gain or a multiplier was multiplied in
    is_value_rounded = Names(family).is_normed or hasattr(model.hf.config, "residual_multiplier")
    bound, bound_of_value = (bound_logits(model.hf, PROMPT, given) for given in (None, torch.float32 if is_value_rounded else None))
    for item, hand, got in zip(asked, hands, logits, strict=True):
        expected = by_hand(model.hf, PROMPT, [hand])
        # a coefficient of opt may be 0 already
        assert (expected - base).abs().max() > 1e-6 or (family, item["site"]) == ("opt", "coefficient"), f"{item} by hand changes nothing"
        assert (got - expected).abs().max() <= (bound_of_value if item["op"] == "add_value" else bound), item


@every_family
def test_several_changes_at_once_are_made_in_the_order_of_the_forward_pass(family: str) -> None:
    model, names = exact(family), Names(family)
    arm = resolved(
        model,
        {"site": "coefficient", "layer": 1, "units": [3], "op": "scale", "value": 3, "positions": "all"},
        {"site": "coefficient", "layer": 1, "units": [3], "op": "add", "value": 1, "positions": [4]},
        {"site": "coefficient", "layer": 1, "units": [3], "op": "add", "value": 2, "positions": [4]},
        {"site": "head", "layer": 0, "units": [1], "op": "zero", "positions": "all"},
    )
    hands: list[Hand] = [
        (names.o(0), "in", put(ALL, slice(model.d_head, 2 * model.d_head), 0.0)),
        (names.down(1), "in", put(ALL, [3], lambda x, t: 3 * x + (3 if t == 4 else 0))),
    ]
    with apply_arms(model, assign_arms(model, arm)), torch.no_grad():
        got = model.hf(PROMPT[None], use_cache=False).logits[0]
    # a product and a sum are one step by hand and three here
    assert (got - by_hand(model.hf, PROMPT, hands)).abs().max() <= bound_logits(model.hf, PROMPT)


@every_family
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_changes_nothing_changes_no_bit(family: str, dtype: torch.dtype) -> None:
    model = tiny_model(family, dtype=dtype)
    everywhere = {"units": "all", "positions": "all"}
    arms = [
        (),
        resolved(model, {"site": "coefficient", "layer": 1, "op": "scale", "value": 1, **everywhere}),
        resolved(model, {"site": "coefficient", "layer": 0, "op": "add", "value": 0, **everywhere}),
        resolved(model, {"site": "head", "layer": 0, "op": "scale", "value": 1, **everywhere}),
        resolved(model, {"site": "head", "layer": 0, "op": "zero", "units": [0], "positions": "generated"}),
    ]
    with apply_arms(model, assign_arms(model, *arms)), record_layers(model) as changed:
        model.backbone(PROMPT.expand(len(arms), -1))
    with record_layers(model) as plain:
        model.backbone(PROMPT.expand(len(arms), -1))
    assert torch.equal(changed[-1]["resid_post"], plain[-1]["resid_post"])


@every_family
def test_all_coefficients_at_zero_leave_the_bias_alone(family: str) -> None:
    model = tiny_model(family)
    arm = resolved(model, {"site": "coefficient", "layer": 1, "units": "all", "op": "zero", "positions": "all"})
    with apply_arms(model, assign_arms(model, arm)), record_layers(model) as records:
        model.backbone(PROMPT[None])
    bias = model.ffn_bias(1)
    expected = torch.zeros(model.d_model) if bias is None else bias * records[1]["ffn_scale"][0, 0]
    assert torch.allclose(records[1]["ffn_out"][0], expected.expand(N, -1), atol=1e-6)
    assert not records[1]["coefficient"].any()


@every_family
def test_what_is_recorded_is_what_was_used(family: str) -> None:
    """Whichever of the two contexts is entered first."""
    model = tiny_model(family)
    arm = resolved(
        model,
        {"site": "coefficient", "layer": 0, "units": [2], "op": "set", "value": 7, "positions": [3]},
        {"site": "resid_post", "layer": 0, "op": "zero", "positions": [5]},
        {"site": "attn_out", "layer": 1, "op": "zero", "positions": [6]},
    )
    for is_first in (True, False):
        contexts = [lambda: apply_arms(model, assign_arms(model, arm)), lambda: record_layers(model)]
        with (contexts if is_first else contexts[::-1])[0]() as one, (contexts if is_first else contexts[::-1])[1]() as two:
            model.backbone(PROMPT[None])
            records = two if is_first else one
            assert records[0]["coefficient"][0, 3, 2] == 7
            assert not records[0]["resid_post"][0, 5].any() and not records[1]["resid_pre"][0, 5].any()
            assert not records[1]["attn_out"][0, 6].any()


@every_family
def test_with_a_cache_and_without_the_same_positions_are_changed_token_for_token(family: str) -> None:
    """Greedily, in float64: a prompt in two pieces, then a token at a time; bloom's ALiBi and windows that drop sources among them."""
    model, n_new = exact(family), 5
    arm = resolved(
        model,
        {"site": "coefficient", "layer": 1, "units": [3], "op": "set", "value": 4, "positions": "predicting"},
        {"site": "resid_post", "layer": 0, "op": "noise", "value": 0.5, "seed": 3, "positions": [2, 8, 10]},
        {"site": "attention", "layer": 0, "op": "block", "edges": [[8, 7], [10, 8], [11, 9], [12, 12]], "units": [1]},
        {"site": "head", "layer": 1, "units": [0], "op": "zero", "positions": "generated"},
    )
    one = assign_arms(model, arm, n_positions=N + n_new)

    def step(tokens: Tensor, **more: object) -> tuple[Tensor, object]:
        with torch.no_grad():
            out = model.hf(input_ids=tokens, **more)
        return out.logits[0, -1], out.past_key_values

    tokens, whole = PROMPT[None], []
    with apply_arms(model, one):
        for _ in range(n_new):
            logits, _ = step(tokens, use_cache=False)
            whole.append(logits)
            tokens = torch.cat((tokens, logits.argmax()[None, None]), dim=1)
    cached = []
    with apply_arms(model, one):
        _, cache = step(tokens[:, :4], use_cache=True)
        logits, cache = step(tokens[:, 4:N], use_cache=True, past_key_values=cache)
        cached.append(logits)
        for place in range(N, N + n_new - 1):
            logits, cache = step(tokens[:, place : place + 1], use_cache=True, past_key_values=cache)
            cached.append(logits)
    assert [int(logits.argmax()) for logits in cached] == tokens[0, N:].tolist()
    # a row of attention is as long as what was read when it was computed, and rows of another length are added in another order
    assert (torch.stack(cached) - torch.stack(whole)).abs().max() <= bound_logits(model.hf, tokens[0, :-1])
    assert not torch.allclose(whole[0], by_hand(model.hf, PROMPT, [])[-1], atol=1e-3)


def test_generated_leaves_the_first_new_token_and_predicting_does_not() -> None:
    model = tiny_model("llama")

    def acted(positions: str) -> bool:
        arm = arm_of([{"site": "resid_post", "layer": 0, "op": "zero", "positions": positions}])
        return not effect(model, {0: PROMPT}, 0, [arm], [N - 1], lambda *_: None, {}).is_as_base[0]

    assert [acted(name) for name in ("all", "prompt", "generated", "last", "predicting")] == [True, True, False, True, True]


def test_the_effect_of_arms_in_one_batch_is_that_of_each_alone() -> None:
    model = tiny_model("gemma2")
    arms = [
        arm_of([{"site": "coefficient", "layer": 0, "units": [3], "op": "set", "strength": {"norm": 50}, "positions": "all"}]),
        (),
        arm_of([{"site": "resid_post", "layer": 0, "op": "patch", "from": {"prompt_id": 9}, "positions": "all"}]),
    ]
    found = effect(model, {0: PROMPT, 9: OTHER}, 0, arms, [4, N - 1], lambda *_: 2.0, {})
    assert found.arms[0][0].value == 25
    assert found.is_as_base == (False, True, False)
    with torch.no_grad():
        plain, other = (model.hf(prompt[None]).logits[0, [4, N - 1]] for prompt in (PROMPT, OTHER))
    # all states of a layer taken from another run give that run
    bound = max(bound_logits(model.hf, prompt) for prompt in (PROMPT, OTHER))
    for row, expected in ((0, plain), (2, plain), (3, other)):
        assert (found.logits[row] - expected).abs().max() <= bound
    assert (found.logits[1] - plain).abs().max() > 1e-2


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_that_no_arm_acts_on_keep_every_bit(dtype: torch.dtype) -> None:
    for family in ARCHITECTURES:
        model = tiny_model(family, dtype=dtype)
        arm = resolved(
            model,
            {"site": "coefficient", "layer": 0, "units": [3], "op": "set", "value": 50, "positions": "all"},
            {"site": "attention", "layer": 1, "op": "block", "edges": [[8, 7], [5, 4]]},
        )
        with apply_arms(model, [AssignedArm(arm, slice(1, 3), N, N)]), record_layers(model) as records:
            model.backbone(PROMPT.expand(4, -1))
        with record_layers(model) as plain:
            model.backbone(PROMPT.expand(4, -1))
        same = [torch.equal(records[-1]["resid_post"][row], plain[-1]["resid_post"][row]) for row in range(4)]
        assert same == [True, False, False, True], family


def test_noise_is_of_a_position_and_its_seed_and_the_same_in_every_arm() -> None:
    """Tracing compares cells under one noise; another seed is another draw."""
    model = tiny_model("gemma")

    def states(positions: object, seed: int) -> Tensor:
        arm = resolved(model, {"site": "embedding", "op": "noise", "value": 2, "seed": seed, "positions": positions})
        with apply_arms(model, assign_arms(model, arm)), record_layers(model) as records:
            model.backbone(PROMPT[None])
        return records[0]["resid_pre"][0].clone()

    plain = torch.cat((states([1], 1)[:1], states([0], 1)[1:]))
    whole = states("all", 1) - plain
    for index in (2, 5):
        alone = states([index], 1) - plain
        assert torch.equal(alone[index], whole[index]) and not alone[[i for i in range(N) if i != index]].any()
    assert not torch.allclose(whole[2], whole[3], atol=1e-2)
    assert not torch.allclose(states("all", 2) - plain, whole, atol=1e-2)
    # after gemma's factor √d_model, so that its standard deviation is the one asked for
    drawn = torch.cat([states("all", seed) - plain for seed in range(40)])
    assert float(drawn.std()) == pytest.approx(2, rel=0.05)


def test_a_value_is_rounded_as_the_model_computes() -> None:
    model = tiny_model("llama", dtype=torch.bfloat16)
    arm = resolved(model, {"site": "coefficient", "layer": 0, "units": [2], "op": "set", "value": 1.001, "positions": [3]})
    with apply_arms(model, assign_arms(model, arm)), record_layers(model) as records:
        model.backbone(PROMPT[None])
    assert float(records[0]["coefficient"][0, 3, 2]) == 1.0


def n_hooks(model: Model) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.hf.modules())


def test_hooks_are_gone_after_the_context_even_after_an_error() -> None:
    model = tiny_model("gpt2")
    arm = resolved(
        model,
        {"site": "attention", "layer": 0, "op": "block", "edges": [[3, 1]]},
        {"site": "resid_mid", "layer": 1, "op": "patch", "positions": [3], "from": {"prompt_id": 1}},
        {"site": "embedding", "op": "noise", "value": 1, "seed": 0, "positions": "all"},
    )
    plain = model.hf(PROMPT[None]).logits
    with pytest.raises(ZeroDivisionError), apply_arms(model, assign_arms(model, arm)), listen(model, [coefficients(lambda layer, _: 1 // layer)]):
        model.backbone(PROMPT[None])
    assert n_hooks(model) == 0
    assert torch.equal(model.hf(PROMPT[None]).logits, plain)


def test_a_pass_that_is_cancelled_between_two_changes_leaves_no_hook() -> None:
    model, n_told = tiny_model("gptj"), 0
    arm = resolved(
        model,
        {"site": "attention", "layer": 0, "op": "block", "edges": [[3, 1]]},
        {"site": "head", "layer": 0, "units": [1], "op": "zero", "positions": "all"},
        {"site": "resid_post", "layer": 1, "op": "zero", "positions": "all"},
    )

    def stop() -> None:
        nonlocal n_told
        n_told += 1
        if n_told == 2:
            raise InterruptedError

    plain = model.hf(PROMPT[None]).logits
    with pytest.raises(InterruptedError), apply_arms(model, assign_arms(model, arm), stop):
        model.backbone(PROMPT[None])
    assert n_hooks(model) == 0
    assert torch.equal(model.hf(PROMPT[None]).logits, plain)


def test_what_a_hook_is_given_is_not_changed() -> None:
    model, given = tiny_model("llama"), []
    arm = resolved(
        model,
        {"site": "coefficient", "layer": 0, "units": "all", "op": "zero", "positions": "all"},
        {"site": "resid_post", "layer": 1, "op": "zero", "positions": "all"},
    )

    def keep(x: Tensor) -> None:
        given.append((x, x.clone()))

    with apply_arms(model, assign_arms(model, arm)):
        # these run before those of the arm
        handles = [
            model.layer_module(0, "mlp.down_proj").register_forward_pre_hook(lambda _, args: keep(args[0]), prepend=True),
            find(model.backbone_module, "layers.1").register_forward_hook(lambda _m, _a, out: keep(output_state(out)), prepend=True),
        ]
        model.backbone(PROMPT[None])
    for handle in handles:
        handle.remove()
    assert len(given) == 2
    for now, before in given:
        assert torch.equal(now, before) and before.any()


def state_of(layer: int, op: str, **more: object) -> dict:
    return {"site": "resid_post", "layer": layer, "op": op, "positions": "all", **more}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (state_of(0, "zero", positions=[9]), "zero of resid_post of layer 0: position 9 was asked for; the sequence has positions 0 to 8"),
        (state_of(0, "zero", positions=[[2, 99]]), "position 98 was asked for"),
        (state_of(0, "patch", **{"from": {"prompt_id": 1, "index": 9}}), "position 9 of prompt 1 was asked for; it has 9 positions"),
        (state_of(0, "patch", **{"from": {"prompt_id": 7}}), "states of prompt 7 were asked for; there are prompts 0, 1"),
        (state_of(0, "add_vector", value=1, vector="0" * 64), "add_vector of resid_post of layer 0: the vector 0+ was not given"),
        (state_of(0, "add_vector", value=1, vector=vector_sha256(vector(7))), r"is of shape \[7\], and 16 numbers are needed"),
        (state_of(0, "add_vector", value=1, vector="1" * 64), "the vector given as 1+ has another SHA-256, [0-9a-f]{64}"),
        ({"site": "attention", "layer": 1, "op": "block", "edges": [[9, 0]]}, "block of layer 1: position 9 was asked for; the sequence has positions 0 to 8"),
        ({"site": "attention", "layer": 1, "op": "block", "edges": [[0, 0]], "units": [3]}, "layer 1, head 3: position 0 would have nothing left to read"),
        ({"site": "head", "layer": 1, "op": "zero", "positions": "all", "units": [4]}, "head 4 was asked for; layer 1 of tiny-llama has heads 0 to 3"),
    ],
)
def test_what_is_not_there_is_refused(item: dict, message: str) -> None:
    model = tiny_model("llama")
    vectors = {vector_sha256(vector(7)): vector(7), "1" * 64: vector(16)}
    with pytest.raises(AtlasError, match=message):
        effect(model, {0: PROMPT, 1: OTHER}, 0, [arm_of([item])], [0], lambda *_: None, vectors)
    assert n_hooks(model) == 0


def test_two_in_the_place_of_one_cell_are_refused() -> None:
    zero = {"site": "resid_post", "layer": 0, "op": "zero", "positions": "last"}
    with pytest.raises(AtlasError, match="zero and zero both replace resid_post of layer 0 at position 8; remove one of them"):
        effect(tiny_model("llama"), {0: PROMPT}, 0, [arm_of([zero, zero])], [0], lambda *_: None, {})


def test_a_head_has_an_own_number_where_several_share_keys_and_values() -> None:
    model = tiny_model("llama")
    assert (model.n_heads, model.n_kv_heads) == (4, 2)
    arms = [arm_of([{"site": "head", "layer": 0, "op": "zero", "positions": "all", "units": [head]}]) for head in range(4)]
    logits = effect(model, {0: PROMPT}, 0, arms, [8], lambda *_: None, {}).logits[:, 0]
    assert all((logits[i] - logits[j]).abs().max() > 1e-3 for i in range(5) for j in range(i))


def test_a_cache_of_another_arm_serves_none() -> None:
    model = tiny_model("llama")
    arm = resolved(model, {"site": "head", "layer": 0, "units": [0], "op": "zero", "positions": "all"})
    cache = model.hf(PROMPT[None, :4], use_cache=True).past_key_values
    with apply_arms(model, assign_arms(model, arm)):
        # of the same length, so that a count alone would not tell them apart
        model.hf(PROMPT[None, :4], use_cache=True)
        with pytest.raises(AtlasError, match="the cache holds 4 positions that were not read under these arms"):
            model.hf(PROMPT[None, 4:], past_key_values=cache, use_cache=True)


def test_padding_on_the_left_and_rows_that_are_not_there_are_refused() -> None:
    model = tiny_model("gpt2")
    arm = resolved(model, {"site": "head", "layer": 0, "units": [0], "op": "zero", "positions": "all"})
    mask = torch.ones(1, N, dtype=torch.long)
    mask[0, 0] = 0
    with apply_arms(model, assign_arms(model, arm)):
        with pytest.raises(AtlasError, match="padded on the left"):
            model.hf(PROMPT[None], attention_mask=mask)
        model.hf(PROMPT[None], attention_mask=mask.flip(1))
    with pytest.raises(AtlasError, match="an arm acts on rows 0 to 1; the batch has rows 0 to 0"), apply_arms(model, [AssignedArm(arm, slice(0, 2), N, N)]):
        model.backbone(PROMPT[None])


def test_a_module_that_the_forward_pass_goes_round_is_an_error() -> None:
    model = tiny_model("llama")
    for layer in (0, 1):
        model.layer_module(layer, "mlp").add_module("never_called", torch.nn.Linear(24, 1))
    silent = with_facts(model, ffn__down="mlp.never_called")
    arm = resolved(model, {"site": "coefficient", "layer": 1, "units": [0], "op": "zero", "positions": "all"})
    with pytest.raises(AtlasError, match=r"nothing was changed at layers\.1\.mlp\.never_called"), apply_arms(silent, assign_arms(model, arm)):
        silent.backbone(PROMPT[None])
