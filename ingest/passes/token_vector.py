"""The rows of the embedding matrices as word vectors, and which lie near each other: shards of some thousand tokens of a space."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ingest.passes.base import Basis, Plan, PlannedPass, Probe, flag

if TYPE_CHECKING:
    import numpy as np

    from ingest.model.models import Model
    from ingest.request import Request
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker

SHARD_TOKENS = 8192


class TokenVector(PlannedPass):
    name = "token_vector"
    after = ("weights",)
    is_repeatable = False
    options = (flag("token-vectors", "Keep each token's embedding as a word vector, with the tokens near it: nearest words and analogies."),)

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["token_vectors"])

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.workers.pool import job

        ids, _ = text_tokens(basis)
        parts = [(space, first) for space in spaces(basis.model) for first in range(0, n_rows(basis.model, space, ids), SHARD_TOKENS)]

        def jobs(run_id: int, shards: list[int]) -> "Iterable[Job]":
            return (job(run_id, i, compute, run_id=run_id, space=parts[i][0], first=parts[i][1], token_ids=ids) for i in shards)

        amounts = [min(SHARD_TOKENS, n_rows(basis.model, space, ids) - first) for space, first in parts]
        yield Plan(basis.request.weights_settings(), amounts, "tokens", jobs)

    def rows(self, probe: Probe) -> dict[str, int]:
        """At most: control tokens have no vector."""
        from ingest.recorders.token_vectors import N_NEIGHBOURS

        n = sum(size(probe.model, space) for space in spaces(probe.model))
        return {"token_space": len(spaces(probe.model)), "token_vector": n, "token_neighbour": n * N_NEIGHBOURS}

    def seconds(self, probe: Probe) -> float:
        import numpy as np

        from ingest.recorders.token_vectors import CHUNK, space_of, vector_tables
        from ingest.timing import fastest

        space = space_of(probe.model, "input", np.arange(probe.model.n_embeddings))
        each = fastest(lambda: vector_tables(space, slice(0, CHUNK))) / min(CHUNK, probe.model.n_embeddings)
        return each * sum(size(probe.model, name) for name in spaces(probe.model))

    def n_bytes(self, probe: Probe) -> int:
        """The vectors, and each of them less the mean; the cosines of a chunk."""
        from ingest.recorders.token_vectors import CHUNK

        largest = max(size(probe.model, space) for space in spaces(probe.model))
        return largest * (3 * probe.model.d_model + 2 * CHUNK) * 4


def text_tokens(basis: Basis) -> "tuple[np.ndarray, list[str]]":
    """Tokens that are text, [n] int64 ascending, and the text of each."""
    import numpy as np

    rows = basis.con.execute("SELECT k.token_id, k.text FROM token AS k WHERE NOT k.is_special ORDER BY k.token_id").fetchall()
    return np.array([token_id for token_id, _ in rows], np.int64), [text for _, text in rows]


def spaces(model: "Model") -> tuple[str, ...]:
    return ("input",) if model.is_tied else ("input", "output")


def size(model: "Model", space: str) -> int:
    """Rows of the matrix."""
    return model.n_embeddings if space == "input" else model.d_vocab


def n_rows(model: "Model", space: str, token_ids: "np.ndarray") -> int:
    """How many of the tokens, ascending, have a row."""
    import numpy as np

    return int(np.searchsorted(token_ids, size(model, space)))


def compute(worker: "Worker", progress: "Progress", *, run_id: int, space: str, first: int, token_ids: "np.ndarray") -> "Tables":
    from ingest.recorders.token_vectors import Space, space_of, space_row, vector_tables

    kept: dict[str, Space] = worker.kept(run_id, dict)
    if space not in kept:
        kept.clear()  # the matrices of one space at a time
        kept[space] = space_of(worker.model, space, token_ids)
    found = kept[space]
    tables = vector_tables(found, slice(first, first + SHARD_TOKENS))
    progress(len(tables["token_vector"]))
    return tables | ({"token_space": space_row(found)} if first == 0 else {})


PASS = TokenVector()
