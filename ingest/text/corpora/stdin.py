"""Standard input as a corpus. It is stored as a file first, because a corpus is read more than once."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ingest.text.corpora.document import DEFAULT_COLUMN, MESSAGES, Corpus, Document
from ingest.text.corpora.formats import FORMATS, TABLES, read_documents, sniffed_format
from schema.durable import put_in_place
from schema.errors import AtlasError

SPOOL_NAME = "stdin.txt"


def open_stdin(spool: Path, split: str | None, column: str | None = None, form: str | None = None) -> Corpus:
    """Open the text of standard input. If there is none (a terminal, or empty), the text that an earlier run stored is read again.

    form: the format of the text; None to infer it from the text's beginning, and to report it in the corpus's note.
    """
    kept = spool / SPOOL_NAME
    # a closed one is None
    if sys.stdin and not sys.stdin.isatty():
        _keep(kept)
    if not kept.exists():
        raise AtlasError(f"corpus '-': standard input gives no text, and no earlier run left any at {kept}; pipe a text in")
    read_as = form or sniffed_format(kept)
    if column is not None and read_as not in TABLES:
        raise AtlasError(f"corpus '-': standard input is read as plain text, which has no column {column!r}; leave it out, or name the format with --format")
    text_column = column or DEFAULT_COLUMN

    def documents() -> Iterator[Document]:
        return read_documents(kept, "stdin", read_as, text_column)

    # as it was before there were formats, so that a text read then is known again
    source = {"kind": "stdin", **({"format": read_as, "column": text_column} if read_as in TABLES else {})}
    return Corpus(name="stdin", split=split or "all", source=source, revision=None, documents=documents, note=None if form else _note(read_as, text_column))


def _note(read_as: str, column: str) -> str:
    """Describe to the user how standard input is read."""
    either = f" or {MESSAGES!r}" if column == DEFAULT_COLUMN else ""
    found = f"{read_as}, its text in the column {column!r}{either}" if read_as in TABLES else "plain text"
    return f"note: standard input is read as {found}; --format chooses another format ({', '.join(FORMATS)})"


def _keep(kept: Path) -> None:
    """Copy standard input to `kept`, complete or not at all; an empty input leaves an existing file as it is."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_suffix(".partial")
    with partial.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    if partial.stat().st_size:
        put_in_place(partial, kept)
    else:
        partial.unlink()
        with suppress(OSError):  # not empty: an ingest was stopped there
            kept.parent.rmdir()
