"""What an atlas stores: tables, views, audits, and the one place that opens a DuckDB file."""

__atlas__ = True
"""Marks this package as ours: another distribution installs a top-level `schema` too, and `import atlas` checks."""

SCHEMA_VERSION = 4
"""Version of the tables below. An atlas of another version is refused, never half read."""

ANNOTATION_VERSION = 1
"""Version of the tables of annotations (schema/annotation_tables.py). A file of another version is refused, never half read."""

EXPERIMENT_VERSION = 1
"""Version of the tables of experiments (schema/experiments/). As above."""

RETRIEVAL_VERSION = 1
"""Version of the tables of retrievals (schema/retrieval/). As above."""

COLLECTION_VERSION = 1
"""Version of the tables of collections (schema/collections/). As above."""
