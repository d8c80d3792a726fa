"""Analogies and similarities against gensim's own answers over the same vectors, and the sets as gensim ships them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from gensim.models import KeyedVectors
from scipy.stats import rankdata

import atlas
from ingest.passes import passes
from ingest.passes.base import CostSample
from ingest.recorders.token_vectors import Space
from ingest.recorders.word_tests import N_SECTIONS, Words, analogy_rows, answer_questions, compute, similarity_row
from ingest.text import word_tests
from ingest.text.word_tests import analogies, folder, similarities, similarity_file
from ingest.workers.worker import Worker
from schema.audits import run_audits
from schema.errors import AtlasError
from schema.open.store import open_reader
from tests.exact.tiny import asked, run
from tests.ingest.attention_oracle import eager_model
from tests.ingest.test_run import saved

PASS = passes()["word_test"]

torch.set_num_threads(1)

NAMES = [f"word{chr(97 + i)}" for i in range(24)]


def space_with(seed: int, d: int = 6) -> Space:
    """Vectors that share a large mean, one a name."""
    vectors = torch.from_numpy(np.random.default_rng(seed).normal(size=(len(NAMES), d)).astype(np.float32)) + 1.5
    mean = vectors.mean(0)
    unit = torch.nn.functional.normalize(vectors - mean, dim=1)
    return Space("input", np.arange(len(NAMES)), vectors, mean, unit)


def keyed(vectors: np.ndarray) -> KeyedVectors:
    found = KeyedVectors(vectors.shape[1])
    found.add_vectors(NAMES, vectors)
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_analogies_are_answered_as_gensim_answers_them(seed: int) -> None:
    space, words = space_with(seed), Words([f" {name}" for name in NAMES])
    drawn = np.random.default_rng(seed + 9)
    asked_for = [tuple(NAMES[i] for i in drawn.choice(len(NAMES), 3, replace=False)) for _ in range(40)]
    raw, centred = keyed(space.vectors.numpy()), keyed((space.vectors - space.mean).numpy())
    nearest = {
        "add": [raw.most_similar(positive=[b, c], negative=[a], topn=1)[0][0] for a, b, c in asked_for],
        "add_centred": [centred.most_similar(positive=[b, c], negative=[a], topn=1)[0][0] for a, b, c in asked_for],
        "multiply": [raw.most_similar_cosmul(positive=[b, c], negative=[a], topn=1)[0][0] for a, b, c in asked_for],
    }
    for method, answers in nearest.items():
        # the first half is told its answer, the second another word
        right = [(*q, answers[i] if i < 20 else next(n for n in NAMES if n not in (*q, answers[i]))) for i, q in enumerate(asked_for)]
        found = {name: n for name, n, _ in answer_questions(space, words, right)}
        assert found[method] == 20


def test_the_words_given_are_no_answers_and_their_spellings_neither() -> None:
    texts = [" king", " King", " man", " woman", " queen", "king"]
    vectors = torch.tensor([[1.0, 0.0], [0.99, 0.01], [0.9, -0.3], [0.9, 0.3], [0.5, 0.9], [1.0, 0.02]])
    unit = torch.nn.functional.normalize(vectors, dim=1)
    space, words = Space("input", np.arange(6), vectors, torch.zeros(2), unit), Words(texts)
    found = {method: (right, of_all) for method, right, of_all in answer_questions(space, words, [("man", "woman", "king", "queen")])}
    assert {right for right, _ in found.values()} == {1}
    assert found["add"][1] == found["add_centred"][1] == 0
    rows = analogy_rows(space, words, {"family": [("man", "woman", "king", "queen"), ("man", "woman", "prince", "princess")], "other": [("a", "b", "c", "d")]})
    assert {(r["section"], r["n_asked"], r["n_left_out"]) for r in rows} == {("family", 1, 1), ("other", 0, 1)}
    assert {(r["n_right"], r["n_right_of_all"]) for r in rows if r["section"] == "other"} == {(0, 0)}


def test_similarity_is_spearman_s_correlation_of_cosines() -> None:
    space, words = space_with(4), Words(NAMES)
    drawn = np.random.default_rng(5)
    pairs = [(NAMES[i], NAMES[j], float(s)) for (i, j), s in zip(drawn.integers(0, 24, (30, 2)), drawn.integers(0, 9, 30), strict=True) if i != j]
    row = similarity_row(space, words, "x", [*pairs, ("wordless", NAMES[0], 1.0)])
    assert (row["n_pairs"], row["n_left_out"]) == (len(pairs), 1)
    for name, vectors in (("spearman", (space.vectors - space.mean).double().numpy()), ("spearman_raw", space.vectors.double().numpy())):
        cosines = [float(x @ y / np.linalg.norm(x) / np.linalg.norm(y)) for x, y in ((vectors[NAMES.index(a)], vectors[NAMES.index(b)]) for a, b, _ in pairs)]
        expected = np.corrcoef(rankdata(cosines), rankdata([s for *_, s in pairs]))[0, 1]
        assert row[name] == pytest.approx(expected, abs=1e-6)
    assert similarity_row(space, words, "x", pairs[:2])["spearman"] is None


def test_the_sets_are_read_as_gensim_ships_them() -> None:
    found = analogies(folder() / "questions-words.txt")
    assert len(found) == N_SECTIONS and sum(map(len, found.values())) == 19_544
    assert found["family"][0] == ("boy", "girl", "brother", "sister")
    assert [len(similarities(folder() / similarity_file(suite))) for suite in word_tests.SIMILARITIES] == [353, 999]
    assert similarities(folder() / "simlex999.txt")[0] == ("old", "new", 1.58)


def test_without_gensim_an_ingest_says_so_before_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_tests, "find_spec", lambda _: None)
    with pytest.raises(AtlasError, match="--word-tests: the analogies and similarities come with gensim, which is not installed: pip install"):
        run(asked(tmp_path / "a.duckdb", str(saved(tmp_path / "gpt2", seed=0)), None, word_tests=True, seed=0))
    assert not (tmp_path / "a.duckdb").exists()


def test_an_ingest_of_a_vocabulary_without_these_words_leaves_all_out(tmp_path: Path) -> None:
    target = run(asked(tmp_path / "a.duckdb", str(saved(tmp_path / "gpt2", seed=0)), None, word_tests=True, seed=0))
    with open_reader(target) as con:
        assert con.execute("SELECT space, suite, n_pairs + n_left_out FROM similarity_score ORDER BY ALL").fetchall() == [
            ("input", "simlex999", 999), ("input", "wordsim353", 353),
        ]  # fmt: skip
        assert not [found.audit.name for found in run_audits(con) if found.n_rows]
    with atlas.open(target) as a:
        found = a.analogy_accuracy()
        assert set(found["n_asked"]) == {0} and found["accuracy"].null_count() == found.height
        assert set(found.filter(section="all")["n_left_out"]) == {19_544} and a.word_similarity().height == 2


def test_a_space_with_fewer_rows_than_there_are_tokens_is_asked_for_the_words_of_its_rows() -> None:
    model = eager_model("gpt2")
    ids = np.array([0, 1, model.n_embeddings, model.n_embeddings + 1])
    found = compute(Worker(model), lambda _: None, space="input", token_ids=ids, texts=[" old", " new", " smart", " intelligent"])["similarity_score"]
    # SimLex-999 has "old new" and "smart intelligent"
    assert dict(zip(found["suite"].to_pylist(), found["n_pairs"].to_pylist(), strict=True)) == {"wordsim353": 0, "simlex999": 1}


def test_a_dry_run_says_rows_and_seconds() -> None:
    probe = CostSample(eager_model("gpt2"), asked("x.duckdb", "m", None, word_tests=True), None, [])
    assert PASS.rows(probe) == {"analogy_score": 42, "similarity_score": 2} and PASS.seconds(probe) > 0
