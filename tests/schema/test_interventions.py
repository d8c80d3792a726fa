"""Interventions as data: what is read, what is refused and in which words, and what makes two arms one."""

import json
from hashlib import sha256

import pytest

from ingest.acting.acting import require_one_replacement
from schema.errors import AtlasError
from schema.interventions.intervention import Intervention
from schema.interventions.parse import arm_of, parse_arm
from schema.interventions.resolve import MOST_CHANGES, Shape, arm_sha256, canonical_json, resolve
from schema.interventions.short import intervention_from
from schema.interventions.sites import OPS

SHAPE = Shape("toy", 3, 8, 4, False, False)
HASH = "0123456789abcdef" * 4


def nothing(*_: object) -> None:
    return None


def resolved(*items: dict, shape: Shape = SHAPE, look_up=nothing) -> tuple[Intervention, ...]:
    return resolve(arm_of(list(items)), shape, look_up)


def change(site: str, op: str, /, **more: object) -> dict:
    """A whole intervention of that kind; `more` changes it, and None takes a key away."""
    given: dict = {"site": site, "op": op}
    given |= {} if site == "embedding" else {"layer": 1}
    given |= {"units": [2]} if site in ("coefficient", "pre_activation", "head") else {}
    given |= {"edges": [[3, 1]]} if op == "block" else {"positions": "all"}
    by_op = {
        "set": {"value": 1.5}, "add": {"value": 1.5}, "scale": {"value": 1.5}, "noise": {"value": 1.5, "seed": 3}, "resample": {"seed": 3},
        "patch": {"from": {"prompt_id": 1, "index": 4}}, "add_vector": {"vector": HASH, "value": 1.5}, "add_value": {"of": [2, 7], "value": 1.5},
        "mean": {"corpus_id": 0, "value": 0.5} if site == "coefficient" else {"corpus_id": 0, "vector": HASH},
    }  # fmt: skip
    given |= by_op.get(op, {}) | more
    return {key: value for key, value in given.items() if value is not None}


EVERY = [(site, op) for site, ops in OPS.items() for op in ops]


@pytest.mark.parametrize(("site", "op"), EVERY)
def test_every_op_of_every_site_is_read_and_written_as_it_was(site: str, op: str) -> None:
    given = change(site, op)
    (found,) = arm_of([given])
    expected = given | ({"site": "resid_post", "layer": 0} if site == "resid_pre" else {"units": "all"} if op == "block" else {})
    assert found.as_json() == expected
    assert arm_of([found.as_json()]) == (found,)


@pytest.mark.parametrize(("site", "op"), EVERY)
def test_a_resolved_arm_resolves_to_itself(site: str, op: str) -> None:
    once = resolved(change(site, op))
    assert resolve(arm_of(json.loads(canonical_json(once))), SHAPE, nothing) == once


