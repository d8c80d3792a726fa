"""The driver: from a request to a published atlas, resuming what is there already.

    work file ← weights shards ← sweep shards ← trace shards ← paper shards ← map shards → snapshot

Workers compute shards (ingest/workers/pool.py), this loads them. Every shard is on disk before it is loaded and in the
manifest once it is, so a run that dies at any moment goes on with the first shard the manifest lacks.
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import numpy as np
import torch
from rich.progress import Progress

from ingest.faults import explained
from ingest.map import layouts, map_rows, map_settings, settle
from ingest.model.checks import check_identities
from ingest.model.device import enough_memory
from ingest.model.models import Model, load_model
from ingest.notes import another_corpus, cut_texts
from ingest.paper import has_clusters, layer_work, left_out, paper_settings
from ingest.recorders.traces import TraceSettings
from ingest.refusals import check_fit, check_target, check_workers
from ingest.request import Request
from ingest.store.committer import Committer, FileStore, Store, check_free, held, recover, remove_work, work_folder
from ingest.store.load import loaded_shards
from ingest.store.register import find_corpus, finish_run, forget, known_triggers, register_corpus, register_model, register_run, top_tokens
from ingest.store.shards import Staging
from ingest.store.work_file import leave, open_work_file
from ingest.text.corpora import Corpus
from ingest.text.sequences import CutDocument, bos_token, cut, within_vocabulary
from ingest.text.survey import Span, Survey, survey
from ingest.workers.pool import Alone, Job, Pool
from ingest.workers.worker import Worker
from schema.errors import AtlasError
from schema.lake import Lake, catalogue, describe, is_lake, storage
from schema.store import left_names, remove_left

TRACED_PER_SHARD = 64
"""Positions of a trace shard: their states are held in memory at once."""


def ingest(request: Request, bar: Progress) -> Survey | None:
    """Do everything the request asks for that the atlas does not hold yet; returns what the corpus was found to hold.

    Raises AtlasError for bad input, with the published atlas as it was; KeyboardInterrupt leaves a state that resumes.
    """
    check_target(request)
    check_workers(request, torch.cuda.device_count())
    with explained(request.target):
        # before the model, so that both are said at once: another process has it, the path is wrong
        check_free(request.target)
        corpus = request.open_corpus(work_folder(request.target)) if request.corpus is not None else None
    with enough_memory(request.device):
        # the GPUs belong to the workers
        model = load_model(request.model, revision=request.revision, dtype=request.dtype, device=request.device if request.is_alone else "cpu")
        check_fit(request, model)
        check_identities(model)
        if request.lake is not None and request.data is not None:
            lake = Lake(request.lake, storage(request.data))
            # reached first: an address that is written down binds the name
            with catalogue(lake):
                describe(request.target, lake)
        with explained(request.target), held(request.target) as work:
            for folder in left_names(request.target):
                remove_left(folder)
            try:
                seen = filled(request, model, corpus, bar, work)
            except BaseException:
                leave(request.target, work)
                raise
            remove_work(work)
            return seen


def filled(request: Request, model: Model, corpus: Corpus | None, bar: Progress, work: Path) -> Survey | None:
    """Fill the atlas file at the target, or the lake that is described there."""
    if is_lake(request.target):
        # imported here: a file needs no lake
        from ingest.store.lake.retry import persistent
        from ingest.store.lake.store import opened_lake

        def begin_again(text: str) -> None:
            for task in bar.task_ids:
                bar.remove_task(task)
            say(bar, text)

        return persistent(lambda: opened_lake(request.target), lambda store: fill(store, request, model, corpus, bar), begin_again)
    with closing(open_work_file(request.target, work, model.d_model)) as con:
        return fill(FileStore(con, request.target, work), request, model, corpus, bar)


def fill(store: Store, request: Request, model: Model, corpus: Corpus | None, bar: Progress) -> Survey | None:
    """Bring what is missing, and publish."""
    seen = None
    with pool_for(request, model, store.staging) as pool:
        committer = Committer(store, pool, time.monotonic())
        recover(store)
        forget(store.con)
        register_model(store.con, model)
        # before anything is computed, so that a text that cannot be read leaves nothing behind
        entered = None if corpus is None else enter_corpus(store.con, corpus, model, request, bar)
        ingest_weights(committer, model, request, bar)
        if corpus is not None and entered is not None:
            seen = ingest_corpus(committer, model, request, corpus, *entered, bar)
        if request.map:
            ingest_map(committer, model, request, bar)
        task = bar.add_task("publish", total=1, unit="snapshot")
        committer.publish()
        bar.advance(task)
    return seen


@contextmanager
def pool_for(request: Request, model: Model, staging: Staging) -> Iterator[Pool]:
    """This process, or the workers asked for."""
    if request.is_alone:
        yield Alone(Worker(model), staging, ahead=model.device.type != "cpu")
        return
    # imported here: one worker needs no Ray
    from ingest.workers.ray_pool import RayPool

    with closing(RayPool(request, staging, request.workers, request.ray)) as pool:
        yield pool


def place(request: Request, model: Model) -> str:
    """Where the shards are computed."""
    return model.place if request.is_alone else request.device


def ingest_weights(committer: Committer, model: Model, request: Request, bar: Progress) -> None:
    """One shard a layer from the weights alone."""
    run_id = register_run(committer.con, "weights", None, request.weights_settings(), request.seed, place(request, model), model.n_layers)
    pending = sorted(set(range(model.n_layers)) - loaded_shards(committer.con, run_id))
    if pending:
        task = bar.add_task("weights", total=model.n_layers, completed=model.n_layers - len(pending), unit="layers")
        jobs = (Job(run_id, layer, Worker.weights, {"run_id": run_id, "layer": layer}) for layer in pending)
        committer.commit_all(jobs, lambda n: bar.advance(task, n))
    finish_run(committer.con, run_id)


def enter_corpus(con: duckdb.DuckDBPyConnection, corpus: Corpus, model: Model, request: Request, bar: Progress) -> tuple[int, Survey]:
    """corpus_id of the request's corpus, and what it was found to hold."""
    source = request.corpus_source(corpus)
    corpus_id = find_corpus(con, corpus.name, corpus.split, source)
    say(bar, another_corpus(con, corpus_id, corpus.name, corpus.split, source))
    seen = survey_corpus(corpus, model, request, corpus_id)
    say(bar, cut_texts(seen))
    register_corpus(con, corpus_id, corpus.name, corpus.split, source, corpus.revision, seen)
    return corpus_id, seen


