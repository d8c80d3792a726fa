"""The tables of the run of kind `paper` against brute force: the model run again on every shortened text, and every projection written out."""

import math
from contextlib import suppress

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from scipy.special import softmax

from tests.exact.checks import Case, blocks, equal, spread
from tests.exact.near import check_ranking, check_ranks
from tests.exact.reference import hooked

REMOVALS = ["first", "last", "random"]
N_ITEMS, N_TOKENS = 10, 30


def check_paper_run(c: Case) -> None:
    beside = (
        "weights",
        "sweep",
        "trace",
        "attribution",
        "map",
        "circuit",
        "head_statistics",
        "head_probe",
        "direct_path",
        "skip_trigram",
        "prediction",
        "ngram",
        "token_vector",
        "token_state",
        "word_test",
        "word",
        "probe",
        "tree_probe",
        "head_relation",
    )
    runs = [run for run in c.published.rows("SELECT kind, corpus_id, n_shards FROM run ORDER BY kind") if run[0] not in beside]
    assert runs == [("control_token", None, c.n_layers), ("next_token_rank", 0, c.n_layers), ("removal", 0, c.n_layers), ("value_cluster", None, 1)]
    kinds = {"keys_per_layer": "removal", "n_clusters": "value_cluster"}
    settings = [c.published.rows(f"SELECT (settings ->> '{name}')::INT, settings ->> 'seed' FROM run WHERE kind = '{kind}'") for name, kind in kinds.items()]
    assert settings == [[(n, str(c.settings["seed"]))] for n in (c.settings["paper_keys"], wanted_clusters(c))]


def top_triggers(c: Case, layer: int) -> np.ndarray:
    """Number in the cut of the position of each trigger of the tail max, [d_ffn, k]."""
    rows = c.published.table("trigger", f"corpus_id = {c.corpus_id} AND layer = {layer} AND tail = 'max'")
    return blocks(rows, "position_id", c.d_ffn, -1) - c.base


def text_before(c: Case, position: int) -> tuple[list[int], list[int]]:
    """BOS, if the text has one, and the other tokens up to the position."""
    ids = c.cut.token_ids[position - c.cut.index[position] : position + 1].tolist()
    n = 1 if c.settings["bos"] is not None else 0
    return ids[:n], ids[n:]


def read_alone(c: Case, layer: int, texts: list[list[int]]) -> np.ndarray:
    """Coefficients at the last token of texts of one length, [n_texts, d_ffn]: a plain forward pass of each whole text, up to the layer."""

    def end(*_: object) -> None:
        raise StopIteration

    stop = c.reference.blocks[layer].register_forward_hook(end)
    with hooked(c.reference) as seen, torch.no_grad(), suppress(StopIteration):
        c.reference.hf(torch.tensor(texts), use_cache=False)
    stop.remove()
    return seen["coefficient", layer].reshape(len(texts), len(texts[0]), -1)[:, -1].double().numpy()


def texts_to_read(c: Case, places: list[tuple[int, int]], positions: np.ndarray) -> np.ndarray:
    """Of a layer's keys and ranks, the positions that are read again: all, or of the settings' `removals` the shortest and longest texts among them,
    the first and last ranks, and as many drawn as make up the number. positions: [d_ffn, k]."""
    at = {place: positions[place[0], place[1] - 1] for place in places}
    every, n = np.unique(list(at.values())), c.settings.get("removals", len(at))
    if n >= len(every):
        return every
    by_length, by_rank = sorted(every, key=lambda p: len(text_before(c, p)[1])), sorted(at, key=lambda place: place[1])
    edges = {by_length[0], by_length[-1], at[by_rank[0]], at[by_rank[-1]]}
    others = np.setdiff1d(every, list(edges))
    return np.concatenate([list(edges), np.random.default_rng(0).choice(others, n - len(edges), replace=False)])


