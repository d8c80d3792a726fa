"""A good atlas keeps every rule, and each audit sees the one row that breaks its rule."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

import atlas
from ingest.store.merges import MERGES
from schema.audits import audits, file_audits, run_audit, run_audits
from schema.errors import AtlasError
from schema.tables import metadata

BREAKS = {
    # audit: a statement that breaks its rule
    "trigger_ranks": "UPDATE trigger SET rank = 4 WHERE corpus_id = 0 AND layer = 0 AND neuron = 0 AND tail = 'max' AND rank = 3",
    "trigger_order": "UPDATE trigger SET coefficient = 2.5 WHERE corpus_id = 0 AND layer = 0 AND neuron = 0 AND tail = 'max' AND rank = 3",
    "trigger_complete": "DELETE FROM trigger WHERE corpus_id = 0 AND layer = 1 AND neuron = 1 AND tail = 'min' AND rank = 3",
    "trigger_corpus": "UPDATE trigger SET position_id = 103 WHERE corpus_id = 0 AND layer = 1 AND neuron = 1 AND tail = 'min' AND rank = 3",
    "trigger_extremes": "UPDATE neuron_statistics SET max = 9 WHERE corpus_id = 0 AND layer = 1 AND neuron = 1",
    "trigger_preceding": "UPDATE trigger SET preceding = [0, 0, 127] WHERE corpus_id = 0 AND layer = 0 AND neuron = 0 AND tail = 'max' AND rank = 1",
    "trigger_first": "UPDATE run SET settings = '{\"skip_first\": 1}' WHERE kind = 'sweep' AND corpus_id = 0",
    "trigger_distinct": "UPDATE run SET settings = '{\"distinct\": 4}' WHERE kind = 'sweep' AND corpus_id = 0",
    "statistics_positions": "UPDATE neuron_statistics SET n_positions = 11 WHERE corpus_id = 0 AND layer = 0 AND neuron = 0",
    "statistics_consistent": "UPDATE neuron_statistics SET n_positions = 11 WHERE corpus_id = 0 AND layer = 1 AND neuron = 1",
    "logit_lens: bounds": "UPDATE logit_lens SET final_token_prob = 1.5 WHERE position_id = 2 AND layer = 0 AND site = 'attn_out'",
    "sub_update: finite": "UPDATE sub_update SET next_score = 'nan' WHERE position_id = 2 AND layer = 0 AND selection = 'random' AND rank = 1",
    "value_token_order": "UPDATE value_token SET score = -0.5 WHERE layer = 0 AND neuron = 0 AND direction = 'suppressed' AND rank = 1",
    "value_top_token": "UPDATE neuron SET value_top_token_id = 7 WHERE layer = 0 AND neuron = 0",
    "value_neighbour_order": "UPDATE value_neighbour SET cosine = 0.9 WHERE layer = 0 AND neuron = 0 AND rank = 3",
    "neurons_complete": "DELETE FROM neuron WHERE layer = 2 AND neuron = 3",
    "sequence_positions": "UPDATE position SET index = 7 WHERE position_id = 5",
    "char_offsets": "UPDATE position SET char_end = 99 WHERE position_id = 9",
    "next_tokens": "UPDATE position SET next_token_id = 8 WHERE position_id = 3",
    "document_text": "UPDATE document SET text = '  ' WHERE document_id = 100",
    "corpus_counts": "UPDATE corpus SET n_positions = 9 WHERE corpus_id = 0",
    "run_shards": "UPDATE run SET n_shards = 2 WHERE run_id = 1",
    "trace_complete": "DELETE FROM logit_lens WHERE position_id = 2 AND layer = 1 AND site = 'attn_out'",
    "trace_orphans": "DELETE FROM trace WHERE position_id = 101",
    "sub_update_order": "UPDATE sub_update SET sub_update_norm = 9 WHERE position_id = 2 AND layer = 0 AND selection = 'random' AND rank = 1",
    "dominant_total": "UPDATE layer_activity SET sub_update_norm_dominant = 1 WHERE position_id = 2 AND layer = 0",
    "logit_lens_tokens": "UPDATE logit_lens_token SET token_id = 8 WHERE position_id = 2 AND layer = 0 AND site = 'ffn_out' AND rank = 1",
    "final_prediction": "UPDATE trace SET final_token_id = 4 WHERE position_id = 2",
    "final_rank": "UPDATE logit_lens SET final_token_rank = 2 WHERE position_id = 2 AND layer = 1 AND site = 'resid_post'",
    "candidate_rank": "UPDATE layer_activity SET candidate_rank_after = 1 WHERE position_id = 2 AND layer = 1",
    "residual_states": "DELETE FROM residual_state WHERE position_id = 2 AND layer = 1 AND site = 'resid_mid'",
    "coefficient: shard rows": "DELETE FROM coefficient WHERE position_id = 2 AND layer = 1",
    "removal_complete": "DELETE FROM removal WHERE corpus_id = 0 AND layer = 2 AND neuron = 0 AND rank = 2 AND removed = 'random'",
    "removal_triggers": "UPDATE removal SET rank = 4 WHERE corpus_id = 1 AND layer = 1 AND neuron = 0 AND rank = 2",
    "next_token_ranks": "UPDATE next_token_rank SET token_id = 8 WHERE corpus_id = 0 AND layer = 0 AND neuron = 0",
    "control_token_order": "DELETE FROM control_token WHERE control = 'ffn_update' AND layer = 0 AND item = 8 AND rank = 2",
    "control_updates": "UPDATE control_token SET item = 3 WHERE control = 'ffn_update' AND layer = 0 AND item = 8",
    "value_clusters_complete": "DELETE FROM value_cluster WHERE space = 'logits' AND layer = 2 AND neuron = 3",
    "value_cluster_numbers": "UPDATE value_cluster SET cluster = 6 WHERE space = 'value' AND cluster = 5",
    "map_points": "UPDATE map_point SET position_id = 2 WHERE layout = 'value' AND layer = 0 AND neuron = 0",
    "map_complete": "DELETE FROM map_point WHERE layout = 'value' AND neuron = 3",
    "heads_complete": "DELETE FROM head WHERE layer = 2",
    "head_eigenvalues": "UPDATE head_eigenvalue SET real = 0.5 WHERE layer = 0 AND spectrum = 'stream' AND rank = 2",
    "head_directions": "UPDATE head_direction SET sigma = 3 - sigma / 4 WHERE layer = 2 AND circuit = 'qk'",
    "virtual_weights": "UPDATE virtual_weight SET weight = 9 WHERE layer = 1 AND neuron = 3 AND rank = 2",
    "composition_complete": "DELETE FROM composition WHERE kind = 'q' AND layer = 2 AND from_layer = 1",
    "composition_matching": "UPDATE composition SET matching = NULL WHERE kind = 'k' AND layer = 1",
    "head_statistics_consistent": "UPDATE head_statistics SET n_destinations = 9 WHERE corpus_id = 0 AND layer = 1",
    "attention_distances": "UPDATE attention_distance SET weight = 2 WHERE corpus_id = 1 AND layer = 0 AND bin = 3",
    "direct_path_bigrams": "UPDATE direct_path SET n = 3 WHERE corpus_id = 0 AND token_id = 1",
    "direct_path_order": "UPDATE direct_path_token SET logit = 5 WHERE token_id = 3 AND rank = 2",
    "circuit_token_order": "UPDATE circuit_token SET score = 9 WHERE circuit = 'ov' AND source_token_id = 2 AND rank = 2",
    "term_losses": "UPDATE term_loss SET loss = 1.01 WHERE term = 'model'",
    "skip_trigram_order": "UPDATE skip_trigram SET out_score = 9 WHERE destination_tail = 'max' AND out_tail = 'max' AND rank = 2",
    "behaviours_complete": "DELETE FROM head_probe WHERE probe = 'repeat' AND layer = 2",
    "head_statistics: range": "UPDATE head_statistics SET head = 1 WHERE layer = 2",
    "attribution_residual": "UPDATE attribution SET residual = 0.002, parts_sum = logit - 0.002 WHERE position_id = 2 AND target = 'next'",
    "attribution_traced": "UPDATE trace SET position_id = 3 WHERE position_id = 2",
    "contribution_sum": "UPDATE contribution SET final_logit = 1.01 WHERE position_id = 2 AND kind = 'token'",
    "contribution_complete": "DELETE FROM contribution WHERE position_id = 2 AND layer = 1 AND head = 0",
    "neuron_contribution_order": "UPDATE neuron_contribution SET final_logit = 9 WHERE position_id = 2 AND rank = 1",
    "attention_order": "UPDATE attention SET source_index = 3 WHERE position_id = 2 AND layer = 0 AND head = 0 AND rank = 2",
    "attention_totals": "UPDATE attention SET weight = 0.5 WHERE position_id = 2 AND layer = 0 AND head = 0 AND rank = 2",
    "head_logits": "UPDATE head_activity SET final_logit = 2.01 WHERE position_id = 2 AND layer = 1 AND head = 0",
    "test_items": "UPDATE test_item SET role = 'good' WHERE document_id = 201",
    "test_regions": "UPDATE test_region SET first_position_id = 1000 WHERE document_id = 200",
    "test_sentences": "UPDATE position SET char_end = 3 WHERE position_id = 1000",
    "test_terms": "DELETE FROM test_term",
    "probes": "UPDATE probe SET accuracy = 0.5 WHERE kind = 'label' AND layer = 1",
    "probes_complete": "DELETE FROM probe WHERE kind = 'control' AND layer = 1",
    "tree_probes": "UPDATE tree_probe SET accuracy = 0.5 WHERE kind = 'tree' AND layer = 1 AND target = 'distance' AND rank = 2",
    "tree_probes_complete": "DELETE FROM tree_probe WHERE kind = 'untrained' AND layer = 1 AND target = 'depth'",
    "head_relations": "DELETE FROM head_relation WHERE relation = 'det' AND layer = 2",
    "words": "UPDATE word SET last_position_id = 3 WHERE word_id = 16",
    "neuron_contrasts": "DELETE FROM neuron_contrast WHERE paradigm = 'order' AND layer = 1 AND neuron = 1",
    "word_surprisals": "UPDATE position_prediction SET surprisal = NULL WHERE position_id = 3",
    "position_predictions": "UPDATE position_prediction SET next_token_rank = 2 WHERE position_id = 3",
    "ngram_predictions": "DELETE FROM ngram_prediction WHERE position_id = 4 AND ngram_order = 5",
    "sweep_positions": 'UPDATE shard SET n_rows = \'{"sequence": 2, "position": 11}\' WHERE run_id = 1',
    "trigger: grain": "INSERT INTO trigger SELECT * FROM trigger LIMIT 1",
    "model: grain": "INSERT INTO model SELECT * FROM model",
    "trigger.position_id: reference": "UPDATE trigger SET position_id = 50 WHERE position_id = 5",
    "run.corpus_id: reference": "UPDATE run SET corpus_id = 7 WHERE run_id = 4",
    "trigger: range": "UPDATE trigger SET neuron = 4 WHERE neuron = 3",
    "logit_lens: range": "UPDATE logit_lens SET layer = 3 WHERE layer = 2",
    "columns: types": "ALTER TABLE trace ALTER final_prob TYPE DOUBLE",
    "views: present": "DROP VIEW saturation",
    "questions: present": "DROP MACRO TABLE top_triggers",
}


class Uncommitted:
    """A connection whose cursors, in which an audit runs, see what it has not committed: they are itself."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con

    def cursor(self) -> "Uncommitted":
        return self

    def close(self) -> None:
        """The next test goes on with it."""

    def __getattr__(self, name: str) -> object:
        return getattr(self.con, name)