def ingest_corpus(committer: Committer, model: Model, request: Request, corpus: Corpus, corpus_id: int, seen: Survey, bar: Progress) -> Survey:
    """Sweep and trace the request's corpus, and bring what the papers need of it."""
    if request.triggers:
        ingest_sweep(committer, model, request, corpus, corpus_id, seen, bar)
    if request.trace:
        ingest_trace(committer, model, request, corpus, corpus_id, seen, bar)
    if request.paper:
        ingest_paper(committer, model, request, corpus_id, bar)
    return seen


def say(bar: Progress, note: str | None) -> None:
    """Print a note above the bar, as it is; nothing for None."""
    if note:
        bar.console.print(note, markup=False, highlight=False, soft_wrap=True)


def cut_corpus(corpus: Corpus, model: Model, request: Request, corpus_id: int) -> Iterator[CutDocument]:
    documents = cut(
        corpus.documents(), model.tokenizer, corpus_id=corpus_id, context=request.context, bos=request.bos, by=request.cut,
        document_tokens=request.document_tokens,
    )  # fmt: skip
    return within_vocabulary(documents, model.n_embeddings, model.name)


def survey_corpus(corpus: Corpus, model: Model, request: Request, corpus_id: int) -> Survey:
    documents = cut_corpus(corpus, model, request, corpus_id)
    # one prefix a sentence, and BOS alone is none
    one_from = int(bos_token(model.tokenizer, request.bos) is not None) if request.cut == "sentences" else None
    seen = survey(documents, shard_positions=request.shard_positions, n_sample=request.trace, seed=request.seed, one_from=one_from)
    if not seen.n_documents:
        raise AtlasError(f"corpus {corpus.name!r} is empty: it has no documents")
    if not seen.n_positions:
        raise AtlasError(f"corpus {corpus.name!r} has no text: every document is blank, {seen.n_documents} of {seen.n_documents}")
    return seen


def ingest_sweep(committer: Committer, model: Model, request: Request, corpus: Corpus, corpus_id: int, seen: Survey, bar: Progress) -> None:
    """Every position: one shard a span of whole documents."""
    con, k = committer.con, request.kept_triggers(seen.n_positions)
    run_id = register_run(con, "sweep", corpus_id, request.sweep_settings(), request.seed, place(request, model), len(seen.spans))
    done = loaded_shards(con, run_id)
    spans = {s.first_document_id: s for s in seen.spans}
    if len(done) < len(spans):
        n_done = sum(s.n_positions for s in seen.spans if s.shard_id in done)
        task = bar.add_task("sweep", total=seen.n_positions, completed=n_done, unit="tokens")
        if committer.pool.local:
            committer.pool.local.keys(run_id, k).seed(*known_triggers(con, corpus_id, model.n_layers, model.d_ffn, k))
        shards = documents_of_spans(spans, cut_corpus(corpus, model, request, corpus_id))
        of = {"run_id": run_id, "k": k, "corpus_id": corpus_id, "batch_size": request.batch_size}
        jobs = (Job(run_id, i, Worker.sweep, {"documents": documents, **of}) for i, documents in shards if i not in done)
        committer.commit_all(jobs, lambda n: bar.advance(task, n))
    finish_run(con, run_id)


