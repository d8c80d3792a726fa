"""Errors that a user meets. Each message says what was requested, where, and what exists or what to do."""

NO_SPACE = ("No space left", "File too large", "Disk quota", "Could not write all bytes")
"""Parts of the messages by which the operating system and DuckDB report a full disk, or a user's limit that is reached."""


class AtlasError(Exception):
    """A request to an atlas that cannot be fulfilled; the message is meant for people. The exit code is 1."""


class Locked(AtlasError):
    """Another process holds the file."""


class Unreachable(AtlasError):
    """The catalogue of a lake, or the storage of its files, does not answer."""


class NotAnAtlas(AtlasError):
    """The file is missing, is not a DuckDB file, holds no atlas, or holds an atlas of another schema version."""


class QueryRefused(AtlasError):
    """A statement that is not one SELECT, or that reaches outside the atlas."""


class QueryTimeout(AtlasError):
    """A statement ran past its time limit."""


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or else the name of its class."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def what_there_is(names: str) -> str:
    """Write the end of a message that something does not exist: list the names that do exist, or say that there are none."""
    return f"available: {names}" if names else "there are none yet"