@pytest.fixture(scope="module")
def opened(suites_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """With the tests of a suite, a corpus more."""
    with duckdb.connect(shutil.copy(suites_path, tmp_path_factory.mktemp("audited") / "copy.duckdb")) as con:
        yield con


@pytest.fixture
def tiny_copy(opened: duckdb.DuckDBPyConnection) -> Iterator[Uncommitted]:
    """For one test, whose changes are undone."""
    opened.begin()
    yield Uncommitted(opened)
    opened.rollback()


@pytest.mark.thorough
def test_a_good_atlas_keeps_every_rule(a: atlas.Atlas, tiny_copy: Uncommitted) -> None:
    for con in (a.con, tiny_copy):
        assert [f for f in run_audits(con) if f.n_rows] == []


@pytest.mark.parametrize("name", BREAKS)
def test_audit_sees_the_row_that_breaks_its_rule(tiny_copy: Uncommitted, name: str) -> None:
    audit = next(audit for audit in audits(2) if audit.name == name)
    assert run_audit(tiny_copy, audit).n_rows == 0
    tiny_copy.execute(BREAKS[name])
    found = run_audit(tiny_copy, audit)
    assert found.n_rows >= 1
    assert found.example


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("removal_triggers", "INSERT INTO removal VALUES (0, 0, 0, 3, 'first', 1.0)"),
        ("removal_complete", "UPDATE removal SET removed = 'last' WHERE corpus_id = 1 AND rank = 2"),
        ("next_token_ranks", "DELETE FROM next_token_rank WHERE corpus_id = 1 AND layer = 2 AND neuron = 3"),
        ("next_token_ranks", "UPDATE next_token_rank SET value_rank = 13 WHERE corpus_id = 1 AND layer = 2 AND neuron = 3"),
        ("control_token_order", "UPDATE control_token SET score = 9 WHERE rank = 2 AND item = 0 AND layer = 1"),
        ("control_token_order", "UPDATE control_token SET rank = 3 WHERE rank = 2"),
        ("control_token_order", "UPDATE control_token SET score = 3 WHERE item = 1"),
        ("control_updates", "UPDATE position SET index = 0 WHERE position_id = 2"),
        ("value_cluster_numbers", "UPDATE value_cluster SET cluster = 5 - cluster WHERE space = 'value'"),
        ("next_token_rank: shard rows", "DELETE FROM next_token_rank WHERE corpus_id = 1 AND layer = 2"),
        ("map_points", "UPDATE map_point SET position_id = 1 WHERE layer = 0 AND position_id = 2"),
        ("map_points", "UPDATE map_point SET neuron = 1 WHERE layer = 0 AND position_id = 2"),
        ("map_complete", "DELETE FROM map_point WHERE layout = 'resid_post' AND layer = 1 AND position_id = 8"),
        ("heads_complete", "UPDATE head SET kv_head = 1 WHERE layer = 1"),
        ("head_eigenvalues", "DELETE FROM head_eigenvalue WHERE layer = 1 AND spectrum = 'ov_token'"),
        ("head_eigenvalues", "UPDATE head_eigenvalue SET rank = 3 - rank WHERE layer = 1 AND spectrum = 'ov_token'"),
        ("head_eigenvalues", "UPDATE head SET matching = 0.25 WHERE layer = 2"),
        ("head_directions", "UPDATE head SET ov_norm = 2 WHERE layer = 1"),
        ("head_directions", "UPDATE head_direction_token SET score = -score WHERE layer = 2 AND side = 'key' AND tail = 'min'"),
        ("head_directions", "UPDATE head_direction_token SET rank = 3 WHERE layer = 0 AND side = 'write' AND tail = 'max' AND rank = 2"),
        ("virtual_weights", "UPDATE virtual_weight SET other_layer = 2 WHERE layer = 1 AND side = 'key'"),
        ("virtual_weights", "UPDATE virtual_weight_total SET sum_squares = 50 WHERE layer = 1 AND neuron = 3"),
        ("virtual_weights", "DELETE FROM virtual_weight_total WHERE layer = 1"),
        ("virtual_weights", "UPDATE virtual_weight_total SET n = 3 WHERE layer = 1"),
        ("composition_matching", "UPDATE composition SET matching = 0.5 WHERE kind = 'v' AND layer = 1"),
        ("composition_matching", "UPDATE composition SET matching = -1.5 WHERE kind = 'k' AND layer = 1"),
        ("composition_matching", "UPDATE composition SET from_layer = 1 WHERE kind = 'k' AND layer = 1"),
        ("head: range", "UPDATE head SET head = 1 WHERE layer = 2"),
        ("map_point: shard rows", "DELETE FROM map_point WHERE layer = 2 AND position_id = 101"),
        ("map_point: finite", "UPDATE map_point SET y = 'nan' WHERE layer = 2 AND position_id = 101"),
        ("next_token_rank: bounds", "UPDATE next_token_rank SET value_prob = 1.5 WHERE corpus_id = 1 AND layer = 2"),
        ("head_statistics_consistent", "UPDATE head_statistics SET n_repeated = 9 WHERE corpus_id = 0 AND layer = 1"),
        ("head_statistics_consistent", "UPDATE head_statistics SET entropy = 1.2 WHERE corpus_id = 1 AND layer = 2"),
        ("head_statistics_consistent", "UPDATE head_statistics SET self = 0.9 WHERE corpus_id = 1 AND layer = 2"),
        ("position_predictions", "DELETE FROM position_prediction WHERE position_id = 9"),
        ("position_predictions", "UPDATE position_prediction SET surprisal = NULL WHERE position_id = 3"),
        ("position_predictions", "UPDATE position_prediction SET surprisal = 0.1 WHERE position_id = 4"),
        ("position_predictions", "UPDATE position_prediction SET top_prob = 0.6 WHERE position_id = 3"),
        ("position_prediction: bounds", "UPDATE position_prediction SET entropy = -1 WHERE position_id = 3"),
        ("position_prediction: shard rows", "DELETE FROM position_prediction WHERE position_id = 9"),
        ("ngram_predictions", "INSERT INTO ngram_prediction VALUES (6, 3, 1.0, 1)"),
        ("ngram_predictions", "UPDATE ngram_prediction SET matched_order = 4 WHERE position_id = 4 AND ngram_order = 3"),
        ("test_items", "UPDATE test_item SET delta = 1 WHERE document_id = 200"),
        ("test_items", "DELETE FROM test_divergence WHERE document_id = 212"),
        ("test_items", "UPDATE test_item SET kind = 'mft' WHERE document_id = 206"),
        ("test_items", "UPDATE test_item SET role = 'a' WHERE document_id = 207"),
        ("test_items", "DELETE FROM test_item WHERE document_id = 215"),
        ("test_regions", "UPDATE test_region SET last_position_id = 1004 WHERE document_id = 200"),
        ("test_regions", "UPDATE test_region SET first_position_id = 1003 WHERE document_id = 200"),
        ("probes", "DELETE FROM probe_prediction WHERE word_id = 84"),
        ("probes", "DELETE FROM probe_prediction WHERE layer = 1"),
        ("probes", "DELETE FROM probe WHERE layer = 1"),
        ("probes", "UPDATE probe_task SET corpus_id = 1"),
        ("tree_probes", "DELETE FROM tree_edge WHERE layer = 1"),
        ("tree_probes", "UPDATE tree_edge SET joined_word_id = 16 WHERE word_id = 68 AND layer = 1"),
        ("tree_probes", "DELETE FROM tree_probe WHERE layer = 1 AND target = 'distance'"),
        ("tree_probes", "UPDATE tree_task SET corpus_id = 1 WHERE target = 'distance'"),
        ("tree_probes", "UPDATE tree_task SET n_scored = 3 WHERE target = 'distance'"),
        ("head_relations", "UPDATE head_relation SET test_accuracy = 0.5 WHERE relation = 'punct' AND layer = 0"),
        ("head_relations", "UPDATE head_relation SET accuracy = NULL WHERE relation = 'det' AND layer = 0"),
        ("head_relations", "DELETE FROM word_relation WHERE relation = 'punct'"),
        ("words", "UPDATE word SET char_end = 1000 WHERE word_id = 1040"),
        ("words", "UPDATE word SET head_word_id = 68 WHERE word_id = 0"),
        ("words", "UPDATE word SET head_word_id = 0 WHERE word_id = 0"),
        ("words", "UPDATE word SET first_position_id = 7 WHERE word_id = 0"),
        ("words", "UPDATE word SET first_position_id = NULL WHERE word_id = 0"),
        ("words", "UPDATE word SET document_id = 100 WHERE word_id = 52"),
        ("test_sentences", "UPDATE sequence SET document_id = 201 WHERE document_id = 200"),
        ("test_terms", "UPDATE test_term SET role = 'c' WHERE role = 'a'"),
        ("test_terms", "UPDATE test_term SET role = '' WHERE role = 'a'"),
        ("neuron_contrasts", "UPDATE neuron_contrast SET n_items = 3 WHERE layer = 1 AND neuron = 1"),
        ("neuron_contrasts", "UPDATE neuron_contrast SET mean = -1 WHERE layer = 1 AND neuron = 1"),
        ("neuron_contrasts", "UPDATE neuron_contrast SET paradigm = 'garden' WHERE layer = 1 AND neuron = 1"),
        ("test_divergence: bounds", "UPDATE test_divergence SET divergence = -1"),
        ("neuron_contrast: shard rows", "DELETE FROM neuron_contrast"),
        ("attention_distances", "UPDATE attention_distance SET n = 9 WHERE corpus_id = 0 AND layer = 0 AND bin = 3"),
        ("attention_distances", "UPDATE attention_distance SET uniform = 2.1 WHERE corpus_id = 0 AND layer = 0 AND bin = 1"),
        ("attention_distances", "UPDATE attention_distance SET bin = 5 WHERE corpus_id = 0 AND layer = 0 AND bin = 3"),
        ("attention_distances", "DELETE FROM head_statistics WHERE corpus_id = 0 AND layer = 0"),
        ("behaviours_complete", "DELETE FROM head_statistics WHERE corpus_id = 1 AND layer = 2"),
        ("direct_path_bigrams", "DELETE FROM direct_path WHERE corpus_id = 1 AND token_id = 8"),
        ("direct_path_bigrams", "UPDATE direct_path SET follower_id = 10 WHERE corpus_id = 0 AND token_id = 1"),
        ("direct_path_bigrams", "UPDATE direct_path SET follower_rank = 13 WHERE corpus_id = 0 AND token_id = 1"),
        ("direct_path_order", "UPDATE direct_path_token SET rank = 3 WHERE token_id = 3 AND rank = 2"),
        ("direct_path_order", "UPDATE direct_path_token SET prob = 0.75 WHERE token_id = 3 AND rank = 2"),
        ("circuit_token_order", "UPDATE circuit_token SET rank = 3 WHERE circuit = 'qk' AND source_token_id = 1 AND rank = 2"),
        ("circuit_token_order", "DELETE FROM circuit_source WHERE circuit = 'qk' AND source_token_id = 1"),
        ("circuit_token_order", "DELETE FROM circuit_token WHERE circuit = 'qk' AND source_token_id = 1"),
        ("term_losses", "DELETE FROM term_loss WHERE term = 'layer' AND layer = 2"),
        ("term_losses", "UPDATE term_loss SET n = 9 WHERE term = 'unigram'"),
        ("term_losses", "UPDATE term_loss SET term = 'layer', layer = 2 WHERE term = 'model'"),
        ("skip_trigram_order", "UPDATE skip_trigram SET rank = 5 WHERE destination_tail = 'max' AND out_tail = 'max' AND rank = 4"),
        ("skip_trigram_order", "UPDATE skip_trigram SET out_score = -out_score WHERE destination_tail = 'min' AND out_tail = 'min'"),
        ("skip_trigram_order", "UPDATE skip_trigram SET destination_score = -destination_score WHERE destination_tail = 'min' AND out_tail = 'max'"),
        ("skip_trigram_order", "UPDATE circuit_token SET score = 9 WHERE circuit = 'ov' AND source_token_id = 1 AND rank = 1"),
        ("trigger: finite", "UPDATE trigger SET preceding_scale = 'inf' WHERE layer = 1 AND rank = 1"),
        ("control_token: finite", "UPDATE control_token SET score = 'inf' WHERE rank = 1 AND layer = 2"),
    ],
)
def test_audit_sees_other_breaks_of_its_rule_too(tiny_copy: Uncommitted, name: str, statement: str) -> None:
    tiny_copy.execute(statement)
    assert run_audit(tiny_copy, next(audit for audit in audits(2) if audit.name == name)).n_rows >= 1