def check_removal(c: Case) -> None:
    left_out, n_short, n_reread = [], 0, 0
    for layer in range(c.n_layers):
        rows, positions, size = c.corpus_rows("removal").where(layer=layer), top_triggers(c, layer), c.coefficient_size(layer)
        found = {key: m for *key, m in zip(rows["neuron"], rows["rank"], rows["removed"], rows["coefficient"], strict=True) for key in [tuple(key)]}
        neurons = sorted({neuron for neuron, _, _ in found})
        equal("corpus_id", rows["corpus_id"], c.corpus_id)
        # a key whose every trigger is the first token of a text has none to read again
        assert 0 < len(neurons) <= c.settings["paper_keys"]
        long = {(n, r + 1) for n in neurons for r, p in enumerate(positions[n]) if len(text_before(c, p)[1]) > 1}
        assert set(found) == {(n, r, removed) for n, r in long for removed in REMOVALS}, f"{c.name} layer {layer}: not every trigger once without each token"
        n_reread += sum(len(positions[n]) for n in neurons)
        n_short += sum(len(positions[n]) for n in neurons) - len(long)
        for position in texts_to_read(c, sorted(long), positions):
            bos, text = text_before(c, position)
            without = read_alone(c, layer, [bos + text[:i] + text[i + 1 :] for i in range(len(text))])
            here = [(n, r) for n, r in long if positions[n, r - 1] == position]
            for word, expected in (("first", without[0]), ("last", without[-1])):
                stored = np.array([found[n, r, word] for n, r in here])
                neurons_here = [n for n, _ in here]
                c.close(f"removal of the {word}", stored, expected[neurons_here], 1e-4, 1e-2 * size[neurons_here])
            # one and the same token was left out for every key
            errors = [max(abs(found[n, r, "random"] - m[n]) / (abs(m[n]) + 1e-2 * size[n]) for n, r in here) for m in without]
            c.close("removal of a random token", np.array([min(errors)]), np.zeros(1), 1e-4, 1.0)
            if len(text) > 2 and np.sum(np.array(errors) < 1e-4) == 1:
                left_out.append(np.argmin(errors) / (len(text) - 1))
    said = f"SELECT n_left_out, n_all FROM left_out WHERE what = 'trigger' AND corpus_id = {c.corpus_id}"
    equal("triggers with one token", c.published.rows(said), [(n_short, n_reread)])
    # places are spread evenly over the prefix: the variance of an even draw is at most 1/4, for three tokens 1/6
    assert len(left_out) > 30
    assert abs(np.mean(left_out) - 0.5) < 5 * math.sqrt(1 / 6 / len(left_out))
    assert np.std(left_out) > 0.2


def check_next_token_ranks(c: Case) -> None:
    n_last = 0
    for layer in range(c.n_layers):
        rows, tops = c.corpus_rows("next_token_rank").where(layer=layer), top_triggers(c, layer)[:, 0]
        following = c.cut.next_token_ids[tops]
        neurons = np.flatnonzero(following >= 0)
        n_last += len(following) - len(neurons)
        equal("corpus_id", rows["corpus_id"], c.corpus_id)
        equal("neuron", rows["neuron"], neurons)
        equal("token_id", rows["token_id"], following[neurons])
        scores = (c.reference.values(layer) @ c.reference.embedding.T).numpy()[neurons]
        c.count("value_rank", check_ranks(f"{c.name} value_rank", rows["value_rank"], scores, following[neurons], 1e-6 * spread(scores)))
        c.close("value_prob", rows["value_prob"], softmax(scores, axis=1)[np.arange(len(neurons)), following[neurons]], 1e-4)
    said = f"SELECT n_left_out, n_all FROM left_out WHERE what = 'key' AND corpus_id = {c.corpus_id}"
    equal("keys whose text ends there", c.published.rows(said), [(n_last, c.n_layers * c.d_ffn)])


def check_control_updates(c: Case) -> None:
    allowed = set(c.traced[c.cut.index[c.activations.kept] > 0].tolist())
    for layer in range(c.n_layers):
        rows = c.published.table("control_token", f"control = 'ffn_update' AND layer = {layer}")
        items = blocks(rows, "item", N_ITEMS, N_TOKENS)
        assert len(set(items[:, 0].tolist())) == N_ITEMS and set(items[:, 0].tolist()) <= allowed
        equal("item", items, items[:, :1])
        equal("layer", rows["layer"], layer)
        updates = c.site("ffn_out", layer)[np.searchsorted(c.traced, items[:, 0])]
        check_scores(c, "ffn_update", rows, (updates @ c.reference.embedding.T).numpy(), 1e-5)


