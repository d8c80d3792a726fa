"""What an atlas stores: tables, views, audits, and the one place that opens a DuckDB file."""

__atlas__ = True
"""Marks this package as ours: another distribution installs a top-level `schema` too, and `import atlas` checks."""

SCHEMA_VERSION = 4
"""Version of the tables below. An atlas of another version is refused, never half read."""
