"""A published atlas as arrays, and a record of which of its columns a test has looked at."""

from pathlib import Path

import duckdb
import numpy as np
import polars as pl

from schema.open.lake import is_lake
from schema.open.store import open_reader

GRAINS = {
    "model": "name",
    "model_fact": "fact, layer",
    "token": "token_id",
    "corpus": "corpus_id",
    "document": "document_id",
    "sequence": "sequence_id",
    "position": "position_id",
    "run": "run_id",
    "shard": "run_id, shard_id",
    "neuron": "layer, neuron",
    "value_token": "layer, neuron, direction, rank",
    "value_neighbour": "layer, neuron, rank",
    "neuron_statistics": "corpus_id, layer, neuron",
    "trigger": "corpus_id, layer, neuron, tail, rank",
    "position_prediction": "position_id",
    "ngram_prediction": "position_id, ngram_order",
    "trace": "position_id",
    "residual_state": "position_id, layer, site",
    "logit_lens": "position_id, layer, site",
    "logit_lens_token": "position_id, layer, site, rank",
    "coefficient": "position_id, layer, sub_update_norm DESC, neuron",
    "layer_activity": "position_id, layer",
    "sub_update": "position_id, layer, selection, rank",
    "attribution": "position_id, target",
    "contribution": "position_id, kind, layer, head",
    "neuron_contribution": "position_id, rank",
    "attention": "position_id, layer, head, rank",
    "head_activity": "position_id, layer, head",
    "removal": "corpus_id, layer, neuron, rank, removed",
    "next_token_rank": "corpus_id, layer, neuron",
    "control_token": "control, layer, item, rank",
    "value_cluster": "space, layer, neuron",
    "head": "layer, head",
    "head_eigenvalue": "layer, head, spectrum, rank",
    "head_direction": "layer, head, circuit, direction_rank",
    "head_direction_token": "layer, head, circuit, direction_rank, side, tail, rank",
    "virtual_weight": "layer, neuron, side, rank",
    "virtual_weight_total": "layer, neuron, side",
    "composition": "kind, layer, head, from_layer, from_head",
    "head_statistics": "corpus_id, layer, head",
    "attention_distance": "corpus_id, layer, head, bin",
    "head_probe": "probe, layer, head",
    "probe_loss": "probe, block",
    "direct_path_token": "token_id, rank",
    "direct_path": "corpus_id, token_id",
    "circuit_token": "layer, head, circuit, source_token_id, rank",
    "circuit_source": "layer, head, circuit, source_token_id",
    "skip_trigram": "layer, head, destination_tail, out_tail, rank",
    "term_loss": "corpus_id, term, most_heads, layer",
    "training_curve": "step",
    "map_point": "run_id, layout, layer, neuron, position_id",
}

OF_ATTENTION_ALONE = ("term_loss", "training_curve")
"""Tables that the attention-only reference models fill, and none with FFNs."""

OF_SUITES = ("test_item", "test_region", "neuron_contrast", "test_term", "test_divergence")
"""Tables that tests fill, and no other text: tests/ingest/test_suite_run.py looks at them."""

OF_TOKENS = ("token_space", "token_vector", "token_neighbour", "token_state", "layer_geometry", "analogy_score", "similarity_score")
"""tests/ingest/test_token_vectors.py, test_token_states.py and test_word_tests.py look at them."""

OF_WORDS = ("word", "probe_task", "probe", "probe_prediction", "tree_task", "tree_probe", "tree_edge", "word_relation", "head_relation")
"""tests/ingest/test_words.py, test_probes.py, test_tree_probes.py and test_head_relations.py look at them."""

OF_KEYS = ("key_file",)
"""tests/ingest/test_key_entries.py looks at it."""

ELSEWHERE = (*OF_ATTENTION_ALONE, *OF_SUITES, *OF_TOKENS, *OF_WORDS, *OF_KEYS)
"""Tables that the ingest of a tiny model of each family leaves empty."""


class Rows:
    """Rows of one table; `rows["column"]` is an array (nulls of numbers as NaN) and counts as looked at."""

    def __init__(self, table: str, frame: pl.DataFrame, seen: set[tuple[str, str]]) -> None:
        self.table, self.frame, self.seen = table, frame, seen

    def __getitem__(self, column: str) -> np.ndarray:
        self.seen.add((self.table, column))
        series = self.frame[column]
        return series.to_numpy() if series.dtype != pl.List else np.array(series.to_list())

    def lists(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        """A column of lists of several lengths: all their entries one after the other, and the length of each (NaN for a null)."""
        self.seen.add((self.table, column))
        lists = self.frame[column]
        return lists.filter(lists.list.len() > 0).explode().to_numpy(), lists.list.len().cast(pl.Float64).to_numpy()

    def __len__(self) -> int:
        return len(self.frame)

    def where(self, **equal: object) -> "Rows":
        self.seen |= {(self.table, column) for column in equal}
        return Rows(self.table, self.frame.filter(*(pl.col(c) == v for c, v in equal.items())), self.seen)


class Published:
    """Tables in the order of their grain."""

    def __init__(self, path: Path) -> None:
        self.con = open_reader(path) if is_lake(path) else duckdb.connect(str(path), read_only=True)
        self.seen: set[tuple[str, str]] = set()

    def table(self, name: str, where: str = "true") -> Rows:
        return Rows(name, self.con.execute(f"SELECT * FROM {name} WHERE {where} ORDER BY {GRAINS[name]}").pl(), self.seen)

    def rows(self, sql: str) -> list[tuple]:
        return self.con.execute(sql).fetchall()

    def columns(self) -> set[tuple[str, str]]:
        """Every column of every table."""
        sql = "SELECT table_name, column_name FROM duckdb_columns() WHERE table_name IN (SELECT table_name FROM duckdb_tables())"
        return set(self.rows(sql))

    def checksums(self) -> dict[str, tuple]:
        """Rows and a checksum of their contents for every table; what differs from one run to the next (times, processes) is left out."""
        passing = {"run": ["started_at", "finished_at"], "shard": ["sha256", "worker", "committed_at"]}
        found = {}
        for name in GRAINS:
            kept = f"* EXCLUDE ({', '.join(passing[name])})" if name in passing else "*"
            found[name] = self.rows(f"SELECT count(*), bit_xor(hash(t)), sum(hash(t)) FROM (SELECT {kept} FROM {name}) AS t")[0]
        return found
