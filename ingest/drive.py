"""The passes of a request, carried out one after the other; passes that record while a text is read share the forward passes over the text."""

import json
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from rich.progress import Progress, TaskID

from ingest.passes import passes
from ingest.passes.base import Basis, Pass, Plan, PlannedPass, Recording, RecordingPass, Text
from ingest.placing import computation_facts
from ingest.recorders.base import ReadRequest
from ingest.recorders.reading import record_documents
from ingest.store.committer import Committer
from ingest.store.load import loaded_shards
from ingest.store.register import find_run, finish_run, reads_of, register_run
from ingest.store.shards import Shard
from ingest.text.parts import documents_of_parts, documents_of_spans, is_within_span, sample_parts
from ingest.text.sequences import CutDocument
from ingest.text.survey import Span
from ingest.workers.pool import Job, Pool
from schema.progress import printable

MOST_RIDING = 4
"""Maximum number of shards of sampled positions that a run records while one span is read whole."""


class RunProgress(NamedTuple):
    """A run on the progress bar. amounts: the amount of work in each shard of the run."""

    task: TaskID
    amounts: Sequence[int]


@dataclass(frozen=True)
class Drive:
    """The tools with which passes are carried out. basis: the information from which passes plan their work."""

    committer: Committer
    pool: Pool
    basis: Basis
    bar: Progress

    @property
    def place(self) -> str:
        """The place where shards are computed."""
        return self.basis.model.place if self.basis.request.is_alone else self.basis.request.device

    def register(self, each: Pass, corpus_id: int | None, settings: Mapping[str, object], n_shards: int) -> int:
        """Register a run of a pass, and return its run_id."""
        request, con = self.basis.request, self.basis.con
        by = computation_facts(request, self.basis.model)
        reads = reads_of(con, each.reads, corpus_id) | cast(dict[str, list[int]], settings.get("reads", {}))
        settings = {**settings, "reads": reads} if reads else settings
        return register_run(con, each.name, corpus_id, settings, request.seed, self.place, n_shards, each.is_repeatable, by)

    def show(self, name: str, unit: str, amounts: Sequence[int], done: set[int]) -> RunProgress:
        """Show a run on the bar. amounts: work in each shard. done: shards already loaded. The bar's field `kept` is the work that an interruption keeps."""
        n_done = sum(amounts[i] for i in done)
        return RunProgress(self.bar.add_task(name, total=sum(amounts), completed=n_done, unit=unit, kept=n_done), amounts)

    def commit(self, jobs: Iterable[Job], shown: Mapping[int, RunProgress]) -> None:
        """Compute and load shards. shown: the progress of each run, by run_id."""
        of_task = {task.id: task for task in self.bar.tasks}
        loaded = {run_id: of_task[each.task].completed for run_id, each in shown.items()}

        def advance(run_id: int, n: float) -> None:
            # a worker that is heard late tells of runs that have finished
            if run_id in shown:
                self.bar.advance(shown[run_id].task, n)

        def keep_all() -> None:
            for each in shown.values():
                self.bar.update(each.task, kept=of_task[each.task].completed)

        def track_progress(shards: Generator[Shard]) -> Generator[Shard]:
            with closing(shards):
                for shard in shards:
                    yield shard
                    loaded[shard.run_id] += shown[shard.run_id].amounts[shard.shard_id]
                    self.bar.update(shown[shard.run_id].task, kept=max(loaded[shard.run_id], of_task[shown[shard.run_id].task].fields["kept"]))

        if self.pool.local and self.pool.local.begun:
            self.pool.local.begun.tell = keep_all
        self.committer.commit_all(track_progress(self.pool.shards(jobs, advance)))
        for each in shown.values():
            # parts of a shard add up to it but for a rounding
            self.bar.update(each.task, completed=of_task[each.task].total)


def drive(on: Drive) -> None:
    """Compute everything that the request asks for and the atlas lacks."""
    wanted = [each for each in passes().values() if each.is_wanted(on.basis.request)]
    for group in group_passes(wanted):
        for each in group:
            say(on.bar, each.note(on.basis))
        if on.basis.text:
            read_text(on, [each for each in group if isinstance(each, RecordingPass)], on.basis.text)
        for each in group:
            if isinstance(each, PlannedPass):
                for plan in each.plans(on.basis):
                    run_plan(on, each, plan)


def group_passes(wanted: list[Pass]) -> list[list[Pass]]:
    """Group passes that run together: consecutive passes that record while the text is read, unless a pass must come after another pass of the group."""
    groups: list[list[Pass]] = []
    for each in wanted:
        last = groups[-1] if groups else []
        if last and isinstance(each, RecordingPass) and isinstance(last[0], RecordingPass) and not {other.name for other in last} & set(each.after):
            last.append(each)
        else:
            groups.append([each])
    return groups


def run_plan(on: Drive, each: Pass, plan: Plan) -> None:
    """Carry out one run of a pass that plans its own jobs."""
    run_id = on.register(each, plan.corpus_id, plan.settings, len(plan.amounts))
    done = loaded_shards(on.basis.con, run_id)
    if pending := sorted(set(range(len(plan.amounts))) - done):
        on.commit(plan.jobs(run_id, pending), {run_id: on.show(each.name, plan.unit, plan.amounts, done)})
    finish_run(on.basis.con, run_id)


