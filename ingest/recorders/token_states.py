"""Mean state of each frequent token, and anisotropy and other measures of the states in each layer.

Source: Ethayarajh 2019, "How Contextual are Contextualized Word Representations?": anisotropy and self-similarity.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ingest.model.hooks import LayerRecord
from ingest.model.models import Model
from ingest.recorders.base import Batch
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.recorders.reading import batches, read_batch
from ingest.text.sampling import drawn_sequences
from ingest.text.sequences import Sequence as TokenSequence
from ingest.text.survey import hashes
from ingest.timing import fastest_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker

COUNTS = {"n_states": pa.int32(), "n_pairs": pa.int64(), "n_tokens": pa.int32()}
MEASURES = ("mean_cosine", "mean_norm", "top_dimension_share", "first_component_share", "self_similarity")
LAYER_GEOMETRY = pa.schema({"corpus_id": pa.int32(), "layer": pa.int16(), "site": pa.string(), **COUNTS, **dict.fromkeys(MEASURES, pa.float64())})


def geometry_rows(corpus_id: int, states: np.ndarray, token_of: np.ndarray, units: np.ndarray, counts: np.ndarray) -> pa.Table:
    """Build the rows of `layer_geometry`: one for the first layer's resid_pre, then one for each layer's resid_post.

    states: [places, n, d_model]. token_of: the token of each state, [n]. units: the sum of each frequent token's states, each normalised to length 1,
    [places, tokens, d_model]. counts: the number of states in each sum, [tokens].
    """
    places = [(0, "resid_pre"), *((layer, "resid_post") for layer in range(len(states) - 1))]
    rows = [{"corpus_id": corpus_id, "layer": layer, "site": site, **geometry(states[i], token_of, units[i], counts)} for i, (layer, site) in enumerate(places)]
    return pa.Table.from_pylist(rows, LAYER_GEOMETRY)


def geometry(states: np.ndarray, token_of: np.ndarray, units: np.ndarray, counts: np.ndarray) -> dict[str, object]:
    """Compute the measures of one place. states: [n, d_model]; token_of: [n]; units: [tokens, d_model]; counts: [tokens]; as in `geometry_rows`."""
    unit = states / np.linalg.norm(states, axis=1, keepdims=True).clip(1e-30)
    is_pair = np.triu(token_of[:, None] != token_of[None, :], 1)
    n_pairs = int(is_pair.sum())
    squares, spread = (states**2).sum(0), states - states.mean(0)
    variance = float((spread**2).sum())
    first = float(np.linalg.norm(spread, 2)) ** 2
    # of n states of length 1 the pairs' cosines sum to half of ‖sum‖² - n
    alike = ((units**2).sum(1) - counts) / (counts * (counts - 1)) if len(counts) else np.zeros(0)
    return {
        "n_states": len(states),
        "n_pairs": n_pairs,
        "mean_cosine": float((unit @ unit.T)[is_pair].mean()) if n_pairs else None,
        "mean_norm": float(np.linalg.norm(states, axis=1).mean()),
        "top_dimension_share": float(squares.max() / squares.sum()),
        "first_component_share": first / variance if variance else 0.0,
        "n_tokens": len(counts),
        "self_similarity": float(alike.mean()) if len(alike) else None,
    }


LEAST = 20
"""Fewest occurrences of a token whose mean state is computed."""
MOST_TOKENS = 1000
N_STATES = 1000
"""Positions whose states are recorded in every layer, to compare them in pairs."""
N_LAYERS = 4
"""Most layers whose mean states are stored, spread evenly from the first to the last."""


@dataclass(frozen=True, eq=False)
class StateSelection:
    """Tokens and positions whose states are recorded. Positions at index 0 are left out of both.

    token_ids: the frequent tokens, ascending, [n]. position_ids: the sampled positions, ascending, [m].
    """

    token_ids: np.ndarray
    position_ids: np.ndarray


class StateRecorder:
    """Recorder of sums of states by token, and of the states at some positions. Places are the first layer's resid_pre, then resid_post of each layer."""

    sites = frozenset({"resid_pre", "resid_post"})

    def __init__(self, model: Model, chosen: StateSelection) -> None:
        n_tokens, n_held = len(chosen.token_ids), len(chosen.position_ids)
        self.chosen = chosen
        self.sums = {layer: torch.zeros(n_tokens, model.d_model, dtype=torch.float64) for layer in kept_layers(model.n_layers)}
        self.units = torch.zeros(model.n_layers + 1, n_tokens, model.d_model)
        self.counts = np.zeros((model.n_layers, n_tokens), np.int64)
        self.states = torch.zeros(model.n_layers + 1, n_held, model.d_model)
        self.token_of = np.zeros(n_held, np.int64)
        self.n_added: dict[int, int] = {}
        self.sequence_ids: tuple[int, ...] = ()
        self.n_before = 0
        self.rows, self.tokens, self.held, self.places = (np.zeros(0, np.int64) for _ in range(4))

    def begin(self, batch: Batch) -> None:
        """Find the rows of frequent tokens, with the index of each row's token, and the rows of sampled positions, with the index of each position."""
        self.sequence_ids = tuple(s.sequence_id for s in batch.sequences)
        # of a batch that ran out of memory its parts leave out the layers that the whole had come to
        self.n_before = self.n_added.get(self.sequence_ids[0], 0)
        ids = tokens_of(batch)
        self.rows, self.tokens = find_wanted(self.chosen.token_ids, np.where(batch.indices > 0, ids, -1))
        self.held, self.places = find_wanted(self.chosen.position_ids, batch.position_ids)
        self.token_of[self.places] = ids[self.held]

    def take(self, layer: int, record: LayerRecord) -> None:
        if layer < self.n_before:
            return
        if layer == 0:
            self.add(0, record["resid_pre"])
        self.add(layer + 1, record["resid_post"])
        if layer in self.sums:
            self.sums[layer].index_add_(0, torch.from_numpy(self.tokens), take_rows(record["resid_post"], self.rows).double())
        np.add.at(self.counts[layer], self.tokens, 1)
        self.n_added.update((i, layer + 1) for i in self.sequence_ids)

    def add(self, place: int, states: Tensor) -> None:
        """Add the frequent tokens' states, normalised to length 1, to their sums, and store the states at the sampled positions."""
        self.units[place].index_add_(0, torch.from_numpy(self.tokens), normalize(take_rows(states, self.rows), dim=1))
        self.states[place, torch.from_numpy(self.places)] = take_rows(states, self.held)


