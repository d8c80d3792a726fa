"""Next-token predictions by the direct path: each token's own vector, read by the output head as if the model had no blocks.

The logits are D = Û·X̂ᵀ plus the constants from the biases of the final norm and the head. X̂: the tokens' own vectors, each over its scale in the
final norm. Û: the output embedding with the norm's gain folded in. Learned positions take no part.
Source: Elhage et al. 2021, zero-layer transformers: bigram statistics.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.embedding import token_rows
from ingest.model.models import Model
from ingest.model.ranking import rank_of, top_k
from ingest.model.token_states import n_tokens
from ingest.recorders.loaded_rows import Bigrams, bigrams
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.recorders.removal import known_k
from ingest.timing import fastest_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker

N_FOLLOWERS = 10
CHUNK = 256
"""Tokens whose logits over the vocabulary are in memory at once."""


def direct_logits(model: Model, token_ids: Tensor) -> Tensor:
    """Compute the logits that the output head gives each token's own vector: [n] to [n, d_vocab]."""
    return model.lens(token_rows(model, token_ids))


def blocks(model: Model, token_ids: np.ndarray) -> Iterator[tuple[slice, Tensor]]:
    """Yield slices that together cover the tokens [n], each with the logits of its tokens, [length of the slice, d_vocab]."""
    for start in range(0, len(token_ids), CHUNK):
        part = slice(start, start + CHUNK)
        yield part, direct_logits(model, torch.from_numpy(token_ids[part].astype(np.int64)))


def follower_rows(model: Model, token_ids: np.ndarray) -> pa.Table:
    """Compute the rows of `direct_path_token` for the tokens [n]."""
    found = []
    for _, logits in blocks(model, token_ids):
        values, ids = top_k(logits, N_FOLLOWERS)
        found.append((values, ids, (values - logits.logsumexp(1, keepdim=True)).exp()))
    columns = dict(zip(("logit", "next_token_id", "prob"), (torch.cat(part).cpu().numpy() for part in zip(*found, strict=True)), strict=True))
    n, k = columns["logit"].shape
    return pa.table(
        {
            "token_id": np.repeat(token_ids.astype(np.int32), k),
            "rank": np.tile(np.arange(1, k + 1, dtype=np.int16), n),
            "next_token_id": columns["next_token_id"].astype(np.int32).ravel(),
            "logit": columns["logit"].ravel(),
            "prob": columns["prob"].ravel(),
        }
    )


def corpus_rows(model: Model, corpus_id: int, bigrams: Bigrams, unigrams: np.ndarray) -> pa.Table:
    """Compute the rows of `direct_path`. unigrams: how often each token of the vocabulary follows another in the corpus, [d_vocab]."""
    tokens, place, counts = np.unique(bigrams.token_ids, return_inverse=True, return_counts=True)
    totals = np.bincount(place, bigrams.counts).astype(np.int64)
    # of each token the commonest follower, the lowest id where several are
    first = np.lexsort((bigrams.follower_ids, -bigrams.counts, place))[np.cumsum(counts) - counts]
    followers = bigrams.follower_ids[first]
    direct, ranks = np.empty(len(place)), np.empty(len(tokens), np.int64)
    for part, logits in blocks(model, tokens):
        rows = np.flatnonzero((place >= part.start) & (place < part.stop))
        total = logits.double().logsumexp(1)
        at = torch.from_numpy(place[rows] - part.start).to(logits.device)
        direct[rows] = (logits[at, torch.from_numpy(bigrams.follower_ids[rows]).to(logits.device)].double() - total[at]).cpu().numpy()
        ranks[part] = rank_of(logits, torch.from_numpy(followers[part]).to(logits.device)).cpu().numpy()
    shares = bigrams.counts / totals[place]
    chance = np.log(unigrams[bigrams.follower_ids] / unigrams.sum())
    return pa.table(
        {
            "corpus_id": np.full(len(tokens), corpus_id, np.int32),
            "token_id": tokens.astype(np.int32),
            "n": totals,
            "follower_id": followers.astype(np.int32),
            "follower_n": bigrams.counts[first].astype(np.int64),
            "follower_rank": ranks.astype(np.int32),
            "follower_log_prob": direct[first].astype(np.float32),
            "kl_direct": np.bincount(place, shares * (np.log(shares) - direct)).astype(np.float32),
            "kl_unigram": np.bincount(place, shares * (np.log(shares) - chance)).astype(np.float32),
        }
    )


SHARD_TOKENS = 8192
"""Tokens in a shard."""


class DirectPath(Work):
    """Plans and costs of the pass `direct_path`."""

    def note(self, basis: Basis) -> str | None:
        if basis.text is None:
            return None
        if not known_k(basis):
            return "note: no direct_path of this corpus: it has no finished sweep; ingest again with a sweep (--triggers)"
        has_bigrams = len(bigrams(basis.con, basis.text.corpus_id).counts)
        return None if has_bigrams else "note: no direct_path of this corpus: it has no token that is followed by another"

    def plans(self, basis: Basis) -> Iterable[Plan]:
        settings, parts = basis.request.weights_settings(), split_tokens(np.arange(n_tokens(basis.model)))

        def of_model(run_id: int, shards: list[int]) -> Iterable[Job]:
            return (job(run_id, i, compute_followers, token_ids=parts[i]) for i in shards)

        yield Plan(settings, [len(part) for part in parts], "tokens", of_model)
        if not known_k(basis) or basis.text is None:
            return
        corpus_id = basis.text.corpus_id
        found = bigrams(basis.con, corpus_id)
        seen, unigrams = split_tokens(np.unique(found.token_ids)), np.bincount(found.follower_ids, found.counts, basis.model.d_vocab)

        def of_corpus(run_id: int, shards: list[int]) -> Iterable[Job]:
            return (job(run_id, i, compute_corpus, corpus_id=corpus_id, bigrams=found.select_tokens(seen[i]), unigrams=unigrams) for i in shards)

        if seen:
            yield Plan(settings, [len(part) for part in seen], "tokens", of_corpus, corpus_id)

    def rows(self, sample: CostSample) -> dict[str, int]:
        """Return an upper bound on the rows: few texts contain every token."""
        n = n_tokens(sample.model)
        return {"direct_path_token": n * min(N_FOLLOWERS, sample.model.d_vocab), "direct_path": min(n, sample.seen.n_positions) if sample.seen else 0}

    def seconds(self, sample: CostSample) -> float:
        rows = self.rows(sample)
        few = np.arange(min(CHUNK, rows["direct_path_token"] // N_FOLLOWERS))
        each = fastest_seconds(lambda: follower_rows(sample.model, few)) / len(few)
        return each * (rows["direct_path_token"] // N_FOLLOWERS + rows["direct_path"])


def split_tokens(token_ids: np.ndarray) -> list[np.ndarray]:
    return [token_ids[i : i + SHARD_TOKENS] for i in range(0, len(token_ids), SHARD_TOKENS)]


def compute_followers(worker: Worker, progress: Progress, *, token_ids: np.ndarray) -> Tables:
    rows = follower_rows(worker.model, token_ids)
    progress(len(token_ids))
    return {"direct_path_token": rows}


def compute_corpus(worker: Worker, progress: Progress, *, corpus_id: int, bigrams: Bigrams, unigrams: np.ndarray) -> Tables:
    rows = corpus_rows(worker.model, corpus_id, bigrams, unigrams)
    progress(len(rows))
    return {"direct_path": rows}