def test_the_table_of_sites_and_ops() -> None:
    """As the definitions list them."""
    state = {"patch", "zero", "noise", "add_vector", "add_value"}
    assert {site: set(ops) for site, ops in OPS.items()} == {
        "coefficient": {"set", "scale", "add", "zero", "mean", "resample", "patch"}, "pre_activation": {"set"},
        "head": {"zero", "scale", "mean", "resample", "patch"}, "attn_out": {"zero", "mean", "resample", "patch"},
        "ffn_out": {"zero", "mean", "resample", "patch"}, "resid_post": state, "resid_pre": state, "resid_mid": {"patch", "add_vector"},
        "embedding": {"noise", "patch"}, "attention": {"block"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (change("coefficient", "set", site="mlp"), "site 'mlp' is unknown; there are embedding, resid_pre, attention"),
        (change("coefficient", "set", op="ablate"), "site coefficient has no op 'ablate'; it has set, scale, add, zero"),
        (change("head", "set", value=1), "site head has no op 'set'; it has zero, scale, mean, resample, patch"),
        (change("coefficient", "set", site=None), "it has no site"),
        (change("coefficient", "set", site=["x"]), r'site is \["x"\]; it must be a word'),
        (change("coefficient", "set", value=None), "set of coefficient needs value or strength"),
        (change("coefficient", "scale", value=None), "scale of coefficient needs value$"),
        (change("coefficient", "set", positions=None), "set of coefficient needs positions"),
        (change("embedding", "noise", layer=0), 'noise of embedding has no key "layer"; it has op, positions, seed, site, skip_first, value'),
        (change("coefficient", "set", strenght=1), 'has no key "strenght"; it has layer, op'),
        (change("pre_activation", "set", value=None, strength={"norm": 1}), 'set of pre_activation has no key "strength"|needs value'),
        (change("coefficient", "set", layer=-1), "layer is -1; it must be a whole number from 0 on"),
        (change("coefficient", "set", layer=True), "layer is true; it must be a whole number"),
        (change("coefficient", "set", layer=1.0), r"layer is 1\.0; it must be a whole number"),
        (change("coefficient", "set", layer=2**40), "below 2,147,483,648"),
        (change("coefficient", "set", units=[]), r"units are \[\]; they must be a list of neurons or heads, or all"),
        (change("coefficient", "set", units=3), "units are 3"),
        (change("coefficient", "set", units=["a"]), 'unit is "a"'),
        (change("coefficient", "set", value="3"), 'value is "3"; it must be a finite number'),
        (change("coefficient", "set", value=10**400), "value is 1000000000.*; it must be a finite number"),
        (change("coefficient", "set", value=True), "value is true"),
        (change("coefficient", "set", value=None, strength={"times_most": 1}), "strength is .*; it must be an object with one of times_max, times_min, norm"),
        (change("coefficient", "set", value=None, strength={"times_max": 1}), "beside times_max it must have corpus_id"),
        (change("coefficient", "set", value=None, strength={"norm": 1, "corpus_id": 0}), "beside norm it must have nothing"),
        (change("coefficient", "set", value=None, strength={"norm": 1, "times_max": 1}), "one of times_max, times_min, norm"),
        (change("resid_post", "noise", value=-1), "value is -1; the value of noise is its standard deviation"),
        (change("coefficient", "set", positions="everywhere"), 'positions are "everywhere"; they must be all, prompt, generated, last, predicting, or a list'),
        (change("coefficient", "set", positions=[]), r"positions are \[\]"),
        (change("coefficient", "set", positions=[[4, 4]]), r"the range of positions \[4, 4\] is empty"),
        (change("coefficient", "set", positions=[[1, 2, 3]]), r"a range of positions is \[1, 2, 3\]"),
        (change("coefficient", "set", positions=[-1]), "position is -1"),
        (change("coefficient", "set", skip_first=1), "skip_first is 1; it must be true or false"),
        (change("resid_post", "patch", **{"from": {"index": 1}}), "from is .*; for patch it must be an object with prompt_id and index"),
        (change("head", "resample", **{"from": {"prompt_id": 1, "index": 1}}), "for resample it must be an object with prompt_id$"),
        (change("resid_post", "add_vector", vector="steer"), 'vector is "steer"; it must be the SHA-256'),
        (change("resid_post", "add_value", of=[1]), r"of is \[1\]; it must be \[layer, neuron\]"),
        (change("attention", "block", edges=[]), r"edges are \[\]; they must be a list of \[destination, source\]"),
        (change("attention", "block", edges=[[2, 3]]), r"the edge \[2, 3\] reads ahead"),
        (change("attention", "block", edges=[[2]]), r"an edge is \[2\]"),
        (change("attention", "block", positions="all"), 'block of attention has no key "positions"'),
        (change("resid_post", "noise", seed=2**63), "seed is 9223372036854775808"),
        ([], r"it is \[\]; an intervention must be an object"),
        ({"site": "x\x1b[2J\n", "op": "set"}, r"site '\"x\\u001b\[2J\\n\"' is unknown"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(item: object, message: str) -> None:
    with pytest.raises(AtlasError, match=message) as refused:
        arm_of([change("head", "zero"), item])
    assert str(refused.value).startswith("intervention 2 of 2: ")
    assert "\n" not in str(refused.value) and "\x1b" not in str(refused.value)


def test_noise_may_have_a_standard_deviation_of_0() -> None:
    assert arm_of([change("resid_post", "noise", value=0)])[0].value == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 9 + "]" * 9, "nested deeper than 8"),
        ("[" * 200_000, "nested deeper than 8"),
        ("[" + " " * 256 * 1024 + "]", "interventions of 262,146 bytes were given; at most 262,144 are read"),
        ("[", "interventions must be JSON, and this is not: Expecting value at line 1, column 2"),
        ("", "interventions must be JSON, and this is not"),
        (b"\xff[]", "byte 0 is not"),
        ("[NaN]", "NaN is not a number in JSON"),
        ("[-Infinity]", "-Infinity is not a number"),
        ('[{"op": 1, "site": 2, "op": 3}]', 'the key "op" is given twice'),
        ("[" + "1" * 5000 + "]", "a number with too many digits"),
        ('{"site": "head"}', "an arm must be a list of interventions, not"),
        ("null", "an arm must be a list of interventions, not null"),
        (json.dumps([{}] * 1025), "1,025 interventions were given; at most 1,024 are read"),
    ],
)
def test_what_a_stranger_sends_is_bounded_before_it_is_parsed(text: str | bytes, message: str) -> None:
    with pytest.raises(AtlasError, match=message) as refused:
        parse_arm(text)
    assert "\n" not in str(refused.value)