def take_rows(states: Tensor, rows: np.ndarray) -> Tensor:
    """Select some rows of the states, as float32 on the CPU."""
    return states[torch.from_numpy(rows).to(states.device)].float().cpu()


def tokens_of(batch: Batch) -> np.ndarray:
    """Find the token of each row, [rows]; -1 for padding."""
    sequences = sorted(batch.sequences, key=lambda s: s.first_position_id)
    starts, flat = np.array([s.first_position_id for s in sequences]), np.concatenate([s.token_ids for s in sequences]).astype(np.int64)
    before = np.cumsum([0, *(len(s.token_ids) for s in sequences)])
    of = np.searchsorted(starts, batch.position_ids, side="right") - 1
    return np.where(batch.position_ids >= 0, flat[(before[of] + batch.position_ids - starts[of]).clip(0, len(flat) - 1)], -1)


def find_wanted(wanted: np.ndarray, given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the rows of `given` that are in `wanted`, and the place of each in `wanted`. wanted: ascending, not negative."""
    places = np.searchsorted(wanted, given)
    rows = np.flatnonzero(np.append(wanted, -2)[places.clip(max=len(wanted))] == given)
    return rows, places[rows]


def kept_layers(n_layers: int) -> list[int]:
    """Choose at most N_LAYERS layers, spread evenly from the first to the last."""
    return sorted({round(i * (n_layers - 1) / (N_LAYERS - 1)) for i in range(N_LAYERS)})


def select_states(sequences: Sequence[TokenSequence], is_text: np.ndarray, seed: int) -> StateSelection:
    """Choose the most frequent tokens that are text, with ties to the lower id, and draw positions by a hash of the seed. is_text: [d_vocab]."""
    ids = np.concatenate([s.token_ids[1:] for s in sequences]).astype(np.int64)
    positions = np.concatenate([np.arange(s.first_position_id + 1, s.first_position_id + len(s.token_ids)) for s in sequences])
    counts = np.bincount(ids, minlength=len(is_text)) * is_text
    frequent = np.argsort(-counts, kind="stable")[:MOST_TOKENS]
    drawn = positions[is_text[ids]]
    held = drawn[np.argsort(hashes(seed, 0, drawn), kind="stable")[:N_STATES]]
    return StateSelection(np.sort(frequent[counts[frequent] >= LEAST]), np.sort(held))


def state_tables(model: Model, corpus_id: int, sequences: Sequence[TokenSequence], chosen: StateSelection, batch_tokens: int, progress: Progress) -> Tables:
    """Compute the rows of `token_state` and `layer_geometry`."""
    recorder = StateRecorder(model, chosen)
    for batch in batches(sequences, batch_tokens):
        for part in read_batch(model, [(recorder, None)], batch):
            progress(len(part))
    n, layers = len(chosen.token_ids), list(recorder.sums)
    counts = recorder.counts[0] if model.n_layers else np.zeros(n)
    vectors = torch.cat([recorder.sums[layer] / torch.from_numpy(counts)[:, None] for layer in layers]).float().numpy()
    return {
        "token_state": pa.table(
            {
                "corpus_id": np.full(n * len(layers), corpus_id, np.int32),
                "layer": np.repeat(np.array(layers, np.int16), n),
                "token_id": np.tile(chosen.token_ids.astype(np.int32), len(layers)),
                "n_positions": np.tile(counts, len(layers)),
                "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), model.d_model),
            }
        ),
        "layer_geometry": geometry_rows(corpus_id, recorder.states.double().numpy(), recorder.token_of, recorder.units.double().numpy(), counts),
    }


N_POSITIONS = 200_000
"""About the most positions that are read, as whole sequences drawn by the seed."""


class TokenState(Work):
    """Plans and costs of the pass `token_state`."""

    def note(self, basis: Basis) -> str | None:
        is_there = basis.text is None or basis.text.seen.n_positions > basis.text.seen.n_sequences
        return None if is_there else "note: no token_state: every sequence of this corpus is one token, and states at index 0 are left out; give longer texts"

    def plans(self, basis: Basis) -> Iterable[Plan]:
        if basis.text is None or self.note(basis):
            return
        text, request = basis.text, basis.request
        n = n_sequences(text.seen.n_positions, text.seen.n_sequences)
        settings = {**request.weights_settings(), "seed": request.seed, "positions": N_POSITIONS, "batch_size": request.batch_size}

        def jobs(run_id: int, _: list[int]) -> Iterable[Job]:
            sequences = drawn_sequences((s for d in text.documents() for s in d.sequences), request.seed, n)
            given = {"is_text": is_text(basis), "seed": request.seed, "batch_tokens": request.batch_tokens}
            yield job(run_id, 0, compute, corpus_id=text.corpus_id, sequences=sequences, **given)

        yield Plan(settings, [n], "sequences", jobs, text.corpus_id)

    def rows(self, sample: CostSample) -> dict[str, int]:
        """Count the rows; the number for `token_state` is an upper bound, since few texts have as many frequent tokens as it assumes."""
        if sample.seen is None:
            return {"token_state": 0, "layer_geometry": 0}
        n = min(MOST_TOKENS, min(sample.seen.n_positions, N_POSITIONS) // LEAST)
        return {"token_state": n * len(kept_layers(sample.model.n_layers)), "layer_geometry": sample.model.n_layers + 1}

    def seconds(self, sample: CostSample) -> float:
        few = [s for s in sample.batch if len(s.token_ids) > 1]
        if sample.seen is None or not few:
            return 0.0
        chosen = select_states(few, np.ones(sample.model.d_vocab, bool), 0)
        each = fastest_seconds(lambda: state_tables(sample.model, 0, few, chosen, sample.request.batch_tokens, lambda _: None)) / len(few)
        return each * n_sequences(sample.seen.n_positions, sample.seen.n_sequences)

    def n_bytes(self, sample: CostSample) -> int:
        """Count the bytes of the sums by token, and of the states at the sampled positions, in every layer."""
        return ((MOST_TOKENS + N_STATES) * (sample.model.n_layers + 1) * 4 + N_LAYERS * MOST_TOKENS * 8) * sample.model.d_model


def n_sequences(n_positions: int, n_sequences: int) -> int:
    """Compute how many sequences of a text together have about N_POSITIONS positions: at least one, at most all."""
    return max(1, min(n_sequences, n_sequences * N_POSITIONS // max(n_positions, 1)))


def is_text(basis: Basis) -> np.ndarray:
    """Mark the tokens that are text. The result has at least d_vocab rows; rows without a token are not marked."""
    found = np.zeros(max(basis.model.d_vocab, basis.model.n_embeddings), bool)
    ids = basis.con.execute("SELECT k.token_id FROM token AS k WHERE NOT k.is_special").fetchnumpy()["token_id"]
    found[np.asarray(ids, np.int64)] = True
    return found


def compute(worker: Worker, progress: Progress, *, corpus_id: int, sequences: list[TokenSequence], is_text: np.ndarray, seed: int, batch_tokens: int) -> Tables:
    return state_tables(worker.model, corpus_id, sequences, select_states(sequences, is_text, seed), batch_tokens, progress)
