"""Every position, the first of each sequence apart: each key's exact top-k triggers of both tails, and its statistics (Geva et al. 2021, section 3)."""

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from ingest.passes.base import Basis, Probe, Recording, RecordingPass, Text
from schema.errors import AtlasError
from schema.terms import FORMER_PASSES

if TYPE_CHECKING:
    from ingest.request import Request
    from ingest.workers.worker import Worker

MAX_RANK = 2**15 - 1
"""What the column trigger.rank holds."""


class Sweep(RecordingPass):
    name = "sweep"
    after = ("weights",)
    is_repeatable = False
    options = (
        click.Option(["--triggers"], type=click.IntRange(0, 2**31 - 1), default=50, show_default=True, help="Triggers kept of each key and tail; 0: no sweep."),
        click.Option(
            ["--skip-first"],
            type=click.IntRange(0, 2**31 - 1),
            help="Positions at the start of each sequence that are read, but enter no triggers or statistics.  "
            "[default: as the corpus was swept before, else 1; with --paper 0]",
        ),
        click.Option(
            ["--distinct"],
            type=click.IntRange(0, 2**31 - 1),
            help="Of positions whose last so many tokens are equal, keep in each list of triggers the best alone; 0: keep all.  "
            "[default: as the corpus was swept before, else 0]",
        ),
    )

    def is_wanted(self, request: "Request") -> bool:
        return request.corpus is not None and request.options["triggers"] > 0

    def check(self, request: "Request") -> None:
        skip_first = request.options["skip_first"] or 0
        if skip_first >= request.context:
            raise AtlasError(f"--skip-first {skip_first} leaves nothing of sequences of --context {request.context}; give less, or --triggers 0 for no sweep")

    def note(self, basis: Basis) -> str | None:
        if basis.text is None:
            return None
        seen, rule = basis.text.seen, counting_rule(basis, basis.text.corpus_id)
        if rule.skip_first >= seen.longest:
            return (
                f"note: no triggers and no statistics: the longest sequence of this corpus has {seen.longest:,} tokens, and the first {rule.skip_first:,} "
                "are left out; --skip-first, in a new file, leaves out fewer"
            )
        k = kept_triggers(basis.request, seen.n_positions)
        if seen.repeat and not rule.distinct and seen.repeat.n >= k:
            return (
                f"note: {' '.join(seen.repeat.text.split())!r} stands {seen.repeat.n:,} times in this corpus: it may fill all {k:,} triggers of a key. "
                "--distinct 16, in a new file, keeps of positions with the same last 16 tokens one"
            )
        return None

    def recording(self, basis: Basis, text: Text) -> Recording:
        from ingest.recorders.reads import known_triggers
        from ingest.recorders.triggers import kept_keys, trigger_recorder

        request, k, rule = basis.request, kept_triggers(basis.request, text.seen.n_positions), counting_rule(basis, text.corpus_id)
        is_distinct = rule.distinct > 0

        def resume(run_id: int, worker: "Worker") -> None:
            known = known_triggers(basis.con, text.corpus_id, basis.model.n_layers, basis.model.d_ffn, k, is_distinct)
            kept_keys(worker, run_id, k, is_distinct).seed(*known)

        settings = {"triggers": request.options["triggers"], "batch_size": request.batch_size, "shard_positions": request.shard_positions}
        return Recording(
            {**request.weights_settings(), **settings, **rule._asdict()},
            lambda run_id: partial(trigger_recorder, run_id=run_id, k=k, corpus_id=text.corpus_id, **rule._asdict()),
            resume=resume,
        )

    def rows(self, probe: Probe) -> dict[str, int]:
        neurons = probe.model.n_layers * probe.model.d_ffn
        if probe.seen is None:
            return {}
        return {"neuron_statistics": neurons, "trigger": 2 * neurons * kept_triggers(probe.request, probe.seen.n_positions)}

    def seconds(self, probe: Probe) -> float:
        """By the last of up to three batches, when the first filling of the top-k is over."""
        from ingest.recorders.reading import batches, n_tokens, read_batch
        from ingest.recorders.torch_keys import new_keys
        from ingest.recorders.triggers import TriggerRecorder
        from ingest.timing import timed

        if probe.seen is None:
            return 0.0
        recorder, each = TriggerRecorder(new_keys(probe.model, kept_triggers(probe.request, probe.seen.n_positions)), 0), 0.0
        for batch in batches(probe.sequences, probe.request.batch_tokens):
            each = timed(partial(list, read_batch(probe.model, [(recorder, None)], batch))) / sum(map(n_tokens, batch))
        return each * probe.seen.n_positions


class CountingRule(NamedTuple):
    """Which positions lists and statistics are over, as TriggerRecorder has it and `run.settings` says it."""

    skip_first: int
    distinct: int


def counting_rule(basis: Basis, corpus_id: int) -> CountingRule:
    """Each part as asked, else as the corpus was swept before. Else the first position is left out, but for the papers' figures, and no text is."""
    options = basis.request.options
    is_paper = all(options[name] for name in FORMER_PASSES["paper"])
    usual = CountingRule(0 if is_paper else 1, 0)
    parts = ", ".join(f"coalesce((settings ->> '{name}')::INTEGER, 0)" for name in CountingRule._fields)
    sql = f"SELECT {parts} FROM run WHERE kind = 'sweep' AND corpus_id = ?"
    for before in basis.con.execute(sql, [corpus_id]).fetchall():
        usual = CountingRule(*before)
    return CountingRule(*(value if options[name] is None else options[name] for name, value in usual._asdict().items()))


def kept_triggers(request: "Request", n_positions: int) -> int:
    """k of the sweep over a corpus of so many positions: no key has more triggers. Raises AtlasError for more than the table has ranks."""
    asked: int = request.options["triggers"]
    k = min(asked, n_positions)
    if k > MAX_RANK:
        raise AtlasError(f"--triggers {asked}: this corpus has {n_positions:,} positions, and of each key at most {MAX_RANK:,} triggers are kept")
    return k


PASS = Sweep()
