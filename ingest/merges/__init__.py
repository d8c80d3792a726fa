"""Merge what the shards brought of one table: SQL from `part`, the rows of one corpus and layer, to the rows of an atlas.

Part by part, memory does not grow with the number of layers or corpora.
"""

from pathlib import Path

MERGES = {file.stem: file.read_text() for file in Path(__file__).parent.glob("*.sql")}


def merged(table: str, source: str) -> str:
    """SELECT over the table `source`; its parameters are corpus_id and layer."""
    return f"WITH part AS (FROM {source} WHERE corpus_id = ? AND layer = ?) FROM ({MERGES[table]})"
