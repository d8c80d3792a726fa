"""What tokens are to a model without blocks and to the heads of the first layer, as published, against whole tables over the vocabulary in float64."""

from collections import Counter

import numpy as np

from tests.exact.checks import Case, blocks, equal
from tests.exact.head_checks import dicts
from tests.exact.heads_reference import Heads, centred
from tests.ingest import test_direct_path as direct
from tests.ingest import token_oracle as oracle

N_FOLLOWERS, N_KEPT, N_LARGEST = 10, 10, 100
N_SEEN = 3
"""How often the text has the tokens that the ingest takes for skip-trigrams."""

SIGNS = {"max": 1, "min": -1}


def check_direct_path(c: Case) -> None:
    logits = direct.without_blocks(c.reference.hf, c.d_vocab)
    rows = c.published.table("direct_path_token")
    equal("token_id", blocks(rows, "token_id", c.d_vocab, N_FOLLOWERS), np.arange(c.d_vocab)[:, None])
    equal("rank", blocks(rows, "rank", c.d_vocab, N_FOLLOWERS), np.arange(1, N_FOLLOWERS + 1))
    kept, ids = blocks(rows, "logit", c.d_vocab, N_FOLLOWERS), blocks(rows, "next_token_id", c.d_vocab, N_FOLLOWERS)
    c.close("direct logit", kept, -np.sort(-logits, axis=1)[:, :N_FOLLOWERS], 1e-4, np.abs(logits).max())
    c.close("its token", kept, np.take_along_axis(logits, ids, 1), 1e-4, np.abs(logits).max())
    probs = np.exp(kept - np.log(np.exp(logits).sum(1, keepdims=True)))
    c.close("direct probability", blocks(rows, "prob", c.d_vocab, N_FOLLOWERS), probs, 1e-4, 1.0)
    is_text = ~((c.cut.index == 0) & (c.cut.char_starts == c.cut.char_ends)) & (c.cut.next_token_ids >= 0)
    follows = Counter(zip(c.cut.token_ids[is_text].tolist(), c.cut.next_token_ids[is_text].tolist(), strict=True))
    direct.check(dicts(c.corpus_rows("direct_path")), follows, logits)


def counted(c: Case) -> np.ndarray:
    """How often the text has each token, [d_vocab]; BOS is in no text."""
    is_text = ~((c.cut.index == 0) & (c.cut.char_starts == c.cut.char_ends))
    return np.bincount(c.cut.token_ids[is_text], minlength=c.d_vocab)


def check_circuit_tokens(c: Case) -> None:
    heads, rows, whole = Heads(c.reference.hf), c.published.table("circuit_token"), c.published.table("circuit_source")
    counts, distances = counted(c), heads.pairs(0, c.settings["cutting"]["context"])
    allowed = counts >= N_SEEN
    n, shape = c.d_vocab, (heads.n_heads, 2, c.d_vocab)
    for table, more in ((rows, (N_KEPT,)), (whole, ())):
        equal("layer", table["layer"], 0)
        equal("head", blocks(table, "head", *shape, *more), np.arange(heads.n_heads).reshape(-1, 1, 1, *(1,) * len(more)))
        equal("circuit", blocks(table, "circuit", *shape, *more), np.array(["ov", "qk"]).reshape(2, 1, *(1,) * len(more)))
        equal("source", blocks(table, "source_token_id", *shape, *more), np.arange(n).reshape(n, *(1,) * len(more)))
    equal("rank", blocks(rows, "rank", *shape, N_KEPT), np.arange(1, N_KEPT + 1))
    equal("n_source", blocks(whole, "n_source", *shape), counts)
    kept, ids = blocks(rows, "score", *shape, N_KEPT), blocks(rows, "token_id", *shape, N_KEPT)
    assert allowed[ids].all()
    for head in range(heads.n_heads):
        f, g = oracle.looks(heads, 0, head, counts, distances), oracle.raises(heads, 0, head)
        for i, (scores, uncentred) in enumerate(((centred(g.T).T, g), (f, f))):
            largest = np.abs(scores).max()
            c.close("circuit score", kept[head, i], -np.sort(-scores[:, allowed], axis=1)[:, :N_KEPT], 1e-4, largest)
            c.close("its token", kept[head, i], np.take_along_axis(scores, ids[head, i], 1), 1e-4, largest)
            c.close("mean of a row", blocks(whole, "mean", *shape)[head, i], uncentred.mean(1), 1e-4, max(largest, np.abs(uncentred.mean(1)).max()))
            c.close("std of a row", blocks(whole, "std", *shape)[head, i], scores.std(1), 1e-4, largest)


def n_above(f: np.ndarray, g: np.ndarray, least: float) -> int:
    """Triples whose product of two positive factors, [sources, n] each, is more than `least`."""
    n = 0
    for one, other in zip(f, np.sort(g, axis=1), strict=True):
        needed = least / one[one > 0]
        n += int((len(other) - np.searchsorted(other, needed, side="right")).sum())
    return n


def check_skip_trigrams(c: Case) -> None:
    heads, rows = Heads(c.reference.hf), c.published.table("skip_trigram")
    shape, counts, distances = (heads.n_heads, 2, 2, N_LARGEST), counted(c), heads.pairs(0, c.settings["cutting"]["context"])
    allowed = counts >= N_SEEN
    equal("layer", rows["layer"], 0)
    equal("head", blocks(rows, "head", *shape), np.arange(heads.n_heads)[:, None, None, None])
    equal("destination_tail", blocks(rows, "destination_tail", *shape), np.array(list(SIGNS))[:, None, None])
    equal("out_tail", blocks(rows, "out_tail", *shape), np.array(list(SIGNS))[:, None])
    equal("rank", blocks(rows, "rank", *shape), np.arange(1, N_LARGEST + 1))
    ids = np.stack([blocks(rows, f"{name}_token_id", *shape) for name in ("source", "destination", "out")])
    scores = blocks(rows, "destination_score", *shape).astype(float), blocks(rows, "out_score", *shape).astype(float)
    for head, i, j in np.ndindex(heads.n_heads, 2, 2):
        f, g = oracle.looks(heads, 0, head, counts, distances), centred(oracle.raises(heads, 0, head).T).T
        source, destination, out = ids[:, head, i, j]
        one, other = scores[0][head, i, j], scores[1][head, i, j]
        c.close("destination_score", one, f[source, destination], 1e-4, np.abs(f).max())
        c.close("out_score", other, g[source, out], 1e-4, np.abs(g).max())
        product, signs = np.abs(one * other), ((1, -1)[i], (1, -1)[j])
        assert (np.sign(one) == signs[0]).all() and (np.sign(other) == signs[1]).all()
        assert (np.diff(product) <= 0).all()
        assert len(set(zip(source, destination, out, strict=True))) == N_LARGEST
        assert allowed[[source, destination, out]].all()
        # as many as are kept are larger than the least of them, so that no other is
        among = np.ix_(allowed, allowed)
        assert n_above(signs[0] * f[among], signs[1] * g[among], product[-1] + 1e-4 * product[0]) < N_LARGEST


TOKEN_CHECKS = (check_direct_path, check_circuit_tokens, check_skip_trigrams)
