"""What a norm computes, found from the module itself and not from its class: whether it centres, what it adds to its weight to get its gain, its epsilon.

A norm is N(x) = g ⊙ (x - c·mean x)/√(mean square + ε) + β, with c = 1 if it centres, else 0. Classes mislead: a subclass of LayerNorm may add 1 to its weight,
and one without parameters may centre.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ingest.model.agreement import TOLERANCE, error_between
from ingest.model.modules import EPSILONS, MODEL_ERRORS

USUAL_EPSILONS = (1e-5, 1e-6, 1e-8, 1e-12, 0.0, torch.finfo(torch.float32).eps)
"""Epsilons that are tried for a norm without such an attribute."""

SMALL = 1e-3
"""Root mean square of the states about which a norm is asked for its epsilon, which states of usual size do not show."""


SPIKES = 32
"""Coordinates at which a norm is asked for the largest number that it gives."""


class Norm(NamedTuple):
    """Formula of a norm, but for its weight and bias."""

    is_centred: bool
    gain_offset: float
    """Number added to the weight to give the gain; without a weight, the gain is 1."""
    epsilon: float

    def apply(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Compute N(x), [..., width], from a weight and a bias [width]."""
        z = x - x.mean(-1, keepdim=True) if self.is_centred else x
        z = z / (z.square().mean(-1, keepdim=True) + self.epsilon).sqrt()
        z = z if weight is None else z * (weight + self.gain_offset)
        return z if bias is None else z + bias


def add_spikes(x: Tensor) -> Tensor:
    """Build states of which one coordinate is far larger than the others, which shows a norm that bounds what it gives: [2·n, width] for some coordinates."""
    at = torch.linspace(0, x.shape[-1] - 1, min(SPIKES, x.shape[-1])).long()
    spikes = torch.nn.functional.one_hot(at, x.shape[-1]).to(x) * 100
    return torch.cat((spikes, -spikes)) + x.flatten(0, -2)[-1] / x.flatten(0, -2)[-1].abs().max().clamp_min(1e-30)


def read_norm(module: nn.Module, x: Tensor) -> Norm | None:
    """Find the formula by which a module maps states x, [..., width] float32, to states; None if none holds, or if more than one does.

    It is asked about the states themselves, about small ones, which alone tell the epsilon, and about some with one large coordinate.
    """
    parameters = dict(module.named_parameters())
    if not parameters.keys() <= {"weight", "bias"} or any(parameter.shape != x.shape[-1:] for parameter in parameters.values()):
        return None
    weight, bias = (parameters[name].to(x) if name in parameters else None for name in ("weight", "bias"))
    place = next((parameter.device for parameter in parameters.values()), x.device)
    own = [float(found) for name in EPSILONS if isinstance(found := getattr(module, name, None), int | float)]
    states = (x, x * (SMALL / x.square().mean().sqrt().clamp_min(1e-30)), add_spikes(x))
    try:
        given = [module(state.to(place)).to(x) for state in states]
    except MODEL_ERRORS:
        # a module that is called with more than a state
        return None
    errors = {}
    for norm in (Norm(c, offset, e) for c in (False, True) for offset in ((0.0, 1.0) if weight is not None else (0.0,)) for e in own or USUAL_EPSILONS):
        # most fail at the first states
        errors[norm] = 0.0
        for state, y in zip(states, given, strict=True):
            errors[norm] = max(errors[norm], error_between(norm.apply(state, weight, bias), y))
            if errors[norm] >= TOLERANCE:
                break
    fitting = {norm[:2] for norm, error in errors.items() if error < TOLERANCE}
    return min(errors, key=errors.__getitem__) if len(fitting) == 1 else None
