"""Whether stated probabilities hold: bins and errors against scikit-learn's calibration curve, over predictions that are drawn."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.calibration import calibration_curve

import atlas
from schema.open.store import open_writer
from tests.atlas.retrieval.stores import Text, write_atlas

LENGTH, N_DOCUMENTS, N_BINS = 17, 40, 15
"""A document's first and last positions do not count, so that there are 15 · 40 predictions."""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray, np.ndarray]:
    """An atlas, how sure it says that it is at each position that counts, and where it is right: less often than it says."""
    random, n = np.random.default_rng(4), LENGTH * N_DOCUMENTS
    sure = random.beta(1.2, 1.0, n).astype(np.float32)
    is_right = random.random(n) < 0.85 * sure
    text = Text(LENGTH, np.zeros((n, 2), np.float16), np.zeros(n, np.int64), np.ones(n, np.float32), [f"text {i}" for i in range(N_DOCUMENTS)])
    path = write_atlas(tmp_path_factory.mktemp("calibration") / "a.duckdb", [text], n_tokens=2)
    with open_writer(path) as con:
        con.register("said", pa.table({"position_id": np.arange(n), "sure": sure, "place": np.where(is_right, 1, 2)}))
        con.execute(
            "UPDATE position_prediction SET top_prob = said.sure, next_token_rank = said.place FROM said "
            "WHERE said.position_id = position_prediction.position_id AND position_prediction.surprisal IS NOT NULL"
        )
        con.unregister("said")
    index = np.arange(n) % LENGTH
    counts = (index > 0) & (index < LENGTH - 1)
    return path, sure[counts].astype(np.float64), is_right[counts]


@pytest.mark.parametrize(("mass", "strategy"), [("no", "uniform"), ("yes", "quantile")])
def test_bins_are_those_of_scikit_learn(drawn: tuple[Path, np.ndarray, np.ndarray], mass: str, strategy: str) -> None:
    path, sure, is_right = drawn
    accuracy, confidence = calibration_curve(is_right, sure, n_bins=N_BINS, strategy=strategy)
    sizes = np.histogram(sure, N_BINS, (0, 1))[0] if mass == "no" else np.full(N_BINS, len(sure) // N_BINS)
    with atlas.open(path) as a:
        found = a.calibration(mass=mass)
    assert len(confidence) == N_BINS and found["n_positions"].to_list() == sizes.tolist()
    np.testing.assert_allclose(found["accuracy"], accuracy, atol=1e-12)
    np.testing.assert_allclose(found["confidence"], confidence, atol=1e-7)
    gaps = np.abs(accuracy - confidence)
    np.testing.assert_allclose(found["ece"], np.full(N_BINS, (sizes * gaps).sum() / sizes.sum()), atol=1e-7)
    np.testing.assert_allclose(found["mce"], np.full(N_BINS, gaps.max()), atol=1e-7)
