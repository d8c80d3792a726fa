"""Items of papers: the question that gives an item's rows, and how these are printed, drawn and captioned."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from atlas.papers.needs import derive_needs
from atlas.questions import Question, question
from atlas.reads import relations

if TYPE_CHECKING:
    from atlas.api import Atlas

Words = Callable[[pl.DataFrame], str]


@dataclass(frozen=True)
class Item:
    """One figure or table.

    `name`: name of the files and the label, and of the question unless `question` is given. `place`: place in the paper.
    `caption` says what is shown, `n` over how many of what: both make plain text from the rows. `exclusions`: what was left out.
    `columns`: the columns that are printed, with their headings; CSV and Parquet have all.
    `headline`: what the paper reports. `ours`: the same from the rows. `model`: the model of the headline, if it is not the paper's.
    `assumes_relu`: the paper's definition rests on coefficients of zero or above. `fixed`: arguments of the question.
    `other_needs`: keys of NEEDS in atlas/papers/needs.py that the SQL does not show.
    `compute` gives the rows if SQL cannot, from arguments that are among `accepts`; `title` and `source` then replace the question's title and SQL.
    """

    name: str
    place: str
    caption: Words
    n: Words
    columns: Mapping[str, str]
    exclusions: str = "none"
    if_empty: str = "nothing of the kind is in this atlas"
    chart: Callable[[pl.DataFrame], Any] | None = None
    headline: str | None = None
    ours: Words | None = None
    model: str = ""
    assumes_relu: bool = False
    question: str = ""
    fixed: Mapping[str, object] = field(default_factory=dict)
    compute: Callable[..., pl.DataFrame] | None = None
    accepts: tuple[str, ...] = ()
    title: str = ""
    source: str = ""
    other_needs: tuple[str, ...] = ()

    @property
    def resolved_question(self) -> Question | None:
        """The question that gives the rows; None if `compute` gives them."""
        return None if self.compute else question(self.question or self.name)

    @property
    def heading(self) -> str:
        return self.title or (self.resolved_question.title if self.resolved_question else "")

    @property
    def sql(self) -> str:
        """The SQL of the item's question, or the item's `source` in its place."""
        return self.source or (self.resolved_question.sql if self.resolved_question else "")

    @property
    def needs(self) -> tuple[str, ...]:
        """Keys of NEEDS: those of the item's SQL, and its `other_needs`."""
        return derive_needs(self.sql) + self.other_needs

    @property
    def is_of_one_text(self) -> bool:
        """Whether the item's rows are of one corpus, which must be named if several corpora have rows."""
        return "corpus" in self.accepts or "one_corpus" in relations(self.sql)

    def arguments(self, choices: Mapping[str, object]) -> dict[str, object]:
        """Collect every argument by name: the fixed ones, those of `choices` that the item takes, and the question's defaults."""
        defaults = {p.name: p.default_value for p in self.resolved_question.parameters} if self.resolved_question else dict.fromkeys(self.accepts)
        return {**defaults, **{name: value for name, value in choices.items() if name in defaults}, **self.fixed}

    def ask(self, a: "Atlas", choices: Mapping[str, object]) -> pl.DataFrame:
        """Ask for the item's rows, or compute them. Raises AtlasError if the atlas cannot give them."""
        arguments = self.arguments(choices)
        return a.ask(self.resolved_question.name, **arguments) if self.resolved_question else self.compute(a, **arguments)  # type: ignore[misc]


@dataclass(frozen=True)
class Paper:
    """A paper, with its items in the paper's order. `authors`, `model`: names used in headlines. `model_note`: a sentence on that model.

    `counts_from_one`: the paper's first layer is 1.
    """

    name: str
    citation: str
    authors: str
    model: str
    model_note: str
    items: tuple[Item, ...]
    counts_from_one: bool = True

    @property
    def note(self) -> str:
        """Note on the paper: which model its numbers are of, and how it counts layers."""
        counts = " The paper counts layers from 1; here they count from 0." if self.counts_from_one else ""
        return f"{self.model}: {self.model_note}{counts}"


@dataclass(frozen=True)
class RenderedItem:
    """Result of making an item: its rows and files, or the `reason` that there are none.

    `is_failure`: the reason is an error, not a lack in the atlas's contents. `source` is the provenance of the item's files.
    """

    item: Item
    seconds: float = 0.0
    frame: pl.DataFrame | None = None
    caption: str = ""
    source: dict[str, object] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    reason: str | None = None
    is_failure: bool = False
