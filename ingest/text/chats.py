"""Chats as texts: the tokenizer's own template renders each chat, special tokens in it are read as special tokens, and the spans of each role are recorded."""

import json
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from transformers import PreTrainedTokenizerFast

from ingest.text.corpora import Document
from ingest.text.corpora.document import require_utf8
from schema.errors import AtlasError
from schema.own_process import command_of

ROLES = "roles"
"""Metadata key of a document for the spans of each role's words: a list of {role, start, end}, in characters of its text."""

MOST_SECONDS = 10
"""Most seconds of processor time that a template may take for one chat; a thousand messages take about 0.01 s."""


RENDERED = "change the chat or leave it out, or give texts that are rendered already, with --chat"


class TemplateProcess:
    """The process that renders chats by a tokenizer's template. It starts at the first chat, and ends when this context manager exits."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.tokenizer = tokenizer
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "TemplateProcess":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process:
            self.process.kill()
            self.process.communicate()

    def render(self, name: str, messages: Sequence[Mapping[str, Any]], *, begins_answer: bool = False) -> tuple[str, list[dict[str, Any]] | None]:
        """Render a chat as text, and find the spans of each message's own words if they can be found.

        begins_answer: whether the text ends with the words that the template puts before the assistant's next message.

        Raises AtlasError, with the name of the chat, if the template fails, takes too long or takes too much memory, and if the tokenizer has no template.
        """
        named = f"{name}: the chat template of tokenizer {self.tokenizer.name_or_path!r}"
        self.process = self.process or start_process(self.tokenizer)
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps({"messages": list(messages), "begins_answer": begins_answer}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            status = self.process.wait()
            late = f"did not end within {MOST_SECONDS} seconds of processor time" if status == -signal.SIGXCPU else "ended its process"
            raise AtlasError(f"{named} {late} (status {status}); {RENDERED}")
        said = json.loads(line)
        if "error" in said:
            raise AtlasError(f"{named} does not take this chat ({said['error']}); {RENDERED}")
        return require_utf8(name, said["text"]), said["roles"]


def start_process(tokenizer: PreTrainedTokenizerFast) -> "subprocess.Popen[str]":
    """Start the process and send it the template. Raises AtlasError if the tokenizer has no template."""
    try:
        template = tokenizer.get_chat_template()
    except ValueError as error:
        raise AtlasError(
            f"the tokenizer of {tokenizer.name_or_path!r} has no chat template to render messages by; give texts, or a model whose tokenizer has a template"
        ) from error
    command, environment = command_of("ingest.text.chat_template")
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8", env=environment)
    assert process.stdin
    process.stdin.write(json.dumps({"template": template, "names": tokenizer.special_tokens_map, "seconds": MOST_SECONDS}) + "\n")
    return process


def render_chats(documents: Iterable[Document], tokenizer: PreTrainedTokenizerFast, *, is_chat: bool) -> Iterator[Document]:
    """Yield the documents with all chats rendered. is_chat: whether documents without messages are chats that were rendered already."""
    with TemplateProcess(tokenizer) as template:
        for document in documents:
            if document.messages is None:
                yield replace(document, is_chat=is_chat)
                continue
            text, roles = template.render(document.name, document.messages)
            nested = document.nested if roles is None else {**document.nested, ROLES: roles}
            metadata = {key: value for key, value in document.metadata.items() if key != ROLES}
            lost = (ROLES,) if ROLES in document.metadata or ROLES in document.nested else ()
            yield replace(document, text=text, is_chat=True, messages=(), metadata=metadata, nested=nested, left_out=(*document.left_out, *lost))


class ChatCounts:
    """Counts of chats and special tokens, taken while documents are surveyed and reported afterwards."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        names = sorted({token.content for token in tokenizer.added_tokens_decoder.values() if token.special}, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, names)) or "(?!)")
        self.spelt: Counter[str] = Counter()
        self.n_rendered = self.n_without_roles = 0
        self.is_dated = "strftime_now" in str(tokenizer.chat_template)

    def watch(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Count chats and special tokens in the documents, and yield the same documents."""
        for document in documents:
            if document.messages is not None:
                self.n_rendered += 1
                self.n_without_roles += ROLES not in document.nested
            elif not document.is_chat:
                self.spelt.update(self.pattern.findall(document.text))
            yield document

    def notes(self) -> list[str]:
        """List notes for the user about the chats and special tokens that were counted."""
        found = []
        if self.n_rendered:
            found.append(
                f"note: {self.n_rendered:,} documents are chats, rendered by the tokenizer's own template; special tokens in them are read as such tokens"
            )
        if self.n_rendered and self.is_dated:
            found.append("note: the template asks for the date and always gets 26 July 2024, so that a chat is rendered alike on every day")
        if self.n_without_roles:
            found.append(f"note: the spans of each role are not known in {self.n_without_roles:,} chats: the template changes their messages")
        if self.spelt:
            most = ", ".join(f"{name} {n:,}" for name, n in self.spelt.most_common(3))
            found.append(
                "note: texts spell special tokens of the tokenizer "
                f"{self.spelt.total():,} times ({most}), read as characters; --chat reads them as these tokens"
            )
        return found