@pytest.mark.thorough
def test_an_audit_runs_however_many_threads_share_the_few_rows_that_it_finds(suites_path: Path, tmp_path: Path) -> None:
    (audit,) = (audit for audit in file_audits() if audit.name == "direct_path_bigrams")
    with closing(duckdb.connect(shutil.copy(suites_path, tmp_path), config={"threads": 8})) as con:
        con.execute("DELETE FROM direct_path WHERE corpus_id = 1 AND token_id = 8")
        assert {run_audit(con, audit).n_rows for _ in range(400)} == {1}


def test_every_file_of_audits_is_shown_to_fail() -> None:
    assert {audit.name for audit in file_audits()} <= set(BREAKS)


@pytest.mark.parametrize("audit", list(file_audits()), ids=lambda audit: audit.name)
def test_audit_file_begins_with_its_rule(audit) -> None:
    assert audit.sql.startswith("-- rule: ")
    assert len(audit.rule) > 20


TABLES = metadata(2).tables.values()
NUMBERS = [(t.name, c.name) for t in TABLES for c in t.columns if str(c.type) in ("REAL", "DOUBLE")]
BOUNDED = [(t.name, c.name, c.info["bounds"][0]) for t in TABLES for c in t.columns if "bounds" in c.info]
COUNTED = [t.name for t in TABLES if t.info["filled_by"] and t.name not in MERGES]


