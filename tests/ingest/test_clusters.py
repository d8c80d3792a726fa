"""Clusters of values: complete linkage against a plain loop, what blocks keep, and vectors that have no direction."""

import numpy as np
import pytest
import torch

from ingest.recorders import clusters
from ingest.recorders.clusters import cluster_rows, complete_linkage, distances, in_order, n_blocks, n_clusters, scores_root, split_members, unit
from tests.ingest.tiny_models import tiny_model


def vectors(n: int, d: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def by_hand(found: np.ndarray, n: int) -> set[frozenset[int]]:
    """Merge the two clusters whose furthest members are nearest, until n are left."""
    groups = [frozenset([i]) for i in range(len(found))]
    lengths = np.sqrt((found**2).sum(1))
    apart = 1 - found @ found.T / lengths[:, None] / lengths

    def width(pair):
        return max(apart[i, j] for i in pair[0] for j in pair[1])

    while len(groups) > n:
        one, other = min(((a, b) for i, a in enumerate(groups) for b in groups[:i]), key=width)
        groups = [g for g in groups if g not in (one, other)] + [one | other]
    return set(groups)


def groups_of(labels: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)}


@pytest.mark.parametrize("n", [1, 2, 7, 30, 31])
def test_complete_linkage_is_what_a_plain_loop_finds(n):
    found = vectors(31)
    assert groups_of(complete_linkage(unit(found), n)) == by_hand(found, n)


def test_distances_are_those_of_every_pair_also_over_more_rows_than_are_held_at_once(monkeypatch):
    found = unit(vectors(23))
    monkeypatch.setattr(clusters, "ROWS", 5)
    expected = [1 - float(found[i] @ found[j]) for i in range(23) for j in range(i + 1, 23)]
    np.testing.assert_allclose(distances(found), expected, atol=1e-12)


def test_the_number_of_clusters_is_exact_also_where_all_distances_tie():
    same = np.tile(unit(vectors(1)), (40, 1))
    assert len(set(complete_linkage(same, 7).tolist())) == 7
    assert len(set(complete_linkage(same[:1], 1).tolist())) == 1


def test_a_vector_of_zeros_lies_at_distance_one_from_all_others():
    found = unit(np.vstack([vectors(3), np.zeros((2, 5))]))
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(distances(found)[[2, 3, 5, 6, 7, 8, 9]], 1)


def test_cosines_of_scores_need_no_scores():
    values, embedding = vectors(12, 6), vectors(50, 6, seed=1)
    scores = values @ embedding.T
    np.testing.assert_allclose(values @ scores_root(torch.from_numpy(embedding)) @ (values @ scores_root(torch.from_numpy(embedding))).T, scores @ scores.T)
    flat = scores_root(torch.from_numpy(embedding * [1, 1, 1, 1, 1, 0]))  # an embedding that leaves one dimension out
    assert np.isfinite(flat).all()


def test_clusters_are_numbered_by_their_first_member():
    assert in_order(np.array([7, 3, 7, 0, 3, 9])).tolist() == [0, 1, 0, 2, 1, 3]


def test_the_paper_has_ten_thousand_clusters_and_memory_decides_on_blocks():
    assert n_clusters(16 * 4096) == 10_000 and n_clusters(1) == 1
    assert [n_blocks(n) for n in (1, 15_000, 15_001, 30_000, 46_080)] == [1, 1, 2, 2, 4]


def test_blocks_are_even_hold_every_vector_once_and_are_the_same_again():
    found = unit(vectors(101))
    parts = split_members(found, np.arange(101), 4, 0)
    assert sorted(np.concatenate(parts).tolist()) == list(range(101))
    assert {len(part) for part in parts} <= {25, 26}
    again = split_members(found, np.arange(101), 4, 0)
    assert all((a == b).all() for a, b in zip(parts, again, strict=True))


def test_blocks_keep_near_vectors_together():
    """Two tight bundles of one size: 2-means finds them, whatever their order."""
    centres = np.eye(5)[:2]
    found = unit(centres[np.arange(60) % 2] + 0.01 * vectors(60))
    assert groups_of(np.isin(np.arange(60), split_members(found, np.arange(60), 2, 3)[0])) == {frozenset(range(0, 60, 2)), frozenset(range(1, 60, 2))}


def test_vectors_that_are_all_one_are_divided_too():
    same = np.tile(unit(vectors(1)), (10, 1))
    assert [len(part) for part in split_members(same, np.arange(10), 4, 0)] == [3, 2, 3, 2]


def test_with_blocks_there_are_as_many_clusters_each_within_a_block_and_made_by_complete_linkage(monkeypatch):
    monkeypatch.setattr(clusters, "LARGEST_BLOCK", 30)
    model = tiny_model("llama")
    shares = []
    rows = cluster_rows(model, 0, shares.append).to_pylist()
    n = model.n_layers * model.d_ffn
    assert n_blocks(n) > 1 and sum(shares) == pytest.approx(1)
    for space in ("value", "logits"):
        labels = np.array([row["cluster"] for row in rows if row["space"] == space])
        assert len(labels) == n and set(labels.tolist()) == set(range(n_clusters(n)))
        found = torch.cat([model.values(layer) for layer in range(model.n_layers)]).double().numpy()
        found = found if space == "value" else found @ model.unembedding.double().numpy().T
        root = found if space == "value" else np.concatenate([model.values(i).double().numpy() for i in range(model.n_layers)]) @ scores_root(model.unembedding)
        for part in split_members(unit(root), np.arange(n), n_blocks(n), 0):
            k = len(set(labels[part].tolist()))
            assert not set(labels[part].tolist()) & set(np.delete(labels, part).tolist())
            assert abs(k - n_clusters(n) * len(part) / n) < 1
            assert groups_of(labels[part]) == by_hand(found[part], k)
