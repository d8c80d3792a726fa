"""Triggers read again without one token of their prefix (Geva et al. 2021, figure 3)."""

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import torch

from ingest.model.device import in_parts
from ingest.model.hooks import read_layer
from ingest.model.models import Model
from ingest.recorders.loaded_rows import Tokens, Trigger, read_prefixes, top_triggers
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.recorders.reading import batches
from ingest.text.survey import Survey, hashes, select_by_hash
from ingest.timing import fastest_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker, report_shares
from schema.terms import REMOVALS

PAD = 0


def removal_rows(
    model: Model, layer: int, corpus_id: int, triggers: list[Trigger], seed: int, batch_tokens: int, progress: Callable[[float], None]
) -> pa.Table:
    """Compute the rows of `removal` for triggers of one layer. Triggers with a prefix of one token, BOS not counted, have none.

    batch_tokens: most tokens of a forward pass, padding included; progress: called with shares of the whole.
    """
    kept = [t for t in triggers if len(t.token_ids) - t.has_bos >= 2]
    places = random_places(kept, seed)
    edited = [(t, word, remove_token(t, word, place)) for t, place in zip(kept, places, strict=True) for word in REMOVALS]
    neurons = sorted({t.neuron for t in kept})
    column = {neuron: i for i, neuron in enumerate(neurons)}
    read = read_ends(model, layer, {tokens for _, _, tokens in edited}, neurons, batch_tokens, progress)
    n = len(edited)
    return pa.table(
        {
            "corpus_id": np.full(n, corpus_id, np.int32),
            "layer": np.full(n, layer, np.int16),
            "neuron": np.array([t.neuron for t, _, _ in edited], np.int32),
            "rank": np.array([t.rank for t, _, _ in edited], np.int16),
            "removed": pa.array([word for _, word, _ in edited], pa.string()),
            "coefficient": np.array([read[tokens][column[t.neuron]] for t, _, tokens in edited], np.float32),
        }
    )


def random_places(triggers: list[Trigger], seed: int) -> np.ndarray:
    """Draw the index, from 0, of the token to remove from each prefix, BOS not counted: uniform, by hash of (seed, position).

    The same prefix loses the same token in every layer and for every key, so that layers are compared on the same texts.
    """
    lengths = np.array([len(t.token_ids) - t.has_bos for t in triggers], np.uint64)
    return (hashes(seed, 0, np.array([t.position_id for t in triggers], np.int64)) % lengths).astype(np.int64)


def remove_token(trigger: Trigger, removed: str, place: int) -> Tokens:
    """Remove the first or the last token of the prefix, or the one at `place`; BOS stays, and does not count."""
    index = {"first": 0, "last": len(trigger.token_ids) - trigger.has_bos - 1, "random": int(place)}[removed] + trigger.has_bos
    return trigger.token_ids[:index] + trigger.token_ids[index + 1 :]


def read_ends(
    model: Model, layer: int, texts: set[Tokens], neurons: list[int], batch_tokens: int, progress: Callable[[float], None]
) -> dict[Tokens, np.ndarray]:
    """Compute the coefficients of some neurons at the last token of each text: text → [n_neurons] float32.

    Attention is causal, so a text that is the beginning of another text is read as part of that text: of all triggers in
    one sequence, only the longest prefix costs a forward pass.
    """
    found: dict[Tokens, np.ndarray] = {}
    hosted = hosts(texts)
    total, chosen = sum(len(host) for host in hosted), torch.tensor(neurons, dtype=torch.int64)

    def read_part(part: tuple[Tokens, ...]) -> dict[Tokens, np.ndarray]:
        ids = torch.full((len(part), max(map(len, part))), PAD)
        for row, host in enumerate(part):
            ids[row, : len(host)] = torch.tensor(host)
        coefficients = read_layer(model, layer, ids)
        ends = coefficients[..., chosen.to(coefficients.device)].float().cpu().numpy()
        progress(sum(map(len, part)) / total)
        return {text: ends[row, len(text) - 1] for row, host in enumerate(part) for text in hosted[host]}

    for batch in batches(sorted(hosted), batch_tokens, len):
        for ends in in_parts(model, batch, len, read_part):
            found |= ends
    return found


def hosts(texts: set[Tokens]) -> dict[Tokens, list[Tokens]]:
    """Map each text that is not the beginning of a longer text to all texts that it begins with, itself included."""
    found: dict[Tokens, list[Tokens]] = {}
    host: Tokens = ()
    # whatever a text begins stands right behind it in this order
    for text in sorted(texts, reverse=True):
        if host[: len(text)] != text:
            host = text
            found[host] = []
        found[host].append(text)
    return found


