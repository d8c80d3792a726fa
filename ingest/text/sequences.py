"""Cutting of documents into sequences, each of which the model reads in one context, and numbering of documents, sequences and positions."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

import numpy as np
from tokenizers import Tokenizer, processors
from transformers import PreTrainedTokenizerFast

from ingest.text.corpora import Document
from ingest.text.panics import silence_stderr, translate_panics
from ingest.text.sentences import sentence_starts
from ingest.text.tokenizer_bounds import strange_patterns
from ingest.text.tokenizer_trial import try_tokenizer
from schema.errors import AtlasError

ID_BITS = 40
"""A corpus numbers its documents, sequences and positions from corpus_id · 2^40, so that ids of different corpora never meet."""

BOS_RULES = ("auto", "always", "never", "start")
"""Rules for the token that every sequence begins with. auto: as the tokenizer itself begins a text; always: BOS; never: none; start: BOS, or the end-of-text
token if the tokenizer has no BOS, so that the first token of a text is predicted too. Any other rule is the name of the token."""

CUTS = ("tokens", "sentences")
"""Ways to cut a document: into stretches of the context's length, or by sentence (a sentence longer than the context is cut further)."""

NO_NEXT_TOKEN = -1

CHARS_PER_TOKEN = 16
"""Number of characters that are encoded at first for each token that is to be read; in most texts a token has 3 to 5 characters."""


@dataclass(frozen=True, eq=False)
class Sequence:
    """A run of tokens read in one context; all arrays are [n_positions] int32.

    next_token_ids: the token that follows in the document, even if it is in the next sequence; NO_NEXT_TOKEN at the end of the document.
    char_starts, char_ends: the characters of the document's text that the token covers. Tokens that are pieces of one character all cover it;
    BOS covers nothing, at the first character of the next token.
    """

    sequence_id: int
    document_id: int
    first_position_id: int
    token_ids: np.ndarray
    next_token_ids: np.ndarray
    char_starts: np.ndarray
    char_ends: np.ndarray


@dataclass(frozen=True)
class CutDocument:
    """A document with its number and sequences; a document of nothing but white space has none."""

    document_id: int
    document: Document
    sequences: tuple[Sequence, ...]


@dataclass(frozen=True, eq=False)
class Encoding:
    """The tokens of a text, without special tokens: ids, and the characters each covers, all [n_tokens] int32."""

    token_ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def begins_as(self, other: "Encoding", n: int) -> bool:
        """Tell whether both encodings have at least n tokens, and the same first n."""
        return min(len(self.token_ids), len(other.token_ids)) >= n and all(
            np.array_equal(getattr(self, f.name)[:n], getattr(other, f.name)[:n]) for f in fields(self)
        )


