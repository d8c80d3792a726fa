"""Text to count in: the tokens of documents without the model's cuts, those that are to be predicted left out."""

from collections.abc import Collection, Iterable, Iterator
from hashlib import sha256

import numpy as np
from transformers import PreTrainedTokenizerFast

from ingest.text.corpora import Document
from ingest.text.sequences import CutDocument, Encoder


def text_digest(document: Document) -> bytes:
    """Compute the digest of a document's text: what two documents of the same text share."""
    return sha256(document.text.encode()).digest()


def counted_documents(documents: Iterable[Document], tokenizer: PreTrainedTokenizerFast, left_out: Collection[bytes]) -> Iterator[np.ndarray]:
    """Yield the token_ids of each document, [n] int32, leaving out the documents of these digests and those of white space."""
    encoder = Encoder(tokenizer)
    for document in documents:
        if document.text and not document.text.isspace() and text_digest(document) not in left_out:
            yield encoder.encode(document.text, is_chat=document.is_chat).token_ids


def read_tokens(document: CutDocument, bos: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Collect the position_ids of the document's own tokens, [n], and these tokens with the one behind the last, [n + 1], or [n] where none is.

    bos: what sequences begin with. A chat's first does not where its template writes none, and where it writes one that is of its text.
    """
    firsts = [int(s.token_ids[0] == bos and s.char_starts[0] == s.char_ends[0]) for s in document.sequences]
    ids = [s.first_position_id + np.arange(first, len(s.token_ids)) for s, first in zip(document.sequences, firsts, strict=True)]
    tokens = [s.token_ids[first:] for s, first in zip(document.sequences, firsts, strict=True)]
    behind = document.sequences[-1].next_token_ids[-1:]
    return np.concatenate(ids), np.concatenate([*tokens, behind[behind >= 0]])