@pytest.mark.parametrize(("table", "column"), NUMBERS)
def test_no_number_of_any_table_may_be_nan_or_infinite(tiny_copy: Uncommitted, table: str, column: str) -> None:
    audit = next(audit for audit in audits(2) if audit.name == f"{table}: finite")
    n = tiny_copy.execute(f"SELECT count({column}) FROM {table}").fetchall()[0][0]
    for number in ("nan", "inf", "-inf"):
        tiny_copy.execute(f"UPDATE {table} SET {column} = ? WHERE {column} IS NOT NULL", [float(number)])
        assert run_audit(tiny_copy, audit).n_rows == n > 0


@pytest.mark.parametrize(("table", "column", "least"), BOUNDED)
def test_no_number_lies_outside_its_bounds(tiny_copy: Uncommitted, table: str, column: str, least: float) -> None:
    audit = next(audit for audit in audits(2) if audit.name == f"{table}: bounds")
    n = tiny_copy.execute(f"SELECT count({column}) FROM {table}").fetchall()[0][0]
    tiny_copy.execute(f"UPDATE {table} SET {column} = {least - 0.001} WHERE {column} IS NOT NULL")
    assert run_audit(tiny_copy, audit).n_rows == n > 0


@pytest.mark.parametrize("table", COUNTED)
def test_a_row_that_is_lost_or_was_never_brought_is_counted(tiny_copy: Uncommitted, table: str) -> None:
    audit = next(audit for audit in audits(2) if audit.name == f"{table}: shard rows")
    n = tiny_copy.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
    tiny_copy.execute(f"CREATE TEMP TABLE all_rows AS FROM {table}; DELETE FROM {table}")
    assert run_audit(tiny_copy, audit).example == {"n_counted": n, "n_found": 0}
    tiny_copy.execute(f"INSERT INTO {table} FROM all_rows; DELETE FROM shard")
    assert run_audit(tiny_copy, audit).example == {"n_counted": 0, "n_found": n}