def ingest_trace(committer: Committer, model: Model, request: Request, corpus: Corpus, corpus_id: int, seen: Survey, bar: Progress) -> None:
    """The sampled positions that no other run has traced, in shards of consecutive ones."""
    con = committer.con
    run_id = register_run(con, "trace", corpus_id, request.trace_settings(), request.seed, place(request, model), -(-len(seen.sample) // TRACED_PER_SHARD))
    before = np.array(con.execute("SELECT position_id FROM trace WHERE run_id <> ?", [run_id]).fetchnumpy()["position_id"], np.int64)
    parts = {i: np.array(seen.sample[s : s + TRACED_PER_SHARD]) for i, s in enumerate(range(0, len(seen.sample), TRACED_PER_SHARD))}
    done = loaded_shards(con, run_id)
    if len(done) < len(parts):
        task = bar.add_task("trace", total=len(seen.sample), completed=sum(len(parts[i]) for i in done), unit="positions")
        value_tops = top_tokens(con, model.n_layers)
        settings = TraceSettings(request.vector_sites, request.coefficients, request.seed)
        of = {"value_tops": value_tops, "corpus_id": corpus_id, "run_id": run_id, "settings": settings, "batch_size": request.batch_size}
        shards = documents_of_parts(parts, cut_corpus(corpus, model, request, corpus_id))
        jobs = (
            Job(run_id, i, Worker.trace, {"documents": documents, "sample": np.setdiff1d(parts[i], before), **of}) for i, documents in shards if i not in done
        )
        committer.commit_all(jobs, lambda n: bar.advance(task, n))
    finish_run(con, run_id)


def ingest_paper(committer: Committer, model: Model, request: Request, corpus_id: int, bar: Progress) -> None:
    """What the papers' figures need beyond sweep and trace: one shard a layer, and one for the clusters of all values."""
    con, n_layers = committer.con, model.n_layers
    settings = paper_settings(con, request, corpus_id, n_layers * model.d_ffn)
    say(bar, left_out(settings))
    run_id = register_run(con, "paper", corpus_id, settings, request.seed, place(request, model), n_layers + 1)
    # the forward pass of a layer's shard ends there; the clusters count as the whole model
    cost = [*range(1, n_layers + 1), n_layers]
    done = loaded_shards(con, run_id)
    task = bar.add_task("paper", total=sum(cost), completed=sum(cost[i] for i in done), unit="layers")
    of = {"corpus_id": corpus_id, "seed": request.seed, "batch_tokens": request.batch_size * request.context}

    def jobs() -> Iterator[Job]:
        for i in sorted(set(range(n_layers)) - done):
            yield Job(run_id, i, Worker.paper, {"cost": cost[i], "work": layer_work(con, settings, corpus_id, i, model.d_ffn), "layer": i, **of})
        if n_layers not in done:
            clusters = Job(run_id, n_layers, Worker.clusters, {"cost": cost[-1], "seed": request.seed})
            yield Job(run_id, n_layers, Worker.nothing, {"cost": cost[-1]}) if has_clusters(con) else clusters

    committer.commit_all(jobs(), lambda n: bar.advance(task, n))
    finish_run(con, run_id)


def ingest_map(committer: Committer, model: Model, request: Request, bar: Progress) -> None:
    """Layouts of what the atlas holds: its values, and its traced states where it has any."""
    con = committer.con
    settle(con)
    wanted = layouts(con)
    task = bar.add_task("map", total=len(wanted), unit="layouts")
    for layout in wanted:
        run_id = register_run(con, "map", None, map_settings(con, request, layout), request.seed, model.place, 1)
        if not loaded_shards(con, run_id):
            committer.commit(committer.store.staging.write(0, run_id, 0, {"map_point": map_rows(con, model, layout, run_id, request.seed)}))
        finish_run(con, run_id)
        bar.advance(task)


def documents_of_spans(spans: dict[int, Span], documents: Iterator[CutDocument]) -> Iterator[tuple[int, list[CutDocument]]]:
    """The documents of each sweep shard; `spans` by their first document."""
    for first in documents:
        span = spans[first.document_id]
        yield span.shard_id, [first, *(next(documents) for _ in range(span.n_documents - 1))]


def documents_of_parts(parts: dict[int, np.ndarray], documents: Iterator[CutDocument]) -> Iterator[tuple[int, list[CutDocument]]]:
    """For each part of an ascending sample, the documents its positions lie in; one pass over the corpus."""
    held: list[CutDocument] = []
    waiting = list(parts)
    for document in documents:
        if not document.sequences:
            continue
        held.append(document)
        last = document.sequences[-1]
        end = last.first_position_id + len(last.token_ids)
        while waiting and parts[waiting[0]][-1] < end:
            part = waiting.pop(0)
            yield part, [d for d in held if holds(d, parts[part])]
        held = [d for d in held if waiting and holds(d, parts[waiting[0]])]


def holds(document: CutDocument, sample: np.ndarray) -> bool:
    """Whether any sampled position lies in the document."""
    first, last = document.sequences[0], document.sequences[-1]
    return bool(((sample >= first.first_position_id) & (sample < last.first_position_id + len(last.token_ids))).any())
