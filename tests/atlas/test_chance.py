"""The chance of as many triggers at random, beside SciPy's binomial distribution, where terms are tiny and where they are many."""

import duckdb
import pytest
from scipy.stats import binom

FIND = "SELECT n_triggers, n_kept, expected_share, lift, p_value FROM neurons_triggered_at([2], corpus := 0, n := 100) WHERE layer = 2 AND neuron = 3"


@pytest.mark.parametrize(
    ("n_triggers", "n_kept", "n_positions"),
    [(1, 50, 10), (50, 50, 100_000), (3, 1000, 3), (400, 1000, 3), (2, 50, 50_000_000), (1, 1, 7), (25, 25, 1), (1000, 1000, 2)],
)
def test_the_chance_is_that_of_scipy(tiny_copy: duckdb.DuckDBPyConnection, n_triggers: int, n_kept: int, n_positions: int) -> None:
    """Of a key's triggers n_triggers are at position 2, which is one of n_positions."""
    tiny_copy.execute("UPDATE neuron_statistics SET n_positions = ? WHERE corpus_id = 0", [n_positions])
    tiny_copy.execute("DELETE FROM trigger WHERE layer = 2 AND neuron = 3")
    tiny_copy.execute(
        "INSERT INTO trigger SELECT 0, 2, 3, 'max', r + 1, if(r < $x, 2, 3), 1.0, NULL, NULL, NULL FROM range($k) AS i (r)", {"x": n_triggers, "k": n_kept}
    )
    share = 1 / n_positions
    want = (n_triggers, n_kept, share, n_triggers / n_kept / share, binom.sf(n_triggers - 1, n_kept, share))
    assert tiny_copy.execute(FIND).fetchall() == [pytest.approx(want, rel=1e-9)]


def test_a_chance_too_small_for_a_number_is_0(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute("UPDATE neuron_statistics SET n_positions = 1000000000 WHERE corpus_id = 0")
    tiny_copy.execute("DELETE FROM trigger WHERE layer = 2 AND neuron = 3")
    tiny_copy.execute("INSERT INTO trigger SELECT 0, 2, 3, 'max', r + 1, 2, 1.0, NULL, NULL, NULL FROM range(50) AS i (r)")
    assert tiny_copy.execute(FIND).fetchall() == [pytest.approx((50, 50, 1e-9, 1e9, 0.0), rel=1e-9, abs=0)]


def test_the_chance_is_over_the_positions_that_the_sweep_counts(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    """Corpus 0 has 10 positions in two sequences, of which 0 and 6 are the first; 0 is one of the three that are asked for."""
    tiny_copy.execute("UPDATE run SET settings = '{\"skip_first\": 1}' WHERE kind = 'sweep' AND corpus_id = 0")
    tiny_copy.execute("UPDATE neuron_statistics SET n_positions = 8 WHERE corpus_id = 0")
    found = tiny_copy.execute("SELECT expected_share FROM neurons_triggered_at([0, 2, 8], corpus := 0) GROUP BY ALL").fetchall()
    assert found == [(2 / 8,)]