@pytest.mark.parametrize("vector", ["['nan', '1']", "['inf', '-inf']", "['1', '-inf']"])
def test_no_number_of_a_vector_may_be_none(tiny_copy: Uncommitted, vector: str) -> None:
    audit = next(audit for audit in audits(2) if audit.name == "residual_state: finite")
    tiny_copy.execute("UPDATE residual_state SET vector = [3.4e38, 3.4e38]")
    assert run_audit(tiny_copy, audit).n_rows == 0
    tiny_copy.execute(f"UPDATE residual_state SET vector = {vector} WHERE position_id = 2 AND layer = 1 AND site = 'resid_mid'")
    found = run_audit(tiny_copy, audit)
    assert (found.n_rows, found.example) == (1, {"position_id": 2, "layer": 1, "site": "resid_mid"})


@pytest.mark.parametrize(("entropy", "n_rows"), [(-1e-6, 0), (-1e-4, 45)])
def test_an_entropy_is_not_negative_but_by_a_rounding(tiny_copy: Uncommitted, entropy: float, n_rows: int) -> None:
    tiny_copy.execute("UPDATE logit_lens SET entropy = ?", [entropy])
    assert run_audit(tiny_copy, next(audit for audit in audits(2) if audit.name == "logit_lens: bounds")).n_rows == n_rows


