"""Rows of every item: from the tiny atlas, and for the items that rest on annotations, which it lacks, by hand."""

import polars as pl

import atlas
from atlas.papers.catalogue import PAPERS
from atlas.papers.items import Item

ITEMS = {item.name: item for paper in PAPERS.values() for item in paper.items}
CHOICES = {"corpus": 0, "threshold": 1.5}
"""No score of the tiny atlas is above 6."""

ANNOTATED = {
    "geva2021_patterns": {
        "annotator_kind": ["person"], "n_annotators": [2], "n_keys": [4], "n_prefixes": [40], "patterns_per_key": [1.5], "shallow_per_key": [1.0],
        "semantic_per_key": [0.5], "keys_with_pattern": [0.75], "covered": [0.5],
    },
    "geva2021_fig2": {
        "layer": [0, 1, 2], "annotator_kind": ["person"] * 3, "n_keys": [1, 2, 1], "n_prefixes": [10, 20, 10], "shallow": [0.5, 0.25, 0.0],
        "semantic": [0.0, 0.25, 0.5], "shallow_and_semantic": [0.1, 0.25, 0.25], "uncovered": [0.4, 0.25, 0.25],
    },
    "geva2022_concepts": {
        "subject": ["value", "random_vector", "ffn_update"], "annotator_kind": ["proposed"] * 3, "n_vectors": [3, 2, 1], "n_concepts": [4, 1, 1],
        "n_tokens": [90, 60, 30], "n_stop_words": [9, 6, 15], "in_concept": [0.5, 0.25, 0.4], "in_concept_without_stop_words": [0.5, 0.25, 0.2],
        "semantic": [0.25, 0.125, 0.1], "syntactic": [0.125, 0.125, 0.2], "names": [0.0625, 0.0, 0.1], "several": [0.0625, 0.0, 0.0],
    },
    "geva2022_fig2": {
        "layer": [0, 1, 2], "annotator_kind": ["person"] * 3, "n_vectors": [1, 1, 1], "n_tokens": [30, 30, 30], "semantic": [0.1, 0.2, 0.4],
        "syntactic": [0.3, 0.2, 0.1], "names": [0.0, 0.1, 0.1], "several": [0.1, 0.1, 0.1], "uncovered": [0.5, 0.4, 0.3],
    },
}  # fmt: skip


def rows_of(a: atlas.Atlas, item: Item) -> pl.DataFrame:
    """Rows as the item's question gives them."""
    return pl.DataFrame(ANNOTATED[item.name]) if item.name in ANNOTATED else item.ask(a, CHOICES)
