"""How often each attention head looks back from a word at its head, or at a word that depends on it (Clark et al. 2019)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ingest.passes.base import Basis, Plan, PlannedPass, Probe, flag
from schema.errors import AtlasError

if TYPE_CHECKING:
    from ingest.recorders.head_relations import Pairs
    from ingest.request import Request
    from ingest.text.parsed import Parsed
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker

OPTION = "--head-relation"
RELATIONS = 45
"""Of English pipelines, about, with the one that stands for all: what a dry run reckons with."""


class HeadRelation(PlannedPass):
    name = "head_relation"
    after = ("weights", "word")
    reads = ("word", "position", "sequence", "document")
    needs_corpus = True
    reads_heads = True
    options = (flag("head-relation", "Hold where each attention head looks against the relations of the words."),)

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["head_relation"])

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.recorders.head_relations import left_out
        from ingest.text.parsed import all_pairs, parsed_text
        from ingest.workers.pool import job

        if basis.text is None:
            return
        text, request = basis.text, basis.request
        parsed = parsed_text(basis.con, text.corpus_id, OPTION, request.seed)
        require_relations(parsed.sentences)
        lost = left_out(all_pairs(basis.con, text.corpus_id), parsed)
        read = {s.sequence_id for s in parsed.sentences}
        sequences = [s for d in text.documents() for s in d.sequences if s.sequence_id in read]
        settings = {"seed": request.seed, "batch_size": request.batch_size}

        def jobs(run_id: int, pending: list[int]) -> "Iterable[Job]":
            of = {
                "run_id": run_id, "corpus_id": text.corpus_id, "sentences": parsed.sentences, "sequences": sequences, "lost": lost,
                "batch_tokens": request.batch_tokens,
            }  # fmt: skip
            return (job(run_id, i, compute, **of) for i in pending)

        yield Plan({**request.weights_settings(), **settings}, [sum(len(s.token_ids) for s in sequences)], "positions", jobs, text.corpus_id)

    def rows(self, probe: Probe) -> dict[str, int]:
        """With relations that look both ways, at most."""
        if probe.seen is None:
            return {}
        return {"word_relation": 2 * RELATIONS, "head_relation": 2 * RELATIONS * probe.model.n_layers * probe.model.n_heads}

    def seconds(self, probe: Probe) -> float:
        """Of statistics of heads, which make the weights of the same destinations."""
        from ingest.recorders.heads import CorpusHeadRecorder
        from ingest.recorders.reading import n_tokens, read_batch
        from ingest.text.probed_words import MOST_WORDS
        from ingest.timing import fastest

        if probe.seen is None:
            return 0.0
        batch = probe.batch
        recorder = CorpusHeadRecorder(probe.model, probe.request.context, 0)
        seconds = fastest(lambda: list(read_batch(probe.model, [(recorder, None)], batch)))
        return seconds / sum(map(n_tokens, batch)) * min(probe.seen.n_positions, sum(MOST_WORDS.values()))

    def n_bytes(self, probe: Probe) -> int:
        from ingest.recorders.attention_blocks import n_bytes

        return n_bytes(probe.model, probe.request.context)


def require_relations(sentences: "list[Parsed]") -> None:
    """Raise AtlasError where no two words are joined by a relation, in either part."""
    from ingest.recorders.head_relations import arcs

    for what, is_test in (("to choose heads by", False), ("of the test", True)):
        if not any(len(arcs(s).looking) for s in sentences if s.is_test == is_test):
            raise AtlasError(f"{OPTION}: of the sentences {what} none has two read words that a relation joins; give --words with heads, or more text")


def compute(
    worker: "Worker", progress: "Progress", *, run_id: int, corpus_id: int, sentences: "list[Parsed]", sequences: list[Any],
    lost: "dict[str, Pairs]", batch_tokens: int
) -> "Tables":  # fmt: skip
    from ingest.recorders.head_relations import RelationRecorder, arcs, relation_tables
    from ingest.recorders.reading import batches, n_tokens, read_batch

    found = [arcs(s) for s in sentences]
    recorder = RelationRecorder(worker.model, sentences, found)
    for batch in batches(sequences, batch_tokens):
        for part in read_batch(worker.model, [(recorder, None)], batch):
            progress(sum(map(n_tokens, part)))
    return relation_tables(run_id, corpus_id, sentences, found, recorder.right, lost)


PASS = HeadRelation()
