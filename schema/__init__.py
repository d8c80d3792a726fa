"""Contents of an atlas (tables, views, audits), and the one place that opens a DuckDB file."""

__atlas__ = True
"""Mark of this package as ours, which `import atlas` checks: another distribution installs a top-level `schema` too."""

SCHEMA_VERSION = 4
"""Version of the tables below. An atlas of another version is refused, never half read."""
