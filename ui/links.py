"""Addresses of views: a page and its parameters. No two pages share a parameter that links give: Streamlit sets none that the page it leaves has too."""

from pathlib import PurePosixPath
from urllib.parse import urlsplit

NEURON, PREDICTION, SQL = "app_pages/neuron.py", "app_pages/prediction.py", "app_pages/sql.py"

Link = tuple[str, dict[str, str | int]]
"""A page and the values of its widgets, by their keys: as they are kept, so that they can be set, and in the address as text."""


def neuron(layer: int, neuron: int) -> Link:
    """The page of a neuron."""
    return NEURON, {"layer": layer, "neuron": neuron}


def prediction(position_id: int, layer: object = None) -> Link:
    """The page of a traced position, at a layer of its own if that is given."""
    return PREDICTION, {"position": str(position_id), **({"in_layer": layer} if isinstance(layer, int) else {})}


def query(sql: str) -> Link:
    """The SQL page with a statement in it."""
    return SQL, {"sql": sql}


def of_row(row: dict[str, object]) -> Link | None:
    """Where a row of any answer leads: to its neuron, else to its traced position."""
    if isinstance(row.get("layer"), int) and isinstance(row.get("neuron"), int):
        return neuron(row["layer"], row["neuron"])  # type: ignore[arg-type]
    if isinstance(row.get("position_id"), int):
        return prediction(row["position_id"], row.get("layer"))  # type: ignore[arg-type]
    return None


def address(values: dict[str, str | int]) -> dict[str, str]:
    """The values as they stand in an address."""
    return {name: str(value) for name, value in values.items()}


def is_of(page: str, url: str | None) -> bool:
    """Whether an address in the browser is that of a page."""
    return PurePosixPath(urlsplit(url or "").path).name == PurePosixPath(page).stem
