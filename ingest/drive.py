"""Do the passes that a request asks for, one after the other; those that record while a text is read share its forward passes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich.progress import Progress

from ingest.passes import passes
from ingest.passes.base import Basis, Pass, Plan, PlannedPass, Recording, RecordingPass, Text
from ingest.recorders.reading import read_samples, read_spans
from ingest.store.committer import Committer
from ingest.store.load import loaded_shards
from ingest.store.register import finish_run, register_run
from ingest.text.parts import documents_of_parts, documents_of_spans, sample_parts
from ingest.workers.pool import Job, Pool


@dataclass(frozen=True)
class Drive:
    """What the passes are done with. basis: what they plan on."""

    committer: Committer
    pool: Pool
    basis: Basis
    bar: Progress

    @property
    def place(self) -> str:
        """Where the shards are computed."""
        return self.basis.model.place if self.basis.request.is_alone else self.basis.request.device

    def register(self, each: Pass, corpus_id: int | None, settings: Mapping[str, object], n_shards: int) -> int:
        """run_id of a run of a pass."""
        request = self.basis.request
        return register_run(self.basis.con, each.name, corpus_id, settings, request.seed, self.place, n_shards, each.is_repeatable)

    def commit(self, jobs: Iterable[Job], name: str, unit: str, amounts: Sequence[int], done: set[int]) -> None:
        """Compute and load shards, of those with these amounts, beside those that are done."""
        task = self.bar.add_task(name, total=sum(amounts), completed=sum(amounts[i] for i in done), unit=unit)
        self.committer.commit_all(self.pool.shards(jobs, lambda n: self.bar.advance(task, n)))


def drive(on: Drive) -> None:
    """Bring what the request asks for and the atlas lacks."""
    wanted = [each for each in passes().values() if each.is_wanted(on.basis.request)]
    for group in grouped(wanted):
        for each in group:
            say(on.bar, each.note(on.basis))
        if isinstance(group[0], RecordingPass) and on.basis.text:
            read_text(on, [each for each in group if isinstance(each, RecordingPass)], on.basis.text)
        for each in group:
            if isinstance(each, PlannedPass):
                for plan in each.plans(on.basis):
                    run_plan(on, each, plan)


def grouped(wanted: list[Pass]) -> list[list[Pass]]:
    """Passes that are done together: those that record during the same reading, unless one comes after another of them."""
    groups: list[list[Pass]] = []
    for each in wanted:
        last = groups[-1] if groups else []
        if last and reading_of(each) and reading_of(each) == reading_of(last[0]) and not {other.name for other in last} & set(each.after):
            last.append(each)
        else:
            groups.append([each])
    return groups


def reading_of(each: Pass) -> str | None:
    return each.reading if isinstance(each, RecordingPass) else None


def run_plan(on: Drive, each: Pass, plan: Plan) -> None:
    """One run of a pass with jobs of its own."""
    run_id = on.register(each, plan.corpus_id, plan.settings, len(plan.amounts))
    done = loaded_shards(on.basis.con, run_id)
    if pending := sorted(set(range(len(plan.amounts))) - done):
        on.commit(plan.jobs(run_id, pending), each.name, plan.unit, plan.amounts, done)
    finish_run(on.basis.con, run_id)


@dataclass(frozen=True)
class Run:
    """A run that records during a reading. samples: of each shard the positions that it has yet to record, none where every position is read."""

    run_id: int
    recording: Recording
    done: set[int]
    samples: list[np.ndarray]


def read_text(on: Drive, group: list[RecordingPass], text: Text) -> None:
    """One run of each pass of a group; a shard is read once for all whose run lacks it."""
    parts = sample_parts(text.seen.sample)
    amounts = [s.n_positions for s in text.seen.spans] if group[0].reading == "spans" else [len(part) for part in parts]
    runs = [begun(on, each, text, parts, len(amounts)) for each in group]
    done = set(range(len(amounts))).intersection(*(run.done for run in runs))
    if len(done) < len(amounts):
        for run in runs:
            if run.recording.resume and on.pool.local:
                run.recording.resume(run.run_id, on.pool.local)
        jobs = span_jobs if group[0].reading == "spans" else sample_jobs
        unit = "tokens" if group[0].reading == "spans" else "positions"
        on.commit(jobs(on, text, runs, done), " + ".join(each.name for each in group), unit, amounts, done)
    for run in runs:
        finish_run(on.basis.con, run.run_id)


def begun(on: Drive, each: RecordingPass, text: Text, parts: list[np.ndarray], n_shards: int) -> Run:
    """The run of a pass, registered."""
    recording = each.recording(on.basis, text)
    run_id = on.register(each, text.corpus_id, recording.settings, n_shards)
    known = recording.known(run_id) if recording.known else np.empty(0, np.int64)
    samples = [np.setdiff1d(part, known) for part in parts] if each.reading == "samples" else [known] * n_shards
    return Run(run_id, recording, loaded_shards(on.basis.con, run_id), samples)


def span_jobs(on: Drive, text: Text, runs: list[Run], done: set[int]) -> Iterator[Job]:
    """A job for each span of whole documents that a run lacks."""
    of, run_ids = {"corpus_id": text.corpus_id, "batch_size": on.basis.request.batch_size}, frozenset(run.run_id for run in runs)
    for i, documents in documents_of_spans(text.seen.spans, text.documents()):
        if i not in done:
            lacking = [run for run in runs if i not in run.done]
            makes = [run.recording.recorder(run.run_id, run.samples[i]) for run in lacking]
            yield Job(tuple((run.run_id, i) for run in lacking), read_spans, {"makes": makes, "documents": documents, **of}, run_ids)


def sample_jobs(on: Drive, text: Text, runs: list[Run], done: set[int]) -> Iterator[Job]:
    """A job for each part of the sample that a run lacks."""
    of, run_ids = {"corpus_id": text.corpus_id, "batch_size": on.basis.request.batch_size}, frozenset(run.run_id for run in runs)
    parts = {i: part for i, part in enumerate(sample_parts(text.seen.sample)) if i not in done}
    for i, documents in documents_of_parts(parts, text.documents()):
        lacking = [(run, run.samples[i]) for run in runs if i not in run.done]
        makes = [run.recording.recorder(run.run_id, sample) for run, sample in lacking]
        keys = tuple((run.run_id, i) for run, _ in lacking)
        yield Job(keys, read_samples, {"makes": makes, "samples": [sample for _, sample in lacking], "documents": documents, **of}, run_ids)


def say(bar: Progress, note: str | None) -> None:
    """Print a note above the bar, as it is; nothing for None."""
    if note:
        bar.console.print(note, markup=False, highlight=False, soft_wrap=True)
