"""Annotations of the tiny atlas, small enough for a pencil: literal rows, of any size, over positions and tokens that the tiny atlas has.

keys      anna   corpus 0: L0N0 5 texts, shallow 1-3, semantic 3-5 · L0N1 4 texts, none · L2N0 4 texts, shallow 1-3
          bert   corpus 0: L0N0 5 texts, shallow 1-4 · L0N1 4 texts, none · L2N0 4 texts, shallow 2-4
          miner  corpus 0: L0N0 5 texts, shallow 1-5 (proposed)
values    anna   L0N0 5 tokens, semantic 1-4 · L0N1 5 tokens, names 1-4, syntactic 2-5 · L1N0 5 tokens, none; the second token of each is a stop word
vectors   anna   random vector 0 of layer 0, 5 tokens, none
updates   miner  update 2 of layer 0 (corpus 0), 4 tokens, syntactic 1-4, the first two stop words; nobody else has annotated updates, so it counts
"""

from pathlib import Path

from atlas.beside.annotations import ANNOTATIONS
from schema.open.change import change_companion

WHEN = "2026-01-02 03:04:05+00"

LOOKS = [
    # subject, corpus, layer, item, annotator, tokens shown, [(kind, description, ranks)]
    ("key", 0, 0, 0, "anna", 5, [("shallow", "ends with cat", (1, 2, 3)), ("semantic", "animals", (3, 4, 5))]),
    ("key", 0, 0, 1, "anna", 4, []),
    ("key", 0, 2, 0, "anna", 4, [("shallow", "ends with sat", (1, 2, 3))]),
    ("key", 0, 0, 0, "bert", 5, [("shallow", "cats", (1, 2, 3, 4))]),
    ("key", 0, 0, 1, "bert", 4, []),
    ("key", 0, 2, 0, "bert", 4, [("shallow", "sat, sit", (2, 3, 4))]),
    ("key", 0, 0, 0, "miner", 5, [("shallow", "ends with “cat”", (1, 2, 3, 4, 5))]),
    ("value", None, 0, 0, "anna", 5, [("semantic", "pets", (1, 2, 3, 4))]),
    ("value", None, 0, 1, "anna", 5, [("names", "presidents", (1, 2, 3, 4)), ("syntactic", "nouns", (2, 3, 4, 5))]),
    ("value", None, 1, 0, "anna", 5, []),
    ("random_vector", None, 0, 0, "anna", 5, []),
    ("ffn_update", 0, 0, 2, "miner", 4, [("syntactic", "function words", (1, 2, 3, 4))]),
]

STOP_WORDS = {"key": (), "value": (2,), "random_vector": (), "ffn_update": (1, 2)}
"""Ranks of the stop words among the tokens shown of each."""


TOKENS = {"key": (1, 2, 3, 5, 9), "value": (1, 2, 3, 4, 5), "random_vector": (4, 7, 4, 7, 4), "ffn_update": (3, 1, 3, 1)}
"""token_ids of ranks 1 on: of positions 1 to 5, and those that the tiny atlas gives a vector, over again."""


def write_tiny_annotations(atlas_path: Path) -> None:
    with change_companion(ANNOTATIONS, atlas_path) as con:
        pattern_id = 0
        for i, (subject, corpus, layer, item, annotator, n, patterns) in enumerate(LOOKS):
            look = (i, subject, corpus, layer, item, n, annotator, annotator == "miner", "ww", WHEN)
            con.execute("INSERT INTO annotations.annotation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", look)
            for rank in range(1, n + 1):
                # the n-th text ends at position n
                place, text = (rank, "before") if subject == "key" else (None, None)
                shown = (i, rank, place, TOKENS[subject][rank - 1], rank in STOP_WORDS[subject], text, f"t{rank}")
                con.execute("INSERT INTO annotations.annotation_item VALUES (?, ?, ?, ?, ?, ?, ?)", shown)
            for kind, description, ranks in patterns:
                con.execute("INSERT INTO annotations.pattern VALUES (?, ?, ?, ?)", (pattern_id, i, kind, description))
                for rank in ranks:
                    con.execute("INSERT INTO annotations.pattern_match VALUES (?, ?)", (pattern_id, rank))
                pattern_id += 1
