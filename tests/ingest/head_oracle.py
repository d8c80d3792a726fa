"""What heads look at by the letter: one destination and source after the other, in attention that transformers gives in float64."""

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from math import log

import numpy as np
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


def row_sums(tokens: Sequence[int], weights: np.ndarray) -> Counter:
    """Sums over the destinations of one sequence, by name and by distance. weights: [destination, source]."""
    sums: Counter = Counter()
    for i in range(1, len(tokens)):
        row = weights[i]
        sums["n_destinations"] += 1
        sums["n_repeated"] += tokens[i] in tokens[:i]
        sums["previous"] += row[i - 1]
        sums["self"] += row[i]
        sums["first"] += row[0]
        sums["duplicate"] += sum(row[j] for j in range(i) if tokens[j] == tokens[i])
        sums["induction"] += sum(row[j] for j in range(1, i + 1) if tokens[j - 1] == tokens[i])
        sums["entropy"] += sum(-w * log(w) for w in row if w > 0)
        for j in range(i + 1):
            sums[i - j] += row[j]
    return sums


def expected(hf: PreTrainedModel, texts: list[list[int]], windows: list[int | None]) -> dict[tuple[int, int], tuple[Counter, Counter]]:
    """(layer, head) → sums over all texts of its attention, and of equal weights."""
    patterns = [eager_patterns(hf, tokens) for tokens in texts]
    found = {}
    for layer, window in enumerate(windows):
        uniform = sum((row_sums(tokens, even(len(tokens), window)) for tokens in texts), Counter())
        for head in range(patterns[0].shape[1]):
            found[layer, head] = (sum((row_sums(t, p[layer, head]) for t, p in zip(texts, patterns, strict=True)), Counter()), uniform)
    return found


def mean(sums: Counter, name: str) -> float | None:
    n = sums["n_repeated" if name in REPEATED else "n_destinations"]
    return sums[name] / n if n else None


def distance_bin(distance: int) -> int:
    """The bins 0, 1, 2, 3-4, 5-8, 9-16, 17-32."""
    return next(b for b, last in enumerate((0, 1, 2, 4, 8, 16, 32, 64)) if distance <= last)