@dataclass(frozen=True)
class Run:
    """A run that records while the text is read.

    done: its shards that are already loaded. parts: the sampled positions of each shard; None if each shard is a span of the text. samples: the positions of
    each part that are not recorded yet.
    """

    run_id: int
    recording: Recording
    done: set[int]
    parts: list[np.ndarray] | None
    samples: list[np.ndarray]

    def shard_request(self, i: int) -> ReadRequest:
        """Build the request that says what to record for shard i while the text is read."""
        settings = json.dumps({**self.recording.settings}, sort_keys=True)
        return ReadRequest(self.run_id, self.recording.recorder(self.run_id), None if self.parts is None else self.samples[i], settings)

    def missing_parts(self) -> dict[int, np.ndarray]:
        """Map the number of each shard that is not loaded yet to its part of the sample."""
        return {i: part for i, part in enumerate(self.parts or []) if i not in self.done}


def read_text(on: Drive, group: list[RecordingPass], text: Text) -> None:
    """Read a text for one run of each pass in a group. A span is read once for all runs that lack it and for the sampled positions in that span."""
    runs, tasks = [], {}
    for each in group:
        run = begin_run(on, each, text)
        runs.append(run)
        amounts = [s.n_positions for s in text.seen.spans] if run.parts is None else [len(sample) for sample in run.samples]
        if len(run.done) < len(amounts):
            tasks[run.run_id] = on.show(each.name, "tokens" if run.parts is None else "positions", amounts, run.done)
            if run.recording.resume and on.pool.local:
                run.recording.resume(run.run_id, on.pool.local)
    if tasks:
        on.commit(jobs(on, text, runs), tasks)
    for run in runs:
        finish_run(on.basis.con, run.run_id)


def begin_run(on: Drive, each: RecordingPass, text: Text) -> Run:
    """Register the run of a pass, and find what it still has to record."""
    recording, request, spans = each.recording(on.basis, text), on.basis.request, text.seen.spans
    if recording.known is None:
        run_id = on.register(each, text.corpus_id, recording.settings, len(spans))
        return Run(run_id, recording, loaded_shards(on.basis.con, run_id), None, [])
    settings, bounds = {**recording.settings, "shard_positions": request.shard_positions}, spans
    if find_run(on.basis.con, each.name, text.corpus_id, recording.settings) is not None:
        # begun when parts of the sample did not end with a span
        settings, bounds = dict(recording.settings), ()
    parts = sample_parts(text.seen.sample, bounds)
    run_id = on.register(each, text.corpus_id, settings, len(parts))
    known = recording.known(run_id)
    return Run(run_id, recording, loaded_shards(on.basis.con, run_id), parts, [np.setdiff1d(part, known) for part in parts])


def jobs(on: Drive, text: Text, runs: list[Run]) -> Iterator[Job]:
    """Yield a job for each span that some run still has to record whole, with sampled positions in that span; then jobs for the other sampled positions."""
    of, run_ids = {"corpus_id": text.corpus_id, "batch_tokens": on.basis.request.batch_tokens}, frozenset(run.run_id for run in runs)

    def job(shards: list[tuple[Run, int]], documents: list[CutDocument]) -> Job:
        keys = tuple((run.run_id, i) for run, i in shards)
        return Job(keys, record_documents, {"asked": [run.shard_request(i) for run, i in shards], "documents": documents, **of}, run_ids)

    whole = [run for run in runs if run.parts is None]
    left = {run.run_id: run.missing_parts() for run in runs}
    lacking = [[run for run in whole if i not in run.done] for i in range(len(text.seen.spans))]
    if any(lacking):
        for i, documents in documents_of_spans(text.seen.spans, text.documents()):
            if lacking[i]:
                riding = [(run, part) for run in runs for part in fused_shards(run, text.seen.spans[i]) if part in left[run.run_id]]
                for run, part in riding:
                    del left[run.run_id][part]
                # samples first: those that are loaded are not read again where the job is stopped before its span is loaded
                yield job([*riding, *((run, i) for run in lacking[i])], documents)
    for same in group_runs_by_parts(runs):
        parts = dict(sorted({i: part for run in same for i, part in left[run.run_id].items()}.items()))
        if parts:
            for i, documents in documents_of_parts(parts, text.documents()):
                yield job([(run, i) for run in same if i in left[run.run_id]], documents)


def group_runs_by_parts(runs: list[Run]) -> list[list[Run]]:
    """Group the runs that cut the sample into the same parts."""
    found = defaultdict(list)
    for run in runs:
        found[tuple(map(len, run.parts or []))].append(run)
    return list(found.values())


def fused_shards(run: Run, span: Span) -> list[int]:
    """List the shards of sampled positions to record while their span is read whole: the first MOST_RIDING within the span.

    There is a limit because all their states stay in memory until the span is read. The choice does not depend on which shards are loaded already, so that a
    resumed run reads each shard in the same batches.
    """
    return [i for i, part in enumerate(run.parts or []) if is_within_span(part, span)][:MOST_RIDING]


def say(bar: Progress, note: str | None) -> None:
    """Print a note above the bar, unchanged; print nothing for None."""
    if note:
        bar.console.print("\n".join(map(printable, note.split("\n"))), markup=False, highlight=False, soft_wrap=True)
