"""A process that tries a tokenizer on a text under the kernel's limits on time and memory: patterns are programs, and anybody may have written them.

It reads a line of JSON with `text` and either `pipeline` (as the tokenizers library spells one) or `pretrained` (arguments of transformers). It writes as JSON
what is wrong, or null.
"""

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

from schema.errors import AtlasError
from schema.own_process import command_of
from schema.platforms import LIMITS_MEMORY

MOST_BYTES = 2 << 30
"""Limit on the address space; a vocabulary of 260,000 tokens takes half a gigabyte, and transformers another half."""

MOST_SECONDS, LOADING_SECONDS = 4, {"pipeline": 10, "pretrained": 60}
"""Limits on processor time, in seconds, for the text and for loading the tokenizer: transformers may need a minute to convert SentencePiece's files."""

MOST_CHARS = 1 << 16
"""Limit on the characters of the text that is tried; a usual tokenizer takes at most a tenth of a second for so many."""

MOST_PER_CHAR = 64
"""Limit on the number of tokens per character of the text."""


def try_tokenizer(refusal: str, given: Mapping[str, object], text: str = "") -> None:
    """Raise AtlasError, which begins with `refusal`, if a tokenizer cannot be loaded, or exceeds the limits on time, memory or tokens with this text."""
    command, environment = command_of("ingest.text.tokenizer_trial")
    asked = json.dumps({**given, "text": text[:MOST_CHARS]})
    done = subprocess.run(command, input=asked, capture_output=True, text=True, encoding="utf-8", env=environment, check=False)
    if done.returncode == 0 and done.stdout:
        said = json.loads(done.stdout)
    elif done.returncode == -signal.SIGXCPU:
        said = f"it took more than {MOST_SECONDS if text else LOADING_SECONDS['pretrained']} seconds of processor time"
    else:
        said = f"it took more than {MOST_BYTES >> 30} GB of memory, or ended its process otherwise (status {done.returncode})"
    if said:
        raise AtlasError(f"{refusal}: {said}")


def main() -> str | None:
    """Try the tokenizer that standard input describes. Return what is wrong with it, None if nothing is."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if LIMITS_MEMORY:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    asked = json.loads(sys.stdin.readline())
    text = asked["text"]
    limit_seconds(LOADING_SECONDS["pipeline" if "pipeline" in asked else "pretrained"])
    try:
        if "pipeline" in asked:
            from tokenizers import Tokenizer

            tokenizer = Tokenizer.from_str(asked["pipeline"])
            limit_seconds(MOST_SECONDS)
            n = len(tokenizer.encode(text, add_special_tokens=False))
        else:
            from transformers import AutoTokenizer

            n = len(AutoTokenizer.from_pretrained(**asked["pretrained"], trust_remote_code=False)(text).input_ids)
    except BaseException as error:  # Rust's panics are no Exception
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return f"it makes {n:,} tokens of {len(text):,} characters" if n > MOST_PER_CHAR * (len(text) + 1) else None


def limit_seconds(more: int) -> None:
    """Have the kernel end this process after `more` further seconds of processor time."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 1 + more, resource.RLIM_INFINITY))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main()))
