"""The driver: from a request to a published atlas, resuming interrupted work.

    work file ← shards of each pass, in the order of ingest/passes → snapshot

Workers compute shards (ingest/workers/pool.py), and this module loads them. Every shard is on disk before it is loaded, and in the table `shard`
afterwards, so that a run that dies at any moment continues with the first shard that the table lacks.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
import torch
from rich.progress import Progress

from ingest.drive import Drive, drive, say
from ingest.faults import explain_write_errors
from ingest.model.device import enough_memory
from ingest.model.models import Model, load_model
from ingest.notes import another_corpus, columns_left_out, cut_texts
from ingest.passes.base import Basis, Text
from ingest.placing import place_workers, size_batches
from ingest.refusals import check_fit, check_model, check_target, check_workers
from ingest.request import Request
from ingest.store.committer import BEGUN, Committer, FileStore, Store, check_free, lock_work_folder, recover, remove_work, work_folder
from ingest.store.register import find_corpus, forget_interrupted_runs, register_corpus, register_model
from ingest.store.shards import Staging
from ingest.store.work_file import open_work_file, remove_unused_work
from ingest.text.chats import ChatCounts, render_chats
from ingest.text.corpora import Corpus
from ingest.text.sequences import CutDocument, bos_token, cut_documents, note_start, require_one_context, within_vocabulary
from ingest.text.survey import Survey, survey
from ingest.workers.begun import ShardCheckpoint
from ingest.workers.pool import LocalPool, Pool
from ingest.workers.worker import Worker
from schema.errors import AtlasError
from schema.open.lake import Lake, catalogue, describe, is_lake, storage
from schema.open.names import left_names, remove_left
from schema.progress import stage


def ingest(request: Request, bar: Progress) -> Survey | None:
    """Do everything that the request wants and the atlas lacks; return the survey of the corpus, None without a corpus.

    Raises AtlasError for bad input, and leaves the published atlas as it was; after a KeyboardInterrupt the ingest can be resumed.
    """
    check_target(request)
    request, note = place_workers(request, torch.cuda.device_count())
    say(bar, note)
    check_workers(request, torch.cuda.device_count())
    with explain_write_errors(request.target):
        # before the model, so that both are said at once: another process has it, the path is wrong
        check_free(request.target)
        corpus = request.open_corpus(work_folder(request.target)) if request.corpus is not None else None
    with enough_memory(request.device):
        # the GPUs belong to the workers
        device = request.device if request.is_alone else "cpu"
        with stage(bar, f"loading {request.model}"):
            by_workers = None if request.is_alone else request.device
            model = load_model(
                request.model, revision=request.revision, dtype=request.dtype, device=device, tell=partial(say, bar), computed_on=by_workers
            )  # fmt: skip
        request = size_batches(replace(request, dtype=model.dtype_name), model)
        check_fit(request, model)
        with stage(bar, "checking that what is recorded adds up"):
            check_model(request, model)
        if request.lake is not None and request.data is not None:
            # imported here: a file needs no lake
            from ingest.store.lake.marking import check_place

            lake = Lake(request.lake, storage(request.data))
            # reached first, and the place looked at: an address that is written down binds the name
            with explain_write_errors(request.target), catalogue(lake) as session:
                check_place(session, lake)
                describe(request.target, lake)
        with explain_write_errors(request.target), lock_work_folder(request.target) as work:
            for folder in left_names(request.target):
                remove_left(folder)
            try:
                seen = fill_atlas(request, model, corpus, bar, work)
            except BaseException:
                remove_unused_work(request.target, work)
                raise
            remove_work(work)
            return seen


def fill_atlas(request: Request, model: Model, corpus: Corpus | None, bar: Progress, work: Path) -> Survey | None:
    """Fill the atlas file at the target, or the lake that is described there."""
    if is_lake(request.target):
        # imported here: a file needs no lake
        from ingest.store.lake.retry import run_with_retries
        from ingest.store.lake.store import opened_lake

        def begin_again(text: str) -> None:
            for task in bar.task_ids:
                bar.remove_task(task)
            say(bar, text)

        return run_with_retries(lambda: opened_lake(request.target), lambda store: compute_and_publish(store, request, model, corpus, bar, work), begin_again)
    with closing(open_work_file(request.target, work, model.d_model)) as con:
        return compute_and_publish(FileStore(con, request.target, work), request, model, corpus, bar, work)


def compute_and_publish(store: Store, request: Request, model: Model, corpus: Corpus | None, bar: Progress, work: Path) -> Survey | None:
    """Compute what the store lacks, and publish it."""
    with pool_for(request, model, store.staging, work) as pool:
        committer = Committer(store, time.monotonic())
        recover(store)
        forget_interrupted_runs(store.con)
        register_model(store.con, model)
        # before anything is computed, so that a text that cannot be read leaves nothing behind
        text = None
        if corpus is not None:
            with stage(bar, f"reading {corpus.name}"):
                text = enter_corpus(store.con, corpus, model, request, bar)
        drive(Drive(committer, pool, Basis(store.con, model, request, text), bar))
        task = bar.add_task("publish", total=1, unit="snapshot")
        committer.publish()
        bar.advance(task)
    return text.seen if text else None


@contextmanager
def pool_for(request: Request, model: Model, staging: Staging, work: Path) -> Iterator[Pool]:
    """Yield a pool: this process, or the requested workers."""
    if request.is_alone:
        is_ahead = model.device.type != "cpu"
        yield LocalPool(Worker(model, None if is_ahead else ShardCheckpoint(work / BEGUN)), staging, is_ahead)
        return
    # imported here: one worker needs no Ray
    from ingest.workers.ray_pool import RayPool

    with closing(RayPool(request, staging, request.workers, request.ray)) as pool:
        yield pool


def enter_corpus(con: duckdb.DuckDBPyConnection, corpus: Corpus, model: Model, request: Request, bar: Progress) -> Text:
    """Survey the request's corpus, and insert it into the atlas."""
    say(bar, corpus.note)
    say(bar, note_start(model.tokenizer, request.bos))
    source = request.corpus_source(corpus) | other_start(model, request)
    corpus_id = find_corpus(con, corpus.name, corpus.split, source)
    say(bar, another_corpus(con, corpus_id, corpus.name, corpus.split, source))
    seen = survey_corpus(corpus, model, request, corpus_id, partial(say, bar))
    say(bar, cut_texts(seen))
    say(bar, columns_left_out(seen))
    register_corpus(con, corpus_id, corpus.name, corpus.split, source, corpus.revision, seen)
    return Text(corpus, corpus_id, seen, lambda: cut_corpus(corpus, model, request, corpus_id))


