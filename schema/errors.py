"""Errors that a user meets. Each message says what was asked, where, and what exists or what to do."""

NO_SPACE = ("No space left", "File too large", "Disk quota", "Could not write all bytes")
"""What the system and DuckDB say of a disk that is full, for this user or for all."""


class AtlasError(Exception):
    """Something asked of an atlas cannot be done; the message is meant for people. Exit code 1."""


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
    """Word the end of a message that something does not exist: the names that do, or that there are none."""
    return f"they are {names}" if names else "there are none yet"