def check_random_vectors(c: Case) -> None:
    """The thirty scores of a vector fix it, and with it all other scores; the vectors are normal as the layer's values are."""
    drawn = []
    for layer in range(c.n_layers):
        rows = c.published.table("control_token", f"control = 'random_vector' AND layer = {layer}")
        equal("control", rows["control"], "random_vector")
        equal("item", blocks(rows, "item", N_ITEMS, N_TOKENS), np.arange(N_ITEMS)[:, None])
        ids, stored = blocks(rows, "token_id", N_ITEMS, N_TOKENS), blocks(rows, "score", N_ITEMS, N_TOKENS)
        embedding, values = c.reference.embedding.numpy(), c.reference.values(layer).numpy()
        vectors = np.stack([np.linalg.lstsq(embedding[ids[i]], stored[i].astype(float), rcond=None)[0] for i in range(N_ITEMS)])
        check_scores(c, "random_vector", rows, vectors @ embedding.T, 1e-5)
        drawn.append((vectors - values.mean(0)) / values.std(0))
    numbers = np.stack(drawn)
    n = numbers.size
    assert abs(numbers.mean()) < 5 / math.sqrt(n) and abs(numbers.var() - 1) < 5 * math.sqrt(2 / n)
    assert np.abs(np.corrcoef(numbers.reshape(-1, numbers.shape[-1])) - np.eye(len(numbers) * N_ITEMS)).max() < 0.99, "no vector is drawn twice"


def check_redrawn_vectors(c: Case) -> None:
    """Where d_model is larger than thirty, no vector can be had from its scores: each is drawn again: from the seed and the layer, in numpy."""
    for layer in range(c.n_layers):
        rows = c.published.table("control_token", f"control = 'random_vector' AND layer = {layer}")
        values = c.reference.values(layer).numpy()
        normal = np.random.default_rng([c.settings["seed"], layer]).standard_normal((N_ITEMS, values.shape[1]))
        vectors = values.mean(0) + normal * np.sqrt(((values - values.mean(0)) ** 2).mean(0))
        check_scores(c, "random_vector", rows, vectors @ c.reference.embedding.numpy().T, 1e-5)


def check_scores(c: Case, control: str, rows: object, scores: np.ndarray, tolerance: float) -> None:
    ids, stored = blocks(rows, "token_id", N_ITEMS, N_TOKENS), blocks(rows, "score", N_ITEMS, N_TOKENS)
    equal("rank", blocks(rows, "rank", N_ITEMS, N_TOKENS), np.arange(1, N_TOKENS + 1))
    c.count(control, check_ranking(f"{c.name} {control}", ids, stored, scores, tolerance * spread(scores)))
    c.close(f"{control} score", stored, np.take_along_axis(scores, ids, 1), 1e-4, 1e-1 * spread(scores))


def wanted_clusters(c: Case) -> int:
    """Ten thousand for 65,536 values, as in the paper."""
    return round(c.n_layers * c.d_ffn * 10_000 / 65_536)


def check_clusters(c: Case) -> None:
    values = np.concatenate([c.reference.values(layer).numpy() for layer in range(c.n_layers)])
    for space, vectors in (("value", values), ("logits", values @ c.reference.embedding.numpy().T)):
        rows = c.published.table("value_cluster", f"space = '{space}'")
        equal("space", rows["space"], space)
        equal("layer", blocks(rows, "layer", c.n_layers, c.d_ffn), np.arange(c.n_layers)[:, None])
        equal("neuron", blocks(rows, "neuron", c.n_layers, c.d_ffn), np.arange(c.d_ffn))
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        distance = 1 - unit @ unit.T
        expected = fcluster(linkage(squareform(distance, checks=False), "complete"), wanted_clusters(c), "maxclust")
        assert len(set(expected)) == wanted_clusters(c)
        order = list(dict.fromkeys(expected.tolist()))
        equal(f"{space} cluster", rows["cluster"], [order.index(label) for label in expected])
        check_complete_linkage(rows["cluster"], distance)


def check_complete_linkage(labels: np.ndarray, distance: np.ndarray) -> None:
    """No cluster is wider than any two of them would be together."""
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(labels.max() + 1))
    width = np.maximum.reduceat(np.maximum.reduceat(distance[np.ix_(order, order)], starts, axis=0), starts, axis=1)
    joined = np.maximum(width, np.maximum(np.diag(width)[:, None], np.diag(width)))
    assert np.diag(width).max() <= joined[~np.eye(len(width), dtype=bool)].min() + 1e-12


PAPER_CHECKS = (check_paper_run, check_removal, check_next_token_ranks, check_control_updates, check_random_vectors, check_clusters)
"""For atlases with a paper run."""
