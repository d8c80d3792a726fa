"""Words that heads look back at, compared with the relations of a parse (Clark et al. 2019, sections 3 and 4.1).

Of two words that a relation joins, only the later can look at the earlier. The weight to a word of several tokens is the sum over its tokens; the weight from
such a word is the mean over its tokens. A head gets a pair right if the later word puts more weight on the earlier one than on any other word of the sentence
before it. Index 0, which takes the weight that heads have no use for, is part of no word.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.heads import attention_scores, behind_norms, by_head, rotate_queries_and_keys
from ingest.model.hooks import LayerRecord
from ingest.model.models import Model
from ingest.recorders.attention_blocks import AT_ONCE, n_bytes
from ingest.recorders.base import Batch
from ingest.recorders.heads import CorpusHeadRecorder
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.recorders.reading import batches, n_tokens, read_batch
from ingest.text.parsed import Parsed, ParsedText, all_pairs, pairs_of, parsed_text
from ingest.text.probed_words import MOST_WORDS
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker
from schema.errors import AtlasError
from schema.terms import LOOKS

ANY = "any"
"""Name of the group of all relations except punctuation."""
PUNCT = "punct"
Pairs = Counter[tuple[str, bool]]
"""Number of pairs of words, by the dependent's relation and by whether the head is the later word."""


@dataclass(frozen=True, eq=False)
class Arcs:
    """Pairs of words of one sentence that a relation joins; [n_arcs] each, except `words`.

    words: places of the words that are read, [n]. looking, seen: the later and the earlier word of each pair, as indices into `words`.
    looks: 0 if the word that is seen is the head, 1 if it depends on the word that looks, as in LOOKS. relations: the dependent's relation to its head.
    distances: number of read words from the earlier word to the later one.
    """

    words: np.ndarray
    looking: np.ndarray
    seen: np.ndarray
    looks: np.ndarray
    relations: np.ndarray

    @property
    def distances(self) -> np.ndarray:
        return self.looking - self.seen


def arcs(sentence: Parsed) -> Arcs:
    """Find the arcs of a sentence whose two words the model read, and which share no token."""
    words = np.flatnonzero(sentence.is_read)
    number = np.full(len(sentence), -1)
    number[words] = np.arange(len(words))
    dependents = np.array([i for i in words if sentence.heads[i] >= 0 and number[sentence.heads[i]] >= 0 and sentence.relations[i] is not None], np.int64)
    heads = sentence.heads[dependents]
    later, earlier = np.maximum(dependents, heads), np.minimum(dependents, heads)
    apart = sentence.last[earlier] < sentence.first[later]
    relations = np.array([sentence.relations[i] for i in dependents], object)
    return Arcs(words, number[later][apart], number[earlier][apart], (later == heads)[apart].astype(np.int8), relations[apart])


class RelationRecorder:
    """Recorder of the arcs that each head gets right.

    right: for each sentence, in the order of `sentences`, whether each head gets each arc right, [n_layers, n_heads, n_arcs]; false until it is read.
    """

    sites = frozenset({"q", "k"})

    def __init__(self, model: Model, sentences: Sequence[Parsed], all_arcs: Sequence[Arcs]) -> None:
        self.model, self.sentences, self.arcs = model, sentences, all_arcs
        self.right = [np.zeros((model.n_layers, model.n_heads, len(a.looking)), bool) for a in all_arcs]
        self.of_sequence: dict[int, list[int]] = {}
        for i, s in enumerate(sentences):
            if s.sequence_id is not None and len(all_arcs[i].looking):
                self.of_sequence.setdefault(s.sequence_id, []).append(i)
        self.batch: Batch | None = None

    def begin(self, batch: Batch) -> None:
        self.batch = batch

    def take(self, layer: int, record: LayerRecord) -> None:
        assert self.batch is not None
        for row, sequence in enumerate(self.batch.sequences):
            of = self.of_sequence.get(sequence.sequence_id, [])
            if not of:
                continue
            q, k = (by_head(self.model, record[part][row : row + 1], part) for part in ("q", "k"))
            q, k = rotate_queries_and_keys(self.model, layer, *behind_norms(self.model, layer, q, k), torch.arange(q.shape[2], device=self.model.device))
            for i in of:
                self.right[i][layer] = find_right_arcs(self.model, layer, q[:, 0], k[:, 0], self.sentences[i], self.arcs[i], sequence.first_position_id)


