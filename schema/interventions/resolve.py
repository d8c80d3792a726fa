"""Resolution of an arm against a model and an atlas: it refuses what does not exist, gives each unit its own intervention, and turns strengths into values."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256

from schema.errors import AtlasError
from schema.interventions.intervention import Arm, Intervention
from schema.interventions.sites import ORDER, WITH_UNITS

MOST_CHANGES = 100_000
"""Limit on the changes of an arm: each unit of an intervention counts once for each of its ranges of positions, since the JSON repeats them per unit."""

AGREEMENT = 1e-6
"""Largest relative difference between a given value and the value that its strength comes to: REAL columns hold seven digits."""

LookUp = Callable[[str, int, int, int | None], float | None]
"""Function (quantity, layer, neuron, corpus_id) → max, min or mean coefficient in a corpus, or value_norm. None if the atlas does not have the number."""


@dataclass(frozen=True)
class Shape:
    """Properties of a model that decide which interventions it can have."""

    name: str
    n_layers: int
    d_ffn: int
    n_heads: int
    is_gated: bool
    is_parallel: bool


def resolve(arm: Arm, shape: Shape, look_up: LookUp) -> tuple[Intervention, ...]:
    """Resolve an arm to one intervention for each unit, with its value, in the order of the forward pass. Those of one layer, site and unit keep their order.

    Raises AtlasError for a layer, unit or site that the model does not have, for an arm of more than MOST_CHANGES changes, and if the atlas lacks a number that
    a strength needs.
    """
    found: list[Intervention] = []
    n = 0
    for place, intervention in enumerate(arm):
        try:
            require_exists(intervention, shape)
            for change in each_unit(intervention, shape):
                n += n_changes(change)
                if n > MOST_CHANGES:
                    raise AtlasError(f"the arm makes more than {MOST_CHANGES:,} changes (units times ranges of positions), the most that an arm may make")
                found.append(replace(change, value=value_of(change, look_up)))
        except AtlasError as error:
            raise AtlasError(f"intervention {place + 1} of {len(arm)}: {error}") from None
    return tuple(sorted(found, key=place_in_pass))


def n_changes(change: Intervention) -> int:
    """Count the changes of one unit: one for each range of positions, and at least one."""
    return 1 if change.positions is None else max(1, len(change.positions.ranges))


def place_in_pass(change: Intervention) -> tuple[int, int, int]:
    layer = -1 if change.layer is None else change.layer
    return layer, ORDER[change.site], change.units[0] if change.units else -1


def require_exists(intervention: Intervention, shape: Shape) -> None:
    site = intervention.site
    if site == "pre_activation" and shape.is_gated:
        raise AtlasError(f"{shape.name} has a gated FFN, whose coefficients are a product, so it has no pre_activation; set the coefficient")
    if site == "resid_mid" and shape.is_parallel:
        raise AtlasError(f"{shape.name} has parallel blocks, in which no part reads a resid_mid; act on attn_out, ffn_out or resid_post")
    n_units = shape.d_ffn if WITH_UNITS.get(site) == "neuron" else shape.n_heads
    if intervention.layer is not None:
        require_below(intervention.layer, shape.n_layers, "layer", shape.name)
    for unit in intervention.units or ():
        require_below(unit, n_units, WITH_UNITS[site], f"layer {intervention.layer} of {shape.name}")
    if intervention.of is not None:
        require_below(intervention.of[0], shape.n_layers, "layer", shape.name)
        require_below(intervention.of[1], shape.d_ffn, "neuron", f"layer {intervention.of[0]} of {shape.name}")


def require_below(asked: int, n: int, what: str, where: str) -> None:
    if asked >= n:
        raise AtlasError(f"{what} {asked} was asked for; {where} has {what}s 0 to {n - 1}")


def each_unit(intervention: Intervention, shape: Shape) -> Iterator[Intervention]:
    if intervention.site not in WITH_UNITS:
        yield intervention
        return
    n_units = shape.d_ffn if WITH_UNITS[intervention.site] == "neuron" else shape.n_heads
    for unit in range(n_units) if intervention.units is None else intervention.units:
        yield replace(intervention, units=(unit,))


def value_of(change: Intervention, look_up: LookUp) -> float | None:
    """Return the given value, or compute it from a strength or a mean. Raises AtlasError if both are given and differ, or if the atlas lacks a number."""
    if change.strength is None and not (change.op == "mean" and change.vector is None):
        return change.value
    if change.value is not None and change.strength is None:
        return change.value
    reckoned = reckoned_value(change, look_up)
    if change.value is None:
        return reckoned
    if abs(change.value - reckoned) > AGREEMENT * abs(reckoned):
        raise AtlasError(f"value {change.value:g} was given with a strength that comes to {reckoned:g}; give one of them")
    return change.value


def reckoned_value(change: Intervention, look_up: LookUp) -> float:
    layer, neuron = change.of or (change.layer, change.units[0] if change.units else None)
    assert layer is not None and neuron is not None

    def look_up_quantity(quantity: str, corpus_id: int | None) -> float:
        found = look_up(quantity, layer, neuron, corpus_id)
        if found is None:
            of = "" if corpus_id is None else f" in corpus {corpus_id}"
            raise AtlasError(f"the atlas has no {quantity} of L{layer}N{neuron}{of}")
        return found

    if change.strength is None:
        return look_up_quantity("mean", change.corpus_id)
    kind, amount = change.strength.kind, change.strength.amount
    if kind != "norm":
        return amount * look_up_quantity(kind.removeprefix("times_"), change.strength.corpus_id)
    norm = look_up_quantity("value_norm", None)
    if norm == 0:
        raise AtlasError(f"the value of L{layer}N{neuron} is the zero vector, so no coefficient gives it a length")
    return amount / norm


def canonical_json(arm: Arm) -> str:
    """Write a resolved arm as JSON that is the same for all arms that do the same: sorted keys, shortest float64, values without strengths, no blanks."""
    return json.dumps([replace(change, strength=None).as_json() for change in arm], sort_keys=True, separators=(",", ":"), allow_nan=False)


def arm_sha256(arm: Arm) -> str:
    """Hash the canonical JSON of a resolved arm: the arm's identity."""
    return sha256(canonical_json(arm).encode()).hexdigest()
