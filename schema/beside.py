"""The old name of the record of a kind of file beside an atlas, for distributions that add one: `schema.open.kinds`. It goes with the next version."""

from schema.open.kinds import Companion as Beside

__all__ = ["Beside"]
