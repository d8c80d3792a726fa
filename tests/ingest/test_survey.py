"""The survey: counts, shards of whole documents, and a sample that depends on nothing but seed and text."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ingest.text.survey as module
from ingest.text.corpora import Document
from ingest.text.parts import documents_of_spans
from ingest.text.sequences import CutDocument, Sequence
from ingest.text.survey import select_by_hash, survey
from schema.errors import AtlasError


def documents(lengths: list[int], corpus_id: int = 0) -> list[CutDocument]:
    """Documents of so many positions, each one sequence; 0 makes a blank one."""
    cut, first = [], corpus_id << 40
    for i, n in enumerate(lengths):
        zeros = np.zeros(n, np.int32)
        sequences = (Sequence((corpus_id << 40) + i, (corpus_id << 40) + i, first, zeros, zeros, zeros, zeros),) if n else ()
        cut.append(CutDocument((corpus_id << 40) + i, Document(f"d{i}", f"text {i}", {}), sequences))
        first += n
    return cut


def look(cut, **changes):
    return survey(cut, **{"shard_positions": 10, "n_sample": 0, "seed": 0, **changes})


def test_counts_documents_blank_ones_sequences_and_positions():
    seen = look(documents([4, 0, 7]))
    assert (seen.n_documents, seen.n_blank_documents, seen.n_sequences, seen.n_positions, seen.longest) == (3, 1, 2, 11, 7)


def test_shards_are_whole_documents_and_end_when_full():
    seen = look(documents([4, 7, 3, 0, 9, 1]))
    assert [(s.shard_id, s.first_document_id, s.n_documents, s.n_positions) for s in seen.spans] == [(0, 0, 2, 11), (1, 2, 3, 12), (2, 5, 1, 1)]
    assert [s.first_position_id for s in seen.spans] == [0, 11, 23]


@pytest.mark.parametrize(
    ("n", "sizes"), [(17, [4, 4, 4, 4, 1]), (27, [4] * 6 + [3]), (28, [8, 8, 8, 4]), (55, [8] * 6 + [7]), (56, [16, 16, 16, 8]), (130, [16] * 8 + [2])]
)
def test_shards_grow_with_the_text(n: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 4 positions while 6 or fewer are full, then of 8, at most of 16."""
    for name, value in {"SHARD_POSITIONS": 4, "LARGEST_SHARD": 16, "MANY_SHARDS": 6}.items():
        monkeypatch.setattr(module, name, value)
    spans = look(documents([1] * n), shard_positions=None).spans
    assert [s.n_positions for s in spans] == [s.n_documents for s in spans] == sizes
    assert [s.first_document_id for s in spans] == [s.first_position_id for s in spans] == [sum(sizes[:i]) for i in range(len(sizes))]
    assert [s.shard_id for s in spans] == list(range(len(sizes)))


def test_long_documents_make_longer_shards_and_blank_ones_go_with_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents of 7 in shards of 4, then of 8: each two of the first become one."""
    for name, value in {"SHARD_POSITIONS": 4, "LARGEST_SHARD": 16, "MANY_SHARDS": 6}.items():
        monkeypatch.setattr(module, name, value)
    spans = look(documents([7] * 9 + [0, 0]), shard_positions=None).spans
    assert [(s.n_positions, s.n_documents) for s in spans] == [(14, 2)] * 4 + [(7, 3)]
    spans = look(documents([20, 3, 3] * 4), shard_positions=None).spans
    assert [(s.n_positions, s.n_documents) for s in spans] == [(20, 1), (26, 3), (26, 3), (26, 3), (6, 2)]


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_shards_that_grow_hold_every_document_once(lengths: list[int]) -> None:
    """Whatever the documents' lengths: spans follow one another from the first document to the last, and from the first position to the last."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in {"SHARD_POSITIONS": 4, "LARGEST_SHARD": 64, "MANY_SHARDS": 3}.items():
            patched.setattr(module, name, value)
        spans = look(documents(lengths), shard_positions=None).spans
    if not sum(lengths):
        assert spans == ()
        return
    document = position = 0
    for i, s in enumerate(spans):
        assert (s.shard_id, s.first_document_id, s.first_position_id) == (i, document, position)
        document, position = document + s.n_documents, position + s.n_positions
    assert (document, position) == (len(lengths), sum(lengths))


def test_blank_documents_at_the_end_go_with_the_last_shard():
    seen = look(documents([12, 0, 0]))
    assert [(s.n_documents, s.n_positions) for s in seen.spans] == [(3, 12)]


@pytest.mark.parametrize("again", [[4, 7, 3, 9], [4, 7, 3], [4, 7], [4, 7, 3, 0, 8]], ids=str)
def test_documents_that_are_not_what_was_counted_are_refused(again: list[int]) -> None:
    spans = look(documents([4, 7, 3, 0, 9])).spans
    assert [len(found) for _, found in documents_of_spans(spans, iter(documents([4, 7, 3, 0, 9])))] == [2, 3]
    with pytest.raises(AtlasError, match="changed while it was read: from document 2 on there were 3 documents of 12 positions"):
        list(documents_of_spans(spans, iter(documents(again))))


def test_ids_of_a_second_corpus_begin_at_its_base():
    seen = look(documents([4, 7], corpus_id=3), n_sample=5)
    assert seen.spans[0].first_position_id == 3 << 40
    assert all(3 << 40 <= p < (3 << 40) + 11 for p in seen.sample)


