"""The arms of an experiment of suppression: what is switched on, and that controls are as long, in the same layers, and of other neurons."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ingest.acting.suppression import ConceptValue, PlannedArm, planned_arms, require_matched
from schema.errors import AtlasError
from schema.interventions.resolve import Shape

SHAPE = Shape("toy", 4, 40, 2, True, False)
NUMBERS = np.random.default_rng(0)
NORM, MOST, LEAST = NUMBERS.uniform(0.5, 4, (4, 40)), NUMBERS.uniform(1, 9, (4, 40)), -NUMBERS.uniform(1, 9, (4, 40))
NORM[2, 5:] = 0
CONCEPT = [ConceptValue(3, 7, 1), ConceptValue(1, 9, -1), ConceptValue(3, 8, -1)]
OPPOSITE = [ConceptValue(3, 1, 1)]


def look_up(quantity: str, layer: int, neuron: int, corpus_id: int | None) -> float:
    assert corpus_id == (None if quantity == "value_norm" else 6)
    return float({"value_norm": NORM, "max": MOST, "min": LEAST}[quantity][layer, neuron])


def plan(concept: list[ConceptValue] = CONCEPT, seeds: tuple[int, ...] = (0, 1, 2, 3, 4), look_up: Callable = look_up) -> list[PlannedArm]:
    return planned_arms(concept, OPPOSITE, [0.25, 0.5], seeds, 6, SHAPE, look_up)


def values_set(one: PlannedArm) -> dict[tuple[int, int], float]:
    assert all((c.site, c.op, c.positions.named, c.positions.is_first_skipped) == ("coefficient", "set", "all", True) for c in one.arm)
    return {(c.layer, c.units[0]): c.value for c in one.arm}


def test_a_concept_is_switched_on_with_the_sign_of_each_value() -> None:
    arms = {one.name: one for one in plan()}
    assert values_set(arms["concept × 0.5"]) == {(3, 7): 0.5 * MOST[3, 7], (1, 9): 0.5 * LEAST[1, 9], (3, 8): 0.5 * LEAST[3, 8]}
    assert values_set(arms["opposite × 0.25"]) == {(3, 1): 0.25 * MOST[3, 1]}
    assert arms["base"].arm == arms["word filter"].arm == arms["self-debiasing"].arm == ()


def test_each_strength_has_its_controls_of_the_same_layers_lengths_and_signs() -> None:
    arms = plan()
    assert [one.role for one in arms] == ["base", *["treatment"] * 2, *["positive_control"] * 2, "baseline", *["random_control"] * 10, "baseline"]
    named = {(value.layer, value.neuron) for value in (*CONCEPT, *OPPOSITE)}
    for a in (0.25, 0.5):
        lengths = {(3, a * MOST[3, 7] * NORM[3, 7]), (1, a * LEAST[1, 9] * NORM[1, 9]), (3, a * LEAST[3, 8] * NORM[3, 8])}
        for one in arms:
            if one.role == "random_control" and one.name.endswith(f"× {a:g}"):
                values = values_set(one)
                assert len(values) == 3 and not named & values.keys()
                expected, got = sorted(lengths), sorted((layer, c * NORM[layer, neuron]) for (layer, neuron), c in values.items())
                assert [layer for layer, _ in got] == [1, 3, 3]
                assert [r for _, r in got] == pytest.approx([r for _, r in expected])
    # a draw is of one set of neurons at each strength, and another seed is another
    by_seed = {(one.draw, tuple(values_set(one))) for one in arms if one.role == "random_control"}
    assert len(by_seed) == 5 and len({neurons for _, neurons in by_seed}) == 5
    assert plan() == arms


def test_a_control_of_another_length_or_layer_is_refused() -> None:
    treated, control = plan()[1].arm, plan()[6].arm
    require_matched(treated, control, look_up)
    one = control[0]
    others = [
        replace(one, value=-one.value),
        replace(one, value=one.value * 1.001),
        replace(one, layer=0, value=one.value * NORM[1, one.units[0]] / NORM[0, one.units[0]]),
    ]
    for other in others:
        with pytest.raises(AtlasError, match="a random control does not have the same layers, lengths and signs"):
            require_matched(treated, (other, *control[1:]), look_up)
    with pytest.raises(AtlasError, match="a random control does not have"):
        require_matched(treated, control[1:], look_up)


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(AtlasError, match="4 different seeds of 4 were given for random controls; give at least 5"):
        plan(seeds=(0, 1, 2, 3))
    with pytest.raises(AtlasError, match="5 different seeds of 6 were given"):
        plan(seeds=(0, 1, 2, 3, 4, 4))
    with pytest.raises(AtlasError, match="0 values of the concept and 1 of its opposite were given"):
        plan([])
    with pytest.raises(AtlasError, match="3 values were given, 1 of them repeated"):
        plan([*CONCEPT[:2], replace(CONCEPT[1], sign=1)])
    with pytest.raises(AtlasError, match=r"L3N7 would be set to -2.*, but its value promotes the concept only with a coefficient of sign \+1"):
        plan(look_up=lambda quantity, *place: -8.0 if quantity == "max" else look_up(quantity, *place))
    with pytest.raises(AtlasError, match="layer 2 has no neuron left as a control for L2N4"):
        plan([ConceptValue(2, neuron, 1) for neuron in (0, 1, 4)])
