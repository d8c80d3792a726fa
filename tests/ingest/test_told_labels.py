"""Labels of words that nobody needs to give, worked out again in plain Python, over words that are cut at white space."""

from collections import Counter
from math import floor, log2
from pathlib import Path

import duckdb
import numpy as np
import pytest

import atlas
from ingest.recorders.word_rows import split_words
from ingest.text.probed_words import COMMONEST, bin_of, commonest
from ingest.text.sentences import sentence_starts
from schema.audits import run_audits
from schema.errors import AtlasError
from schema.open.store import open_reader
from schema.terms import PROBE_TASKS
from tests.exact.tiny import asked, run
from tests.ingest.test_run import saved

TOLD = PROBE_TASKS[4:]
GIVEN = {"max_documents": 9, "document_tokens": 300, "context": 64, "batch_size": 4, "seed": 3, "words": "white-space", "probe_layers": "0"}


def test_words_are_cut_at_white_space_in_sentences() -> None:
    text = " Mr. Smith\xa0went  home.\nHe\u2003slept etc. (so)! And?"
    words = split_words(text, len(text))
    assert [(text[w.start : w.end], w.sentence) for w in words] == [
        ("Mr.", 0), ("Smith", 0), ("went", 0), ("home.", 0), ("He", 1), ("slept", 1), ("etc.", 1), ("(so)!", 1), ("And?", 2),
    ]  # fmt: skip
    assert {(w.pos, w.tag, w.relation, w.entity, w.head) for w in words} == {(None,) * 5}
    assert split_words(" \n", 2) == []
    # a word that begins in what is read is whole, and none comes after it; a sentence ends, or does not, as in the whole text
    read = [split_words(text, n) for n in range(len(text))]
    assert read == [[w for w in words if w.start < n] for n in range(len(text))]


def test_bins_double() -> None:
    assert [bin_of(n) for n in (0, 1, 2, 3, 4, 7, 8, 1023)] == ["0", "1", "2-3", "2-3", "4-7", "4-7", "8-15", "512-1023"]


def test_the_commonest_are_those_of_the_words_to_learn_from() -> None:
    labels = [f"{i:02}" for i in range(40) for _ in range(2)] + ["new"] * 100 + [None]
    is_test = np.array([False] * 80 + [True] * 100 + [False])
    found = commonest(labels, is_test)
    assert set(found) == {None, *(f"{i:02}" for i in range(COMMONEST))} and len(found) == len(labels)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("told")
    model = saved(folder / "gpt2", seed=0)
    return run(asked(folder / "a.duckdb", str(model), "sotu", **GIVEN, probe=TOLD))


ROWS = """
SELECT w.word_id, w.document_id, d.text, w.char_start, w.char_end, w.sentence, w.last_position_id, i.index, i.token_id, i.next_token_id
FROM word AS w JOIN document AS d USING (document_id) LEFT JOIN position AS i ON i.position_id = w.last_position_id ORDER BY w.word_id
"""


def expected(con: duckdb.DuckDBPyConnection) -> dict[str, dict[int, str]]:
    """Task → word → label, of the words of the test. The last sentence that is read of a document has no end."""
    vocabulary = {i: (text, starts) for i, text, starts in con.execute("SELECT token_id, text, starts_word FROM token").fetchall()}
    test = {i for (i,) in con.execute("SELECT DISTINCT document_id FROM word JOIN probe_prediction USING (word_id)").fetchall()}
    words = con.execute(ROWS).fetchall()
    written = Counter(text[start:end] for _, _, text, start, end, *_ in words)
    lengths, last = Counter((document, sentence) for _, document, _, _, _, sentence, *_ in words), {row[1]: row[5] for row in words}
    found: dict[str, dict[int, str]] = {task: {} for task in TOLD}
    seen: Counter = Counter()
    learned: dict[str, Counter] = {"token": Counter(), "next_token": Counter()}

    def doubled(n: int) -> str:
        low = 2 ** floor(log2(n)) if n else 0
        return f"{low}-{2 * low - 1}" if low > 1 else str(low)

    for word, document, text, start, end, sentence, position, index, token, following in words:
        seen[document, sentence] += 1
        assert sentence == sum(s <= start for s in sentence_starts(text)) - 1
        if position is None or index == 0:
            continue
        if document not in test:
            learned["token"][vocabulary[token][0]] += 1
            learned["next_token"].update([vocabulary[following][0]] if following is not None else [])
            continue
        found["token"][word] = vocabulary[token][0]
        if following is not None:
            found["next_token"][word] = vocabulary[following][0]
        found["frequency"][word] = doubled(written[text[start:end]])
        found["index"][word] = doubled(index)
        found["starts_word"][word] = "true" if vocabulary[token][1] else "false"
        if sentence != last[document]:
            found["sentence_end"][word] = doubled(lengths[document, sentence] - seen[document, sentence])
    for task, counts in learned.items():
        kept = sorted(counts, key=lambda label: (-counts[label], label))[:32]
        found[task] = {word: label for word, label in found[task].items() if label in kept}
    return found


@pytest.mark.thorough
def test_labels_are_those_of_the_text(told: Path) -> None:
    with open_reader(told) as con:
        labels = expected(con)
        for task in TOLD:
            rows = con.execute("SELECT word_id, label FROM probe_prediction WHERE task = $task AND site = 'resid_post'", {"task": task}).fetchall()
            assert dict(rows) == labels[task] and len(set(labels[task].values())) > 1, task
        assert not [found.audit.name for found in run_audits(con) if found.n_rows]


@pytest.mark.thorough
def test_the_token_is_read_in_the_embedding(told: Path) -> None:
    """Even random weights have it in the state, and of types that were seen nothing but the type is needed for how frequent they are."""
    with atlas.open(told) as a:
        row = a.probe_layers("token").row(0, named=True)
        assert row["site"] == "resid_pre" and row["accuracy"] > 0.6 > 0.3 > row["majority_accuracy"]
        assert a.probe_layers("frequency").row(0, named=True)["type_accuracy"] > 0.9


def test_a_text_none_of_whose_words_is_read_whole_is_said(tmp_path: Path) -> None:
    model = saved(tmp_path / "gpt2", seed=0)
    (tmp_path / "a.txt").write_text("x" * 5000)
    with pytest.raises(AtlasError, match="--probe index: in the part of this corpus that the model reads, no word ends where a token ends"):
        run(asked(tmp_path / "a.duckdb", str(model), str(tmp_path / "a.txt"), **GIVEN, probe=("index",)))


@pytest.mark.thorough
def test_words_without_labels_are_said_to_have_none(told: Path, tmp_path: Path) -> None:
    model = saved(tmp_path / "gpt2", seed=0)
    for option, given, said in (
        ("probe", ("pos",), r"--probe pos: a probe needs two labels and words to test on; labels among the words to learn from: 0 \(no word has one\)"),
        ("tree_probe", True, "no sentence to learn from has a whole tree"),
        ("head_relation", True, "has two words that were read and that a relation joins; give --words with syntactic heads"),
    ):
        with pytest.raises(AtlasError, match=said):
            run(asked(tmp_path / "a.duckdb", str(model), "sotu", **GIVEN, **{option: given}))
    with atlas.open(told) as a:
        (row,) = a.word_sources().to_dicts()
    assert row["source"] == "white space: without labels" and row["n_heads"] == row["n_entity"] == 0 < row["n_words"]