def test_brackets_within_text_are_no_nesting() -> None:
    with pytest.raises(AtlasError, match="site '.*' is unknown"):
        parse_arm(json.dumps([{"site": "[[[[[[[[[[" * 3 + '\\"[[[[[[[[', "op": "set"}]))


@pytest.mark.first_cases(11)
@pytest.mark.parametrize(
    ("item", "shape", "message"),
    [
        (change("coefficient", "set", layer=3), SHAPE, "intervention 1 of 1: layer 3 was asked for; toy has layers 0 to 2"),
        (change("coefficient", "set", units=[8]), SHAPE, "neuron 8 was asked for; layer 1 of toy has neurons 0 to 7"),
        (change("head", "zero", units=[4]), SHAPE, "head 4 was asked for; layer 1 of toy has heads 0 to 3"),
        (change("attention", "block", units=[4]), SHAPE, "head 4 was asked for"),
        (change("resid_post", "add_value", of=[3, 0]), SHAPE, "layer 3 was asked for"),
        (change("resid_post", "add_value", of=[2, 8]), SHAPE, "neuron 8 was asked for; layer 2 of toy"),
        (change("pre_activation", "set"), Shape("toy", 3, 8, 4, True, False), "toy has a gated FFN, .* so it has no pre_activation; set the coefficient"),
        (change("resid_mid", "patch"), Shape("toy", 3, 8, 4, False, True), "toy has parallel blocks, in which no part reads a resid_mid"),
        (change("coefficient", "set", value=None, strength={"times_max": 1, "corpus_id": 5}), SHAPE, "the atlas has no max of L1N2 in corpus 5"),
        (change("coefficient", "mean", value=None), SHAPE, "the atlas has no mean of L1N2 in corpus 0"),
        (change("coefficient", "set", value=None, strength={"norm": 1}), SHAPE, "the atlas has no value_norm of L1N2$"),
        (change("coefficient", "zero", units="all"), Shape("toy", 3, MOST_CHANGES + 1, 4, False, False), "more than 100,000 changes"),
        (
            change("coefficient", "zero", units="all", positions=[0, [2, 9]]),
            Shape("toy", 3, MOST_CHANGES // 2 + 1, 4, False, False),
            "units times ranges of positions",
        ),
    ],
)
def test_what_the_model_or_the_atlas_does_not_have_is_refused_with_what_it_has(item: dict, shape: Shape, message: str) -> None:
    with pytest.raises(AtlasError, match=message):
        resolved(item, shape=shape)


FOUND = {"max": 8.0, "min": -3.0, "mean": 0.25, "value_norm": 0.5}


def look_up(quantity: str, layer: int, neuron: int, corpus_id: int | None) -> float | None:
    """An atlas of which neuron 2 of layer 1, and neuron 7 of layer 2, are known."""
    assert (corpus_id is None) == (quantity == "value_norm")
    return FOUND[quantity] * (10 if layer == 2 else 1) if (layer, neuron) in ((1, 2), (2, 7)) else None


@pytest.mark.parametrize(
    ("strength", "value"),
    [({"times_max": 0.5, "corpus_id": 0}, 4.0), ({"times_min": 0.5, "corpus_id": 0}, -1.5), ({"norm": 3.0}, 6.0), ({"norm": -3.0}, -6.0)],
)
def test_a_strength_becomes_a_value(strength: dict, value: float) -> None:
    for op in ("set", "add"):
        (found,) = resolved(change("coefficient", op, value=None, strength=strength), look_up=look_up)
        assert found.value == value
        assert found.as_json()["strength"] == strength
    (found,) = resolved(change("resid_post", "add_value", value=None, strength=strength), look_up=look_up)
    # the value that is added is that of L2N7, not of the layer that it is added to; there all but the direction's length are ten times as much
    assert found.value == (value * 10 if "norm" not in strength else value / 10)


def test_a_mean_is_looked_up_once_and_kept() -> None:
    (found,) = resolved(change("coefficient", "mean", value=None), look_up=look_up)
    assert found.value == 0.25
    assert resolve([found], SHAPE, nothing) == (found,)


def test_a_value_and_a_strength_that_differ_are_refused() -> None:
    strength = {"times_max": 0.5, "corpus_id": 0}
    assert resolved(change("coefficient", "set", value=4.0, strength=strength), look_up=look_up)[0].value == 4.0
    with pytest.raises(AtlasError, match="value 3 was given with a strength that comes to 4; give one of them"):
        resolved(change("coefficient", "set", value=3.0, strength=strength), look_up=look_up)


def test_the_canonical_json_of_an_arm_by_hand() -> None:
    arm = resolved(
        change("head", "zero", units=[3, 1], positions=[5, [2, 5], 9], layer=2),
        change("coefficient", "set", value=None, strength={"times_max": 0.5, "corpus_id": 0}, skip_first=True),
        look_up=look_up,
    )
    assert canonical_json(arm) == (
        '[{"layer":1,"op":"set","positions":"all","site":"coefficient","skip_first":true,"units":[2],"value":4.0},'
        '{"layer":2,"op":"zero","positions":[[2,6],9],"site":"head","units":[1]},{"layer":2,"op":"zero","positions":[[2,6],9],"site":"head","units":[3]}]'
    )
    assert arm_sha256(arm) == sha256(canonical_json(arm).encode()).hexdigest()


def test_arms_that_do_the_same_are_one_and_others_are_others() -> None:
    one = change("coefficient", "set", value=4)
    other = change("resid_pre", "zero", layer=2)
    identity = arm_sha256(resolved(one, other))
    strong = change("coefficient", "set", value=None, strength={"times_max": 0.5, "corpus_id": 0})
    same = [
        resolved(other, one),
        resolved(one | {"value": 4.0}, change("resid_post", "zero")),
        resolved(strong, other, look_up=look_up),
        resolved(one | {"skip_first": False}, other),
    ]
    assert {arm_sha256(arm) for arm in same} == {identity}
    different = [resolved(one), resolved(one | {"value": 4.0000001}, other), resolved(one | {"positions": "prompt"}, other), ()]
    assert len({identity, *(arm_sha256(arm) for arm in different)}) == 5
    # within one site and unit the order matters
    add, scale = change("coefficient", "add"), change("coefficient", "scale")
    assert arm_sha256(resolved(add, scale)) != arm_sha256(resolved(scale, add))
    assert [found.op for found in resolved(scale, add)] == ["scale", "add"]


def test_all_units_of_a_site_are_written_out() -> None:
    assert [found.units for found in resolved(change("coefficient", "zero", units="all"))] == [(neuron,) for neuron in range(8)]
    assert [found.units for found in resolved(change("attention", "block"))] == [(head,) for head in range(4)]


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ("all", [(0, None)]), ("prompt", [(0, 5)]), ("generated", [(5, None)]), ("last", [(4, 5)]), ("predicting", [(4, None)]),
        ([4, [6, 9], 8, 5], [(4, 9)]), ([0, 2], [(0, 1), (2, 3)]),
    ],
)  # fmt: skip
def test_positions_of_a_prompt_of_five_tokens(positions: object, expected: list) -> None:
    (found,) = arm_of([change("head", "zero", positions=positions)])
    assert found.positions is not None and found.positions.index_ranges(5) == expected
    (skipping,) = arm_of([change("head", "zero", positions=positions, skip_first=True)])
    assert skipping.positions is not None
    assert skipping.positions.index_ranges(5) == [(max(1, start), end) for start, end in expected if end != 1]


