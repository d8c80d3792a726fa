"""The tests of a suite in the tiny atlas: a third corpus, of three words a sentence, whose scores a pencil gives. A token's probability is 1 in n."""

from math import log

import duckdb

from tests.atlas.tiny_atlas import LAYERS, NEURONS

CORPUS, DOCUMENT, POSITION, RUN = 2, 200, 1000, 100

CAT, DOG, SHORT = ("The", " cat", " sat"), ("The", " dog", " sat"), ("The", " cat")
IDS = {"<s>": 0, "The": 1, " cat": 2, " sat": 3, " dog": 10}

SENTENCES = [
    # kind, paradigm, item, role, expectation, delta, tokens, n of each token, {region: (first, last token)}, top token at the end
    ("pair", "order", "0", "good", None, None, CAT, (2, 4, 2), {"critical": (2, 2)}, 9),
    ("pair", "order", "0", "bad", None, None, DOG, (2, 8, 2), {"critical": (2, 2)}, 9),
    ("pair", "order", "1", "good", None, None, CAT, (4, 4, 4), {"critical": (2, 2)}, 9),
    ("pair", "order", "1", "bad", None, None, SHORT, (4, 8), {"critical": (2, 2)}, 9),
    ("pair", "number", "0", "good", None, None, CAT, (2, 2, 2), {}, 9),
    ("pair", "number", "0", "bad", None, None, DOG, (2, 2, 2), {}, 9),
    ("region", "garden", "1", "a", "(2;%b%) > (2;%a%)", None, CAT, (2, 4, 8), {"1": (1, 1), "2": (2, 3)}, 9),
    ("region", "garden", "1", "b", "(2;%b%) > (2;%a%)", None, DOG, (2, 16, 8), {"1": (1, 1), "2": (2, 3)}, 9),
    ("mft", "capital", "0", "expected", None, None, CAT, (2, 2, 2), {"scored": (3, 3)}, 9),
    ("mft", "capital", "0", "rival", None, None, CAT, (2, 2, 4), {"scored": (3, 3)}, 9),
    ("mft", "capital", "0", "rival", None, None, CAT, (2, 2, 8), {"scored": (3, 3)}, 9),
    ("inv", "typo", "0", "original", None, 0.2, CAT, (2, 2, 2), {}, 3),
    ("inv", "typo", "0", "perturbed", "case", 0.2, CAT, (2, 4, 2), {"after": (2, 3)}, 3),
    ("inv", "typo", "0", "perturbed", "space", 0.2, CAT, (2, 2, 2), {}, 5),
    ("dir", "praise", "0", "original", "down", 1.0, CAT, (2, 2, 2), {"scored": (3, 3)}, 9),
    ("dir", "praise", "0", "changed", "down", 1.0, CAT, (2, 2, 8), {"scored": (3, 3)}, 9),
]

CONTRASTED = {("order", 2, 0): (3.0, 3.0), ("order", 0, 1): (-2.0, 4.0)}
"""(paradigm, layer, neuron) → mean, mean without sign; elsewhere 0 and 0.5."""

DIVERGENCES = [(212, 211, 0.1), (213, 211, 0.15)]


def suite_rows() -> dict[str, list[tuple]]:
    """Rows of the tables that the suite fills, columns in their order."""
    when = "2026-01-02 03:04:05+00"
    found: dict[str, list[tuple]] = {name: [] for name in ("document", "sequence", "position", "position_prediction", "test_item", "test_region")}
    for k, (kind, paradigm, item, role, expectation, delta, tokens, ns, regions, top) in enumerate(SENTENCES):
        document, first, text = DOCUMENT + k, POSITION + 4 * k, "".join(tokens)
        found["document"].append((document, CORPUS, f"{paradigm}/{item}/{role}", "{}", text))
        found["sequence"].append((document, document, first, 1 + len(tokens)))
        ids, end = [0, *(IDS[token] for token in tokens)], 0
        for i, token in enumerate(("", *tokens)):
            following = ids[i + 1] if i < len(tokens) else None
            found["position"].append((first + i, document, i, ids[i], following, end, end + len(token)))
            end += len(token)
            surprisal, rank = (None, None) if following is None else (log(ns[i]), 2)
            found["position_prediction"].append((first + i, surprisal, 1.0, rank, top if following is None else 9, 0.5, 0.5))
        found["test_item"].append((document, kind, "cats", paradigm, item, role, expectation, delta))
        found["test_region"] += [(document, name, first + start, first + last) for name, (start, last) in regions.items()]
    n = len(found["position"])
    found["corpus"] = [(CORPUS, "cats", "all", "{}", None, "ss", len(SENTENCES), n)]
    found["neuron_contrast"] = [
        (CORPUS, "cats", paradigm, i, j, n_items, *spread(paradigm, i, j))
        for paradigm, n_items in (("number", 1), ("order", 2))
        for i in LAYERS
        for j in NEURONS
    ]
    found["test_term"] = [(CORPUS, "cats", "garden", 1, 1, 1, "greater", role, "2", weight) for role, weight in (("a", -1.0), ("b", 1.0))]
    found["test_divergence"] = list(DIVERGENCES)
    counted = {name: len(found[name]) for name in ("test_item", "test_region", "neuron_contrast", "test_term", "test_divergence")}
    manifest = {RUN: {"position_prediction": n}, RUN + 1: {"document": len(SENTENCES), "sequence": len(SENTENCES), "position": n, **counted}}
    found["run"] = [(i, kind, CORPUS, "{}", "{}", 0, "cpu", 1, when, when, "finished") for i, kind in ((RUN, "prediction"), (RUN + 1, "test"))]
    found["shard"] = [(i, 0, str(rows).replace("'", '"'), "cc", "host:1", when) for i, rows in manifest.items()]
    return found


def spread(paradigm: str, layer: int, neuron: int) -> tuple[float, float, float]:
    mean, size = CONTRASTED.get((paradigm, layer, neuron), (0.0, 0.5))
    return mean, 1.0, size


def add_suites(con: duckdb.DuckDBPyConnection) -> None:
    for table, lines in suite_rows().items():
        con.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(lines[0]))})", lines)
