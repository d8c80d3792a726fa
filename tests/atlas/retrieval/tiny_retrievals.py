"""A retrieval of the tiny atlas, small enough for a pencil: two tune queries with two neighbours each, k of 1 and 2, temperatures of 1 and 2.

Query 100 is followed by token 2, and so is its nearest entry, at distance 1; the next, at 1 + ln 3, is followed by another. So the token's share is 1 of one
neighbour, and of two 3/4 at T = 1, since exp(-ln 3) = 1/3. Query 102 is followed by what follows none of its neighbours.
The probability of both texts is (1/4 + 3/4·λ)·(1/2)·(1 - λ) with one neighbour, largest at λ = 1/3: of the weights tried 0.35.
Of the test queries 2 is a near-copy, and the neighbour of 8 is wrong.
"""

from datetime import UTC, datetime
from hashlib import sha256
from math import exp, log
from pathlib import Path

import pyarrow as pa

from atlas.beside.retrieval.keeping import keep

FIRST, SECOND = (sha256(digest.encode()).hexdigest() for digest in ("k0", "k1"))
"""Of the keys of the tiny atlas's corpora, each of one file."""

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ROW = {
    "store_corpus_id": 0, "tune_corpus_id": 1, "test_corpus_id": 0, "store_sha256": FIRST, "tune_sha256": SECOND, "test_sha256": FIRST, "weights_sha256": "ww",
    "key_site": "ffn_in", "layer": 2, "n_entries": 7, "metric": "l2", "search": "exact", "n_queries": 2, "most_neighbours": 2, "seed": 0,
    "is_training_text": True, "median_distance": 1.5, "k": 1, "temperature": 1.0, "weight": 0.35, "versions": {"faiss-cpu": "1.15.1"},
    "started_at": WHEN, "finished_at": WHEN,
}  # fmt: skip

FAR = 1 + log(3)
ROOT = 3**0.5
NEIGHBOURS = [
    # query, rank, entry, the token that follows it, distance
    (100, 1, 1, 2, 1.0),
    (100, 2, 7, 10, FAR),
    (102, 1, 8, 3, 2.0),
    (102, 2, 4, 9, 4.0),
    (2, 1, 8, 3, 0.01),
    (8, 1, 4, 9, 0.5),
]
QUERIES = [
    # part, position, index, next token, 1 / its probability by the model, top token, its probability, nearest distance, near, same text
    ("tune", 100, 0, 2, 4.0, 2, 0.25, 1.0, False, False),
    ("tune", 102, 2, 7, 2.0, 2, 0.5, 2.0, False, False),
    ("test", 2, 2, 3, 4 / 3, 3, 0.75, 0.01, True, True),
    ("test", 8, 2, 3, 4.0, 5, 0.5, 0.5, False, False),
]


def entropy(*probs: float) -> float:
    return -sum(p * log(p) for p in probs)


HALF = 1 / (1 + exp(-1))
PREDICTIONS = [
    # query, k, temperature, share of the next token, top token, its share, entropy, distinct tokens, log normaliser
    (100, 1, 1.0, 1.0, 2, 1.0, 0.0, 1, -1.0),
    (100, 1, 2.0, 1.0, 2, 1.0, 0.0, 1, -0.5),
    (100, 2, 1.0, 0.75, 2, 0.75, entropy(0.75, 0.25), 2, -1.0 + log(4 / 3)),
    (100, 2, 2.0, ROOT / (ROOT + 1), 2, ROOT / (ROOT + 1), entropy(ROOT / (ROOT + 1), 1 / (ROOT + 1)), 2, -0.5 + log(1 + 1 / ROOT)),
    (102, 1, 1.0, 0.0, 3, 1.0, 0.0, 1, -2.0),
    (102, 1, 2.0, 0.0, 3, 1.0, 0.0, 1, -1.0),
    (102, 2, 1.0, 0.0, 3, 1 / (1 + exp(-2)), entropy(1 / (1 + exp(-2)), 1 - 1 / (1 + exp(-2))), 2, -2.0 + log(1 + exp(-2))),
    (102, 2, 2.0, 0.0, 3, HALF, entropy(HALF, 1 - HALF), 2, -1.0 + log(1 + exp(-1))),
    (2, 1, 1.0, 1.0, 3, 1.0, 0.0, 1, -0.01),
    (8, 1, 1.0, 0.0, 9, 1.0, 0.0, 1, -0.5),
]
TEXTS = [(100, "second.txt", "é"), (102, "second.txt", "é cat [red]"), (1, "first.txt", "The"), (2, "first.txt", "The cat"), (4, "first.txt", "The cat sat.")]
TEXTS += [(7, "first.txt", "The cat sat.\nThe"), (8, "first.txt", "The cat sat.\nThe dog")]
TOKENS = [(2, " cat"), (3, " sat"), (5, "."), (7, " *"), (9, "\n"), (10, " dog")]

COLUMNS = {
    "knn_neighbour": ("position_id", "rank", "neighbour_position_id", "next_token_id", "distance"),
    "knn_prediction": (
        "position_id", "k", "temperature", "next_token_prob", "top_token_id", "top_prob", "entropy", "n_tokens", "log_normaliser",
    ),
    "knn_query": (
        "part", "position_id", "index", "next_token_id", "surprisal", "top_token_id", "top_prob", "nearest_distance", "is_near", "is_same_text",
    ),
    "position_text": ("position_id", "document", "text_before"),
    "token_text": ("token_id", "text"),
}  # fmt: skip


def tables() -> dict[str, pa.Table]:
    """Rows of their own, which a test may spoil."""
    queries = [(*row[:4], log(row[4]), *row[5:]) for row in QUERIES]
    rows = {"knn_neighbour": NEIGHBOURS, "knn_prediction": PREDICTIONS, "knn_query": queries, "position_text": TEXTS, "token_text": TOKENS}
    return {name: pa.Table.from_pylist([dict(zip(COLUMNS[name], row, strict=True)) for row in found]) for name, found in rows.items()}


def write_tiny_retrievals(path: Path) -> None:
    keep(path, ROW, tables())
