"""What heads and the direct path make of tokens, by brute force: matrices of the size of the vocabulary squared, and the cube of all triples, in float64."""

import numpy as np

from tests.exact.heads_reference import Heads, Norm, centred

QUERY_NORMS, KEY_NORMS = ("q_norm", "q_layernorm"), ("k_norm", "k_layernorm")


def normed(norm: Norm | None, x: np.ndarray) -> np.ndarray:
    """What a norm makes of x [..., width]."""
    if norm is None:
        return x
    return (x - norm.is_centred * x.mean(-1, keepdims=True)) / norm.scale(x) * norm.gain + norm.bias


def score_scale(heads: Heads, d_head: int) -> float:
    if heads.type == "gpt_neo":
        return 1.0
    if heads.type == "granite":
        return float(heads.config.attention_multiplier)
    return float(getattr(heads.config, "query_pre_attn_scalar", d_head)) ** -0.5


def head_vectors(heads: Heads, layer: int, part: int, names: tuple[str, ...]) -> np.ndarray:
    """q or k (part 0, 1) of every token, behind its norm: [tokens, heads, d_head]."""
    read = normed(heads.before(layer), heads.tokens[min(layer, 1)])
    weight, bias = heads.qkv(layer)[part]
    found = np.stack([read @ w.T + b for w, b in zip(weight, bias, strict=True)], axis=1)
    inner = heads.norm(heads.child(layer, names))
    if inner is not None and len(inner.gain) > found.shape[2]:
        return normed(inner, found.reshape(len(found), -1)).reshape(found.shape)
    return normed(inner, found)


def looks(heads: Heads, layer: int, head: int, counts: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """f: score of each destination for each source, [source, destination], the mean over distances, each destination's mean over sources left out.

    counts: what each source weighs in that mean, [source]. distances: what each distance from 0 on weighs in the other.
    """
    q, k = head_vectors(heads, layer, 0, QUERY_NORMS)[:, head], head_vectors(heads, layer, 1, KEY_NORMS)[:, head * heads.n_kv // heads.n_heads]
    turn = heads.mean_turn(layer, distances)
    scores = q @ (np.eye(q.shape[1]) if turn is None else turn) @ k.T * score_scale(heads, q.shape[1])
    return (scores - np.average(scores, axis=1, weights=counts, keepdims=True)).T


def raises(heads: Heads, layer: int, head: int) -> np.ndarray:
    """g before it is centred: what each source adds to each logit, [source, out]."""
    return heads.sources(layer) @ heads.ov(layer, head).T @ heads.readers.T


def largest(f: np.ndarray, g: np.ndarray, signs: tuple[int, int], k: int, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The k largest products in modulus whose factors have these signs: triples (source, destination, out) [k, 3] and products [k], from all there are.

    allowed: which tokens may be any of the three, bool [tokens].
    """
    one, other = np.clip(signs[0] * f, 0, None), np.clip(signs[1] * centred(g.T).T, 0, None)
    cube = one[:, :, None] * other[:, None, :]
    cube[~allowed], cube[:, ~allowed], cube[:, :, ~allowed] = 0, 0, 0
    order = np.argsort(-cube, axis=None, kind="stable")[:k]
    order = order[cube.ravel()[order] > 0]
    return np.column_stack(np.unravel_index(order, cube.shape)), signs[0] * signs[1] * cube.ravel()[order]
