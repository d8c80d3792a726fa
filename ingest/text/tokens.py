"""The vocabulary as rows of the table `token`: what each token id stands for, to the byte."""

import json
import re
import unicodedata
from collections.abc import Iterator

import pyarrow as pa
from transformers import PreTrainedTokenizerFast

from ingest.text.words import is_stop_word

REPLACEMENT = "\ufffd"
BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")
TOKEN_SCHEMA = pa.schema(
    [
        ("token_id", pa.int32()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("is_special", pa.bool_()),
        ("starts_word", pa.bool_()),
        ("is_stop_word", pa.bool_()),
        ("is_punctuation", pa.bool_()),
    ]
)


def token_rows(tokenizer: PreTrainedTokenizerFast, d_vocab: int) -> pa.Table:
    """Build one row for each of the `d_vocab` rows of the output embedding, with the columns of the table `token`.

    Bytes are exact for byte-level and SentencePiece vocabularies, and the token as spelt for any other.
    A row that no token uses has the text `[unused <id>]`, no bytes, and counts as special.
    A token whose id lies beyond the embedding (an image marker, say) has no row: the model cannot read it.
    """
    names = {token_id: name for name, token_id in tokenizer.get_vocab().items()}
    added = tokenizer.added_tokens_decoder
    special = set(tokenizer.all_special_ids) | {token_id for token_id, token in added.items() if token.special}
    kinds = decoder_types(tokenizer)
    rows = []
    for token_id in range(d_vocab):
        name = names.get(token_id)
        raw = None if name is None else token_bytes(name, kinds, is_special=token_id in special, is_added=token_id in added)
        rows.append(_row(token_id, raw, token_id in special))
    return pa.Table.from_pylist(rows, TOKEN_SCHEMA)


def token_bytes(name: str, kinds: frozenset[str], *, is_special: bool, is_added: bool) -> bytes:
    """Find the bytes that a token of this name adds to a text. kinds: the decoder types of the vocabulary.

    Added tokens of a byte-level vocabulary are spelt in plain characters, not in its byte alphabet.
    """
    if is_special:
        return name.encode()
    if "ByteLevel" in kinds:
        is_spelt_in_bytes = not is_added and all(character in BYTE_OF for character in name)
        return bytes(BYTE_OF[character] for character in name) if is_spelt_in_bytes else name.encode()
    if kinds & {"Metaspace", "ByteFallback", "Replace"}:
        byte = BYTE_TOKEN.match(name) if "ByteFallback" in kinds else None
        return bytes([int(byte[1], 16)]) if byte else name.replace("▁", " ").encode()
    return name.encode()


def decoder_types(tokenizer: PreTrainedTokenizerFast) -> frozenset[str]:
    """Read the types of the decoding steps, which turn tokens back into text: they tell how the vocabulary spells bytes and spaces."""
    decoder = tokenizer.backend_tokenizer.decoder
    return frozenset() if decoder is None else frozenset(_types(json.loads(decoder.__getstate__())))


def _types(step: dict) -> Iterator[str]:
    yield step["type"]
    for inner in step.get("decoders", ()):
        yield from _types(inner)


def _byte_alphabet() -> dict[str, int]:
    """Map each character of GPT-2's token alphabet to its byte: printable Latin-1 bytes are spelt as themselves, the others as U+0100 and up, in order."""
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


BYTE_OF = _byte_alphabet()


def _row(token_id: int, raw: bytes | None, is_special: bool) -> dict[str, object]:
    text = f"[unused {token_id}]" if raw is None else spell_bytes(raw)
    is_text = raw is not None and not is_special
    return {
        "token_id": token_id,
        "text": text,
        "bytes": raw,
        "is_special": not is_text,
        "starts_word": is_text and text[:1].isspace() and text.lstrip()[:1].isalnum(),
        "is_stop_word": is_text and is_stop_word(text),
        "is_punctuation": is_text and is_punctuation(text),
    }


def spell_bytes(raw: bytes) -> str:
    """Spell a token's bytes as text. If some bytes belong to no whole character, all from the first to the last of them are written as in ⟨F0 9F⟩."""
    text = raw.decode(errors="replace")
    if raw == text.encode():
        return text
    before, after = text.partition(REPLACEMENT)[0], text.rpartition(REPLACEMENT)[2]
    broken = raw[len(before.encode()) : len(raw) - len(after.encode())]
    return f"{before}⟨{broken.hex(' ').upper()}⟩{after}"


def is_punctuation(text: str) -> bool:
    """Tell whether a text is only punctuation and symbols (Unicode categories P and S), spaces aside; the bytes of a broken character are neither."""
    marks = text.strip()
    return bool(marks) and all(unicodedata.category(mark)[0] in "PS" for mark in marks)
