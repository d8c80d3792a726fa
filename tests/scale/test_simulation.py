"""A small simulation, through the real load path, beside the model."""

import pytest

from tests.scale.runs import Simulated, shape, simulate, sweep
from tests.scale.shapes import published_rows
from tests.scale.simulate import comparison, measures


@pytest.fixture(scope="module")
def simulated() -> Simulated:
    return simulate(shape(4, 512), sweep(4096, 6, 2), seed=0)


@pytest.mark.thorough
def test_rows_are_those_predicted(simulated: Simulated) -> None:
    # 2,048 neurons: 60 tokens, 20 neighbours, 100 triggers each; 6 shards of 4,096 positions, 16 sequences of 256 to a document
    expected = {"neuron": 2048, "value_token": 122_880, "value_neighbour": 40_960, "position": 24_576, "neuron_statistics": 2048, "trigger": 204_800}
    assert simulated.loaded.published_rows == {**expected, "document": 6, "sequence": 96}
    assert published_rows(simulated.shape, simulated.sweep) == expected
    assert simulated.loaded_rows("neuron_statistics") == 6 * 2048


@pytest.mark.thorough
def test_candidates_are_about_those_expected(simulated: Simulated) -> None:
    # of three shards each worker's first brings 204,800, its second a half and its third a third of that
    brought = [load.n_rows["trigger"] for load in simulated.loads]
    assert brought == pytest.approx([204_800, 204_800, 102_400, 102_400, 204_800 / 3, 204_800 / 3], rel=0.02)


@pytest.mark.thorough
def test_bytes_are_about_those_predicted(simulated: Simulated) -> None:
    """Small DuckDB files are mostly blocks of 256 KiB that are not full, so only the order of size is right there."""
    ratios = {name: predicted / found for name, (predicted, found) in measures(simulated).items()}
    assert ratios["shards, MB"] == pytest.approx(1, rel=0.05)
    assert ratios["committer's file, MB"] == pytest.approx(1, rel=0.3)
    assert ratios["snapshot, MB"] == pytest.approx(1, rel=0.3)


@pytest.mark.thorough
def test_the_comparison_has_a_row_a_sweep(simulated: Simulated) -> None:
    lines = comparison([simulated]).splitlines()
    assert lines[2].startswith("| 4 × 512, 6 × 4,096, 2 | ")
    assert len(lines) == 3
