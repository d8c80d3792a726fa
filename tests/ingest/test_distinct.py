"""Of positions with the same last tokens a list keeps the best: contexts by their tokens, and lists by brute force. tests/exact/test_lists.py ingests."""

import numpy as np
import pytest
import torch

from ingest.recorders.ffn_keys import CpuKeys
from ingest.recorders.torch_keys import TorchKeys
from ingest.text.contexts import context_numbers
from tests.ingest.test_keys import D_FFN, N_LAYERS, K, coefficients, kept_triggers


@pytest.mark.parametrize("n", [1, 2, 3, 100])
def test_contexts_have_one_number_where_their_last_tokens_are_equal(n: int) -> None:
    """Fewer at a sequence's start, which are another context than the same in its midst, unless they are n."""
    texts = [[0, 0, 1, 0, 0, 1, 2, 0, 0, 1], [0, 0, 1, 2], [1], []]
    tokens = [tuple(text[max(0, i - n + 1) : i + 1]) for text in texts for i in range(len(text))]
    numbers = np.concatenate([context_numbers(np.array(text, np.int32), n) for text in texts]).tolist()
    assert len(set(numbers)) == len(set(tokens)) == len(set(zip(numbers, tokens, strict=True)))


def brute(x: np.ndarray, contexts: np.ndarray) -> dict:
    """(layer, tail, neuron) → [(coefficient, position)], the best of each context alone."""
    found = {}
    for layer, tail, neuron in np.ndindex(N_LAYERS, 2, D_FFN):
        m = x[layer, :, neuron].tolist()
        best: dict = {}
        for p in sorted(range(len(m)), key=lambda p: (-m[p] if tail == 0 else m[p], p)):
            best.setdefault(contexts[p], (m[p], p))
        found[layer, tail, neuron] = list(best.values())[:K]
    return found


@pytest.mark.parametrize("which", [CpuKeys, TorchKeys])
@pytest.mark.parametrize(("n_contexts", "ties"), [(40, False), (40, True), (3, True)], ids=["many", "many, ties", "fewer than a list has places"])
def test_of_one_context_the_best_is_kept(which: type, n_contexts: int, ties: bool) -> None:
    """Batches in any order: half of them by one, the other half by one that begins with what the first knew."""
    x, contexts = coefficients(400, 5, ties), np.random.default_rng(6).integers(0, n_contexts, 400)
    of = N_LAYERS if which is CpuKeys else [torch.device("cpu")] * N_LAYERS
    keys = which(of, D_FFN, K, is_distinct=True)
    for n, start in enumerate((150, 350, 0, 50, 300, 200, 100, 250)):
        if n == 4:
            known, keys = keys.triggers(), which(of, D_FFN, K, is_distinct=True)
            keys.seed(known.coefficients, known.positions, known.contexts)
        rows = slice(start, start + 50)
        add = keys.batch(np.arange(400)[rows], np.zeros(50, np.int64), contexts[rows])
        for layer in range(N_LAYERS):
            add(layer, torch.from_numpy(x[layer, rows]))
    assert kept_triggers(keys) == brute(x, contexts)
    kept = keys.triggers()
    is_there = kept.positions < 400
    assert (kept.contexts[is_there] == contexts[kept.positions[is_there]]).all()
