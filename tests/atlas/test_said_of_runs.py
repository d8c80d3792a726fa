"""What questions say of the runs that their rows are of: which positions were counted, and how intervals were made."""

import duckdb
import pytest


def test_a_corpus_says_by_which_rule_it_was_swept(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute("UPDATE run SET settings = '{\"skip_first\": 1, \"distinct\": 4}' WHERE kind = 'sweep' AND corpus_id = 1")
    tiny_copy.execute("UPDATE neuron_statistics SET n_positions = 3 WHERE corpus_id = 1")
    found = tiny_copy.execute("SELECT corpus_id, n_positions, n_swept, skip_first, distinct_tokens FROM corpus_summary()").fetchall()
    assert found == [(0, 10, 10, 0, 0), (1, 4, 3, 1, 4)]


@pytest.mark.parametrize(("table", "name"), [("probe", "probe_layers"), ("tree_probe", "parse_layers")])
def test_an_interval_of_an_earlier_release_is_said_to_be_too_narrow(tiny_copy: duckdb.DuckDBPyConnection, table: str, name: str) -> None:
    tiny_copy.execute(f"UPDATE {table} SET n_clusters = NULL, interval_note = NULL WHERE layer = 0")
    found = tiny_copy.execute(f"SELECT layer, n_clusters, interval_note FROM {name}()").fetchall()
    said = "percentile bootstrap of an earlier release: too narrow over few clusters"
    assert found == [(0, None, said), (1, 1, "none: 1 of at least 12 clusters")]
