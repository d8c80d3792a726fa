"""What heads look at by the letter: one destination and source after the other, in attention that transformers gives in float64."""

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

NAMES = ("previous", "self", "first", "duplicate", "induction", "entropy")
REPEATED = ("duplicate", "induction")


def eager_patterns(hf: PreTrainedModel, token_ids: Sequence[int]) -> np.ndarray:
    """Of one sequence, read alone: [layer, head, destination, source] float64."""
    exact = deepcopy(hf).double().eval()
    exact.set_attn_implementation("eager")
    with torch.inference_mode():
        found = exact(torch.tensor([list(token_ids)]), use_cache=False, output_attentions=True).attentions
    return np.stack([layer[0].numpy() for layer in found])


def even(n: int, window: int | None) -> np.ndarray:
    """Equal weights on all that a destination sees, [destination, source]."""
    found = np.zeros((n, n))
    for i in range(n):
        seen = [j for j in range(i + 1) if window is None or i - j < window]
        found[i, seen] = 1 / len(seen)
    return found


def sums_of(tokens: Sequence[int], weights: np.ndarray) -> Counter:
    """Sums over the destinations of one sequence, by name and by distance. weights: [destination, source]."""
    n = len(tokens)
    is_earlier_copy = np.array([[j < i and tokens[j] == tokens[i] for j in range(n)] for i in range(n)])
    is_after_copy = np.array([[1 <= j <= i and tokens[j - 1] == tokens[i] for j in range(n)] for i in range(n)])
    w, positive = weights[1:], weights[1:][weights[1:] > 0]
    sums: Counter = Counter({
        "n_destinations": n - 1, "n_repeated": int(is_earlier_copy.any(1).sum()), "previous": sum(weights[i, i - 1] for i in range(1, n)),
        "self": sum(weights[i, i] for i in range(1, n)), "first": w[:, 0].sum(), "duplicate": weights[is_earlier_copy].sum(),
        "induction": weights[is_after_copy].sum(), "entropy": -(positive * np.log(positive)).sum(),
    })  # fmt: skip
    for distance in range(n):
        sums[distance] = sum(weights[i, i - distance] for i in range(max(distance, 1), n))
    return sums


def expected(hf: PreTrainedModel, texts: list[list[int]], windows: list[int | None]) -> dict[tuple[int, int], tuple[Counter, Counter]]:
    """(layer, head) → sums over all texts of its attention, and of equal weights."""
    patterns = [eager_patterns(hf, tokens) for tokens in texts]
    found = {}
    for layer, window in enumerate(windows):
        uniform = sum((sums_of(tokens, even(len(tokens), window)) for tokens in texts), Counter())
        for head in range(patterns[0].shape[1]):
            found[layer, head] = (sum((sums_of(t, p[layer, head]) for t, p in zip(texts, patterns, strict=True)), Counter()), uniform)
    return found


def mean(sums: Counter, name: str) -> float | None:
    n = sums["n_repeated" if name in REPEATED else "n_destinations"]
    return sums[name] / n if n else None


def distance_bin(distance: int) -> int:
    """The bins 0, 1, 2, 3-4, 5-8, 9-16, 17-32."""
    return next(b for b, last in enumerate((0, 1, 2, 4, 8, 16, 32, 64)) if distance <= last)


def plain_losses(hf: PreTrainedModel, texts: list[list[int]]) -> np.ndarray:
    """Of every token but the first, [sequence, n - 1]."""
    with torch.inference_mode():
        logits = deepcopy(hf).double()(torch.tensor(texts), use_cache=False).logits
    return -logits.log_softmax(-1)[:, :-1].gather(-1, torch.tensor(texts)[:, 1:, None])[..., 0].numpy()


def check(statistics: list[dict], distances: list[dict], wanted: dict[tuple[int, int], tuple[Counter, Counter]], tolerance: float) -> None:
    """Rows of head_statistics or head_probe, and of attention_distance (none: of a probe), against `expected`."""
    rows = {(row["layer"], row["head"]): row for row in statistics}
    assert rows.keys() == wanted.keys() and len(rows) == len(statistics)
    binned: Counter = Counter()
    for key, (sums, uniform) in wanted.items():
        assert (rows[key]["n_destinations"], rows[key]["n_repeated"]) == (sums["n_destinations"], sums["n_repeated"])
        for name in NAMES:
            assert rows[key][name] == pytest.approx(mean(sums, name), abs=tolerance), (key, name)
            assert rows[key][f"{name}_uniform"] == pytest.approx(mean(uniform, name), abs=1e-12), (key, name)
        for distance in (d for d in sums if isinstance(d, int)):
            binned[*key, distance_bin(distance), "weight"] += sums[distance]
            binned[*key, distance_bin(distance), "uniform"] += uniform[distance]
    for row in distances:
        n = wanted[row["layer"], row["head"]][0]["n_destinations"]
        assert row["n"] == n
        for name in ("weight", "uniform"):
            assert row[name] == pytest.approx(binned.pop((row["layer"], row["head"], row["bin"], name), 0.0), abs=tolerance * max(n, 1))
    assert not binned or not distances
