"""Ranks and top-k against plain sorting, ties included."""

import pytest
import torch

from ingest.model.ranking import rank_of, ranks_at_once, ranks_by_row, top_k


def sorted_places(row: list[float]) -> list[int]:
    """Indices by falling score, equal scores by rising index."""
    return sorted(range(len(row)), key=lambda i: (-row[i], i))


@pytest.mark.parametrize("levels", [2, 5, 1000])
@pytest.mark.parametrize("k", [1, 3, 20, 50])
def test_top_k_is_that_of_a_stable_sort(levels, k):
    scores = torch.randint(0, levels, (30, 20), generator=torch.Generator().manual_seed(k)).float()
    values, indices = top_k(scores, k)
    expected = [sorted_places(row)[:k] for row in scores.tolist()]
    assert indices.tolist() == expected
    assert values.tolist() == [[row[i] for i in places] for row, places in zip(scores.tolist(), expected, strict=True)]


@pytest.mark.parametrize("rank", [rank_of, ranks_by_row, ranks_at_once])
@pytest.mark.parametrize("levels", [2, 1000])
def test_rank_is_the_place_in_a_stable_sort(levels, rank):
    scores = torch.randint(0, levels, (40, 25), generator=torch.Generator().manual_seed(1)).float()
    index = torch.arange(40) % 25
    expected = [1 + sorted_places(row).index(i) for row, i in zip(scores.tolist(), index.tolist(), strict=True)]
    assert rank(scores, index).tolist() == expected
