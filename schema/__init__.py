"""Contents of an atlas (tables, views, audits), and the one place that opens a DuckDB file."""

__atlas__ = True
"""Mark of this project's package `schema`. `import atlas` checks it, because another distribution installs a package of the same name."""

SCHEMA_VERSION = 4
"""Version of the tables of an atlas. An atlas of another version is refused as a whole."""
