"""The arms of a suppression experiment: the base, values of a concept switched on, random controls with sub-updates of the same lengths, and other methods."""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from math import isclose

from ingest.acting.draws import seeded_hash
from schema.errors import AtlasError
from schema.interventions.intervention import Arm, Intervention, Strength
from schema.interventions.positions import Positions
from schema.interventions.resolve import AGREEMENT, LookUp, Shape, resolve

EVERYWHERE = Positions("all", is_first_skipped=True)
"""All positions but index 0, where many models keep an unusual state."""

FEWEST_DRAWS = 5
"""Smallest number of random controls; the effect of a single draw says little."""

INTERVENTIONS, WORD_FILTER, SELF_DEBIASING = "interventions", "word_filter", "self_debiasing"
"""Ways in which an arm changes generation; the last two change the logits and leave the forward pass as it is."""


@dataclass(frozen=True)
class ConceptValue:
    """A value that promotes a concept's tokens if its coefficient has the sign `sign`, 1 or -1."""

    layer: int
    neuron: int
    sign: int


@dataclass(frozen=True)
class PlannedArm:
    name: str
    role: str
    """base, treatment, random_control, positive_control or baseline."""
    arm: Arm
    """The resolved arm; empty if the logits are changed instead of the forward pass."""
    way: str = INTERVENTIONS
    draw: int | None = None
    """Index of a random control's seed; None for other arms."""


def planned_arms(
    concept: Sequence[ConceptValue],
    opposite: Sequence[ConceptValue],
    strengths: Sequence[float],
    seeds: Sequence[int],
    corpus_id: int,
    shape: Shape,
    look_up: LookUp,
) -> list[PlannedArm]:
    """List the arms in an order such that, if the work is stopped early, the finished arms are already informative.

    The order: the base; all values of the concept at each strength; all values of the opposite at each strength, which must move the scores the other way; the
    word filter; one random control for each strength and seed; self-debiasing. Raises AtlasError for fewer seeds than FEWEST_DRAWS, for a repeated seed, if
    either list of values is empty, and for a value whose largest coefficient in the corpus does not have the value's sign.
    """
    if len({*seeds}) < max(FEWEST_DRAWS, len(seeds)):
        raise AtlasError(f"{len({*seeds})} different seeds of {len(seeds)} were given for random controls; give at least {FEWEST_DRAWS}, and each once")
    if not (concept and opposite):
        raise AtlasError(
            f"{len(concept)} values of the concept and {len(opposite)} of its opposite were given; give both: only the opposite shows that a score can move"
        )
    named = {(value.layer, value.neuron) for value in (*concept, *opposite)}
    treated = {a: switch_on_arm(concept, a, corpus_id, shape, look_up) for a in strengths}
    found = [PlannedArm("base", "base", ())]
    found += [PlannedArm(f"concept × {a:g}", "treatment", arm) for a, arm in treated.items()]
    found += [PlannedArm(f"opposite × {a:g}", "positive_control", switch_on_arm(opposite, a, corpus_id, shape, look_up)) for a in strengths]
    found += [PlannedArm("word filter", "baseline", (), WORD_FILTER)]
    for a, arm in treated.items():
        for draw, seed in enumerate(seeds):
            control = resolve(tuple(control_of(arm, named, seed, shape, look_up)), shape, look_up)
            require_matched(arm, control, look_up)
            found.append(PlannedArm(f"random {draw} × {a:g}", "random_control", control, draw=draw))
    return [*found, PlannedArm("self-debiasing", "baseline", (), SELF_DEBIASING)]


def switch_on_arm(values: Sequence[ConceptValue], a: float, corpus_id: int, shape: Shape, look_up: LookUp) -> Arm:
    """Build the arm that sets each value's coefficient to `a` times its maximum in the corpus, or its minimum if the value's sign is -1."""

    def change(value: ConceptValue) -> Intervention:
        kind = "times_max" if value.sign > 0 else "times_min"
        return Intervention("coefficient", "set", value.layer, (value.neuron,), EVERYWHERE, strength=Strength(kind, a, corpus_id))

    found = resolve(tuple(change(value) for value in values), shape, look_up)
    signs = {(value.layer, value.neuron): value.sign for value in values}
    if len(signs) < len(values):
        raise AtlasError(f"{len(values)} values were given, {len(values) - len(signs)} of them repeated; give each once")
    for one in found:
        sign = signs[place_of(one)]
        if (one.value or 0.0) * sign <= 0:
            layer, neuron = place_of(one)
            raise AtlasError(f"L{layer}N{neuron} would be set to {one.value:g}, but its value promotes the concept only with a coefficient of sign {sign:+d}")
    return found


def control_of(treated: Arm, named: Set[tuple[int, int]], seed: int, shape: Shape, look_up: LookUp) -> Iterator[Intervention]:
    """Yield a control for each change: another neuron of the same layer, not in `named`, set so that its sub-update has the same length and sign.

    The same neurons are drawn at each strength.
    """
    others: dict[int, Iterator[int]] = {}
    for one in treated:
        layer, neuron = place_of(one)
        if layer not in others:
            others[layer] = drawn_neurons(layer, named, seed, shape, look_up)
        unit = next(others[layer], None)
        if unit is None:
            raise AtlasError(f"layer {layer} has no neuron left as a control for L{layer}N{neuron}")
        yield Intervention("coefficient", "set", layer, (unit,), EVERYWHERE, strength=Strength("norm", length(one, look_up), None))


def drawn_neurons(layer: int, named: Set[tuple[int, int]], seed: int, shape: Shape, look_up: LookUp) -> Iterator[int]:
    """Yield the neurons of a layer in an order drawn by hash, without those in `named` and those whose value is the zero vector."""
    drawn = sorted(range(shape.d_ffn), key=lambda neuron: seeded_hash(seeded_hash(seed, layer), neuron))
    return (neuron for neuron in drawn if (layer, neuron) not in named and look_up("value_norm", layer, neuron, None))


def length(change: Intervention, look_up: LookUp) -> float:
    """Compute the signed length c·‖v‖ of the sub-update of a coefficient that is set to c."""
    norm = look_up("value_norm", *place_of(change), None)
    if norm is None:
        raise AtlasError(f"the atlas has no value_norm of L{place_of(change)[0]}N{place_of(change)[1]}")
    return (change.value or 0.0) * norm


def place_of(change: Intervention) -> tuple[int, int]:
    assert change.layer is not None and change.units is not None
    return change.layer, change.units[0]


def require_matched(treated: Arm, control: Arm, look_up: LookUp) -> None:
    """Raise AtlasError if a control's sub-updates do not have the same layers, lengths and signs as those of the treated arm."""
    layers = [Counter(place_of(one)[0] for one in arm) for arm in (treated, control)]
    lengths = [sorted((place_of(one)[0], length(one, look_up)) for one in arm) for arm in (treated, control)]
    if layers[0] != layers[1] or not all(isclose(a, b, rel_tol=AGREEMENT) for (_, a), (_, b) in zip(*lengths, strict=True)):
        raise AtlasError("a random control does not have the same layers, lengths and signs as the arm that it is compared with")
