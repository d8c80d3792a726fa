"""The run of kind `map`: what it places and where, that it is the same again, and what a later one adds."""

import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.manifold import trustworthiness

from ingest.cli import ingest as command
from ingest.recorders import map_points
from ingest.recorders import map_points as layouts
from ingest.recorders.map_points import place_points, principal_plane
from schema.audits import run_audits
from schema.open.store import open_reader
from tests.ingest.test_run import TEXT, checksums, ingest, saved

# with the others that place points: the first layout of a process compiles, which takes seconds


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory) -> Path:
    return saved(tmp_path_factory.mktemp("gpt2"), seed=0)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for i in range(4):
        (folder / f"{i}.txt").write_text(TEXT[i * 7 :] + str(i))
    return folder


def rows(target, sql: str) -> list[tuple]:
    with closing(open_reader(target)) as con:
        return con.execute(sql).fetchall()


@pytest.mark.thorough
def test_a_map_has_every_value_and_every_traced_state_once_and_keeps_every_rule(tmp_path, gpt2, corpus):
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, corpus, map=True)
    neurons = rows(target, "SELECT layer, neuron, NULL FROM neuron ORDER BY ALL")
    states = rows(target, "SELECT layer, NULL, position_id FROM residual_state WHERE site = 'resid_post' ORDER BY ALL")
    assert rows(target, "SELECT layer, neuron, position_id FROM map_point WHERE layout = 'value' ORDER BY ALL") == neurons
    assert rows(target, "SELECT layer, neuron, position_id FROM map_point WHERE layout = 'resid_post' ORDER BY ALL") == states
    assert len(states) == 2 * 6
    with closing(open_reader(target)) as con:
        assert [f.audit.name for f in run_audits(con) if f.n_rows] == []
    found = rows(target, "SELECT run_id, corpus_id, n_shards, status, settings, versions ->> 'umap-learn' FROM run WHERE kind = 'map' ORDER BY run_id")
    assert [run[:4] for run in found] == [(3, None, 1, "finished"), (4, None, 1, "finished")]
    shared = {"model": str(gpt2), "revision": None, "dtype": "float32", "seed": 0, "n_neighbours": 20, "n_epochs": 300}
    shared["reads"] = {"value_neighbour": [0], "trace": [2], "residual_state": [2]}
    assert [json.loads(run[4]) for run in found] == [{**shared, "layout": "value"}, {**shared, "layout": "resid_post", "n_traced": 6}]
    assert all(run[5] for run in found)


@pytest.mark.long
def test_the_same_again_is_the_same_to_the_bit_and_adds_nothing_and_another_seed_is_another_layout(tmp_path, gpt2, corpus):
    one, two, other = (tmp_path / f"{name}.duckdb" for name in ("one", "two", "other"))
    for target in (one, two):
        ingest(target, gpt2, corpus, map=True)
    before = checksums(one)
    assert before["map_point"] == checksums(two)["map_point"]
    ingest(one, gpt2, corpus, map=True)
    assert checksums(one) == before
    ingest(other, gpt2, corpus, map=True, seed=1)
    places = "SELECT x, y FROM map_point WHERE layout = 'value' ORDER BY layer, neuron"
    assert rows(other, places) != rows(one, places)


@pytest.mark.thorough
def test_more_positions_make_a_new_layout_of_states_and_the_last_one_counts(tmp_path, gpt2, corpus):
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, corpus, map=True)
    values = rows(target, "FROM last_layout WHERE layout = 'value'")
    ingest(target, gpt2, corpus, map=True, trace=9)
    assert rows(target, "SELECT layout, count(*), count(DISTINCT run_id) FROM map_point GROUP BY ALL ORDER BY ALL") == [
        ("resid_post", 2 * (6 + 9), 2),
        ("value", 2 * 40, 1),
    ]
    assert rows(target, "SELECT count(DISTINCT position_id), count(*) FROM last_layout WHERE layout = 'resid_post'") == [(9, 18)]
    assert rows(target, "FROM last_layout WHERE layout = 'value'") == values


@pytest.mark.thorough
def test_without_a_corpus_the_values_are_placed_alone(tmp_path, gpt2):
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, None, map=True)
    assert rows(target, "SELECT DISTINCT layout FROM map_point") == [("value",)]
    assert rows(target, "SELECT count(*) FROM map_cells(layout := 'resid_post')") == [(0,)]


