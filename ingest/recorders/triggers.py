"""Every key's triggers and statistics, recorded while all positions are read."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ingest.model.hooks import LayerRecord
from ingest.recorders.base import Batch
from ingest.recorders.ffn_keys import Add, CpuKeys
from ingest.recorders.loaded_rows import known_triggers
from ingest.recorders.plans import Basis, CostSample, Recording, Text, Work
from ingest.recorders.reading import batches, n_tokens, read_batch
from ingest.recorders.rows import statistics_rows, trigger_rows
from ingest.recorders.torch_keys import TorchKeys, new_keys
from ingest.request import Request
from ingest.text.contexts import context_numbers
from ingest.timing import measure_seconds
from ingest.workers.worker import Progress, Tables, Worker
from schema.errors import AtlasError
from schema.terms import FORMER_PASSES


class TriggerRecorder:
    """Recorder of one shard's statistics, and of the shard's triggers that are among the k best of all positions that `keys` has seen.

    keys: reductions that continue from shard to shard, so that a shard has only triggers that beat the k-th best of the shards before.
    skip_first: positions with a lower index are read, but do not count. distinct: if above 0, a key and tail keep only the best of the positions whose last
    `distinct` tokens are equal.
    """

    sites = frozenset({"coefficient"})
    held = ("first_position", "end", "n_added")

    def __init__(self, keys: CpuKeys | TorchKeys, corpus_id: int, skip_first: int = 0, distinct: int = 0) -> None:
        self.keys, self.corpus_id, self.skip_first, self.distinct = keys, corpus_id, skip_first, distinct
        self.first_position, self.end = np.iinfo(np.int64).max, -1
        self.n_added: dict[int, int] = {}
        self.sequence_ids: tuple[int, ...] = ()
        self.n_before = 0
        self.add: Add = no_batch
        keys.reset_statistics()

    def begin(self, batch: Batch) -> None:
        real = batch.position_ids[batch.position_ids >= 0]
        self.first_position, self.end = min(self.first_position, int(real.min())), max(self.end, int(real.max()) + 1)
        self.sequence_ids = tuple(s.sequence_id for s in batch.sequences)
        # of a batch that ran out of memory its parts leave out the layers that the whole had come to
        self.n_before = self.n_added.get(self.sequence_ids[0], 0)
        contexts = batch_contexts(batch, self.distinct) if self.distinct else None
        self.add = self.keys.batch(np.where(batch.indices < self.skip_first, -1, batch.position_ids), batch.indices, contexts)

    def take(self, layer: int, record: LayerRecord) -> None:
        if layer >= self.n_before:
            self.add(layer, record["coefficient"])
            self.n_added.update((i, layer + 1) for i in self.sequence_ids)

    def state(self) -> dict[str, Any]:
        assert isinstance(self.keys, CpuKeys), "reductions on a GPU are not saved before their shard is complete"
        return {**{name: getattr(self, name) for name in self.held}, "keys": {name: getattr(self.keys, name) for name in self.keys.held}}

    def restore(self, state: dict[str, Any]) -> None:
        vars(self.keys).update(state["keys"])
        vars(self).update({name: state[name] for name in self.held})

    def tables(self, _: Progress) -> Tables:
        triggers = trigger_rows(self.keys, self.corpus_id, self.first_position, self.end)
        return {"trigger": triggers, "neuron_statistics": statistics_rows(self.keys, self.corpus_id)}


def batch_contexts(batch: Batch, n: int) -> np.ndarray:
    """Compute the number of the context of n tokens that ends at each row of a batch: [rows], 0 for padding."""
    found = np.zeros((len(batch.sequences), len(batch.position_ids) // len(batch.sequences)), np.int64)
    for row, sequence in zip(found, batch.sequences, strict=True):
        row[: len(sequence.token_ids)] = context_numbers(sequence.token_ids, n)
    return found.ravel()


def no_batch(*_: object) -> None:
    raise RuntimeError("take was called before begin")


def kept_keys(worker: Worker, run_id: int, k: int, is_distinct: bool) -> CpuKeys | TorchKeys:
    """Return the reductions that the shards of a sweep share. The first call makes them."""
    return worker.shared_state(run_id, lambda: new_keys(worker.model, k, is_distinct))


def trigger_recorder(worker: Worker, run_id: int, k: int, corpus_id: int, skip_first: int, distinct: int) -> TriggerRecorder:
    return TriggerRecorder(kept_keys(worker, run_id, k, distinct > 0), corpus_id, skip_first, distinct)


MAX_RANK = 2**15 - 1
"""The largest number that the column trigger.rank can store."""


class Sweep(Work):
    """Plans and costs of the pass `sweep`."""

    def note(self, basis: Basis) -> str | None:
        if basis.text is None:
            return None
        seen, rule = basis.text.seen, counting_rule(basis, basis.text.corpus_id)
        if rule.skip_first >= seen.longest:
            return (
                f"note: no triggers and no statistics: the longest sequence of this corpus has {seen.longest:,} tokens, and the first {rule.skip_first:,} "
                "are left out; to leave out fewer, ingest into a new file with a smaller --skip-first"
            )
        k = kept_triggers(basis.request, seen.n_positions)
        if seen.repeat and not rule.distinct and seen.repeat.n >= k:
            return (
                f"note: {' '.join(seen.repeat.text.split())!r} occurs {seen.repeat.n:,} times in this corpus: it may fill all {k:,} triggers of a key. "
                "To keep only one of the positions with the same last 16 tokens, ingest into a new file with --distinct 16"
            )
        return None

    def recording(self, basis: Basis, text: Text) -> Recording:
        request, k, rule = basis.request, kept_triggers(basis.request, text.seen.n_positions), counting_rule(basis, text.corpus_id)
        is_distinct = rule.distinct > 0

        def resume(run_id: int, worker: Worker) -> None:
            known = known_triggers(basis.con, text.corpus_id, basis.model.n_layers, basis.model.d_ffn, k, is_distinct)
            kept_keys(worker, run_id, k, is_distinct).seed(*known)

        settings = {"triggers": request.options["triggers"], "batch_size": request.batch_size, "shard_positions": request.shard_positions}
        return Recording(
            {**request.weights_settings(), **settings, **rule._asdict()},
            lambda run_id: partial(trigger_recorder, run_id=run_id, k=k, corpus_id=text.corpus_id, **rule._asdict()),
            resume=resume,
        )

    def rows(self, sample: CostSample) -> dict[str, int]:
        neurons = sample.model.n_layers * sample.model.d_ffn
        if sample.seen is None:
            return {}
        return {"neuron_statistics": neurons, "trigger": 2 * neurons * kept_triggers(sample.request, sample.seen.n_positions)}

    def seconds(self, sample: CostSample) -> float:
        """Estimate the time from the last of up to three batches, when the first filling of the top-k is over."""
        if sample.seen is None:
            return 0.0
        recorder, each = TriggerRecorder(new_keys(sample.model, kept_triggers(sample.request, sample.seen.n_positions)), 0), 0.0
        for batch in batches(sample.sequences, sample.request.batch_tokens):
            each = measure_seconds(partial(list, read_batch(sample.model, [(recorder, None)], batch))) / sum(map(n_tokens, batch))
        return each * sample.seen.n_positions


class CountingRule(NamedTuple):
    """The rule for which positions count in trigger lists and statistics, with the fields of TriggerRecorder and of `run.settings`."""

    skip_first: int
    distinct: int


def counting_rule(basis: Basis, corpus_id: int) -> CountingRule:
    """Take each part of the rule from its option if given, else from an earlier sweep of the corpus, else from the default.

    By default the first position of each sequence does not count, unless all passes of --paper are requested, and repeated contexts all count.
    """
    options = basis.request.options
    is_paper = all(options[name] for name in FORMER_PASSES["paper"])
    usual = CountingRule(0 if is_paper else 1, 0)
    parts = ", ".join(f"coalesce((settings ->> '{name}')::INTEGER, 0)" for name in CountingRule._fields)
    sql = f"SELECT {parts} FROM run WHERE kind = 'sweep' AND corpus_id = ? ORDER BY run_id"
    for before in basis.con.execute(sql, [corpus_id]).fetchall():
        usual = CountingRule(*before)
    return CountingRule(*(value if options[name] is None else options[name] for name, value in usual._asdict().items()))


def kept_triggers(request: Request, n_positions: int) -> int:
    """Return k, the most triggers per key that a sweep over n_positions positions keeps. Raises AtlasError if k is more than the table has ranks."""
    asked: int = request.options["triggers"]
    k = min(asked, n_positions)
    if k > MAX_RANK:
        raise AtlasError(
            f"--triggers {asked}: this corpus has {n_positions:,} positions, but at most {MAX_RANK:,} triggers of each key can be stored; give a smaller number"
        )
    return k
