"""Costs of units out of costs of wholes: least squares with no cost below nothing, every whole weighing the same."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import nnls


def fitted(units: Sequence[dict[str, float]], costs: Sequence[float]) -> dict[str, float]:
    """Cost of one of each unit such that the costs of wholes, made of `units` each, are met with the least sum of squared relative errors."""
    names = list(units[0])
    rows = np.array([[whole[name] for name in names] for whole in units]) / np.array(costs)[:, None]
    # columns of one size: the solver's tolerance knows no units
    size = np.linalg.norm(rows, axis=0)
    found, _ = nnls(rows / size, np.ones(len(costs)))
    return dict(zip(names, (found / size).tolist(), strict=True))


def total(units: dict[str, float], cost: dict[str, float]) -> float:
    """Cost of a whole."""
    return sum(n * cost[name] for name, n in units.items())
