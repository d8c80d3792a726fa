"""Queries by which passes read rows that are already in the atlas."""

from dataclasses import dataclass

import duckdb
import numpy as np

from ingest.recorders.top_k_kernel import NOWHERE
from ingest.store.merges import layer_merge_sql
from schema.terms import TAILS

Tokens = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Bigrams:
    """Counts of the bigrams of a corpus: one row for each token and follower, ordered by token, then follower."""

    token_ids: np.ndarray
    """[n] int64, ascending"""
    follower_ids: np.ndarray
    """[n] int64"""
    counts: np.ndarray
    """[n] int64"""

    def select_tokens(self, token_ids: np.ndarray) -> "Bigrams":
        """Select the bigrams of a range of tokens. token_ids: [m], ascending, with every token of these bigrams between the first and the last."""
        rows = slice(np.searchsorted(self.token_ids, token_ids[0]), np.searchsorted(self.token_ids, token_ids[-1], side="right"))
        return Bigrams(self.token_ids[rows], self.follower_ids[rows], self.counts[rows])


@dataclass(frozen=True)
class Trigger:
    """A trigger of the tail max.

    token_ids: its prefix, from the start of the sequence to the trigger's own token. has_bos: whether the first token is BOS.
    """

    neuron: int
    rank: int
    position_id: int
    token_ids: Tokens
    has_bos: bool


