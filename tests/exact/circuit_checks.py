"""The weights of attention: every stored number against matrices of the size of the stream and of the vocabulary."""

import math

import numpy as np

from tests.exact.checks import Case, blocks, equal
from tests.exact.head_checks import dicts
from tests.exact.heads_reference import Heads, centred, eigenvalues, ratio

SPECTRA = ("matching", "ov_effective", "ov_token", "stream")
N_DIRECTIONS = 8


def products(c: Case, heads: Heads, layer: int, head: int) -> dict[str, np.ndarray]:
    """Matrices of which a head has eigenvalues, [d_model, d_model]."""
    own, first, u = heads.sources(layer), heads.sources(0), heads.readers
    ov, qk = heads.ov(layer, head), heads.qk(layer, head)
    ov_token, look = ov @ first.T @ centred(u), centred(own).T @ centred(own)
    return {"ov_token": ov_token, "ov_effective": ov @ own.T @ centred(u), "stream": ov, "matching": qk @ look, "uncentred": ov @ first.T @ u}


def places(heads: Heads, n_layers: int) -> list[tuple[int, int]]:
    return [(layer, head) for layer in range(n_layers) for head in range(heads.n_heads)]


def check_heads(c: Case) -> None:
    heads, rows = Heads(c.reference.hf), c.published.table("head")
    cells = places(heads, c.n_layers)
    equal("layer, head", np.column_stack([rows["layer"], rows["head"]]), cells)
    equal("kv_head", rows["kv_head"], [head * heads.n_kv // heads.n_heads for _, head in cells])
    windows = [heads.window(layer) for layer, _ in cells]
    equal("window_size", rows["window_size"].astype(float), np.array([np.nan if w is None else w for w in windows]))
    d_head = heads.output(0, 0).shape[1]
    expected = [products(c, heads, *cell) for cell in cells]
    for column, name in {
        "copying_token": "ov_token", "copying_effective": "ov_effective", "copying_uncentred": "uncentred", "stream_ratio": "stream", "matching": "matching",
    }.items():  # fmt: skip
        c.close(column, rows[column], np.array([ratio(eigenvalues(found[name], d_head)) for found in expected]), 2e-4, 1.0)
    c.close("qk_norm", rows["qk_norm"], np.array([np.linalg.norm(heads.qk(*cell)) for cell in cells]), 1e-5)
    c.close("ov_norm", rows["ov_norm"], np.array([np.linalg.norm(heads.ov(*cell)) for cell in cells]), 1e-5)
    c.close("bias_norm", rows["bias_norm"], np.array([np.linalg.norm(heads.constant(*cell)) for cell in cells]), 1e-5, 1e-6)
    raised = [(heads.sources(layer) @ heads.ov(layer, head).T @ heads.readers.T) for layer, head in cells]
    n = c.d_vocab
    own = [np.mean([scores[t, t] > np.delete(scores[t], t).max() for t in range(n)]) for scores in raised]
    # twins tie: the lower id is the first
    c.close("own_first_share", rows["own_first_share"], np.array(own), 2.5 / n, 1.0)


def check_head_eigenvalues(c: Case) -> None:
    heads, rows = Heads(c.reference.hf), c.published.table("head_eigenvalue")
    cells, d_head = places(heads, c.n_layers), heads.output(0, 0).shape[1]
    shape = (len(cells), len(SPECTRA), d_head)
    equal("layer", blocks(rows, "layer", *shape), np.array([layer for layer, _ in cells])[:, None, None])
    equal("head", blocks(rows, "head", *shape), np.array([head for _, head in cells])[:, None, None])
    equal("spectrum", blocks(rows, "spectrum", *shape), np.array(SPECTRA)[:, None])
    equal("rank", blocks(rows, "rank", *shape), np.arange(1, d_head + 1))
    found = blocks(rows, "real", *shape) + 1j * blocks(rows, "imaginary", *shape)
    for cell, values in zip(cells, found, strict=True):
        wanted = products(c, heads, *cell)
        for spectrum, got in zip(SPECTRA, values, strict=True):
            want = eigenvalues(wanted[spectrum], d_head)
            scale = np.abs(want).max()
            c.close("moduli", np.abs(got), np.abs(want), 1e-3, scale)
            assert all(np.abs(got - value).min() < 1e-3 * scale for value in want), (cell, spectrum)


def looked_over(c: Case, heads: Heads, layer: int, head: int) -> np.ndarray:
    """Weight of each distance, [context]: as pairs lie, or, where the run read it, what the head gave to the distance's bin (0, 1, 2, to 4, to 8, …)."""
    pairs = heads.pairs(layer, c.settings["cutting"]["context"])
    if not c.published.rows("SELECT 1 FROM run WHERE kind = 'circuit' AND (settings -> 'reads' -> 'attention_distance') IS NOT NULL"):
        return pairs
    seen = {row["bin"]: row["weight"] for row in dicts(c.corpus_rows("attention_distance")) if (row["layer"], row["head"]) == (layer, head)}
    bins = [0, *(1 + math.ceil(math.log2(distance)) for distance in range(1, len(pairs)))]
    whole = np.bincount(bins, pairs)
    return np.array([n and seen[i] * n / whole[i] for i, n in zip(bins, pairs, strict=True)])


def check_compositions(c: Case) -> None:
    heads, rows = Heads(c.reference.hf), c.published.table("composition")
    cells, norm, d_head = places(heads, c.n_layers), np.linalg.norm, heads.output(0, 0).shape[1]
    turns = {cell: heads.mean_turn(cell[0], looked_over(c, heads, *cell)) for cell in cells}
    at = {key: i for i, key in enumerate(zip(*(rows[name] for name in ("kind", "layer", "head", "from_layer", "from_head")), strict=True))}
    pairs = [(reader, writer) for reader in cells for writer in cells if writer[0] < reader[0]]
    assert set(at) == {(kind, *reader, *writer) for kind in "kqv" for reader, writer in pairs}
    for kind, (reader, writer) in ((kind, pair) for kind in "kqv" for pair in pairs):
        i, writes, turn = at[kind, *reader, *writer], heads.ov(*writer), turns[reader]
        read = heads.ov(*reader) if kind == "v" else heads.qk(*reader) if kind == "k" else heads.qk(*reader).T
        c.close("composition", rows["score"][i], norm(read @ writes) / norm(read) / norm(writes), 1e-4)
        averaged = np.nan
        if turn is not None and kind != "v":
            turned = heads.qk(*reader, turn) if kind == "k" else heads.qk(*reader, turn).T
            averaged = norm(turned @ writes) / norm(turned) / norm(writes)
        c.close("averaged composition", rows["score_averaged"][i], averaged, 1e-4)
        look = centred(heads.sources(reader[0])).T @ centred(heads.sources(writer[0]))
        matching = ratio(eigenvalues(heads.qk(*reader) @ writes @ look.T, d_head)) if kind == "k" else np.nan
        c.close("matching", rows["matching"][i], matching, 5e-4, 1.0)


def check_head_directions(c: Case) -> None:
    heads, rows, tokens = Heads(c.reference.hf), c.published.table("head_direction"), c.published.table("head_direction_token")
    cells, d_head = places(heads, c.n_layers), heads.output(0, 0).shape[1]
    n, circuits = min(N_DIRECTIONS, d_head), ("ov", "qk")
    shape = (len(cells), 2, n)
    # layer, head, circuit, direction; then side and end in the order of their names
    for name, table, more in (("head_direction", rows, ()), ("head_direction_token", tokens, (2, 2, 10))):
        for i, column in enumerate(("layer", "head")):
            wanted = np.array([cell[i] for cell in cells]).reshape(-1, *(1,) * (2 + len(more)))
            equal(f"{name}.{column}", blocks(table, column, *shape, *more), wanted)
        equal(f"{name}.circuit", blocks(table, "circuit", *shape, *more), np.array(circuits).reshape(2, 1, *(1,) * len(more)))
        equal(f"{name}.direction_rank", blocks(table, "direction_rank", *shape, *more), np.arange(1, n + 1).reshape(n, *(1,) * len(more)))
    sides = {"ov": ("read", "write"), "qk": ("key", "query")}
    equal("side", blocks(tokens, "side", len(cells), 2, n, 2, 20), np.array([sides[name] for name in circuits])[:, None, :, None])
    equal("tail", blocks(tokens, "tail", -1, 2, 10), np.array(["max", "min"])[:, None])
    equal("rank", blocks(tokens, "rank", -1, 10), np.arange(1, 11))
    ids, stored = blocks(tokens, "token_id", *shape, 2, 2, 10), blocks(tokens, "score", *shape, 2, 2, 10)
    for i, cell in enumerate(cells):
        own, u = centred(heads.sources(cell[0])), centred(heads.readers)
        for j, matrix in enumerate((heads.ov(*cell), heads.qk(*cell))):
            left, sigma, right = np.linalg.svd(matrix)
            gap = -np.diff(np.append(sigma, 0))[:n] / sigma[:n]
            for column, want in (("sigma", sigma[:n]), ("share", (sigma**2 / (sigma**2).sum())[:n]), ("gap", gap)):
                c.close(column, blocks(rows, column, *shape)[i, j], want, 1e-4, sigma[0] if column == "sigma" else 1.0)
            for k in range(n):
                sign = np.sign(left[np.abs(left[:, k]).argmax(), k])
                ends = {"read": own @ right[k], "write": u @ left[:, k], "key": own @ right[k], "query": own @ left[:, k]}
                for m, side in enumerate(sides[circuits[j]]):
                    scores = ends[side] * sign
                    loose = 1e-5 / min(gap[k], gap[k - 1] if k else 1)
                    for tail, order in enumerate((np.sort(scores)[::-1], np.sort(scores))):
                        c.close("tokens of a direction", stored[i, j, k, m, tail], order[:10], loose, np.abs(scores).max())
                        c.close("their scores", stored[i, j, k, m, tail], scores[ids[i, j, k, m, tail]], loose, np.abs(scores).max())


def check_virtual_weights(c: Case) -> None:
    heads, rows, totals = Heads(c.reference.hf), c.published.table("virtual_weight"), c.published.table("virtual_weight_total")
    keys, values = [heads.ffn_readers(layer) for layer in range(c.n_layers)], [heads.ffn_values(layer) for layer in range(c.n_layers)]
    at = 0
    sides = sorted([*keys[0], *(f"read_by_{side}" for side in keys[0])])
    numbers = [(layer, neuron, side) for layer in range(c.n_layers) for neuron in range(c.d_ffn) for side in sides]
    for i, column in enumerate(("layer", "neuron", "side")):
        equal(column, totals[column], [each[i] for each in numbers])
    for i, (layer, neuron, side) in enumerate(numbers):
        is_reader, kind = side in keys[0], side.removeprefix("read_by_")
        mine = keys[layer][kind][neuron] if is_reader else values[layer][neuron]
        others = {other: values[other] if is_reader else keys[other][kind] for other in range(c.n_layers) if (other < layer if is_reader else other > layer)}
        products = {(other, n): v @ mine for other, vectors in others.items() for n, v in enumerate(vectors)}
        cosine = mine @ values[layer][neuron] / np.linalg.norm(mine) / np.linalg.norm(values[layer][neuron]) if is_reader else np.nan
        c.close("folded_cosine", totals["folded_cosine"][i], cosine, 1e-5, 1.0)
        assert totals["n"][i] == len(products)
        c.close("sum_squares", totals["sum_squares"][i], sum(w**2 for w in products.values()), 1e-4)
        best = sorted((abs(w) for w in products.values()), reverse=True)[:10]
        kept = slice(at, at := at + len(best))
        for column, want in (("layer", layer), ("neuron", neuron), ("side", side), ("rank", np.arange(1, len(best) + 1))):
            equal(f"virtual_weight.{column}", rows[column][kept], want)
        with_whom = list(zip(rows["other_layer"][kept], rows["other_neuron"][kept], strict=True))
        weights = np.array([products[other] for other in with_whom])
        lengths = np.array([np.linalg.norm(others[other][n]) for other, n in with_whom]) * np.linalg.norm(mine)
        c.close("largest virtual weights", np.abs(weights), np.array(best), 1e-4)
        c.close("virtual weights", rows["weight"][kept], weights, 1e-4)
        c.close("their cosines", rows["cosine"][kept], weights / lengths if len(lengths) else weights, 1e-4)
    assert at == len(rows)


CIRCUIT_CHECKS = (check_heads, check_head_eigenvalues, check_compositions, check_head_directions, check_virtual_weights)
