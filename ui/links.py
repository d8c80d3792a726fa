"""Addresses of views, built only here: a link is a page and its parameters, and its address names the weights that it belongs to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import quote, urlencode

from atlas.address import Head, Neuron
from ui import data

SEARCH, COMPONENT, PREDICTION, MAP, EVIDENCE, OVERVIEW, SQL = "search", "component", "prediction", "map", "evidence", "", "sql"
"""Names of the pages in addresses; the code calls a page a room."""

ROOMS = {SEARCH: "Search", COMPONENT: "Component", PREDICTION: "Prediction", MAP: "Map", EVIDENCE: "Evidence"}
"""Page → its name in the bar."""

OF = "of"
"""Address parameter: the first digits of the hash of the weights that a link belongs to."""

KINDS = ((Neuron, ""), (Head, ""), (Head, "from_"))
"""Components that a row may name, by its columns: (layer, neuron), (layer, head), (from_layer, from_head)."""

Value = str | int | float | Sequence[str] | None


@dataclass(frozen=True)
class Link:
    """A page and its parameters in order. Parameters without a value are left out."""

    room: str
    query: tuple[tuple[str, str], ...] = ()


def link(room: str, /, **query: Value) -> Link:
    """Link to a view. The words of a list are joined by commas. A parameter may have any name, even `room`."""
    written = {name: value if isinstance(value, str) or not isinstance(value, Sequence) else ",".join(value) for name, value in query.items()}
    return Link(room, tuple((name, str(value)) for name, value in written.items() if value not in (None, "")))


def component(where: Neuron | Head, **more: Value) -> Link:
    """Link to a neuron or a head."""
    return link(COMPONENT, at=str(where), **more)


def neuron(layer: int, neuron: int) -> Link:
    return component(Neuron(layer, neuron))


def head(layer: int, head: int) -> Link:
    return component(Head(layer, head))


def prediction(position_id: int, **more: Value) -> Link:
    """Link to a traced position; more: open, head, for, against."""
    return link(PREDICTION, position=position_id, **more)


def live(prompt: str, off: Sequence[str] = (), **more: Value) -> Link:
    """Link to a prompt of the reader's own, with the switches `off`; more: index, open, head, for, against."""
    return link(PREDICTION, prompt=prompt, off=off, **more)


def search(words: str) -> Link:
    """Link to the results of the search box."""
    return link(SEARCH, q=words)


def evidence(show: str, **more: Value) -> Link:
    """Link to a topic of the Evidence page. For the topic `papers`, `paper` and `item` can be given too."""
    return link(EVIDENCE, show=show, **more)


def query(sql: str) -> Link:
    """Link to the SQL page with a statement in it."""
    return link(SQL, sql=sql)


def of_row(row: Mapping[str, object]) -> Link | None:
    """Link a row of any answer to its neuron, else to its head, else to its traced position; None if it names none of them."""
    named = of_named_row(row)
    return named[1] if named else None


def of_named_row(row: Mapping[str, object]) -> tuple[str, Link] | None:
    """Link a row as of_row does, and name the target of the link: L20N100, L7H3, 136."""
    for kind, prefix in KINDS:
        layer, unit = row.get(f"{prefix}layer"), row.get(f"{prefix}{kind._fields[1]}")
        if isinstance(layer, int) and isinstance(unit, int):
            return str(kind(layer, unit)), component(kind(layer, unit))
    layer, position = row.get("layer"), row.get("position_id")
    if isinstance(position, int):
        return str(position), prediction(position, open=f"L{layer}" if isinstance(layer, int) else None)
    return None


def address(link: Link, of: str | None = None) -> str:
    """Write the link as an address on this server; `of`: the weights that it belongs to."""
    query = urlencode([*link.query, *([(OF, of)] if of else [])], quote_via=quote, safe=",:")
    return f"/{link.room}{'?' if query else ''}{query}"


def href(link: Link) -> str:
    """Write the link as an address in the atlas that is shown."""
    return address(link, data.identity())


def anchor(link: Link, inner: str, **attributes: str) -> str:
    """Wrap HTML in an <a> element. In attribute names a trailing underscore is dropped, so that class_ can be given, and other underscores become hyphens."""
    given = "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
    return f'<a href="{escape(href(link))}"{given}>{inner}</a>'
