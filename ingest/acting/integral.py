"""Integrated gradients (Sundararajan et al. 2017) of any function of vectors, with as many steps as completeness needs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ingest.acting.changes import Progress

Scores = Callable[[Tensor], Tensor]
"""Function: vectors, [rows, seq, width] → a score for each row, [rows]; no row affects another row's score."""

FIRST_STEPS, MOST_STEPS = 32, 512
BOUND = 0.05
LEAST_DIFFERENCE = 0.1
"""Lower bound, in units of the score, on the difference that an error is divided by, so that it is never divided by almost zero."""

GRADIENT_TOKENS = 256
"""Tokens of one pass with gradients; the pass's activations stay in memory until the gradients are computed."""


@dataclass(frozen=True, eq=False)
class Integral:
    """Integrated gradients of one input.

    attribution: [seq] float64. at_input, at_baseline: the score at both ends. error: the completeness error,
    |sum of attribution - (at_input - at_baseline)| / max(|at_input - at_baseline|, LEAST_DIFFERENCE).
    """

    attribution: Tensor
    n_steps: int
    at_input: float
    at_baseline: float

    @property
    def error(self) -> float:
        difference = self.at_input - self.at_baseline
        return abs(float(self.attribution.sum()) - difference) / max(abs(difference), LEAST_DIFFERENCE)

    @property
    def is_complete(self) -> bool:
        return self.error <= BOUND


def gradients(scores: Scores, x: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the scores of x, [rows, seq, width], as [rows] float64, and their gradients, shaped like x, even if the caller has gradients turned off."""
    with torch.inference_mode(False), torch.enable_grad():
        leaf = x.clone().requires_grad_()
        found = scores(leaf)
        (gradient,) = torch.autograd.grad(found.sum(), leaf)
    return found.detach().double(), gradient


def integrate(scores: Scores, x: Tensor, baseline: Tensor, n_steps: int, progress: Progress) -> Tensor:
    """Compute (x - baseline)·∫∂s/∂x, where s is the score, along the straight line from baseline to x, by Gauss-Legendre quadrature.

    x and baseline: [seq, width]. Returns [seq] float64.
    """
    nodes, weights = np.polynomial.legendre.leggauss(n_steps)
    total, rows = torch.zeros(x.shape, dtype=torch.float64, device=x.device), max(1, GRADIENT_TOKENS // len(x))
    for begin in range(0, n_steps, rows):
        part = slice(begin, begin + rows)
        alphas, shares = (torch.tensor(found[part], device=x.device) for found in ((nodes + 1) / 2, weights / 2))
        points = baseline.double() + alphas[:, None, None] * (x.double() - baseline.double())
        _, gradient = gradients(scores, points.to(x.dtype))
        total += torch.einsum("r,rsw->sw", shares, gradient.double())
        progress(min(begin + rows, n_steps), n_steps)
    return (total * (x.double() - baseline.double())).sum(-1)


def integrated_gradients(scores: Scores, x: Tensor, baseline: Tensor, progress: Progress) -> Integral:
    """Integrate with FIRST_STEPS steps, and double the steps until the error is at most BOUND or MOST_STEPS is reached."""
    with torch.no_grad():
        at_input, at_baseline = (float(scores(end[None])[0]) for end in (x, baseline))
    n_steps = FIRST_STEPS
    while True:
        found = Integral(integrate(scores, x, baseline, n_steps, progress), n_steps, at_input, at_baseline)
        if found.is_complete or n_steps >= MOST_STEPS:
            return found
        n_steps *= 2
