"""The values of an arm as a model in half precision really uses them: rounded to the model's dtype before they are applied to states."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from schema.errors import AtlasError
from schema.interventions.intervention import Arm, Intervention

ROUNDED = ("set", "scale", "add", "mean")
"""Ops whose value is applied to the state directly. Ops with a vector or noise multiply it by their value in full precision, and the product is rounded."""


def used_arm(arm: Arm, dtype: torch.dtype) -> tuple[Intervention, ...]:
    """Round the values of a resolved arm to numbers that this dtype can represent."""
    places = [place for place, change in enumerate(arm) if change.op in ROUNDED and change.value is not None]
    values = dict(zip(places, used_values([arm[place] for place in places], dtype).tolist(), strict=True))
    return tuple(replace(change, value=values[place]) if place in values else change for place, change in enumerate(arm))


def used_values(changes: Sequence[Intervention], dtype: torch.dtype) -> Tensor:
    """Round the changes' values to this dtype, [changes] float64. Raises AtlasError for a value too large for the dtype, which would become infinite."""
    asked = torch.tensor([change.value for change in changes], dtype=torch.float64)
    found = asked.to(dtype).double()
    for place in found.isinf().nonzero()[:1, 0].tolist():
        change, name = changes[place], str(dtype).removeprefix("torch.")
        raise AtlasError(f"{change.op} of {change.where}: {change.value:g} was asked for; in {name} numbers go up to {torch.finfo(dtype).max:g}")
    return found
