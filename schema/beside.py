"""Old name of `schema.open.kinds.Companion`, for distributions that add a kind of file beside an atlas. The next version removes it."""

from schema.open.kinds import Companion as Beside

__all__ = ["Beside"]
