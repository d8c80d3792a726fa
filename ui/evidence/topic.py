"""What the room of evidence is made of, as records: topics, their panels, and what a reader chooses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from ui.charts import AnyChart

Known = Callable[[], Sequence[str]]


@dataclass(frozen=True)
class Choice:
    """A widget that is kept in the address under `key`; what it holds goes to every question of the topic that has a parameter `argument`, or to `of` alone.

    `words` are what there is to choose, the first by default, or what finds them in the atlas; a number is asked for where there are none, of the
    parameter's type, with `default`. What is None leaves the question's own default.
    """

    argument: str
    key: str
    label: str
    words: Sequence[str] | Known = ()
    default: float | None = None
    of: str = ""


@dataclass(frozen=True)
class Panel:
    """A question: its answer in a sentence, as a picture and as a table.

    `needs` are keys of atlas/papers/needs.py. `sentence` and `picture` are made from the rows, of which there is at least one. `columns` are those
    of the table, none for all, and `rows` how many rows stand there; files hold all. `fixed` are arguments. `if_empty` is said where there are no rows.
    """

    question: str
    needs: tuple[str, ...]
    sentence: Callable[[pl.DataFrame], str]
    picture: Callable[[pl.DataFrame], AnyChart] | None = None
    columns: tuple[str, ...] = ()
    rows: int = 20
    fixed: Mapping[str, object] = field(default_factory=dict)
    if_empty: str = "Nothing of the kind is in this atlas."
    is_table_first: bool = False


@dataclass(frozen=True)
class Topic:
    """Panels beneath a heading that is a question, and what is chosen for all of them."""

    heading: str
    panels: tuple[Panel, ...]
    choices: tuple[Choice, ...] = ()
