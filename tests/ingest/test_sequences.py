"""Cutting: expected ids, offsets and next tokens are worked out by hand over an alphabet where every letter is one token."""

import json
import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from ingest.text.corpora import Document
from ingest.text.sentences import sentence_starts
from ingest.text.sequences import NO_NEXT_TOKEN, Encoder, bos_token, cut_documents, note_start
from schema.errors import AtlasError

UNICODE = st.text(max_size=60) | st.text(alphabet="aé 日🎉\n\t.the fi\u0301ﬁ\u00a0", max_size=60)


def documents(*texts):
    return [Document(f"d{i}", text, {}) for i, text in enumerate(texts)]


def cut_all(texts, tokenizer, *, corpus_id=0, context=4, bos="never", by="tokens", document_tokens=None):
    return list(cut_documents(documents(*texts), tokenizer, corpus_id=corpus_id, context=context, bos=bos, by=by, document_tokens=document_tokens))


def flat(cut_document, field):
    return [value for sequence in cut_document.sequences for value in getattr(sequence, field).tolist()]


def slices(cut_document):
    text = cut_document.document.text
    return [[text[a:b] for a, b in zip(s.char_starts, s.char_ends, strict=True)] for s in cut_document.sequences]


def test_a_document_is_cut_at_the_context_and_its_next_tokens_reach_across_the_cut(letter_tokenizer):
    [found] = cut_all(["abcdefg"], letter_tokenizer, context=3)
    assert [s.token_ids.tolist() for s in found.sequences] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [s.next_token_ids.tolist() for s in found.sequences] == [[1, 2, 3], [4, 5, 6], [NO_NEXT_TOKEN]]
    assert [s.char_starts.tolist() for s in found.sequences] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [s.char_ends.tolist() for s in found.sequences] == [[1, 2, 3], [4, 5, 6], [7]]
    assert {a.dtype for s in found.sequences for a in (s.token_ids, s.next_token_ids, s.char_starts, s.char_ends)} == {np.dtype(np.int32)}


def test_bos_takes_a_place_in_every_sequence_covers_nothing_and_is_followed_by_text(letter_tokenizer):
    bos = letter_tokenizer.bos_token_id
    [found] = cut_all(["abcde"], letter_tokenizer, context=3, bos="always")
    assert [s.token_ids.tolist() for s in found.sequences] == [[bos, 0, 1], [bos, 2, 3], [bos, 4]]
    assert [s.next_token_ids.tolist() for s in found.sequences] == [[0, 1, 2], [2, 3, 4], [4, NO_NEXT_TOKEN]]
    assert [s.char_starts.tolist() for s in found.sequences] == [[0, 0, 1], [2, 2, 3], [4, 4]]
    assert [s.char_ends.tolist() for s in found.sequences] == [[0, 1, 2], [2, 3, 4], [4, 5]]


def test_ids_are_consecutive_over_documents_and_start_at_the_corpus_times_two_to_the_forty(letter_tokenizer):
    first = 3 * 2**40
    found = cut_all(["abcde", " \n ", "fg"], letter_tokenizer, corpus_id=3, context=4)
    assert [c.document_id - first for c in found] == [0, 1, 2]
    assert [[s.sequence_id - first for s in c.sequences] for c in found] == [[0, 1], [], [2]]
    assert [[s.document_id - first for s in c.sequences] for c in found] == [[0, 0], [], [2]]
    assert [[s.first_position_id - first for s in c.sequences] for c in found] == [[0, 4], [], [5]]


def test_a_blank_document_comes_out_without_sequences(letter_tokenizer):
    found = cut_all(["", " \n\t\u3000", "a"], letter_tokenizer)
    assert [len(c.sequences) for c in found] == [0, 0, 1]


def test_cutting_streams(letter_tokenizer):
    def endless():
        while True:
            yield Document("d", "abc", {})

    stream = cut_documents(endless(), letter_tokenizer, corpus_id=0, context=4, bos="never", by="tokens")
    assert [next(stream).document_id for _ in range(3)] == [0, 1, 2]


