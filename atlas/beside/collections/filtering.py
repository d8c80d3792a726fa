"""A collection as a filter: it selects those rows of an answer whose neuron, head, position or token is in the collection."""

from atlas.statement import literal
from schema.errors import AtlasError

JOINS = {"neuron": ("layer", "neuron"), "head": ("layer", "head"), "position": ("position_id",), "token": ("token_id",)}
"""Kind of member → the columns by which a row names one; the first kind whose columns a row has is used."""


def restrict_to_collection(sql: str, columns: list[str], collection: str) -> str:
    """Restrict a SELECT to rows that name a member of a collection, in the order of the SELECT. Raises AtlasError if its columns cannot name a member."""
    kind = next((kind for kind, joined in JOINS.items() if set(joined) <= set(columns)), None)
    if kind is None:
        raise AtlasError(f"a collection can only filter rows with layer and neuron, layer and head, position_id or token_id; these have {', '.join(columns)}")
    members = f"FROM collections.in_collection({literal(collection)}, kind := '{kind}')"
    rows = f"SELECT *, row_number() OVER () AS place_in_order FROM ({sql.strip().removesuffix(';')})"
    joined = ", ".join(JOINS[kind])
    return f"SELECT r.* EXCLUDE (place_in_order) FROM ({rows}) AS r SEMI JOIN ({members}) AS m USING ({joined}) ORDER BY r.place_in_order"
