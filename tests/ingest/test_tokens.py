"""The vocabulary table: the bytes of a text's tokens are the bytes of the text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models
from transformers import PreTrainedTokenizerFast

from ingest.text.sequences import Encoder
from ingest.text.tokens import BYTE_OF, spell_bytes, token_rows
from ingest.text.words import STOP_WORDS, is_stop_word
from schema.tables import metadata

TEXT = "The people’s  café 🎉\n\n日本語 <|endoftext|> the\u00a0end"


def by_text(rows):
    return {row["text"]: row for row in rows.to_pylist()}


def glued(rows, token_ids):
    all_bytes = rows["bytes"].to_pylist()
    return b"".join(all_bytes[token_id] for token_id in token_ids)


def test_columns_are_those_of_the_table_token(byte_tokenizer):
    rows = token_rows(byte_tokenizer, len(byte_tokenizer))
    assert rows.column_names == [column.name for column in metadata(4).tables["token"].columns]
    assert rows["token_id"].to_pylist() == list(range(len(byte_tokenizer)))


def test_bytes_of_byte_level_tokens_glue_to_the_text(byte_tokenizer):
    rows = token_rows(byte_tokenizer, len(byte_tokenizer))
    assert glued(rows, Encoder(byte_tokenizer).encode(TEXT).token_ids.tolist()) == TEXT.encode()


@pytest.mark.thorough
@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=50))
def test_bytes_of_any_text_glue_to_it(byte_rows, byte_tokenizer, text):
    assert glued(byte_rows, Encoder(byte_tokenizer).encode(text).token_ids.tolist()) == text.encode()


@pytest.fixture(scope="module")
def byte_rows(byte_tokenizer):
    return token_rows(byte_tokenizer, len(byte_tokenizer))


def test_bytes_of_sentencepiece_tokens_glue_to_the_text_behind_one_space(sentencepiece_tokenizer):
    rows = token_rows(sentencepiece_tokenizer, len(sentencepiece_tokenizer))
    assert glued(rows, Encoder(sentencepiece_tokenizer).encode(TEXT).token_ids.tolist()) == b" " + TEXT.encode()


def test_the_byte_alphabet_is_a_permutation_of_all_bytes_with_known_spellings():
    assert sorted(BYTE_OF.values()) == list(range(256))
    assert (BYTE_OF["Ġ"], BYTE_OF["Ċ"], BYTE_OF["A"], BYTE_OF["Ã"], BYTE_OF["ł"]) == (0x20, 0x0A, 0x41, 0xC3, 0xA0)


def test_part_of_a_character_shows_as_its_byte(byte_tokenizer):
    rows = token_rows(byte_tokenizer, len(byte_tokenizer)).to_pylist()
    [row] = [row for row in rows if row["bytes"] == b"\xf0"]
    assert row["text"] == "⟨F0⟩"
    assert not row["is_punctuation"]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\xf0\x9f", "⟨F0 9F⟩"),
        (b" \xf0\x9f", " ⟨F0 9F⟩"),
        (b"\x98\x8a!", "⟨98 8A⟩!"),
        (b"a\x80b\x80c", "a⟨80 62 80⟩c"),
        ("é\ufffd".encode(), "é\ufffd"),
        (b"", ""),
    ],
)
def test_bytes_that_are_no_whole_character_are_spelt_out(raw: bytes, text: str) -> None:
    assert spell_bytes(raw) == text


def test_embedding_rows_beyond_the_tokenizer_are_marked_unused(byte_tokenizer):
    n = len(byte_tokenizer)
    row = token_rows(byte_tokenizer, n + 2).to_pylist()[-1]
    assert row == {
        "token_id": n + 1,
        "text": f"[unused {n + 1}]",
        "bytes": None,
        "is_special": True,
        "starts_word": False,
        "is_stop_word": False,
        "is_punctuation": False,
    }


def test_tokens_beyond_the_embedding_have_no_row(byte_tokenizer):
    assert token_rows(byte_tokenizer, 100).num_rows == 100


def test_control_tokens_are_special_and_nothing_else(byte_tokenizer):
    row = by_text(token_rows(byte_tokenizer, len(byte_tokenizer)))["<|endoftext|>"]
    assert row["is_special"]
    assert not row["is_punctuation"]


def test_words_spaces_and_punctuation_are_told_apart(byte_tokenizer):
    rows = by_text(token_rows(byte_tokenizer, len(byte_tokenizer)))
    flags = {text: tuple(rows[text][flag] for flag in ("starts_word", "is_stop_word", "is_punctuation")) for text in (" the", "e", " people", ".", " ", "\n")}
    assert flags == {
        " the": (True, True, False),
        "e": (False, False, False),
        " people": (True, False, False),
        ".": (False, False, True),
        " ": (False, False, False),
        "\n": (False, False, False),
    }


def test_added_tokens_of_a_byte_level_vocabulary_are_plain_text(byte_tokenizer):
    copy = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(byte_tokenizer.backend_tokenizer.to_str()), eos_token="<|endoftext|>")
    copy.add_tokens([AddedToken("    ", normalized=False, special=False), AddedToken("éé", normalized=False, special=False)])
    rows = token_rows(copy, len(copy))
    text = "a    éé b"
    assert glued(rows, Encoder(copy).encode(text).token_ids.tolist()) == text.encode()
    assert not by_text(rows)["    "]["is_special"]


def test_sentencepiece_spellings_are_undone_and_the_unknown_token_is_special(sentencepiece_tokenizer):
    rows = token_rows(sentencepiece_tokenizer, len(sentencepiece_tokenizer)).to_pylist()
    assert [(row["text"], row["bytes"], row["is_special"]) for row in rows if row["token_id"] in (0, 1, 3 + 0x0A, 3 + 0xE9)] == [
        ("<unk>", b"<unk>", True),
        ("<s>", b"<s>", True),
        ("\n", b"\n", False),
        ("⟨E9⟩", b"\xe9", False),
    ]
    assert by_text(token_rows(sentencepiece_tokenizer, len(sentencepiece_tokenizer)))[" the"]["starts_word"]


def test_other_vocabularies_are_taken_as_they_are_spelt():
    pipeline = Tokenizer(models.WordLevel({"the": 0, "##ing": 1, "▁x": 2, "<0x41>": 3}, unk_token="the"))
    rows = token_rows(PreTrainedTokenizerFast(tokenizer_object=pipeline), 4).to_pylist()
    assert [row["bytes"].decode() for row in rows] == ["the", "##ing", "▁x", "<0x41>"]


def test_a_vocabulary_with_a_hole_marks_it_unused():
    pipeline = Tokenizer(models.WordLevel({"the": 0, "x": 2}, unk_token="the"))
    assert [row["text"] for row in token_rows(PreTrainedTokenizerFast(tokenizer_object=pipeline), 3).to_pylist()] == ["the", "[unused 1]", "x"]


@pytest.mark.parametrize("text", [" The", "OF", "'s", "’S", "\nand", " not "])
def test_function_words_are_known_in_any_dress(text):
    assert is_stop_word(text)


@pytest.mark.parametrize("text", [" government", "th", "", " ", "s", "of the", " he'"])
def test_other_tokens_are_no_stop_words(text):
    assert not is_stop_word(text)


def test_stop_words_are_lower_case_and_have_no_strays():
    assert 150 <= len(STOP_WORDS) <= 200
    assert all(word == word.casefold() and word.replace("'", "").isalpha() for word in STOP_WORDS)