def find_right_arcs(model: Model, layer: int, q: Tensor, k: Tensor, sentence: Parsed, of: Arcs, start: int) -> np.ndarray:
    """Tell which arcs each head gets right, [n_heads, n_arcs].

    q, k: rotated queries and keys of the sequence, [n_heads, seq, d_head]. start: the sequence's first position_id.
    """
    firsts, lasts = sentence.first[of.words] - start, sentence.last[of.words] - start
    begin, end = int(firsts.min()), int(lasts.max()) + 1
    tokens = np.arange(begin, end)
    is_in = torch.from_numpy((tokens >= firsts[:, None]) & (tokens <= lasts[:, None])).to(q.device).float()
    destinations, step = torch.arange(begin, end, device=q.device), max(1, AT_ONCE // ((end - begin) * end))
    looking, seen = torch.from_numpy(of.looking).to(q.device), torch.from_numpy(of.seen).to(q.device)
    before = torch.from_numpy(lasts[None] < firsts[:, None]).to(q.device)
    found = []
    for heads in (slice(h, h + step) for h in range(0, len(q), step)):
        scores = attention_scores(model, layer, q[heads, None, begin:end], k[heads, None, :end], destinations, heads)[:, 0]
        weights = scores.softmax(-1)[..., begin:]
        of_words = (is_in / is_in.sum(1, keepdim=True)) @ weights @ is_in.T
        others = of_words.masked_fill(~before, -1.0)[:, looking]
        target = others.gather(-1, seen[None, :, None].expand(len(others), -1, 1))
        # a tie with another word tells nothing of this one
        found.append(((others >= target).sum(-1) == 1).cpu().numpy())
    return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class Group:
    """Arcs of one relation and one direction, for which a head can be chosen.

    members: the arcs, as indices into all arcs. is_test, distances: of each member.
    """

    relation: str
    looks: int
    members: np.ndarray
    is_test: np.ndarray
    distances: np.ndarray

    @property
    def offset(self) -> int:
        """The most common distance of the arcs to choose heads by, or of the test's arcs if there are no others; ties go to the smallest distance."""
        chosen = self.distances[~self.is_test] if (~self.is_test).any() else self.distances
        return int(np.bincount(chosen).argmax())


def is_in_group(relation: str, group: str) -> bool:
    return relation != PUNCT if group == ANY else relation == group


def groups(sentences: Sequence[Parsed], all_arcs: Sequence[Arcs]) -> list[Group]:
    """Group the arcs by relation and direction. All relations except punctuation together form a further relation, ANY."""
    relations = np.concatenate([np.zeros(0, object), *(a.relations for a in all_arcs)])
    looks = np.concatenate([np.zeros(0, np.int8), *(a.looks for a in all_arcs)])
    distances = np.concatenate([np.zeros(0, np.int64), *(a.distances for a in all_arcs)])
    is_test = np.repeat([s.is_test for s in sentences], [len(a.looking) for a in all_arcs])
    found = []
    for relation in [*sorted(set(relations.tolist())), ANY]:
        for look in (0, 1):
            is_member = (looks == look) & np.array([is_in_group(name, relation) for name in relations], bool)
            if is_member.any():
                members = np.flatnonzero(is_member)
                found.append(Group(relation, look, members, is_test[members], distances[members]))
    return found


def share(right: np.ndarray) -> float | None:
    return float(right.mean()) if len(right) else None


def parts(right: np.ndarray, of: Group) -> tuple[float | None, float | None]:
    """Compute the share of right arcs among those to choose heads by, and among those of the test. right: whether each member of the group is right, [n]."""
    return share(right[~of.is_test]), share(right[of.is_test])


HEAD_RELATION = pa.schema(
    [
        ("run_id", pa.int32()),
        ("relation", pa.string()),
        ("looks_at", pa.string()),
        ("layer", pa.int16()),
        ("head", pa.int16()),
        ("accuracy", pa.float32()),
        ("test_accuracy", pa.float32()),
    ]
)


def count_left_out_pairs(total: Pairs, text: ParsedText) -> dict[str, Pairs]:
    """Count the pairs of words that no head is compared with, by column of `word_relation`. total: the pairs of the whole corpus.

    The pairs counted here and those compared add up to `total`.
    """
    split, long, whole = (pairs_of(part) for part in (text.split, text.long, text.sentences))
    read: Pairs = Counter((relation, bool(looks)) for s in text.sentences for a in (arcs(s),) for relation, looks in zip(a.relations, a.looks, strict=True))
    return {
        "n_left_out_undrawn": total - split - long - whole, "n_left_out_split": split, "n_left_out_long": long, "n_left_out_unread": whole - read,
    }  # fmt: skip


def relation_tables(
    run_id: int, corpus_id: int, sentences: Sequence[Parsed], all_arcs: Sequence[Arcs], right: Sequence[np.ndarray], lost: Mapping[str, Pairs]
) -> dict[str, pa.Table]:
    """Build the rows of `word_relation` and `head_relation`. lost: the result of `count_left_out_pairs`."""
    every = np.concatenate(list(right), axis=-1)
    n_layers, n_heads = every.shape[:2]
    relations, heads = [], []
    for of in groups(sentences, all_arcs):
        named = {"run_id": run_id, "relation": of.relation, "looks_at": LOOKS[of.looks]}
        offset = parts(of.distances == of.offset, of)
        n_test = int(of.is_test.sum())
        counts = {"corpus_id": corpus_id, "n_words": len(of.is_test) - n_test, "n_test": n_test, "offset_words": of.offset}
        counts |= {
            reason: sum(n for (name, looks), n in pairs.items() if looks == of.looks and is_in_group(name, of.relation)) for reason, pairs in lost.items()
        }
        relations.append({**named, **counts, "offset_accuracy": offset[0], "offset_test_accuracy": offset[1]})
        for layer in range(n_layers):
            for head in range(n_heads):
                both = parts(every[layer, head, of.members], of)
                heads.append({**named, "layer": layer, "head": head, "accuracy": both[0], "test_accuracy": both[1]})
    return {"word_relation": pa.Table.from_pylist(relations), "head_relation": pa.Table.from_pylist(heads, HEAD_RELATION)}


OPTION = "--head-relation"

RELATIONS = 45
"""Approximate number of relations of English pipelines, ANY included; a dry run assumes it."""


class HeadRelation(Work):
    """Plans and costs of the pass `head_relation`."""

    def plans(self, basis: Basis) -> Iterable[Plan]:
        if basis.text is None:
            return
        text, request = basis.text, basis.request
        parsed = parsed_text(basis.con, text.corpus_id, OPTION, request.seed)
        require_relations(parsed.sentences)
        lost = count_left_out_pairs(all_pairs(basis.con, text.corpus_id), parsed)
        read = {s.sequence_id for s in parsed.sentences}
        sequences = [s for d in text.documents() for s in d.sequences if s.sequence_id in read]
        settings = {"seed": request.seed, "batch_size": request.batch_size}

        def jobs(run_id: int, pending: list[int]) -> Iterable[Job]:
            of = {
                "run_id": run_id, "corpus_id": text.corpus_id, "sentences": parsed.sentences, "sequences": sequences, "lost": lost,
                "batch_tokens": request.batch_tokens,
            }  # fmt: skip
            return (job(run_id, i, compute, **of) for i in pending)

        yield Plan({**request.weights_settings(), **settings}, [sum(len(s.token_ids) for s in sequences)], "positions", jobs, text.corpus_id)

    def rows(self, sample: CostSample) -> dict[str, int]:
        """Return an upper bound on the rows: it counts every relation in both directions."""
        if sample.seen is None:
            return {}
        return {"word_relation": 2 * RELATIONS, "head_relation": 2 * RELATIONS * sample.model.n_layers * sample.model.n_heads}

    def seconds(self, sample: CostSample) -> float:
        """Estimate the time from that of head statistics, which compute attention weights too."""
        if sample.seen is None:
            return 0.0
        recorder = CorpusHeadRecorder(sample.model, sample.request.context, 0)
        return sample.token_seconds(recorder) * min(sample.seen.n_positions, sum(MOST_WORDS.values()))

    def n_bytes(self, sample: CostSample) -> int:
        return n_bytes(sample.model, sample.request.context)


def require_relations(sentences: list[Parsed]) -> None:
    """Raise AtlasError if the sentences to choose heads by, or those of the test, have no two read words that a relation joins."""
    for what, is_test in (("to choose heads by", False), ("of the test", True)):
        if not any(len(arcs(s).looking) for s in sentences if s.is_test == is_test):
            raise AtlasError(
                f"{OPTION}: no sentence {what} has two words that were read and that a relation joins; give --words with syntactic heads, or more text"
            )


def compute(
    worker: Worker, progress: Progress, *, run_id: int, corpus_id: int, sentences: list[Parsed], sequences: list[Any],
    lost: dict[str, Pairs], batch_tokens: int
) -> Tables:  # fmt: skip
    found = [arcs(s) for s in sentences]
    recorder = RelationRecorder(worker.model, sentences, found)
    for batch in batches(sequences, batch_tokens):
        for part in read_batch(worker.model, [(recorder, None)], batch):
            progress(sum(map(n_tokens, part)))
    return relation_tables(run_id, corpus_id, sentences, found, recorder.right, lost)
