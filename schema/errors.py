"""Errors that a user meets. Each message says what was requested, where, and what exists or what to do."""

NO_SPACE = ("No space left", "File too large", "Disk quota", "Could not write all bytes")
"""Parts of the messages of the system and of DuckDB for a disk that is full, for this user or for all."""


class AtlasError(Exception):
    """A request to an atlas that cannot be fulfilled; the message is meant for people. The exit code is 1."""


class Locked(AtlasError):
    """Another process holds the file."""


class Unreachable(AtlasError):
    """The catalogue of a lake, or its files, do not answer."""


class NotAnAtlas(AtlasError):
    """The file is missing, is no DuckDB file, holds no atlas, or one of another schema version."""


class QueryRefused(AtlasError):
    """A statement that is not one SELECT, or that reaches outside the atlas."""


class QueryTimeout(AtlasError):
    """A statement ran past its time limit."""


def what_there_is(names: str) -> str:
    """Word the end of a message that something does not exist: it lists the names that exist, or says that there are none."""
    return f"they are {names}" if names else "there are none yet"
