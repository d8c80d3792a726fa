"""A process that renders chats by a template: a Jinja program, which comes with a tokenizer and may be by anybody.

transformers renders the template in a sandbox, where it reaches neither files nor Python. Here the kernel limits its processor time and memory.
Each request and each answer is one line of JSON.
"""

import json
import os
import random
import re
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from schema.platforms import LIMITS_MEMORY

MOST_BYTES = 4 << 30
"""Most bytes of address space; the process takes about 1 GiB of them from the start."""

MOST_CHARS = 1 << 24
"""Most characters of a rendered chat: the calling process has no limit of its own, and a tokenizer takes hundreds of bytes for each character."""


class OneDay(datetime):
    """The clock of a template, which always shows the same day: a text that is read again on another day must be the same."""

    @classmethod
    def now(cls, tz: Any = None) -> "OneDay":
        # the day that templates of Llama name where they are told none
        return cls(2024, 7, 26, tzinfo=tz)


def main() -> None:
    from transformers.utils import chat_template_utils

    vars(chat_template_utils)["datetime"] = OneDay
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if LIMITS_MEMORY:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    template = json.loads(sys.stdin.readline())

    def render(messages: Sequence[Mapping[str, Any]], begins_answer: bool) -> str:
        told = [{key: value for key, value in message.items() if value is not None} for message in messages]
        # what a template draws is the same each time
        random.seed(0)
        rendered: Any = chat_template_utils.render_jinja_template(
            [told], chat_template=template["template"], add_generation_prompt=begins_answer, **template["names"]
        )
        text: str = rendered[0][0]
        if len(text) > MOST_CHARS:
            raise ValueError(f"it makes {len(text):,} characters of the chat, and {MOST_CHARS:,} are read at most")
        return text

    for line in sys.stdin:
        asked = json.loads(line)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 1 + template["seconds"], resource.RLIM_INFINITY))
        try:
            text = render(asked["messages"], asked["begins_answer"])
            answer: dict[str, Any] = {
                "text": text,
                "roles": role_spans(text, asked["messages"], render(mark_messages(asked["messages"]), asked["begins_answer"])),
            }
        except Exception as error:  # a template raises what it likes
            answer = {"error": " ".join(f"{type(error).__name__}: {error}".split())[:500]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def mark_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Copy the messages with a mark in place of each text."""
    return [{**message, "content": f"atlasmessage{i:09}end"} if has_text(message) else dict(message) for i, message in enumerate(messages)]


def has_text(message: Mapping[str, Any]) -> bool:
    return isinstance(message.get("content"), str) and bool(message["content"].strip())


def role_spans(text: str, messages: Sequence[Mapping[str, Any]], skeleton: str) -> list[dict[str, object]] | None:
    """Find the span of each message's own words in the text; None if the template changes a message otherwise than by trimming it.

    skeleton: the same chat, rendered from the messages that `mark_messages` returns. The text between two marks is the text between two messages.
    """
    with_text = [i for i, message in enumerate(messages) if has_text(message)]
    parts = re.split(r"atlasmessage(\d{9})end", skeleton)
    if [int(place) for place in parts[1::2]] != with_text or not text.startswith(parts[0]):
        return None
    at, spans = len(parts[0]), []
    for i, behind in zip(with_text, parts[2::2], strict=True):
        content = messages[i]["content"]
        found = next((c for c in (content, content.strip(), content.rstrip(), content.lstrip()) if text.startswith(c + behind, at)), None)
        if found is None:
            return None
        spans.append({"role": messages[i]["role"], "start": at, "end": at + len(found)})
        at += len(found) + len(behind)
    return spans if at == len(text) else None


if __name__ == "__main__":
    # a broken pipe is its caller's end, and no failure
    try:
        main()
    except BrokenPipeError:
        os._exit(0)
