"""Standard input as a corpus: kept as a file first, because a corpus is read more than once."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ingest.text.corpora.document import Corpus, Document
from ingest.text.corpora.readers import text_documents
from schema.errors import AtlasError

SPOOL_NAME = "stdin.txt"


def open_stdin(spool: Path, split: str | None) -> Corpus:
    """Plain text from standard input. When it gives nothing (a terminal, or empty), the text kept by an earlier run is read again."""
    kept = spool / SPOOL_NAME
    # a closed one is None
    if sys.stdin and not sys.stdin.isatty():
        _keep(kept)
    if not kept.exists():
        raise AtlasError(f"corpus '-': standard input gives no text, and no earlier run left any at {kept}; pipe a text in")

    def documents() -> Iterator[Document]:
        return text_documents(kept, "stdin")

    return Corpus(name="stdin", split=split or "all", source={"kind": "stdin"}, revision=None, documents=documents)


def _keep(kept: Path) -> None:
    """Copy standard input to `kept`, complete or not at all; an empty input leaves what is there."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_suffix(".partial")
    with partial.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        os.fsync(file.fileno())
    if partial.stat().st_size:
        partial.replace(kept)
    else:
        partial.unlink()
        with suppress(OSError):  # not empty: an ingest was stopped there
            kept.parent.rmdir()