def test_a_larger_sample_contains_a_smaller_one_and_no_position_twice():
    cut = documents([50, 60, 70])
    small, large = look(cut, n_sample=20).sample, look(cut, n_sample=60).sample
    assert set(small) < set(large)
    assert len(set(large)) == 60 and list(large) == sorted(large)


def test_the_sample_is_spread_evenly_over_positions():
    seen = look(documents([1000] * 10), n_sample=2000)
    counts = np.bincount(np.array(seen.sample) // 1000, minlength=10)
    # binomial with n = 2000, p = 0.1: mean 200, standard deviation 13.4
    assert counts.min() > 140 and counts.max() < 260


def test_the_draw_of_a_document_does_not_depend_on_what_stands_before_it():
    alone, after = documents([100]), documents([37, 100])
    same_text = CutDocument(1, alone[0].document, after[1].sequences)
    drawn = [p for p in look([after[0], same_text], n_sample=137).sample if p >= 37]
    assert len(drawn) == 100
    few = look([after[0], same_text], n_sample=20).sample
    first = look(alone, n_sample=20).sample
    assert {p - 37 for p in few if p >= 37} <= set(first)


def test_other_seeds_draw_other_positions():
    cut = documents([500])
    assert look(cut, n_sample=20, seed=1).sample != look(cut, n_sample=20, seed=2).sample


def test_the_hash_covers_names_texts_and_order():
    cut = documents([4, 7])
    renamed = [CutDocument(0, Document("other", "text 0", {}), cut[0].sequences), cut[1]]
    hashes = {look(c).sha256 for c in (cut, renamed, cut[::-1], documents([4]))}
    assert len(hashes) == 4 and look(documents([4, 7])).sha256 in hashes


def test_what_is_nested_changes_no_document_and_what_is_left_out_is_named_once():
    """Atlases made before nested metadata was kept are gone on with."""
    plain = documents([4, 3])
    told = [replace(cut, document=replace(cut.document, nested={"tags": [i]}, left_out=("raw", f"raw{i}"))) for i, cut in enumerate(plain)]
    seen = look(told, n_sample=3)
    assert (seen.sha256, seen.sample) == (look(plain, n_sample=3).sha256, look(plain, n_sample=3).sample)
    assert seen.left_out == ("raw", "raw0", "raw1")


def sentences(lengths: list[int], corpus_id: int = 0) -> CutDocument:
    """A document of sequences of so many positions."""
    cut = documents(lengths, corpus_id)
    return CutDocument(cut[0].document_id, cut[0].document, tuple(s for d in cut for s in d.sequences))


def sequence_of(positions, lengths: list[int]) -> list[int]:
    return np.searchsorted(np.cumsum(lengths), positions, side="right").tolist()


def test_one_position_of_a_sequence_is_drawn_and_none_before_the_first_allowed():
    lengths = [5, 1, 9, 2, 30, 3]
    cut = [sentences(lengths)]
    everywhere, behind_bos = (look(cut, n_sample=50, one_from=first).sample for first in (0, 1))
    assert sequence_of(everywhere, lengths) == [0, 1, 2, 3, 4, 5]
    assert sequence_of(behind_bos, lengths) == [0, 2, 3, 4, 5]  # the second is BOS alone
    assert not set(behind_bos) & set((np.cumsum(lengths) - lengths).tolist())


def test_the_position_drawn_of_a_sequence_is_the_first_of_them_in_the_whole_order():
    lengths = [40, 50, 60]
    cut = [sentences(lengths)]
    by_order = [look(cut, n_sample=n).sample for n in range(1, 151)]
    drawn = [next(iter(set(after) - set(before))) for before, after in zip([(), *by_order[:-1]], by_order, strict=True)]
    first_of = {s: next(p for p in drawn if sequence_of([p], lengths) == [s]) for s in range(3)}
    assert set(look(cut, n_sample=3, one_from=0).sample) == set(first_of.values())


def test_a_larger_sample_of_one_a_sequence_contains_a_smaller_one():
    cut = [sentences([7] * 100)]
    small, large = look(cut, n_sample=20, one_from=1).sample, look(cut, n_sample=60, one_from=1).sample
    assert set(small) < set(large) and len(large) == 60
    assert len(set(sequence_of(large, [7] * 100))) == 60


def test_places_within_a_sequence_are_drawn_evenly():
    drawn = np.array(look([sentences([10] * 3000)], n_sample=3000, one_from=1).sample) % 10
    counts = np.bincount(drawn, minlength=10)
    # binomial with n = 3000, p = 1/9: mean 333, standard deviation 17.2
    assert counts[0] == 0 and counts[1:].min() > 247 and counts[1:].max() < 420


def test_samples_by_hash_grow_and_differ_by_layer_and_seed():
    ids = np.arange(1000)
    assert set(select_by_hash(0, 2, ids, 10)) < set(select_by_hash(0, 2, ids, 20))
    assert select_by_hash(0, 2, ids, 10).tolist() == select_by_hash(0, 2, ids[::-1], 10).tolist() == sorted(select_by_hash(0, 2, ids, 10))
    assert len({tuple(select_by_hash(seed, layer, ids, 10)) for seed in (-1, 0, 1) for layer in (0, 1, 2)}) == 9