def known_triggers(
    con: duckdb.DuckDBPyConnection, corpus_id: int, n_layers: int, d_ffn: int, k: int, is_distinct: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Read the triggers that are in the atlas, with which a resumed sweep starts.

    Returns coefficients, positions and, if `is_distinct`, contexts, else None: [n_layers, tails, d_ffn, k] each. A place without a trigger has the position
    NOWHERE.
    """
    coefficients = np.zeros((n_layers, len(TAILS), d_ffn, k), np.float32)
    positions = np.full(coefficients.shape, NOWHERE, np.int64)
    contexts = np.zeros(coefficients.shape, np.int64) if is_distinct else None
    for layer in range(n_layers):
        columns = con.execute(f"{layer_merge_sql('trigger', 'trigger')} WHERE rank <= {k}", [corpus_id, layer]).fetchnumpy()
        tail = (np.asarray(columns["tail"], str) == TAILS[1]).astype(int)
        place = (layer, tail, columns["neuron"], columns["rank"] - 1)
        coefficients[place], positions[place] = columns["coefficient"], columns["position_id"]
        if contexts is not None:
            contexts[place] = columns["context"]
    return coefficients, positions, contexts


def top_tokens(con: duckdb.DuckDBPyConnection, n_layers: int) -> np.ndarray:
    """Read value_top_token_id of every neuron, [n_layers, d_ffn]."""
    column = con.execute("SELECT n.value_top_token_id FROM neuron AS n ORDER BY n.layer, n.neuron").fetchnumpy()["value_top_token_id"]
    return np.asarray(column, np.int64).reshape(n_layers, -1)


def top_triggers(con: duckdb.DuckDBPyConnection, corpus_id: int, layer: int, k: int) -> dict[str, np.ndarray]:
    """Read the k top triggers of every key of a layer, by neuron and rank; next_token_id is -1 at the end of a document."""
    sql = f"""
        SELECT t.neuron, t.rank, t.position_id, s.sequence_id, s.first_position_id, coalesce(p.next_token_id, -1) AS next_token_id
        FROM ({layer_merge_sql("trigger", "trigger")}) AS t
        INNER JOIN position AS p ON t.position_id = p.position_id
        INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
        WHERE t.tail = 'max' AND t.rank <= ?
        ORDER BY t.neuron, t.rank
    """
    return {name: np.asarray(column, np.int64) for name, column in con.execute(sql, [corpus_id, layer, k]).fetchnumpy().items()}


def read_prefixes(con: duckdb.DuckDBPyConnection, found: dict[str, np.ndarray]) -> list[Trigger]:
    """Read the prefix of each trigger found: the tokens from the start of its sequence to its own. BOS is a special token without text at index 0."""
    sql = """
        SELECT p.position_id, p.token_id, p.index = 0 AND p.char_start = p.char_end AND w.is_special AS is_bos
        FROM position AS p
        INNER JOIN token AS w ON p.token_id = w.token_id
        WHERE p.sequence_id IN (SELECT unnest(?::BIGINT[]))
        ORDER BY p.position_id
    """
    read = con.execute(sql, [np.unique(found["sequence_id"]).tolist()]).fetchnumpy()
    positions, tokens, is_bos = (np.asarray(read[name]) for name in ("position_id", "token_id", "is_bos"))
    starts = np.searchsorted(positions, found["first_position_id"])
    ends = starts + found["position_id"] - found["first_position_id"] + 1
    return [
        Trigger(int(neuron), int(rank), int(position), tuple(tokens[start:end].tolist()), bool(is_bos[start]))
        for neuron, rank, position, start, end in zip(found["neuron"], found["rank"], found["position_id"], starts, ends, strict=True)
    ]


def update_positions(con: duckdb.DuckDBPyConnection, layer: int) -> np.ndarray:
    """Read the position_id of each traced position whose states allow `updates` to compute ffn_out, ascending, [n].

    Positions at index 0 are left out, since their norms are huge.
    """
    sql = """
        SELECT r.position_id
        FROM residual_state AS r
        INNER JOIN position AS p ON r.position_id = p.position_id
        WHERE r.layer = ? AND r.site IN ('resid_mid', 'resid_post') AND p.index > 0
        GROUP BY r.position_id
        HAVING count(*) = 2
        ORDER BY r.position_id
    """
    return np.asarray(con.execute(sql, [layer]).fetchnumpy()["position_id"], np.int64)


def updates(con: duckdb.DuckDBPyConnection, layer: int, position_ids: np.ndarray) -> np.ndarray:
    """Compute ffn_out = resid_post - resid_mid at these positions, ordered by position_id: [n, d_model] float32."""
    sql = """
        SELECT after.vector, before.vector
        FROM residual_state AS after
        INNER JOIN residual_state AS before ON after.position_id = before.position_id AND after.layer = before.layer
        WHERE after.site = 'resid_post' AND before.site = 'resid_mid' AND after.layer = ? AND after.position_id IN (SELECT unnest(?::BIGINT[]))
        ORDER BY after.position_id
    """
    rows = np.array(con.execute(sql, [layer, position_ids.tolist()]).fetchall(), np.float32)
    return rows[:, 0] - rows[:, 1] if len(rows) else np.empty((0, 0), np.float32)


def traced_positions(con: duckdb.DuckDBPyConnection, but: int = -1) -> np.ndarray:
    """Read the position_id of every position, of all corpora, that a run other than `but` has traced, ascending: [n] int64."""
    found = con.execute("SELECT t.position_id FROM trace AS t WHERE t.run_id <> ? ORDER BY t.position_id", [but]).fetchnumpy()
    return np.asarray(found["position_id"], np.int64)


def attributed_positions(con: duckdb.DuckDBPyConnection, but: int = -1) -> np.ndarray:
    """Read the position_id of every position, of all corpora, whose prediction a run other than `but` has attributed, ascending: [n] int64."""
    found = con.execute("SELECT DISTINCT a.position_id FROM attribution AS a WHERE a.run_id <> ? ORDER BY a.position_id", [but]).fetchnumpy()
    return np.asarray(found["position_id"], np.int64)


def states_of(con: duckdb.DuckDBPyConnection, layer: int, site: str, positions: np.ndarray) -> np.ndarray:
    """Read the positions' states at a layer and site, ordered by position_id: [n, d_model] float32."""
    sql = """
        SELECT r.vector
        FROM residual_state AS r
        WHERE r.layer = ? AND r.site = ? AND r.position_id IN (SELECT unnest(?::BIGINT[]))
        ORDER BY r.position_id
    """
    vectors = con.execute(sql, [layer, site, positions.tolist()]).fetchnumpy()["vector"]
    return np.stack(list(vectors)).astype(np.float32)


def neighbours(con: duckdb.DuckDBPyConnection, n_layers: int, d_ffn: int) -> tuple[np.ndarray, np.ndarray]:
    """Read the nearest values of every value, nearest first: flat numbers (layer · d_ffn + neuron) int64 and cosines, [n_layers · d_ffn, neighbours]."""
    sql = "SELECT n.neighbour_layer, n.neighbour_neuron, n.cosine FROM value_neighbour AS n ORDER BY n.layer, n.neuron, n.rank"
    found, n = con.execute(sql).fetchnumpy(), n_layers * d_ffn
    indices = np.asarray(found["neighbour_layer"], np.int64) * d_ffn + np.asarray(found["neighbour_neuron"], np.int64)
    return indices.reshape(n, -1), np.asarray(found["cosine"]).reshape(n, -1)


def bigrams(con: duckdb.DuckDBPyConnection, corpus_id: int) -> Bigrams:
    """Count the bigrams of a corpus that is loaded, as the view `bigram` does. BOS, which is in no text, has no followers."""
    sql = """
        SELECT p.token_id, p.next_token_id, count(*) AS n
        FROM position AS p
        INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
        INNER JOIN document AS d ON s.document_id = d.document_id
        INNER JOIN token AS k ON p.token_id = k.token_id
        WHERE d.corpus_id = ? AND p.next_token_id IS NOT NULL AND NOT (p.index = 0 AND p.char_start = p.char_end AND k.is_special)
        GROUP BY p.token_id, p.next_token_id
        ORDER BY p.token_id, p.next_token_id
    """
    return Bigrams(*(np.asarray(column, np.int64) for column in con.execute(sql, [corpus_id]).fetchnumpy().values()))


def token_counts(con: duckdb.DuckDBPyConnection, n: int) -> np.ndarray:
    """Count the occurrences of each of the first n tokens in all loaded corpora together: [n] int64. BOS, which is in no text, is not counted."""
    sql = """
        SELECT p.token_id, count(*) AS n
        FROM position AS p
        INNER JOIN token AS k ON p.token_id = k.token_id
        WHERE p.token_id < ? AND NOT (p.index = 0 AND p.char_start = p.char_end AND k.is_special)
        GROUP BY p.token_id
    """
    found, counts = con.execute(sql, [n]).fetchnumpy(), np.zeros(n, np.int64)
    counts[np.asarray(found["token_id"], np.int64)] = found["n"]
    return counts


def source_counts(con: duckdb.DuckDBPyConnection, layer: int) -> np.ndarray:
    """Read how often the text had each token when the run of a layer's skip-trigrams began: [n_tokens] int64, empty if none are loaded."""
    sql = """
        SELECT c.n_source
        FROM circuit_source AS c
        WHERE c.layer = ? AND c.circuit = 'qk' AND c.head = (SELECT min(o.head) FROM circuit_source AS o WHERE o.layer = c.layer)
        ORDER BY c.source_token_id
    """
    return np.asarray(con.execute(sql, [layer]).fetchnumpy()["n_source"], np.int64)


def finished_runs(con: duckdb.DuckDBPyConnection, kind: str) -> list[int]:
    """List the run_id of every finished run of a kind, ascending."""
    return [n for (n,) in con.execute("SELECT r.run_id FROM run AS r WHERE r.kind = ? AND r.status = 'finished' ORDER BY r.run_id", [kind]).fetchall()]


def distance_weights(con: duckdb.DuckDBPyConnection, run_ids: list[int], layer: int) -> list[tuple[int, np.ndarray]]:
    """Read, for each corpus of these runs, its context and the weight of each head of a layer in each bin of distances, [n_heads, bins] float64."""
    sql = """
        SELECT c.corpus_id, (c.source ->> 'context')::INTEGER
        FROM corpus AS c
        WHERE c.corpus_id IN (SELECT r.corpus_id FROM run AS r WHERE r.run_id IN (SELECT unnest(?::INTEGER[])))
        ORDER BY c.corpus_id
    """
    found = []
    for corpus_id, context in con.execute(sql, [run_ids]).fetchall():
        rows = f"SELECT list(m.weight ORDER BY m.bin) FROM ({layer_merge_sql('attention_distance', 'attention_distance')}) AS m GROUP BY m.head ORDER BY m.head"
        found.append((context, np.array([weights for (weights,) in con.execute(rows, [corpus_id, layer]).fetchall()])))
    return found
