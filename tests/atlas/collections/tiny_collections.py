"""Two collections of the tiny atlas: "cats" by anna, of two neurons, a head, a position and a token, and "Vidé (2)" by bert, of nothing."""

from datetime import UTC, datetime
from pathlib import Path

from atlas.beside.collections import COLLECTIONS
from schema.open.change import change_companion

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

MEMBERS = [
    # number, kind, layer, neuron, head, position_id, token_id, text
    (0, "neuron", 0, 1, None, None, None, "␣sat · ."),
    (1, "neuron", 2, 3, None, None, None, "cat · ."),
    (2, "head", 1, None, 0, None, None, ""),
    (4, "position", None, None, None, 2, None, "The cat"),
    (5, "token", None, None, None, None, 2, " cat"),
]


def write_tiny_collections(path: Path) -> None:
    """As rows, so that what adds them is not needed."""
    with change_companion(COLLECTIONS, path) as con:
        con.execute("INSERT INTO collections.collection VALUES (0, 'cats', 'what sees cats', 'anna', ?), (3, 'Vidé (2)', '', 'bert', ?)", [WHEN, WHEN])
        for member in MEMBERS:
            con.execute("INSERT INTO collections.collection_member VALUES (0, ?, ?, ?, ?, ?, ?, ?, ?, '', 'anna', 'ww', ?)", [*member, WHEN])
