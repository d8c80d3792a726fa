"""Words that probes learn from and are scored on. A seed draws them; a document gives words to only one of the two sets.

Some labels need no annotation: they follow from the text, its tokens and its cuts.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np

from ingest.text.survey import hashes
from schema.errors import AtlasError

COMMONEST = 32
"""Number of tokens that serve as labels, the most frequent of the training words. It is bounded because a probe has weights for every label."""

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

TEST_SHARE = 0.2
"""Share of documents that are test documents, which probes are scored on."""
MOST_WORDS = {False: 32_000, True: 8_000}
"""Whether words are test words → approximate number of words that are used. If the corpus has more, whole sequences are drawn."""
NO_ENTITY = "O"

SEQUENCES = """
SELECT s.document_id, s.sequence_id, count(*) AS n
FROM word AS w
INNER JOIN position AS i ON w.last_position_id = i.position_id
INNER JOIN sequence AS s ON i.sequence_id = s.sequence_id
WHERE w.corpus_id = $corpus AND i.index > 0
GROUP BY s.document_id, s.sequence_id
ORDER BY s.document_id, s.sequence_id
"""

WORDS = """
SELECT w.word_id, w.document_id, w.last_position_id AS position_id, substr(d.text, w.char_start + 1, w.char_end - w.char_start) AS text,
    w.pos, w.tag, w.relation, coalesce(w.entity, $no_entity) AS entity
