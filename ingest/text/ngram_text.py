"""Text in which n-grams are counted: the tokens of whole documents, without those documents that are to be predicted."""

from collections.abc import Collection, Iterable, Iterator
from hashlib import sha256

import numpy as np
from transformers import PreTrainedTokenizerFast

from ingest.text.corpora import Document
from ingest.text.sequences import CutDocument, Encoder


def text_digest(document: Document) -> bytes:
    """Compute the digest of a document's text; documents with the same text have the same digest."""
    return sha256(document.text.encode()).digest()


def counted_documents(documents: Iterable[Document], tokenizer: PreTrainedTokenizerFast, left_out: Collection[bytes]) -> Iterator[np.ndarray]:
    """Yield the token_ids of each document, [n] int32, except documents with a digest in `left_out` and documents of white space alone."""
    encoder = Encoder(tokenizer)
    for document in documents:
        if document.text and not document.text.isspace() and text_digest(document) not in left_out:
            yield encoder.encode(document.text, is_chat=document.is_chat).token_ids


def read_tokens(document: CutDocument, bos: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Collect the position_ids of the document's own tokens, [n], and these tokens with the one that follows the last, [n + 1], or [n] if none follows.

    bos: the token that sequences begin with. It is not one of the document's own tokens, unless a chat template wrote it.
    """
    firsts = [int(s.token_ids[0] == bos and s.char_starts[0] == s.char_ends[0]) for s in document.sequences]
    ids = [s.first_position_id + np.arange(first, len(s.token_ids)) for s, first in zip(document.sequences, firsts, strict=True)]
    tokens = [s.token_ids[first:] for s, first in zip(document.sequences, firsts, strict=True)]
    behind = document.sequences[-1].next_token_ids[-1:]
    return np.concatenate(ids), np.concatenate([*tokens, behind[behind >= 0]])