def test_sentences_are_sequences_and_long_ones_are_cut_further(letter_tokenizer):
    [found] = cut_all(["ab.\n\ncdefg.  \n\nh"], letter_tokenizer_with_newline(letter_tokenizer), context=4, by="sentences")
    assert ["".join(s) for s in slices(found)] == ["ab.\n", "\n", "cdef", "g.  ", "\n\n", "h"]
    assert flat(found, "next_token_ids")[:-1] == flat(found, "token_ids")[1:]


def letter_tokenizer_with_newline(tokenizer):
    """The same letters, and the line feed as token 29."""
    description = json.loads(tokenizer.backend_tokenizer.to_str())
    description["model"]["vocab"]["Ċ"] = 29
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(description)), bos_token="<s>")


def test_a_token_with_a_leading_space_belongs_to_the_sentence_of_its_word(byte_tokenizer):
    [found] = cut_all(["The first. The people."], byte_tokenizer, context=50, by="sentences")
    assert ["".join(s) for s in slices(found)] == ["The first.", " The people."]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One. ", "Two! ", "Three? ", "Four"]),
        ("He said “Go.” Then he went.", ["He said “Go.” ", "Then he went."]),
        ('It cost 3.50 dollars. "Why?" he asked.', ["It cost 3.50 dollars. ", '"Why?" he asked.']),
        ("Mr. Smith met J. Adams of the U.S. Army, e.g. Twice.", ["Mr. Smith met J. Adams of the U.S. Army, e.g. Twice."]),
        ("Wait... what? Yes... No.", ["Wait... what? ", "Yes... ", "No."]),
        ("A title\n\nthe text. \n\nmore", ["A title\n\n", "the text. \n\n", "more"]),
        ("A line\nthat goes on.", ["A line\nthat goes on."]),
        ("今日は。元気？はい", ["今日は。", "元気？", "はい"]),
        ("One. ", ["One. "]),
        ("", [""]),
    ],
)
def test_sentences_start_where_the_rule_says(text, sentences):
    starts = sentence_starts(text)
    assert [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)] == sentences


N = 1_000_000