@pytest.mark.thorough
def test_an_interrupted_layout_stands_in_nobodys_way(tmp_path, gpt2, corpus, monkeypatch):
    """Also when more has been traced before the next."""
    target = tmp_path / "a.duckdb"

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(map_points, "state_rows", stop)
        with pytest.raises(KeyboardInterrupt):
            ingest(target, gpt2, corpus, map=True)
    ingest(target, gpt2, corpus, map=True, trace=9)
    found = rows(target, "SELECT r.status, count(p.x) FROM run AS r LEFT JOIN map_point AS p USING (run_id) WHERE r.kind = 'map' GROUP BY r.run_id, r.status")
    assert sorted(found) == [("finished", 18), ("finished", 80)]


@pytest.mark.thorough
def test_of_too_many_states_a_seeded_sample_of_positions_is_placed(tmp_path, gpt2, corpus, monkeypatch):
    monkeypatch.setattr(layouts, "MOST_STATES", 8)
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, corpus, map=True)
    assert rows(target, "SELECT layer, count(DISTINCT position_id) FROM map_point WHERE layout = 'resid_post' GROUP BY layer ORDER BY layer") == [
        (0, 4),
        (1, 4),
    ]
    with closing(open_reader(target)) as con:
        assert [f.audit.name for f in run_audits(con) if f.n_rows] == []


def bundles(n: int, d: int = 12, seed: int = 0) -> np.ndarray:
    """Vectors about five directions, of lengths from 1 to 100."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((5, d))[np.arange(n) % 5] + 0.3 * rng.standard_normal((n, d))) * rng.uniform(1, 100, (n, 1))


def nearest_others(vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
    cosines = units @ units.T
    np.fill_diagonal(cosines, -np.inf)
    order = np.argsort(-cosines, axis=1)[:, :k]
    return order, np.take_along_axis(cosines, order, 1)


def test_neighbours_by_cosine_are_neighbours_in_the_plane():
    found = bundles(200)
    xy = place_points(*nearest_others(found, 20), principal_plane(lambda _: torch.from_numpy(found), 1), 0)
    assert xy.dtype == np.float32 and xy.shape == (200, 2)
    kept = trustworthiness(found, xy, n_neighbors=10, metric="cosine")
    by_chance = trustworthiness(found, np.random.default_rng(0).permutation(xy), n_neighbors=10, metric="cosine")
    assert kept > 0.85 and by_chance < 0.6
    centres = np.array([xy[i::5].mean(0) for i in range(5)])
    nearest = np.linalg.norm(xy[:, None] - centres, axis=2).argmin(1)
    assert (nearest == np.arange(200) % 5).all()


def test_what_is_compiled_for_a_map_is_kept_on_disk():
    # which takes seconds to load
    from umap.layouts import _nb_optimize_layout_euclidean_single_epoch
    from umap.umap_ import smooth_knn_dist

    found = bundles(30)
    place_points(*nearest_others(found, 5), principal_plane(lambda _: torch.from_numpy(found), 1), 0)
    for function in (smooth_knn_dist, _nb_optimize_layout_euclidean_single_epoch):
        assert [*function.stats.cache_hits.values(), *function.stats.cache_misses.values()], function


def test_the_start_is_the_plane_of_the_principal_components_whatever_the_parts():
    found = bundles(30)
    whole = principal_plane(lambda _: torch.from_numpy(found), 1)
    units = found / np.linalg.norm(found, axis=1, keepdims=True)
    centred = units - units.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    expected = centred @ axes[:2].T
    np.testing.assert_allclose(np.abs(whole) / np.abs(whole).max(), np.abs(expected) / np.abs(expected).max(), atol=1e-9)
    assert np.abs(whole).max() == pytest.approx(10)
    np.testing.assert_allclose(principal_plane(lambda i: torch.from_numpy(found[i * 10 : i * 10 + 10]), 3), whole, atol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 25])
def test_few_points_and_points_that_are_all_one_are_placed_too(n):
    for found in (bundles(n), np.ones((n, 3)), np.vstack([np.zeros((n - 1, 3)), np.ones((1, 3))])):
        xy = place_points(*nearest_others(found, min(20, n - 1)), principal_plane(lambda _, v=found: torch.from_numpy(v), 1), 0)
        assert xy.shape == (n, 2) and np.isfinite(xy).all()


@pytest.mark.thorough
def test_a_dry_run_foretells_the_map(tmp_path, gpt2, corpus, capsys):
    target = tmp_path / "a.duckdb"
    arguments = ["--model", str(gpt2), "--corpus", str(corpus / "*.txt"), "--context", "16", "--triggers", "5", "--trace", "12", "--map"]
    command.main([str(target), *arguments, "--dry-run"], standalone_mode=False)
    lines = {words[0]: words[1:] for line in capsys.readouterr().out.splitlines() if (words := line.split())}
    assert not target.exists()
    assert lines["map"][0].count(":") == 2
    command.main([str(target), *arguments], standalone_mode=False)
    assert rows(target, "SELECT count(*) FROM map_point") == [(int(lines["map_point"][0]),)]
