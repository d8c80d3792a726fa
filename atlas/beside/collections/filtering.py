"""A collection as a filter: the rows of any answer whose neuron, head, position or token is in it."""

from atlas.statement import literal
from schema.errors import AtlasError

JOINS = {"neuron": ("layer", "neuron"), "head": ("layer", "head"), "position": ("position_id",), "token": ("token_id",)}
"""Kind of member → the columns by which a row names one; the first kind whose columns a row has is used."""


def restrict_to_collection(sql: str, columns: list[str], collection: str) -> str:
    """Restrict a SELECT to the members of a collection of this atlas's model, in its own order. Raises AtlasError if its columns name no member."""
    kind = next((kind for kind, joined in JOINS.items() if set(joined) <= set(columns)), None)
    if kind is None:
        raise AtlasError(f"a collection narrows rows with layer and neuron, layer and head, position_id or token_id; these have {', '.join(columns)}")
    members = f"FROM collections.in_collection({literal(collection)}, kind := '{kind}')"
    rows = f"SELECT *, row_number() OVER () AS place_in_order FROM ({sql.strip().removesuffix(';')})"
    joined = ", ".join(JOINS[kind])
    return f"SELECT r.* EXCLUDE (place_in_order) FROM ({rows}) AS r SEMI JOIN ({members}) AS m USING ({joined}) ORDER BY r.place_in_order"
