"""Panics of Rust code as errors of one line: a panic is not an Exception, and Rust writes a page about it on standard error."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from schema.errors import AtlasError

PANIC = "PanicException"


@contextmanager
def translate_panics(what: str) -> Iterator[None]:
    """Turn a panic into an AtlasError that begins with `what`."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        raise AtlasError(f"{what}: {' '.join(str(error).split())[:300]}") from error


@contextmanager
def silence_stderr(is_quiet: bool = True) -> Iterator[None]:
    """Discard all that this process writes to standard error, also by code that is not Python."""
    if not is_quiet:
        yield
        return
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
