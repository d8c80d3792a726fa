"""A live prompt as a corpus of one document: it is cut as a corpus is, and has negative ids, which differ from all ids of the atlas."""

import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from ingest.model.models import Model
from ingest.recorders.rows import text_tables
from ingest.text.chats import TemplateProcess
from ingest.text.corpora import Document
from ingest.text.corpora.document import is_message_list
from ingest.text.sequences import CutDocument, Sequence, cut_documents
from schema.errors import AtlasError
from schema.live import MOST_POSITIONS, MOST_PROMPT_TOKENS

BASE_CORPUS = -1
"""corpus_id of the prompt without an arm; under arm k, counted from 1, the prompt's corpus_id is -1 - k."""


def cut_prompt(model: Model, text: str, bos: str, *, is_chat: bool = False) -> CutDocument:
    """Cut the prompt into one sequence. is_chat: render it with the tokenizer's chat template first, up to where the assistant's answer begins.

    Raises AtlasError for a prompt of no tokens, of more tokens than the model reads, or with a token that has no embedding.
    """
    most = min(MOST_PROMPT_TOKENS, model.max_context or MOST_PROMPT_TOKENS)
    document = Document("prompt", text, {})
    if is_chat:
        with TemplateProcess(model.tokenizer) as template:
            messages = chat_messages(text)
            rendered, _ = template.render("the prompt", messages, begins_answer=messages[-1]["role"] != "assistant")
        document = replace(document, text=rendered, is_chat=True)
    # one more than there may be, so that what is too long shows
    found = next(cut_documents([document], model.tokenizer, corpus_id=BASE_CORPUS, context=most + 1, bos=bos, by="tokens"))
    if not found.sequences:
        raise AtlasError("the prompt is empty: give it some text")
    n = sum(len(s.token_ids) for s in found.sequences)
    if n > most:
        raise AtlasError(f"the prompt has {n:,} tokens; with {model.name}, at most {most:,} are read")
    strange = [int(i) for i in found.sequences[0].token_ids if not 0 <= i < model.n_embeddings]
    if strange:
        raise AtlasError(f"model {model.name}: its tokenizer turns part of the prompt into token {strange[0]}, for which the model has no embedding")
    return found


def chat_messages(text: str) -> list[Mapping[str, Any]]:
    """Read the chat messages of a prompt: a JSON list of messages, or else the text as one user message."""
    try:
        messages = json.loads(text)
    except (ValueError, RecursionError):
        messages = None
    return messages if is_message_list(messages) else [{"role": "user", "content": text}]


def copy_prompt_per_arm(found: CutDocument, n_arms: int) -> list[CutDocument]:
    """Copy the prompt once for the base and once for each arm, each copy with ids of its own."""
    return [shift_prompt_ids(found, k) for k in range(n_arms + 1)]


def require_few(prompts: list[CutDocument], n_runs: int) -> None:
    """Raise AtlasError for more than MOST_POSITIONS positions in all: of the prompt, its copies under arms, and the runs from which arms take states."""
    n = len(prompts[0].sequences[0].token_ids)
    if n * (len(prompts) + n_runs) > MOST_POSITIONS:
        of_runs = " that take states from its own run" if n_runs else ""
        raise AtlasError(
            f"a prompt of {n:,} tokens under {len(prompts) - 1} arms{of_runs} is {n * (len(prompts) + n_runs):,} positions; at most {MOST_POSITIONS:,} are "
            "traced at once: give a shorter prompt, or fewer arms"
        )


def shift_prompt_ids(found: CutDocument, k: int) -> CutDocument:
    by = k << 40
    name = "prompt" if k == 0 else f"prompt under arm {k}"
    sequences = tuple(
        Sequence(s.sequence_id - by, s.document_id - by, s.first_position_id - by, s.token_ids, s.next_token_ids, s.char_starts, s.char_ends)
        for s in found.sequences
    )
    return CutDocument(found.document_id - by, replace(found.document, name=name), sequences)


def prompt_tables(prompts: list[CutDocument], bos: str) -> dict[str, pa.Table]:
    """Build the rows of the tables corpus, document, sequence and position."""
    parts = [text_tables([prompt], BASE_CORPUS - k) for k, prompt in enumerate(prompts)]
    tables = {name: pa.concat_tables([part[name] for part in parts]) for name in parts[0]}
    digest = sha256(prompts[0].document.text.encode()).hexdigest()
    lengths = [sum(len(s.token_ids) for s in prompt.sequences) for prompt in prompts]
    n = len(prompts)
    corpus = {
        "corpus_id": np.arange(BASE_CORPUS, BASE_CORPUS - n, -1, dtype=np.int32),
        "name": [prompt.document.name for prompt in prompts],
        "split": ["live"] * n,
        "source": [json.dumps({"live": True, "bos": bos})] * n,
        "revision": pa.nulls(n, pa.string()),
        "sha256": [digest] * n,
        "n_documents": np.ones(n, np.int64),
        "n_positions": np.array(lengths, np.int64),
    }
    return {"corpus": pa.table(corpus), **tables}
