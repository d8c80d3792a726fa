"""Members of a collection, and the texts that the atlas shows for them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import duckdb
import polars as pl

from atlas.address import Head, Neuron, parse_address
from atlas.cursors import fetch_rows
from atlas.export.visible import visible_text
from atlas.model_row import model_values
from schema.errors import AtlasError

BATCH = 1_000
"""Members whose texts are read at once."""

NEURONS = """
SELECT v.layer, v.neuron, list(t.text ORDER BY v.rank)
FROM value_token AS v
INNER JOIN token AS t ON v.token_id = t.token_id
WHERE v.direction = 'promoted' AND v.rank <= 5
    AND (v.layer, v.neuron) IN (SELECT (unnest($layers::INTEGER[]), unnest($items::INTEGER[])))
GROUP BY v.layer, v.neuron
"""
POSITIONS = "SELECT c.position_id, c.text_before || c.token FROM token_context($items::BIGINT[]) AS c"
TOKENS = "SELECT t.token_id, t.text FROM token AS t WHERE list_contains($items::INTEGER[], t.token_id)"


class Member(NamedTuple):
    """One member: `layer` and `item` of a neuron or head, `item` alone (layer None) of a position or token."""

    kind: str
    layer: int | None
    item: int

    def __str__(self) -> str:
        if self.layer is None:
            return f"{self.kind} {self.item}"
        return str(Neuron(self.layer, self.item) if self.kind == "neuron" else Head(self.layer, self.item))

    @property
    def cells(self) -> tuple[int | None, ...]:
        """Table cells of the member: layer, neuron, head, position_id, token_id; None in the columns of other kinds."""
        of = {kind: self.item if kind == self.kind else None for kind in ("neuron", "head", "position", "token")}
        return (self.layer, *of.values())


def position(position_id: int) -> Member:
    return Member("position", None, position_id)


def token(token_id: int) -> Member:
    return Member("token", None, token_id)


def component(address: str | Neuron | Head) -> Member:
    """Build the member for a neuron or head, given as such or as an address: 'L3N17' or 'L3H7'. Raises AtlasError for text that is not an address."""
    found = parse_address(address) if isinstance(address, str) else address
    return Member("neuron" if isinstance(found, Neuron) else "head", *found)


def in_rows(frame: pl.DataFrame) -> list[Member]:
    """List the members that rows name, each once: neurons if the rows name any, else heads, else positions, else tokens.

    Raises AtlasError if the rows have no columns of integers that name members.
    """
    known = (("neuron", ("layer", "neuron")), ("head", ("layer", "head")), ("position", ("position_id",)), ("token", ("token_id",)))
    named = [(kind, columns) for kind, columns in known if {*columns} <= {*frame.columns}]
    there = [(kind, columns) for kind, columns in named if all(frame.schema[c].is_integer() for c in columns)]
    for kind, columns in there:
        # points of the map are values or states, and have the columns of both
        if rows := frame.select(columns).drop_nulls().unique(maintain_order=True).rows():
            return [Member(kind, row[0] if len(row) == 2 else None, row[-1]) for row in rows]
    if there:
        return []
    if named:
        strange = ", ".join(f"{c} is of type {frame.schema[c]}" for _, columns in named for c in columns if not frame.schema[c].is_integer())
        raise AtlasError(f"these rows name nothing to collect: {strange}; layers, neurons and heads must be integers: cast them, as in layer::INTEGER")
    raise AtlasError(
        f"these rows name nothing to collect: they have {', '.join(frame.columns)}, and not layer and neuron, layer and head, position_id or token_id"
    )


def texts(con: duckdb.DuckDBPyConnection, members: Sequence[Member]) -> dict[Member, str]:
    """Read the text of each member: the five tokens that a neuron's value promotes most, the text up to a position, a token's characters; '' for a head.

    Raises AtlasError for members that the atlas does not have.
    """
    check_sizes(con, members)
    found: dict[Member, str] = {}
    for start in range(0, len(members), BATCH):
        found.update(batch_texts(con, members[start : start + BATCH]))
    if missing := [m for m in members if m not in found and m.kind in ("position", "token")]:
        raise AtlasError(f"this atlas has no {', '.join(map(str, missing[:5]))}")
    return {m: found.get(m) or "" for m in members}


def batch_texts(con: duckdb.DuckDBPyConnection, members: Sequence[Member]) -> Iterator[tuple[Member, str]]:
    of = {kind: [m for m in members if m.kind == kind] for kind in ("neuron", "position", "token")}
    if neurons := of["neuron"]:
        asked = {"layers": [m.layer for m in neurons], "items": [m.item for m in neurons]}
        yield from ((Member("neuron", layer, item), " · ".join(map(visible_text, tokens))) for layer, item, tokens in fetch_rows(con, NEURONS, asked))
    for kind, sql, largest in (("position", POSITIONS, 2**63 - 1), ("token", TOKENS, 2**31 - 1)):
        # a number that DuckDB's type cannot hold is of nothing that there is
        if items := [m.item for m in of[kind] if m.item <= largest]:
            yield from ((Member(kind, None, item), text) for item, text in fetch_rows(con, sql, {"items": items}))


def check_sizes(con: duckdb.DuckDBPyConnection, members: Iterable[Member]) -> None:
    """Raise AtlasError for a neuron or head that the model is too small to have, or if the atlas has no model yet."""
    n_layers, *n = model_values(con, "n_layers", "d_ffn", "n_heads")
    for member in members:
        if member.layer is not None and not (0 <= member.layer < n_layers and 0 <= member.item < n[member.kind == "head"]):
            raise AtlasError(f"no {member.kind} {member}: this model has layers 0 to {n_layers - 1}, neurons 0 to {n[0] - 1} and heads 0 to {n[1] - 1} in each")
