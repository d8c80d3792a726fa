"""What heads look at by the letter: one destination and source after the other, in attention that transformers gives in float64."""

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from tests.ingest.parts_oracle import Oracle, Taken

NAMES = ("previous", "self", "first", "first_moved", "duplicate", "induction", "entropy")
REPEATED = ("duplicate", "induction")
Cell = tuple[int, int]
"""Layer, head."""


def eager_oracle(hf: PreTrainedModel) -> Oracle:
    found = Oracle(SimpleNamespace(hf=hf, model_type=hf.config.model_type))
    found.hf.set_attn_implementation("eager")
    return found


def eager_patterns(hf: PreTrainedModel, token_ids: Sequence[int]) -> np.ndarray:
    """Of one sequence, read alone: [layer, head, destination, source] float64."""
    exact = deepcopy(hf).double().eval()
    exact.set_attn_implementation("eager")
    with torch.inference_mode():
        found = exact(torch.tensor([list(token_ids)]), use_cache=False, output_attentions=True).attentions
    return np.stack([layer[0].numpy() for layer in found])


def cells(taken: Taken) -> list[Cell]:
    return [(layer, head) for layer, weights in enumerate(taken.weights) for head in range(weights.shape[1])]


def even(n: int, window: int | None) -> np.ndarray:
    """Equal weights on all that a destination sees, [destination, source]."""
    found = np.zeros((n, n))
    for i in range(n):
        seen = [j for j in range(i + 1) if window is None or i - j < window]
        found[i, seen] = 1 / len(seen)
    return found


def sums_of(tokens: Sequence[int], weights: np.ndarray, lengths: np.ndarray) -> Counter:
    """Sums over the destinations of one sequence, by name and by distance. weights: [destination, source]; lengths: of what each source would add to the
    stream of each destination with all the weight, likewise."""
    n = len(tokens)
    is_earlier_copy = np.array([[j < i and tokens[j] == tokens[i] for j in range(n)] for i in range(n)])
    is_after_copy = np.array([[1 <= j <= i and tokens[j - 1] == tokens[i] for j in range(n)] for i in range(n)])
    w, positive = weights[1:], weights[1:][weights[1:] > 0]
    sums: Counter = Counter({
        "n_destinations": n - 1, "n_repeated": int(is_earlier_copy.any(1).sum()), "previous": sum(weights[i, i - 1] for i in range(1, n)),
        "self": sum(weights[i, i] for i in range(1, n)), "first": w[:, 0].sum(), "duplicate": weights[is_earlier_copy].sum(),
        "induction": weights[is_after_copy].sum(),
        "first_moved": sum(weights[i, 0] * lengths[i, 0] / (weights[i, : i + 1] @ lengths[i, : i + 1]) for i in range(1, n)),
        "entropy": -(positive * np.log(positive)).sum(),
    })  # fmt: skip
    for distance in range(n):
        sums[distance] = sum(weights[i, i - distance] for i in range(max(distance, 1), n))
    return sums


def expected(hf: PreTrainedModel, texts: list[list[int]], windows: list[int | None]) -> dict[Cell, tuple[Counter, Counter]]:
    """Sums over all texts of each head's attention, and of equal weights."""
    oracle, found = eager_oracle(hf), {}
    for tokens in texts:
        taken = oracle.take(torch.tensor(tokens))
        for layer, head in cells(taken):
            weights = taken.weights[layer][:, head].numpy()
            moved = taken.moved_vectors[layer][:, head].norm(dim=-1).numpy()
            lengths = np.divide(moved, weights, out=np.zeros_like(moved), where=weights > 0)
            before = found.get((layer, head), (Counter(), Counter()))
            both = (sums_of(tokens, w, lengths) for w in (weights, even(len(tokens), windows[layer])))
            found[layer, head] = tuple(one + other for one, other in zip(before, both, strict=True))
    return found


def copied(hf: PreTrainedModel, texts: list[list[int]]) -> dict[Cell, tuple[float, float]]:
    """What each head adds to the logits of the tokens that it looks at, in the mean over destinations; and copying, from logits of the whole vocabulary."""
    oracle, sums = eager_oracle(hf), {}
    for tokens in texts:
        taken = oracle.take(torch.tensor(tokens))
        for cell in cells(taken):
            written = oracle.read(taken.parts["head", *cell], oracle.scale(taken.last))
            written = (written - written.mean(-1, keepdim=True)).numpy()
            weights, looked = taken.weights[cell[0]][1:, cell[1]].numpy(), written[1:, tokens]
            every = np.maximum(written[1:, sorted(set(tokens))], 0).sum()
            here = (len(weights), (weights * looked).sum(), (weights * np.maximum(looked, 0)).sum(), every)
            sums[cell] = np.add(sums.get(cell, np.zeros(4)), here)
    return {cell: (attended / n, 4 * own / (own + every) - 1) for cell, (n, attended, own, every) in sums.items()}


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


def check(statistics: list[dict], distances: list[dict], wanted: dict[Cell, tuple[Counter, Counter]], tolerance: float) -> None:
    """Rows of head_statistics or head_probe, and of attention_distance (none: of a probe), against `expected`."""
    rows = {(row["layer"], row["head"]): row for row in statistics}
    assert rows.keys() == wanted.keys() and len(rows) == len(statistics)
    binned: Counter = Counter()
    for key, (sums, uniform) in wanted.items():
        assert (rows[key]["n_destinations"], rows[key]["n_repeated"]) == (sums["n_destinations"], sums["n_repeated"])
        for name in NAMES:
            assert rows[key][name] == pytest.approx(mean(sums, name), abs=tolerance), (key, name)
            # equal weights are of counts alone, but what they move is of float32 values
            close = tolerance if name == "first_moved" else 1e-12
            assert rows[key][f"{name}_uniform"] == pytest.approx(mean(uniform, name), abs=close), (key, name)
        for distance in (d for d in sums if isinstance(d, int)):
            binned[*key, distance_bin(distance), "weight"] += sums[distance]
            binned[*key, distance_bin(distance), "uniform"] += uniform[distance]
    for row in distances:
        n = wanted[row["layer"], row["head"]][0]["n_destinations"]
        assert row["n"] == n
        for name in ("weight", "uniform"):
            assert row[name] == pytest.approx(binned.pop((row["layer"], row["head"], row["bin"], name), 0.0), abs=tolerance * max(n, 1))
    assert not binned or not distances
