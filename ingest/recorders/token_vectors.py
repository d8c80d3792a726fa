"""The rows of the embedding matrices as word vectors: each token's vector, and the tokens near it by centred cosine.

Source: Mikolov et al. 2013, word vectors by cosine; Mu and Viswanath 2018: vectors share a mean, which is subtracted first.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from ingest.model.embedding import token_rows
from ingest.model.models import Model
from ingest.model.ranking import top_k
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.timing import fastest_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker

N_NEIGHBOURS = 20
CHUNK = 256
"""Number of tokens whose cosines to all others are in memory at once."""


@dataclass(frozen=True, eq=False)
class Space:
    """Word vectors of one embedding matrix.

    token_ids: the tokens that have a vector, ascending, [n]. vectors: [n, d_model] float32. mean: of the vectors, [d_model].
    unit: each vector less the mean, normalised to length 1, [n, d_model].
    """

    name: str
    token_ids: np.ndarray
    vectors: Tensor
    mean: Tensor
    unit: Tensor


def space_of(model: Model, name: str, token_ids: np.ndarray) -> Space:
    """Build the space called `name`, one of terms.TOKEN_SPACES.

    token_ids: the tokens that are text, ascending, [n]; those without a row in the embedding matrix are left out.
    """
    n_rows = model.n_embeddings if name == "input" else model.d_vocab
    ids = token_ids[token_ids < n_rows]
    index = torch.from_numpy(ids.astype(np.int64))
    vectors = token_rows(model, index) if name == "input" else model.head.weight[index.to(model.head.weight.device)].float()
    mean = vectors.double().mean(0).float()
    return Space(name, ids, vectors, mean, normalize(vectors - mean, dim=1))


def vector_tables(space: Space, part: slice) -> dict[str, pa.Table]:
    """Compute the rows of `token_vector` and `token_neighbour` for some of the tokens."""
    cosines, rows = find_neighbours(space, part)
    raw = cosine_similarity(space.vectors[part][:, None], space.vectors[rows], dim=-1)
    ids = space.token_ids[part]
    n, k = rows.shape
    named = pa.array([space.name])
    return {
        "token_vector": pa.table(
            {
                "space": named.take(pa.array(np.zeros(n, np.int8))),
                "token_id": ids.astype(np.int32),
                "vector": pa.FixedSizeListArray.from_arrays(pa.array(space.vectors[part].cpu().numpy().ravel()), space.vectors.shape[1]),
            }
        ),
        "token_neighbour": pa.table(
            {
                "space": named.take(pa.array(np.zeros(n * k, np.int8))),
                "token_id": np.repeat(ids.astype(np.int32), k),
                "rank": np.tile(np.arange(1, k + 1, dtype=np.int16), n),
                "neighbour_token_id": space.token_ids[rows.cpu().numpy()].astype(np.int32).ravel(),
                "cosine": cosines.cpu().numpy().ravel(),
                "raw_cosine": raw.cpu().numpy().ravel(),
            }
        ),
    }


def find_neighbours(space: Space, part: slice) -> tuple[Tensor, Tensor]:
    """Find, for each token of a part, the N_NEIGHBOURS other tokens with the largest centred cosine.

    Returns cosines and rows of the space, [n of the part, k] each.
    """
    first, k = part.start, min(N_NEIGHBOURS, len(space.token_ids) - 1)
    found = []
    for start in range(first, min(part.stop, len(space.token_ids)), CHUNK):
        of = torch.arange(start, min(start + CHUNK, part.stop, len(space.token_ids)), device=space.unit.device)
        cosines = space.unit[of] @ space.unit.T
        cosines[torch.arange(len(of), device=of.device), of] = -torch.inf
        found.append(top_k(cosines, k))
    values, rows = (torch.cat(each) for each in zip(*found, strict=True))
    return values.clamp(-1, 1), rows


def space_row(space: Space) -> pa.Table:
    """Build the row of `token_space`."""
    mean = pa.FixedSizeListArray.from_arrays(pa.array(space.mean.cpu().numpy()), len(space.mean))
    return pa.table({"space": [space.name], "n_tokens": np.array([len(space.token_ids)], np.int32), "mean": mean})


SHARD_TOKENS = 8192


class TokenVector(Work):
    """Plans and costs of the pass `token_vector`."""

    def plans(self, basis: Basis) -> Iterable[Plan]:
        ids, _ = text_tokens(basis)
        parts = [(space, first) for space in spaces(basis.model) for first in range(0, n_rows(basis.model, space, ids), SHARD_TOKENS)]

        def jobs(run_id: int, shards: list[int]) -> Iterable[Job]:
            return (job(run_id, i, compute, run_id=run_id, space=parts[i][0], first=parts[i][1], token_ids=ids) for i in shards)

        amounts = [min(SHARD_TOKENS, n_rows(basis.model, space, ids) - first) for space, first in parts]
        yield Plan(basis.request.weights_settings(), amounts, "tokens", jobs)

    def rows(self, sample: CostSample) -> dict[str, int]:
        """Return an upper bound on the rows: control tokens have no vector."""
        n = sum(size(sample.model, space) for space in spaces(sample.model))
        return {"token_space": len(spaces(sample.model)), "token_vector": n, "token_neighbour": n * N_NEIGHBOURS}

    def seconds(self, sample: CostSample) -> float:
        space = space_of(sample.model, "input", np.arange(sample.model.n_embeddings))
        each = fastest_seconds(lambda: vector_tables(space, slice(0, CHUNK))) / min(CHUNK, sample.model.n_embeddings)
        return each * sum(size(sample.model, name) for name in spaces(sample.model))

    def n_bytes(self, sample: CostSample) -> int:
        """Count the bytes of the vectors, of the vectors less their mean, and of the cosines of a chunk."""
        largest = max(size(sample.model, space) for space in spaces(sample.model))
        return largest * (3 * sample.model.d_model + 2 * CHUNK) * 4


def text_tokens(basis: Basis) -> tuple[np.ndarray, list[str]]:
    """Read the tokens that are text, [n] int64 ascending, and the text of each."""
    rows = basis.con.execute("SELECT k.token_id, k.text FROM token AS k WHERE NOT k.is_special ORDER BY k.token_id").fetchall()
    return np.array([token_id for token_id, _ in rows], np.int64), [text for _, text in rows]


def spaces(model: Model) -> tuple[str, ...]:
    return ("input",) if model.is_tied else ("input", "output")


def size(model: Model, space: str) -> int:
    """Return the number of rows of the space's embedding matrix."""
    return model.n_embeddings if space == "input" else model.d_vocab


def n_rows(model: Model, space: str, token_ids: np.ndarray) -> int:
    """Count the tokens that have a row in the space's embedding matrix. token_ids: ascending."""
    return int(np.searchsorted(token_ids, size(model, space)))


def compute(worker: Worker, progress: Progress, *, run_id: int, space: str, first: int, token_ids: np.ndarray) -> Tables:
    kept: dict[str, Space] = worker.shared_state(run_id, dict)
    if space not in kept:
        kept.clear()  # the matrices of one space at a time
        kept[space] = space_of(worker.model, space, token_ids)
    found = kept[space]
    tables = vector_tables(found, slice(first, first + SHARD_TOKENS))
    progress(len(tables["token_vector"]))
    return tables | ({"token_space": space_row(found)} if first == 0 else {})