def other_start(model: Model, request: Request) -> dict[str, object]:
    """Return the token with which sequences begin if the tokenizer's rule gives a token other than BOS: a text read without that token is another corpus."""
    start = bos_token(model.tokenizer, request.bos)
    return {} if request.bos != "auto" or start in (None, model.tokenizer.bos_token_id) else {"start": model.tokenizer.convert_ids_to_tokens(start)}


def cut_corpus(corpus: Corpus, model: Model, request: Request, corpus_id: int, counts: ChatCounts | None = None) -> Iterator[CutDocument]:
    texts = render_chats(corpus.documents(), model.tokenizer, is_chat=request.chat)
    documents = cut_documents(
        counts.watch(texts) if counts else texts, model.tokenizer, corpus_id=corpus_id, context=request.context, bos=request.bos, by=request.cut,
        document_tokens=request.document_tokens,
    )  # fmt: skip
    if request.is_suite:
        documents = require_one_context(documents, request.context)
    return within_vocabulary(documents, model.n_embeddings, model.name)


def survey_corpus(corpus: Corpus, model: Model, request: Request, corpus_id: int, tell: Callable[[str], None]) -> Survey:
    """Survey the corpus. tell: is called with each note that the user should see."""
    counts = ChatCounts(model.tokenizer)
    documents = cut_corpus(corpus, model, request, corpus_id, counts)
    # one prefix a sentence, and BOS alone is none
    one_from = int(bos_token(model.tokenizer, request.bos) is not None) if request.cut == "sentences" else None
    seen = survey(documents, shard_positions=request.shard_positions, n_sample=request.trace, seed=request.seed, one_from=one_from)
    if not seen.n_documents:
        raise AtlasError(f"corpus {corpus.name!r} is empty: it has no documents")
    if not seen.n_positions:
        raise AtlasError(f"corpus {corpus.name!r} has no text: every document is blank, {seen.n_documents} of {seen.n_documents}")
    for note in counts.notes():
        tell(note)
    return seen