N_TRIGGERS = 50


class Removal(Work):
    """Plans and costs of the pass `removal`."""

    def note(self, basis: Basis) -> str | None:
        return None if known_k(basis) else "note: no removal: this corpus has no finished sweep; ingest again with a sweep (--triggers)"

    def plans(self, basis: Basis) -> Iterable[Plan]:
        k, request = known_k(basis), basis.request
        if not k or basis.text is None:
            return
        corpus_id = basis.text.corpus_id
        settings = {
            **request.weights_settings(),
            "seed": request.seed,
            "batch_size": request.batch_size,
            "keys_per_layer": request.options["paper_keys"],
            "triggers_per_key": min(N_TRIGGERS, k),
        }
        # the forward pass of a layer's shard ends there
        amounts = range(1, basis.model.n_layers + 1)
        of = {"corpus_id": corpus_id, "seed": request.seed, "batch_tokens": request.batch_tokens}

        def jobs(run_id: int, layers: list[int]) -> Iterable[Job]:
            return (job(run_id, i, compute, layer=i, triggers=triggers_of(basis, settings, corpus_id, i), cost=amounts[i], **of) for i in layers)

        yield Plan(settings, amounts, "layers", jobs, corpus_id)

    def rows(self, sample: CostSample) -> dict[str, int]:
        """Return an upper bound on the rows: triggers with a prefix of one token have none."""
        if sample.seen is None:
            return {}
        return {"removal": sample.model.n_layers * n_reread(sample, sample.seen) * len(REMOVALS)}

    def seconds(self, sample: CostSample) -> float:
        if sample.seen is None:
            return 0.0
        texts, last = {tuple(s.token_ids.tolist()) for s in sample.batch}, sample.model.n_layers - 1
        batch_tokens = sample.request.batch_tokens
        forward = fastest_seconds(lambda: read_ends(sample.model, last, texts, [0], batch_tokens, lambda _: None)) / sum(map(len, texts))
        return forward * reread_tokens(n_reread(sample, sample.seen), sample.seen) * (sample.model.n_layers + 1) / 2


def compute(worker: Worker, progress: Progress, *, cost: float, layer: int, corpus_id: int, triggers: list[Trigger], seed: int, batch_tokens: int) -> Tables:
    rows = report_shares(lambda share: removal_rows(worker.model, layer, corpus_id, triggers, seed, batch_tokens, share), progress, cost)
    return {"removal": rows} if len(rows) else {}


def known_k(basis: Basis) -> int:
    """Read how many triggers of each key a finished sweep of the text has stored; 0 without such a sweep."""
    if basis.text is None:
        return 0
    sql = "SELECT (settings ->> 'triggers')::INTEGER FROM run WHERE kind = 'sweep' AND corpus_id = ? AND status = 'finished'"
    return next((k for (k,) in basis.con.execute(sql, [basis.text.corpus_id]).fetchall()), 0)


def triggers_of(basis: Basis, settings: dict, corpus_id: int, layer: int) -> list[Trigger]:
    """Select the triggers of a layer to read again: the top triggers of keys that the seed draws and that have no removals in the atlas."""
    sampled = select_by_hash(settings["seed"], layer, np.arange(basis.model.d_ffn), settings["keys_per_layer"])
    known = {n for (n,) in basis.con.execute("SELECT DISTINCT neuron FROM removal WHERE corpus_id = ? AND layer = ?", [corpus_id, layer]).fetchall()}
    found = top_triggers(basis.con, corpus_id, layer, settings["triggers_per_key"])
    wanted = np.isin(found["neuron"], [n for n in sampled if n not in known])
    return read_prefixes(basis.con, {name: column[wanted] for name, column in found.items()})


def n_reread(sample: CostSample, seen: Survey) -> int:
    """Return an upper bound on the triggers of a layer to read again: those with a prefix of one token, BOS not counted, are left out later."""
    options = sample.request.options
    return min(options["paper_keys"], sample.model.d_ffn) * min(N_TRIGGERS, options["triggers"], seen.n_positions)


def reread_tokens(n: int, seen: Survey) -> float:
    """Estimate the tokens of a layer's forward passes for n triggers, which are on average half-way through their sequences.

    Prefixes of one sequence share forward passes if their first or their last token is removed, and share none if a random token is removed.
    """
    of_each = n * seen.n_positions / seen.n_sequences / 2
    return of_each + 2 * min(of_each, seen.n_positions)