def test_what_is_said_to_lie_in_0_1_is_audited() -> None:
    said = {c for t in metadata(2).tables.values() for c in t.columns if c.comment and c.comment.split(";")[0].rstrip(".").endswith("in [0, 1]")}
    assert len(said) > 20
    assert all("bounds" in c.info for c in said)


def test_rows_of_every_table_that_one_pass_fills_are_counted() -> None:
    counted = {audit.name.removesuffix(": shard rows") for audit in audits(2) if audit.name.endswith(": shard rows")}
    registered = {"model", "model_fact", "token", "corpus", "run", "shard", "document", "sequence", "position", "table_digest"}
    assert set(metadata(2).tables) - counted == registered | set(MERGES)


def test_nulls_are_seen_where_the_metadata_allows_none(tiny_copy: Uncommitted) -> None:
    audit = next(audit for audit in audits(2) if audit.name == "trigger: not null")
    tiny_copy.execute("CREATE TABLE loose AS FROM trigger")
    tiny_copy.execute("DROP TABLE trigger")
    tiny_copy.execute("ALTER TABLE loose RENAME TO trigger")
    tiny_copy.execute("UPDATE trigger SET coefficient = NULL WHERE rank = 2 AND layer = 0 AND neuron = 0 AND tail = 'max'")
    assert run_audit(tiny_copy, audit).n_rows == 2


@pytest.mark.thorough
def test_an_empty_atlas_breaks_no_rule(empty_atlas: duckdb.DuckDBPyConnection) -> None:
    assert [f.audit.name for f in run_audits(empty_atlas) if f.n_rows] == []


def test_an_audit_that_cannot_run_is_an_error_and_not_a_pass(tiny_copy: Uncommitted) -> None:
    tiny_copy.execute("ALTER TABLE sub_update DROP COLUMN next_score")
    with pytest.raises(AtlasError, match="the audit 'sub_update: finite' cannot run"):
        list(run_audits(tiny_copy))
