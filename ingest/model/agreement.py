"""When two tensors of a trace are one and the same, up to rounding, and the factor between two that are proportional."""

from collections.abc import Iterable
from math import inf, isfinite

import torch
from torch import Tensor

TOLERANCE = 2e-5
"""Largest relative error, at any position, of an equation that holds: recognition computes in float32."""

SAME = 1e-7
"""Largest relative error between copies of one state."""


def relative_error(got: Tensor, expected: Tensor) -> float:
    """Compute the largest ‖got - expected‖ / ‖expected‖ over positions, both [batch, seq, n]; nan if any number is not finite.

    It is computed position by position, because the state at the first position is a hundred times longer than the others in most models.
    """
    got, expected = got.double(), expected.double()
    error = (got - expected).norm(dim=-1)
    # an update may be exactly zero: ReLU, no bias
    return float(torch.where(error == 0, error, error / expected.norm(dim=-1)).max())


def error_between(got: Tensor, expected: Tensor) -> float:
    """Compute the relative error of two tensors that may not be alike: infinite for other shapes and for numbers that are not finite."""
    if got.shape != expected.shape:
        return inf
    if torch.equal(got, expected):
        return 0.0
    found = relative_error(got, expected)
    return found if isfinite(found) else inf


def holds(got: Tensor, expected: Tensor) -> bool:
    """Tell whether an equation holds within rounding."""
    return error_between(got, expected) < TOLERANCE


def is_same(a: Tensor | None, b: Tensor | None) -> bool:
    """Tell whether two tensors are copies of one state."""
    if a is None or b is None or a.shape != b.shape:
        return False
    # most are not, which one number and then their last rows show
    x, y = a[..., -1, :].reshape(-1, a.shape[-1])[-1], b[..., -1, :].reshape(-1, b.shape[-1])[-1]
    if abs(float(x[-1]) - float(y[-1])) > 1e-3 * float(x.abs().max()):
        return False
    return torch.equal(a, b) or (error_between(x, y) < SAME and error_between(a, b) < SAME)


def factor_between(got: Tensor, expected: Tensor) -> float:
    """Compute the number by which `got` is nearest to `expected`, by least squares."""
    got, expected = got.double(), expected.double()
    return float((got * expected).sum() / got.square().sum().clamp_min(1e-300))


def snap(number: float, named: Iterable[float]) -> float:
    """Take the number that the configuration names, or 1, for one within 1e-4 of it: a fitted factor is exact to rounding alone."""
    return next((name for name in (1.0, *named) if abs(number - name) < 1e-4 * abs(name)), number)