@pytest.mark.parametrize("text", ["." * N, "\n" + " " * N, ". " * (N // 2), "。" * N + "a", '."' * (N // 2), "\n" * N])
def test_finding_sentences_takes_linear_time(text):
    """Of quadratic time a test would pass its limit."""
    starts = list(sentence_starts(text))
    assert starts == sorted(set(starts)) and all(0 <= start < len(text) for start in starts)


@pytest.mark.thorough
@settings(max_examples=150, deadline=None)
@given(text=UNICODE, context=st.integers(2, 9), bos=st.sampled_from(["always", "never"]), by=st.sampled_from(["tokens", "sentences"]))
def test_sequences_glue_to_the_document(sentencepiece_tokenizer, text, context, bos, by):
    tokenizer = sentencepiece_tokenizer
    [found] = cut_all([text], tokenizer, context=context, bos=bos, by=by)
    expected = tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids if text.strip() else []
    n_bos = int(bos == "always")
    assert [i for s in found.sequences for i in s.token_ids[n_bos:].tolist()] == expected
    assert all(1 + n_bos <= len(s.token_ids) <= context for s in found.sequences)
    following = [i for s in found.sequences for i in s.next_token_ids[n_bos:].tolist()]
    assert following == [*expected[1:], NO_NEXT_TOKEN][: len(expected)]


@pytest.mark.thorough
@settings(max_examples=200, deadline=None)
@given(text=UNICODE)
def test_byte_level_slices_glue_to_the_text_exactly_whatever_the_tokenizer_trims(byte_tokenizer, text):
    encoding = Encoder(byte_tokenizer).encode(text)
    assert encoding.token_ids.tolist() == byte_tokenizer(text, split_special_tokens=True).input_ids
    reached = 0
    for token_id, start, end in zip(encoding.token_ids.tolist(), encoding.starts.tolist(), encoding.ends.tolist(), strict=True):
        assert start <= reached <= end, "tokens leave no gap and never go back"
        decoded = byte_tokenizer.decode([token_id])
        assert decoded == text[start:end] or "\ufffd" in decoded, "a slice is the token's text, pieces of characters aside"
        reached = end
    assert reached == len(text)


@settings(max_examples=150, deadline=None)
@given(text=st.text(alphabet="Hi the é🎉\nok", min_size=1, max_size=40))
def test_sentencepiece_offsets_point_into_the_original_text(sentencepiece_tokenizer, text):
    encoding = Encoder(sentencepiece_tokenizer).encode(text)
    covered = sorted({(a, b) for a, b in zip(encoding.starts.tolist(), encoding.ends.tolist(), strict=True) if a < b})
    assert "".join(text[a:b] for a, b in covered) == text


def test_the_space_that_sentencepiece_puts_before_a_text_covers_nothing(sentencepiece_tokenizer):
    encoding = Encoder(sentencepiece_tokenizer).encode("Hi the")
    assert sentencepiece_tokenizer.convert_ids_to_tokens(encoding.token_ids.tolist()) == ["▁", "H", "i", "▁the"]
    assert list(zip(encoding.starts.tolist(), encoding.ends.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 2), (2, 6)]


def test_a_control_token_spelt_in_a_document_is_text(byte_tokenizer):
    text = "the <|endoftext|> the"
    assert byte_tokenizer.eos_token_id in byte_tokenizer(text).input_ids, "the tokenizer itself would take it for the token"
    [found] = cut_all([text], byte_tokenizer, context=100)
    assert byte_tokenizer.eos_token_id not in flat(found, "token_ids")
    assert "".join(slices(found)[0]) == text


def test_bos_auto_does_what_the_tokenizer_does(letter_tokenizer, byte_tokenizer, sentencepiece_tokenizer):
    assert bos_token(sentencepiece_tokenizer, "auto") == 1
    assert bos_token(letter_tokenizer, "auto") is None, "it has a BOS token, and does not put it before a text"
    assert bos_token(byte_tokenizer, "auto") is None
    assert bos_token(sentencepiece_tokenizer, "never") is None
    assert bos_token(letter_tokenizer, "always") == letter_tokenizer.bos_token_id


def started_by(*names: str) -> PreTrainedTokenizerFast:
    """Lower letters and marks, with these tokens before a text and [SEP] behind it; it has no BOS."""
    marks = ["[UNK]", "[CLS]", "[SEP]", "[gMASK]"]
    pipeline = Tokenizer(models.WordLevel({name: i for i, name in enumerate([*marks, "a", "b"])}, unk_token="[UNK]"))
    pipeline.pre_tokenizer = pre_tokenizers.Whitespace()
    ids = [(name, marks.index(name)) for name in {*names, "[SEP]"}]
    pipeline.post_processor = processors.TemplateProcessing(single=" ".join([*names, "$A", "[SEP]"]), special_tokens=ids)
    return PreTrainedTokenizerFast(tokenizer_object=pipeline, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


def test_a_sequence_begins_with_cls_where_the_tokenizer_begins_a_text_so():
    tokenizer = started_by("[CLS]")
    [found] = cut_all(["a b a"], tokenizer, context=3, bos="auto")
    assert [s.token_ids.tolist() for s in found.sequences] == [[1, 4, 5], [1, 4]]
    assert note_start(tokenizer, "auto") == "note: every sequence begins with [CLS], as the tokenizer begins a text"


def test_several_tokens_before_a_text_are_named_and_none_is_put():
    tokenizer = started_by("[gMASK]", "[CLS]")
    assert bos_token(tokenizer, "auto") is None
    assert note_start(tokenizer, "auto").endswith("can begin with one at most: none is put; --bos '[CLS]' puts that one")


def test_a_token_can_be_named_to_begin_with(byte_tokenizer, sentencepiece_tokenizer):
    assert bos_token(started_by(), "[SEP]") == 2
    assert [note_start(sentencepiece_tokenizer, "auto"), note_start(byte_tokenizer, "auto"), note_start(started_by("[CLS]"), "never")] == [None] * 3
    with pytest.raises(AtlasError, match="no BOS rule 'alway', nor a token of that name; give auto, always, never, start, or"):
        bos_token(byte_tokenizer, "alway")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bos": "always"}, "no BOS token; use 'auto' or 'never'"),
        ({"bos": "sometimes"}, "give auto, always, never"),
        ({"by": "words"}, "give tokens, sentences"),
        ({"context": 0}, "no room for text"),
    ],
)
def test_settings_that_cannot_be_met_are_refused_before_anything_is_read(byte_tokenizer, options, message):
    with pytest.raises(AtlasError, match=message):
        cut_documents(iter([]), byte_tokenizer, **{"corpus_id": 0, "context": 4, "bos": "never", "by": "tokens", **options})


def test_a_context_of_one_has_no_room_beside_bos(sentencepiece_tokenizer):
    with pytest.raises(AtlasError, match="no room for text beside BOS"):
        cut_documents(iter([]), sentencepiece_tokenizer, corpus_id=0, context=1, bos="auto", by="tokens")


def whole_then_cut(text, tokenizer, limit, **of):
    """Positions of the document by its definition: the whole text is encoded, and the first `limit` tokens are cut."""
    encoder = Encoder(tokenizer)
    encoding = encoder.encode(text)
    n = min(limit, len(encoding.token_ids))
    following = [*encoding.token_ids.tolist(), NO_NEXT_TOKEN][1 : n + 1]
    return list(zip(encoding.token_ids[:n].tolist(), following, encoding.starts[:n].tolist(), encoding.ends[:n].tolist(), strict=True))


@pytest.mark.thorough
@settings(max_examples=150, deadline=None)
@given(
    text=st.text(alphabet="aé 日🎉\n\t.the fi\u0301ﬁ\u00a0pol", max_size=400) | st.text(alphabet=" e\u0301", max_size=200),
    limit=st.integers(1, 4),
    by=st.sampled_from(["tokens", "sentences"]),
    name=st.sampled_from(["byte_tokenizer", "sentencepiece_tokenizer"]),
)
def test_the_first_tokens_of_a_document_are_those_of_the_whole_text(request, text, limit, by, name):
    tokenizer = request.getfixturevalue(name)
    [found] = cut_all([text], tokenizer, context=9, by=by, document_tokens=limit)
    [whole] = cut_all([text], tokenizer, context=10**6, by=by)
    rows = list(zip(*(flat(found, f) for f in ("token_ids", "next_token_ids", "char_starts", "char_ends")), strict=True))
    assert rows == (whole_then_cut(text, tokenizer, limit) if text.strip() else [])
    ends = [len(s.token_ids) for s in whole.sequences]
    assert by == "tokens" or len(found.sequences) == sum(n < limit for n in np.cumsum([0, *ends[:-1]])) * bool(ends)


@pytest.mark.parametrize("text", ["the people of the world. " * 400_000, "a" * 5_000_000, "a\n" + " " * 5_000_000], ids=["words", "one word", "white space"])
def test_a_long_document_of_which_few_tokens_are_read_is_not_encoded_to_its_end(byte_tokenizer, monkeypatch, text):
    encoded, encode = [], Encoder.encode
    monkeypatch.setattr(Encoder, "encode", lambda self, text, **how: encoded.append(len(text)) or encode(self, text, **how))
    [found] = cut_all([text], byte_tokenizer, document_tokens=2, by="sentences")
    assert len(flat(found, "token_ids")) == 2
    assert found.document.text == text
    assert sum(encoded) < 10_000


def test_a_slow_tokenizer_is_refused_by_name():
    with pytest.raises(AtlasError, match=r"ByT5Tokenizer.*a fast tokenizer"):
        cut_documents(iter([]), ByT5Tokenizer(), corpus_id=0, context=8, bos="never", by="tokens")


def test_a_document_longer_than_the_model_maximum_is_not_cut_short_and_warns_nobody(byte_tokenizer, caplog, monkeypatch):
    monkeypatch.setattr(byte_tokenizer, "model_max_length", 8)
    byte_tokenizer.backend_tokenizer.enable_truncation(8)
    try:
        with caplog.at_level(logging.WARNING):
            [found] = cut_all(["the people " * 50], byte_tokenizer, context=16)
    finally:
        byte_tokenizer.backend_tokenizer.no_truncation()
    assert found.sequences[-1].char_ends[-1] == len("the people " * 50)
    assert not caplog.records