@pytest.mark.parametrize(
    ("first", "second", "clashes"),
    [
        (change("coefficient", "set"), change("coefficient", "zero"), True),
        (change("coefficient", "set"), change("coefficient", "set", units=[1, 2]), True),
        (change("coefficient", "set"), change("coefficient", "set", units=[3]), False),
        (change("coefficient", "set"), change("coefficient", "add"), False),
        (change("coefficient", "set", positions="prompt"), change("coefficient", "zero", positions="generated"), False),
        (change("coefficient", "set", positions="last"), change("coefficient", "zero", positions=[4]), True),
        (change("coefficient", "set", positions="last"), change("coefficient", "zero", positions=[3]), False),
        (change("coefficient", "set", positions=[0]), change("coefficient", "zero", positions="all", skip_first=True), False),
        (change("coefficient", "mean"), change("coefficient", "resample"), True),
        (change("coefficient", "set"), change("pre_activation", "set"), True),
        (change("resid_post", "zero"), change("resid_pre", "patch", layer=2), True),
        (change("resid_post", "zero"), change("resid_post", "noise"), False),
        (change("attn_out", "zero"), change("head", "zero"), False),
    ],
)
def test_a_cell_is_replaced_once(first: dict, second: dict, clashes: bool) -> None:
    arm = resolved(first, second)
    if not clashes:
        require_one_replacement(arm, 5)
        return
    with pytest.raises(AtlasError, match="both replace .* of layer 1 at position [04]; remove one of them"):
        require_one_replacement(arm, 5)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("L20N630=max*0.5", {"site": "coefficient", "layer": 20, "units": [630], "op": "set", "strength": {"times_max": 0.5, "corpus_id": 7}}),
        ("l20n630=min*2", {"site": "coefficient", "layer": 20, "units": [630], "op": "set", "strength": {"times_min": 2, "corpus_id": 7}}),
        ("L20N630=norm*-3", {"site": "coefficient", "layer": 20, "units": [630], "op": "set", "strength": {"norm": -3}}),
        ("L20N630=-3.7e1", {"site": "coefficient", "layer": 20, "units": [630], "op": "set", "value": -37}),
        ("L20N630=0", {"site": "coefficient", "layer": 20, "units": [630], "op": "zero"}),
        ("L20N630=mean", {"site": "coefficient", "layer": 20, "units": [630], "op": "mean", "corpus_id": 7}),
        ("L20N630*=0.5", {"site": "coefficient", "layer": 20, "units": [630], "op": "scale", "value": 0.5}),
        ("L20N630+=1", {"site": "coefficient", "layer": 20, "units": [630], "op": "add", "value": 1}),
        ("L9H3=0", {"site": "head", "layer": 9, "units": [3], "op": "zero"}),
        ("L9H3*=.5", {"site": "head", "layer": 9, "units": [3], "op": "scale", "value": 0.5}),
    ],
)
def test_the_short_form_is_the_same_list(text: str, same: dict) -> None:
    assert intervention_from(text, 7) == arm_of([same | {"positions": "all", "skip_first": True}])[0]
    for short, positions in (("@last", "last"), ("@4", [4]), ("@4:8", [[4, 8]]), ("@all", "all")):
        assert intervention_from(text + short, 7) == arm_of([same | {"positions": positions}])[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("L20N630", '"L20N630" is no intervention; write one such as L20N630=max'),
        ("L20=3", "is no intervention"),
        ("L20N630=max", "is no intervention"),
        ("L20N630=nan", "is no intervention"),
        ("L9H3=1", "a head can only be set to 0"),
        ("L9H3=max*1", "a head can only be set to 0"),
        ("L9H3+=1", "a head can only be set to 0"),
        ("L9H3=0@first", 'positions "first" are unknown; they must be all, prompt'),
        ("L9H3=0@8:4", r"the range of positions \[8, 4\] is empty"),
        ("L9H3=0@9999999999", "is no intervention"),
        ("L1N1=1e999", "value is Infinity; it must be a finite number"),
    ],
)
def test_a_short_form_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(AtlasError, match=message):
        intervention_from(text, 0)
