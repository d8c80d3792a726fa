"""Records that make up the Evidence page: topics, their panels, and the choices of a reader."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from atlas.papers.needs import derive_needs
from atlas.questions import question
from ui.charts import AnyChart

Known = Callable[[], Sequence[str]]


@dataclass(frozen=True)
class Choice:
    """A widget whose value is stored in the address under `key`, and passed to all questions of the topic with a parameter `argument`, or only to `of`.

    `words`: the options, the first by default, or a function that finds them in the atlas. If it is (), the widget asks for a number of the parameter's type,
    with `default`. A value of None stands for the question's own default.
    """

    argument: str
    key: str
    label: str
    words: Sequence[str] | Known = ()
    default: float | None = None
    of: str = ""


@dataclass(frozen=True)
class Panel:
    """A question, with its answer in a sentence, as a picture and as a table.

    `sentence`, `picture`: made from the rows, of which there is at least one. `columns`: columns of the table, all if empty. `rows`: maximum number of rows of
    the table; files hold all. `fixed`: fixed arguments. `if_empty`: the text if there are no rows.
    """

    question: str
    sentence: Callable[[pl.DataFrame], str]
    picture: Callable[[pl.DataFrame], AnyChart] | None = None
    columns: tuple[str, ...] = ()
    rows: int = 20
    fixed: Mapping[str, object] = field(default_factory=dict)
    if_empty: str = "Nothing of the kind is in this atlas."
    is_table_first: bool = False

    @property
    def needs(self) -> tuple[str, ...]:
        """Keys of atlas/papers/needs.py."""
        return derive_needs(question(self.question).sql)


@dataclass(frozen=True)
class Topic:
    """A heading that is a question, with panels beneath it and the choices for all of them."""

    heading: str
    panels: tuple[Panel, ...]
    choices: tuple[Choice, ...] = ()
