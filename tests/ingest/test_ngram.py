"""Counting in SQL against dictionaries, and what is counted against what is predicted."""

import math

import numpy as np
import pytest
import torch

from ingest.model.reference.baselines import DISCOUNT, Trigram
from ingest.recorders import kneser_ney
from ingest.recorders.kneser_ney import ORDERS, count_ngrams, score_documents
from ingest.text.corpora import Document
from ingest.text.ngram_text import counted_documents, read_tokens, text_digest
from ingest.text.sequences import bos_token, cut_documents
from tests.ingest.ngram_oracle import KneserNey
from tests.ingest.tiny_models import tiny_tokenizer

torch.set_num_threads(1)

D_VOCAB = 40


def texts(n: int, length: int, seed: int) -> list[np.ndarray]:
    """Tokens of which some are frequent, in documents of several lengths."""
    rng = np.random.default_rng(seed)
    return [np.minimum(rng.zipf(1.6, 1 + length * (i + 1) // n) - 1, D_VOCAB - 5).astype(np.int32) for i in range(n)]


LARGE, SMALL = texts(12, 400, 0), texts(3, 12, 1)
ASKED = texts(4, 60, 2)


@pytest.mark.parametrize("train", [LARGE, SMALL], ids=["discounts are told", "counts are too few to tell them"])
def test_probabilities_are_those_by_the_letter(train: list[np.ndarray]) -> None:
    con, first = count_ngrams(train, D_VOCAB), np.cumsum([0, *map(len, ASKED)])
    rows = score_documents(con, [(100 + start + np.arange(len(text)), text) for start, text in zip(first, ASKED, strict=False)]).to_pylist()
    wanted = []
    oracles = {order: KneserNey([text.tolist() for text in train], order, D_VOCAB) for order in ORDERS}
    for start, text in zip(first, ASKED, strict=False):
        for i in range(len(text) - 1):
            before = text[: i + 1].tolist()
            wanted += [(100 + start + i, n, -math.log(o.probability(before, int(text[i + 1]))), o.matched(before)) for n, o in oracles.items()]
    assert [(r["position_id"], r["ngram_order"], r["matched_order"]) for r in rows] == [(p, n, m) for p, n, _, m in wanted]
    np.testing.assert_allclose([r["surprisal"] for r in rows], [s for _, _, s, _ in wanted], rtol=1e-6)
    assert {m for *_, m in wanted} == ({1, 2, 3, 4, 5} if train is SMALL else {2, 3, 4, 5})
    usual = [con.execute(f"FROM discount_{part}_{n}").fetchall() == [kneser_ney.USUAL] for part, n in kneser_ney.parts()]
    assert all(usual) if train is SMALL else not any(usual[2:])


def probabilities(con: object, context: list[int]) -> dict[int, np.ndarray]:
    """Of all tokens behind a document's first ones, by order; float64."""
    rows = np.stack([kneser_ney.windows(np.array([*context, w]))[-1] for w in range(D_VOCAB)])
    con.register("asked", kneser_ney.table(rows, position_id=np.arange(D_VOCAB)))
    found = con.execute(kneser_ney.scoring_query().replace("CAST(-ln(best.p) AS REAL)", "best.p")).fetchall()
    return {order: np.array([p for _, n, p, _ in found if n == order]) for order in ORDERS}


@pytest.mark.parametrize("context", [[], [3], [0, 0, 0, 0], [0, 1, 0, 2], [D_VOCAB - 1] * 4, [1, D_VOCAB - 1, 0], LARGE[3][:4].tolist()])
@pytest.mark.parametrize("train", [LARGE, SMALL], ids=["large", "small"])
def test_probabilities_of_all_tokens_sum_to_one(train: list[np.ndarray], context: list[int]) -> None:
    for found in probabilities(count_ngrams(train, D_VOCAB), context).values():
        assert found.min() > 0
        assert abs(found.sum() - 1) < 1e-12


def test_with_one_discount_it_is_the_trigram_of_the_reference_models_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        kneser_ney, "discounts", lambda part, n: f"CREATE TABLE discount_{part}_{n} AS SELECT {DISCOUNT} AS d1, {DISCOUNT} AS d2, {DISCOUNT} AS d3"
    )
    con, card = count_ngrams(LARGE, D_VOCAB), Trigram([text.tolist() for text in LARGE], -1, D_VOCAB)
    for context in ([], [3], [0, 1], [5, 0, 2]):
        u, v = ([-1, -1, *context])[-2:]
        np.testing.assert_allclose(probabilities(con, context)[3], [card.probability(u, v, w) for w in range(D_VOCAB)], rtol=1e-12)


def test_nothing_reaches_from_one_document_into_the_next() -> None:
    one, other = np.array([1, 2, 3, 4, 5, 6], np.int32), np.array([7, 8, 9], np.int32)
    apart, together = count_ngrams([one, other], D_VOCAB), count_ngrams([np.concatenate([one, other])], D_VOCAB)
    assert apart.execute("FROM count_top_3 WHERE u1 = 6").fetchall() == []
    assert together.execute("FROM count_top_3 WHERE u1 = 6").fetchall() == [(5, 6, 7, 1)]


TEXT = "the and the and of the and of and and the the and"


@pytest.mark.parametrize("bos", ["always", "never"])
def test_positions_of_bos_are_dropped_and_contexts_cross_cuts(bos: str) -> None:
    tokenizer = tiny_tokenizer()
    (whole,) = counted_documents([Document("a", TEXT, {})], tokenizer, set())
    (document,) = cut_documents([Document("a", TEXT, {})], tokenizer, corpus_id=0, context=5, bos=bos, by="tokens")
    assert len(document.sequences) > 3
    ids, tokens = read_tokens(document, bos_token(tokenizer, bos))
    assert tokens.tolist() == whole.tolist()
    stored = {s.first_position_id + i: int(t) for s in document.sequences for i, t in enumerate(s.token_ids)}
    assert [stored[i] for i in ids.tolist()] == whole.tolist()
    assert len(stored) - len(ids) == (len(document.sequences) if bos == "always" else 0)
    (start,) = cut_documents([Document("a", TEXT, {})], tokenizer, corpus_id=0, context=5, bos=bos, by="tokens", document_tokens=7)
    ids, tokens = read_tokens(start, bos_token(tokenizer, bos))
    assert (len(ids), tokens.tolist()) == (7, whole[:8].tolist())


def test_what_is_predicted_is_not_counted() -> None:
    documents = [Document("a", TEXT, {}), Document("b", "the of", {}), Document("c", " ", {}), Document("d", TEXT, {"year": 1})]
    found = list(counted_documents(documents, tiny_tokenizer(), {text_digest(documents[0])}))
    assert [len(each) for each in found] == [len(tiny_tokenizer()("the of", add_special_tokens=False).input_ids)]
