"""The map: rows that are complete, points whose neighbours in the plane are neighbours by cosine, and cells counted again by hand."""

import math
from collections import Counter

import numpy as np
from sklearn.manifold import trustworthiness

from tests.exact.checks import Case, blocks, equal
from tests.exact.published import Rows

NEAR, BETTER = 5, 0.05
"""Neighbours compared; by how much they must be better kept than by chance. Random models leave little to keep."""


def check_map_run(c: Case) -> None:
    runs = c.published.rows("SELECT corpus_id, n_shards, settings ->> 'layout', settings ->> 'seed' FROM run WHERE kind = 'map' ORDER BY run_id")
    assert runs == [(None, 1, layout, str(c.settings["seed"])) for layout in ("value", "resid_post")]


def points_of(c: Case, layout: str) -> Rows:
    rows = c.published.table("map_point", f"layout = '{layout}'")
    equal("layout", rows["layout"], layout)
    ((run_id,),) = c.published.rows(f"SELECT run_id FROM run WHERE kind = 'map' AND (settings ->> 'layout') = '{layout}'")
    equal("run_id", rows["run_id"], run_id)
    return rows


def check_near(rows: Rows, vectors: np.ndarray) -> None:
    xy = np.column_stack([rows["x"], rows["y"]])
    assert np.isfinite(xy).all() and (np.ptp(xy, axis=0) > 0).all()
    shuffled = np.random.default_rng(0).permutation(xy)
    kept, by_chance = (trustworthiness(vectors, places, n_neighbors=NEAR, metric="cosine") for places in (xy, shuffled))
    assert kept > by_chance + BETTER, (kept, by_chance)


def check_map_values(c: Case) -> None:
    rows = points_of(c, "value")
    equal("layer", blocks(rows, "layer", c.n_layers, c.d_ffn), np.arange(c.n_layers)[:, None])
    equal("neuron", blocks(rows, "neuron", c.n_layers, c.d_ffn), np.arange(c.d_ffn))
    assert np.isnan(rows["position_id"].astype(float)).all()
    check_near(rows, np.concatenate([c.reference.values(layer).numpy() for layer in range(c.n_layers)]))


def check_map_states(c: Case) -> None:
    """The states are those of table residual_state, which has a check of its own."""
    rows = points_of(c, "resid_post")
    equal("layer", blocks(rows, "layer", c.n_layers, len(c.traced)), np.arange(c.n_layers)[:, None])
    equal("position_id", blocks(rows, "position_id", c.n_layers, len(c.traced)), c.traced)
    assert np.isnan(rows["neuron"].astype(float)).all()
    states = c.published.rows("SELECT vector FROM residual_state WHERE site = 'resid_post' ORDER BY layer, position_id")
    check_near(rows, np.array(states, np.float32)[:, 0])


def check_map_cells(c: Case) -> None:
    """A grid of 6 over the whole layout, filled and labelled in plain Python."""
    tokens = {
        "value": "SELECT layer, neuron, token_id, rank FROM value_token WHERE direction = 'promoted' AND rank <= 10",
        "resid_post": "SELECT layer, position_id, token_id, rank FROM logit_lens_token WHERE site = 'resid_post' AND rank <= 10",
    }
    text = dict(c.published.rows("SELECT token_id, text FROM token"))
    for layout, sql in tokens.items():
        promoted: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for layer, which, token, rank in c.published.rows(sql):
            promoted.setdefault((layer, which), []).append((token, rank))
        points = c.published.rows(f"SELECT layer, coalesce(neuron, position_id), x, y FROM map_point WHERE layout = '{layout}'")
        x_low, y_low = min(p[2] for p in points), min(p[3] for p in points)
        side = max(max(p[2] for p in points) - x_low, max(p[3] for p in points) - y_low) / 6
        cells: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for layer, which, x, y in points:
            cells.setdefault((min(int((x - x_low) / side), 5), min(int((y - y_low) / side), 5)), []).append((layer, which))
        everywhere = Counter(token for point in promoted.values() for token, _ in point)
        found = c.published.rows(f"SELECT cell_x, cell_y, n_points, lowest_layer, highest_layer, tokens FROM map_cells(layout := '{layout}', n_cells := 6)")
        assert {row[:2] for row in found} == set(cells)
        for cell_x, cell_y, n_points, lowest, highest, labels in found:
            inside = cells[cell_x, cell_y]
            assert (n_points, lowest, highest) == (len(inside), min(layer for layer, _ in inside), max(layer for layer, _ in inside))
            n = Counter(token for point in inside for token, _ in promoted[point])
            best = {token: min(rank for point in inside for t, rank in promoted[point] if t == token) for token in n}

            lift = {token: apart(n[token], len(points), len(inside), everywhere[token]) for token in n}
            wanted = sorted(n, key=lambda token, lift=lift, best=best: (-lift[token], best[token], token))[:5]
            assert labels == [text[token] for token in wanted]


def apart(n: int, n_points: int, n_inside: int, n_everywhere: int) -> float:
    """How far a token that n of a cell's points promote sets it apart, where so many of all points do."""
    return n * math.log(n * n_points / (n_inside * n_everywhere))


MAP_CHECKS = (check_map_run, check_map_values, check_map_states, check_map_cells)
"""For atlases with a map."""
