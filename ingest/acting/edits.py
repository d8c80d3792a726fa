"""Interventions at a site, turned into operations on the site's tensor, which give new numbers to chosen rows, positions and columns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256

import torch
from torch import Tensor

from ingest.acting.draws import drawn_index, noise
from ingest.acting.places import columns_of, stream_units
from ingest.acting.runs import Run
from ingest.acting.used_values import used_values
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.interventions.intervention import Arm, Intervention
from schema.interventions.positions import Positions

New = Callable[[Tensor, list[int]], Tensor]
"""(the current numbers, [rows, positions, columns], and the positions' indices) → the new numbers, in the same units and dtype, on the same device."""

Before = Callable[[int, slice, list[int]], Tensor]
"""(layer, rows, indices) → resid_pre at these places in the current forward pass, [rows, positions, d_model]."""


@dataclass(frozen=True)
class AssignedArm:
    """A resolved arm, and the rows of a batch on which it acts. Each row holds a prompt of n_prompt tokens and any tokens that the model reads after it."""

    arm: Arm
    rows: slice
    n_prompt: int
    n_positions: int
    """Positions that the model will read in total, generated tokens included."""
    runs: Mapping[int | None, Run] = field(default_factory=dict)
    """prompt_id → the states that the arm takes from that prompt's own run; the key None stands for the prompt on which the arm acts."""
    vectors: Mapping[str, Tensor] = field(default_factory=dict)
    """SHA-256 → the vector with this hash, in the units of the stream."""


@dataclass(frozen=True)
class Edit:
    rows: slice
    columns: Tensor | None
    """The columns that are changed; None for all."""
    indices: frozenset[int]
    new: New


def edits(model: Model, assigned: AssignedArm, before: Before) -> Iterator[tuple[Intervention, Edit]]:
    """Yield all edits of an arm, in order, except those that block attention edges."""
    for group in group_changes([change for change in assigned.arm if change.op != "block"]):
        change = group[0]
        units = tuple(unit for one in group for unit in one.units or ())
        columns = torch.tensor(columns_of(model, change.site, units)) if units else None
        yield change, Edit(assigned.rows, columns, indices_of(change, assigned), make_replacement(model, assigned, group, columns, before))


def group_changes(changes: Sequence[Intervention]) -> Iterator[list[Intervention]]:
    """Yield groups of consecutive changes that differ only in their units and values, so that changes to a thousand neurons become one operation.

    A change without units, or with the same units as the change before it, begins a new group.
    """
    group: list[Intervention] = []
    for change in changes:
        if group and change.units not in (None, group[-1].units) and without_unit(change) == without_unit(group[0]):
            group.append(change)
            continue
        if group:
            yield group
        group = [change]
    if group:
        yield group


def without_unit(change: Intervention) -> Intervention:
    return replace(change, units=None, value=None, strength=None)


def indices_of(change: Intervention, assigned: AssignedArm) -> frozenset[int]:
    """Collect the indices at which a change acts. Raises AtlasError for a position that the model will not read."""
    positions, n = change.positions, assigned.n_positions
    assert positions is not None
    for _, end in positions.ranges:
        if end > n:
            raise AtlasError(f"{change.op} of {change.where}: position {end - 1} was asked for; the sequence has positions 0 to {n - 1}")
    return indices_within(positions, assigned.n_prompt, n)


@lru_cache(64)
def indices_within(positions: Positions, n_prompt: int, n: int) -> frozenset[int]:
    """Build the set of indices that `positions` describes. The set is cached: an arm may have a hundred thousand interventions at the same positions."""
    return frozenset(index for start, end in positions.index_ranges(n_prompt) for index in range(start, n if end is None else min(end, n)))


def make_replacement(model: Model, assigned: AssignedArm, group: Sequence[Intervention], columns: Tensor | None, before: Before) -> New:
    change = group[0]
    if change.op in ("patch", "resample"):
        return patch_from_run(model, assigned, change, columns, before)
    if change.op == "noise":
        return noise_replacement(change)
    if change.vector is not None or change.of is not None:
        return with_vector(model, assigned, change, len(group))
    if change.op == "zero":
        return lambda x, _: torch.zeros_like(x)
    assert columns is not None
    values = used_values(group, model.dtype).repeat_interleave(len(columns) // len(group))
    made: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"scale": torch.mul, "add": torch.add, "set": lambda x, v: v.expand_as(x)}
    make = made["set" if change.op == "mean" else change.op]
    return lambda x, _: make(x, values.to(x.device, x.dtype))


def with_vector(model: Model, assigned: AssignedArm, change: Intervention, n_units: int) -> New:
    """Make the function that computes the new numbers for mean, add_vector and add_value."""
    vector = model.values(change.of[0])[change.of[1]] if change.of is not None else given_vector(model, assigned, change)
    vector = vector.double().repeat(n_units) * (1.0 if change.op == "mean" else change.value or 0.0) / stream_units(model, change.site)
    if change.op == "mean":
        return lambda x, _: vector.to(x.device, x.dtype).expand_as(x)
    return lambda x, _: x + vector.to(x.device, x.dtype)


def given_vector(model: Model, assigned: AssignedArm, change: Intervention) -> Tensor:
    name, width = str(change.vector), model.d_head if change.site == "head" else model.d_model
    if name not in assigned.vectors:
        raise AtlasError(f"{change.op} of {change.where}: the vector {name} was not given")
    vector = assigned.vectors[name]
    if tuple(vector.shape) != (width,):
        raise AtlasError(f"{change.op} of {change.where}: the vector {name} is of shape {list(vector.shape)}, and {width} numbers are needed")
    if vector_sha256(vector) != name:
        raise AtlasError(f"{change.op} of {change.where}: the vector given as {name} has another SHA-256, {vector_sha256(vector)}")
    return vector


def vector_sha256(vector: Tensor) -> str:
    """Compute the SHA-256 of a vector, [width], by which arms refer to it."""
    return sha256(vector.float().cpu().numpy().astype("<f4").tobytes()).hexdigest()


def noise_replacement(change: Intervention) -> New:
    assert change.seed is not None and change.value is not None
    seed, deviation = change.seed, change.value
    return lambda x, indices: x + deviation * torch.stack([noise(seed, index, x.shape[-1]) for index in indices]).to(x.device, x.dtype)


def patch_from_run(model: Model, assigned: AssignedArm, change: Intervention, columns: Tensor | None, before: Before) -> New:
    """Make the function that computes the new numbers for patch and resample."""
    assert change.source is not None
    source, site = change.source, (change.site, change.layer)
    if source.prompt_id not in assigned.runs:
        raise AtlasError(f"{change.op} of {change.where}: prompt {source.prompt_id} was not given")
    states = assigned.runs[source.prompt_id][site]
    states = states if columns is None else states[:, columns.to(states.device)]

    def from_index(index: int) -> int:
        if change.op == "resample":
            return drawn_index(change.seed or 0, index, len(states))
        return index if source.index is None else source.index

    froms = {index: from_index(index) for index in indices_of(change, assigned)}
    if froms and max(froms.values()) >= len(states):
        raise AtlasError(
            f"{change.op} of {change.where}: position {max(froms.values())} of prompt {source.prompt_id} was asked for; it has {len(states)} positions"
        )

    def source_states(x: Tensor, indices: list[int]) -> Tensor:
        return states[[froms[index] for index in indices]].to(x.device, x.dtype).expand_as(x)

    if change.site != "resid_mid":
        return source_states
    layer, rows, multiplier = change.layer, assigned.rows, stream_units(model, change.site)
    assert layer is not None

    # what attention has to write for resid_mid to be what it is to be
    return lambda x, indices: (source_states(x, indices) - before(layer, rows, indices).to(x.device)) / multiplier