FROM word AS w
INNER JOIN document AS d ON w.document_id = d.document_id
INNER JOIN position AS i ON w.last_position_id = i.position_id
WHERE w.corpus_id = $corpus AND i.index > 0 AND i.sequence_id IN (SELECT unnest($sequences))
ORDER BY w.word_id
"""


@dataclass(frozen=True, eq=False)
class ProbedWords:
    """Words of a probe, in the order of the text. All arrays are [n]. labels: task → label of each word, None if the source gives none.

    types: the number of each word's written form.
    """

    word_ids: np.ndarray
    document_ids: np.ndarray
    position_ids: np.ndarray
    types: np.ndarray
    labels: dict[str, np.ndarray]
    is_test: np.ndarray


@dataclass(frozen=True, eq=False)
class DocumentSplit:
    """The part of a corpus that probes use. test_documents: ids of the documents to score on; sequences: ids of the sequences drawn from all documents."""

    test_documents: np.ndarray
    sequences: set[int]


def split_documents(con: duckdb.DuckDBPyConnection, corpus_id: int, asked: str, seed: int) -> DocumentSplit:
    """Draw the test documents, and sequences of these and of the other documents, from which probes learn.

    asked: the option to name in errors.

    Raises AtlasError if there are no words, or fewer than two documents with words.
    """
    found = con.execute(SEQUENCES, {"corpus": corpus_id}).fetchnumpy()
    documents = np.unique(found["document_id"])
    if not len(documents):
        raise AtlasError(f"{asked}: {explain_no_words(con, corpus_id)}")
    if len(documents) < 2:
        raise AtlasError(f"{asked}: a probe learns from some documents and is scored on others, and only one document of this corpus has words")
    test = documents[np.argsort(hashes(seed, 0, documents), kind="stable")[: max(1, round(TEST_SHARE * len(documents)))]]
    in_test = np.isin(found["document_id"], test)
    chosen = [draw_sequences(found["sequence_id"][in_test == side], found["n"][in_test == side], seed, most) for side, most in MOST_WORDS.items()]
    return DocumentSplit(test, set(np.concatenate(chosen).tolist()))


def explain_no_words(con: duckdb.DuckDBPyConnection, corpus_id: int) -> str:
    """Explain why a corpus has no words that a probe can use."""
    if con.execute("FROM run AS r WHERE r.kind = 'word' AND r.corpus_id = $corpus", {"corpus": corpus_id}).fetchall():
        return "in the part of this corpus that the model reads, no word ends where a token ends; words at index 0 are left out"
    return (
        "the words of this corpus have no labels yet; give --words spacy:PIPELINE or --words FILE.conllu too (--words white-space for labels that need "
        "no annotation)"
    )


def probed_words(con: duckdb.DuckDBPyConnection, corpus_id: int, tasks: tuple[str, ...], seed: int) -> tuple[ProbedWords, set[int]]:
    """Read the words that a probe uses, and the ids of the drawn sequences. Raises AtlasError as `split_documents` does."""
    parts = split_documents(con, corpus_id, f"--probe {tasks[0]}", seed)
    rows = con.execute(WORDS, {"corpus": corpus_id, "sequences": sorted(parts.sequences), "no_entity": NO_ENTITY}).fetchall()
    *numbers, texts, pos, tag, relation, entity = zip(*rows, strict=True)
    ids, of, positions = (np.array(column, np.int64) for column in numbers)
    _, types = np.unique(np.array(texts), return_inverse=True)
    is_test = np.isin(of, parts.test_documents)
    said: dict[str, Sequence[str | None]] = {"pos": pos, "tag": tag, "relation": relation, "entity": entity}
    if set(tasks) - set(said):
        said |= told_labels(con, corpus_id, ids, is_test)
    labels = {task: np.array(said[task], object) for task in tasks}
    return ProbedWords(ids, of, positions, types, labels, is_test), parts.sequences


def draw_sequences(sequence_ids: np.ndarray, n_words: np.ndarray, seed: int, most: int) -> np.ndarray:
    """Draw sequences in the order of their hashes with the seed, until they have `most` words."""
    order = np.argsort(hashes(seed, 1, sequence_ids), kind="stable")
    n = int(np.searchsorted(np.cumsum(n_words[order]), most)) + 1
    return sequence_ids[order[:n]]


def chosen_layers(asked: str, n_layers: int | None) -> list[int]:
    """Parse --probe-layers to ascending layers. n_layers: None if it is not known yet. Raises AtlasError for text that names no layer."""
    if asked == "all":
        return list(range(n_layers or 0))
    parts = asked.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise AtlasError(f"--probe-layers {asked!r}: give all, or numbers of layers such as 0,5,9")
    layers = sorted({int(part) for part in parts})
    if n_layers is not None and layers[-1] >= n_layers:
        raise AtlasError(f"--probe-layers {asked!r}: there is no layer {layers[-1]}; the model has layers 0 to {n_layers - 1}")
    return layers


def chosen_ranks(asked: str, d_model: int | None) -> list[int]:
    """Parse --tree-ranks into ascending ranks. A rank above d_model is lowered to d_model, since a larger one could add nothing.

    d_model: None if not known yet. Raises AtlasError for anything that is not a rank.
    """
    parts = asked.split(",")
    if not all(part.strip().isdecimal() and 0 < len(part.strip()) < 6 and int(part) > 0 for part in parts):
        raise AtlasError(f"--tree-ranks {asked!r}: give numbers of dimensions such as 1,4,16,64")
    return sorted({min(int(part), d_model or int(part)) for part in parts})


def told_labels(con: duckdb.DuckDBPyConnection, corpus_id: int, word_ids: np.ndarray, is_test: np.ndarray) -> dict[str, Sequence[str | None]]:
    """Derive labels of the words from the text, its tokens and its cuts: task → label of each word; None for a word that has none.

    word_ids: [n], ascending, of words that end where a token ends.
    The last sentence may continue after the part of the document that the model has read, so its words get no distance to the sentence's end.
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
    """Name the bin that a count falls in: 0, 1, 2-3, 4-7, 8-15, … Each bin from 2 on is twice as wide as the one before."""
    low = 1 << (n.bit_length() - 1) if n else 0
    return str(low) if low < 2 else f"{low}-{2 * low - 1}"


def commonest(labels: Sequence[str | None], is_test: np.ndarray) -> list[str | None]:
    """Keep the COMMONEST most frequent labels of the words to learn from, ties in alphabetical order; None for the other labels."""
    counts = Counter(label for label, in_test in zip(labels, is_test, strict=True) if label is not None and not in_test)
    kept = set(sorted(counts, key=lambda label: (-counts[label], label))[:COMMONEST])
    return [label if label in kept else None for label in labels]
