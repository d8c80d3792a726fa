"""Labels of words that nobody needs to give: what the text, its tokens and where it is cut say of each."""

from collections import Counter
from collections.abc import Sequence

import duckdb
import numpy as np

COMMONEST = 32
"""Tokens that are told apart, those of most words to learn from: a probe has weights for every label."""

FACTS = """
WITH
written AS (
    SELECT w.word_id, substr(d.text, w.char_start + 1, w.char_end - w.char_start) AS text
    FROM word AS w
    INNER JOIN document AS d ON w.document_id = d.document_id
    WHERE w.corpus_id = $corpus
),

counted AS (
    SELECT w.word_id, count(*) OVER (PARTITION BY w.text) AS n_written
    FROM written AS w
),

followed AS (
    SELECT
        w.word_id,
        row_number() OVER (PARTITION BY w.document_id, w.sentence ORDER BY w.word_id DESC) - 1 AS n_after,
        w.sentence = max(w.sentence) OVER (PARTITION BY w.document_id) AS is_last
    FROM word AS w
    WHERE w.corpus_id = $corpus
)

SELECT t.text, n.text, c.n_written, i.index, t.starts_word, if(f.is_last, NULL, f.n_after)
FROM word AS w
INNER JOIN counted AS c ON w.word_id = c.word_id
INNER JOIN followed AS f ON w.word_id = f.word_id
INNER JOIN position AS i ON w.last_position_id = i.position_id
INNER JOIN token AS t ON i.token_id = t.token_id
LEFT JOIN token AS n ON i.next_token_id = n.token_id
WHERE w.corpus_id = $corpus AND w.word_id IN (SELECT unnest($words))
ORDER BY w.word_id
"""


def told_labels(con: duckdb.DuckDBPyConnection, corpus_id: int, word_ids: np.ndarray, is_test: np.ndarray) -> dict[str, Sequence[str | None]]:
    """Label each of the words, ascending [n] and read at a token: task → label of each; None where it has none.

    The last sentence of a document ends where the model has read no further, perhaps: how far off its end is nobody knows.
    """
    tokens, followers, n_written, indices, starts, n_after = zip(*con.execute(FACTS, {"corpus": corpus_id, "words": word_ids.tolist()}).fetchall(), strict=True)
    return {
        "token": commonest(tokens, is_test),
        "next_token": commonest(followers, is_test),
        "frequency": [bin_of(n) for n in n_written],
        "index": [bin_of(n) for n in indices],
        "starts_word": [str(is_start).lower() for is_start in starts],
        "sentence_end": [None if n is None else bin_of(n) for n in n_after],
    }


def bin_of(n: int) -> str:
    """Name the bin of a number, 0, 1, 2-3, 4-7, 8-15, …: what two numbers of about the same size have in common."""
    low = 1 << (n.bit_length() - 1) if n else 0
    return str(low) if low < 2 else f"{low}-{2 * low - 1}"


def commonest(labels: Sequence[str | None], is_test: np.ndarray) -> list[str | None]:
    """Keep the COMMONEST most frequent labels of the words to learn from, ties by their characters; None for the others."""
    counts = Counter(label for label, in_test in zip(labels, is_test, strict=True) if label is not None and not in_test)
    kept = set(sorted(counts, key=lambda label: (-counts[label], label))[:COMMONEST])
    return [label if label in kept else None for label in labels]