class Encoder:
    """A tokenizer's pipeline, set to give exact offsets into the original text.

    A control token that is spelt in a document, such as <|im_start|>, is read as its characters, except in a chat, where it is read as that token.
    Offsets are not trimmed: a token's leading space is part of what the token covers, so that the slices of all tokens join to the text.
    If a normaliser merges or expands characters, tokens cover the original characters that they come from.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        if not tokenizer.is_fast:
            raise AtlasError(
                f"tokenizer {type(tokenizer).__name__} of {tokenizer.name_or_path!r} gives no character offsets; a fast tokenizer (tokenizer.json) is needed"
            )
        self.name = tokenizer.name_or_path
        backend = tokenizer.backend_tokenizer
        normalizer, cutter = (None if part is None else json.loads(part.__getstate__()) for part in (backend.normalizer, backend.pre_tokenizer))
        self.is_strange = bool(strange_patterns(normalizer, cutter))
        self.is_tried = False
        self.pipeline = Tokenizer.from_str(backend.to_str())
        self.pipeline.no_truncation()
        self.pipeline.no_padding()
        # The tokenizer's own post-processor adds special tokens, which are not asked for, and may trim offsets.
        self.pipeline.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B")

    def encode(self, text: str, *, is_chat: bool = False) -> Encoding:
        self.pipeline.encode_special_tokens = not is_chat
        refusal = f"the tokenizer of {self.name!r} cannot read the text that begins {text[:40]!r}"
        if self.is_strange and text and not self.is_tried:
            try_tokenizer(refusal, {"pipeline": self.pipeline.to_str()}, text)
            self.is_tried = True
        with silence_stderr(self.is_strange), translate_panics(refusal):
            found = self.pipeline.encode(text, add_special_tokens=False)
        offsets = np.array(found.offsets, dtype=np.int32).reshape(-1, 2)
        starts, ends = offsets[:, 0].copy(), offsets[:, 1].copy()
        if found.tokens[:1] == ["▁"] and len(starts) > 1 and starts[1] == 0:
            ends[0] = 0  # the space that SentencePiece puts before a text is not in it, and what follows covers the first character
        return Encoding(np.array(found.ids, dtype=np.int32), starts, ends)

    def encode_start(self, text: str, limit: int | None, *, is_chat: bool = False) -> tuple[str, Encoding]:
        """Encode a start of the text that is long enough for its first `limit` tokens and the next one; return the start and its tokens. limit: None for all.

        Text behind a cut affects only the tokens near the cut. So a start is long enough once a start of twice its length has the same first tokens.
        """
        if limit is None:
            return text, self.encode(text, is_chat=is_chat)
        size, before = CHARS_PER_TOKEN * (limit + 1), self.encode("")
        while size < len(text):
            found = self.encode(text[:size], is_chat=is_chat)
            if before.begins_as(found, limit + 1):
                return text[:size], found
            size, before = 2 * size, found
        return text, self.encode(text, is_chat=is_chat)


def bos_token(tokenizer: PreTrainedTokenizerFast, rule: str) -> int | None:
    """Find the token that every sequence begins with under a rule of BOS_RULES, or the token that `rule` names; None if sequences begin without one."""
    bos = tokenizer.bos_token_id
    if rule == "never":
        return None
    if rule == "start":
        bos = tokenizer.eos_token_id if bos is None else bos
        if bos is None:
            raise AtlasError(f"BOS rule 'start': the tokenizer of {tokenizer.name_or_path!r} has neither a BOS nor an end-of-text token")
        return bos
    if rule == "always":
        if bos is None:
            raise AtlasError(
                f"BOS rule 'always': the tokenizer of {tokenizer.name_or_path!r} has no BOS token; use 'auto' or 'never', or name a token that it has"
            )
        return bos
    if rule == "auto":
        own = tokenizer_start(tokenizer)
        return own[0] if len(own) == 1 else None
    if (named := tokenizer.get_vocab().get(rule)) is None:
        raise AtlasError(f"no BOS rule {rule!r}, nor a token of that name; give {', '.join(BOS_RULES)}, or a token as the tokenizer's vocabulary spells it")
    return named


def tokenizer_start(tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """Find the tokens that the tokenizer itself puts before a text."""
    whole, bare = tokenizer("a").input_ids, tokenizer("a", add_special_tokens=False).input_ids
    return next((whole[:i] for i in range(len(whole) - len(bare) + 1) if whole[i : i + len(bare)] == bare), [])


def note_start(tokenizer: PreTrainedTokenizerFast, rule: str) -> str | None:
    """Describe to the user how sequences begin, if the rule is 'auto' and the tokenizer begins a text with tokens other than BOS alone; else None."""
    own = tokenizer_start(tokenizer)
    if rule != "auto" or own in ([], [tokenizer.bos_token_id]):
        return None
    names = tokenizer.convert_ids_to_tokens(own)
    if len(own) == 1:
        return f"note: every sequence begins with {names[0]}, as the tokenizer begins a text"
    return (
        f"note: the tokenizer begins a text with {' '.join(names)}, but a sequence can begin with one at most: none is put; --bos '{names[-1]}' puts that one"
    )


def cut_documents(
    documents: Iterable[Document], tokenizer: PreTrainedTokenizerFast, *, corpus_id: int, context: int, bos: str, by: str, document_tokens: int | None = None
) -> Iterator[CutDocument]:
    """Tokenise each document once and cut it into sequences of at most `context` tokens, BOS included; streaming.

    document_tokens: the most tokens to read of each document, from its start; its text stays whole.
    bos: one of BOS_RULES, or the name of a token. by: one of CUTS. Ids count from corpus_id · 2^40; position ids are consecutive over the whole corpus.
    Every document is yielded, in order, even one without sequences.
    Raises AtlasError, before anything is read, for an unknown rule, a context that leaves no room for text, or a tokenizer without offsets.
    """
    if by not in CUTS:
        raise AtlasError(f"documents cannot be cut by {by!r}; give {', '.join(CUTS)}")
    bos_id = bos_token(tokenizer, bos)
    room = context - (bos_id is not None)
    if room < 1:
        raise AtlasError(f"a context of {context} tokens leaves no room for text{' beside BOS' if bos_id is not None else ''}")
    return _cut_sequences(documents, Encoder(tokenizer), corpus_id << ID_BITS, room, bos_id, bos, by, document_tokens)


def _cut_sequences(
    documents: Iterable[Document], encoder: Encoder, first_id: int, room: int, bos_id: int | None, rule: str, by: str, limit: int | None
) -> Iterator[CutDocument]:
    sequence_id = position_id = first_id
    for document_id, document in enumerate(documents, first_id):
        sequences = []
        if document.text and not document.text.isspace():
            text, encoding = encoder.encode_start(document.text, limit, is_chat=document.is_chat)
            edges = np.array([0]) if by == "tokens" else sentence_edges(text, encoding)
            n_tokens = len(encoding.token_ids) if limit is None else min(limit, len(encoding.token_ids))
            for start, end in spans(edges[edges < n_tokens], n_tokens, room):
                # a template writes its own, and where it writes none the tokenizer puts none before it
                is_begun = document.is_chat and start == 0 and (rule == "auto" or encoding.token_ids[0] == bos_id)
                sequences.append(_sequence(encoding, start, end, None if is_begun else bos_id, sequence_id, document_id, position_id))
                sequence_id += 1
                position_id += len(sequences[-1].token_ids)
        yield CutDocument(document_id, document, tuple(sequences))


def within_vocabulary(documents: Iterable[CutDocument], n_embeddings: int, model: str) -> Iterator[CutDocument]:
    """Yield the same documents. Raises AtlasError at the first token of a text for which the model has no embedding."""
    for d in documents:
        most = max((int(max(s.token_ids.max(), s.next_token_ids.max())) for s in d.sequences), default=0)
        if most >= n_embeddings:
            raise AtlasError(
                f"model {model}: its tokenizer makes token {most} of document {d.document.name!r}, and the model has embeddings of tokens 0 to "
                f"{n_embeddings - 1} only; give it the tokenizer that it was trained with"
            )
        yield d


def require_one_context(documents: Iterable[CutDocument], context: int) -> Iterator[CutDocument]:
    """Yield the same documents. Raises AtlasError at the first document that is not exactly one sequence, since its probability would be that of pieces."""
    for d in documents:
        if len(d.sequences) != 1:
            n = sum(len(s.token_ids) for s in d.sequences)
            raise AtlasError(f"{d.document.name}: a sentence of a test must fit in one context of {context} tokens, and this has {n}; give a larger --context")
        yield d


def spans(edges: np.ndarray, n_tokens: int, room: int) -> Iterator[tuple[int, int]]:
    """Yield the [start, end) of stretches of at most `room` tokens, none of which crosses an edge; edges ascend from 0."""
    for first, last in zip(edges, [*edges[1:], n_tokens], strict=True):
        for start in range(int(first), int(last), room):
            yield start, min(start + room, int(last))


def sentence_edges(text: str, encoding: Encoding) -> np.ndarray:
    """Find the index of the first token of every sentence, ascending from 0.

    A token belongs to the sentence of its first character that is not white space; a token of white space alone belongs to the sentence of its first character.
    """
    anchors = [
        start + (len(piece) - len(piece.lstrip()) if (piece := text[start:end]) and not piece.isspace() else 0)
        for start, end in zip(encoding.starts.tolist(), encoding.ends.tolist(), strict=True)
    ]
    sentences = np.maximum.accumulate(np.searchsorted(sentence_starts(text), anchors, side="right"))
    return np.concatenate([[0], np.flatnonzero(np.diff(sentences)) + 1])


def _sequence(encoding: Encoding, start: int, end: int, bos_id: int | None, sequence_id: int, document_id: int, position_id: int) -> Sequence:
    token_ids, starts, ends = encoding.token_ids[start:end], encoding.starts[start:end], encoding.ends[start:end]
    following = encoding.token_ids[start + 1 : end + 1]
    if len(following) < len(token_ids):
        following = np.append(following, np.int32(NO_NEXT_TOKEN))
    if bos_id is not None:
        following, token_ids = prepend_value(token_ids[0], following), prepend_value(bos_id, token_ids)
        starts, ends = prepend_value(starts[0], starts), prepend_value(starts[0], ends)
    return Sequence(sequence_id, document_id, position_id, token_ids, following, starts, ends)


def prepend_value(first: int, others: np.ndarray) -> np.ndarray:
    """Prepend one value to an array; np.insert takes ten times as long, which matters if documents are short."""
    return np.concatenate([np.array([first], others.dtype), others])
