"""What an item of a paper is: the question that gives its rows, and how they are printed, drawn and captioned."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from atlas.questions import Question, question
from atlas.reads import relations

if TYPE_CHECKING:
    from atlas.api import Atlas

Words = Callable[[pl.DataFrame], str]


@dataclass(frozen=True)
class Item:
    """One figure or table.

    `name` is that of the files and the label, and of the question unless `question` is given; `place` where the paper has it. `needs` are keys of
    atlas/papers/needs.py. `caption` says what is shown, `n` over how many of what, both as plain text from the rows; `exclusions` what was left out.
    `columns` are those that are printed, with their headings; CSV and Parquet hold all. `headline` is what the paper reports and `ours` the same
    from the rows; `model` is what it reports that of, where that is not the paper's. `assumes_relu`: the paper's definition rests on coefficients that are
    zero or above. `fixed` are arguments of the question.
    `compute` gives the rows where SQL cannot, from arguments that are among `accepts`; `title` and `source` then stand for the question's title and SQL.
    """

    name: str
    place: str
    needs: tuple[str, ...]
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

    @property
    def resolved_question(self) -> Question | None:
        """The question that gives the rows; None where `compute` does."""
        return None if self.compute else question(self.question or self.name)

    @property
    def heading(self) -> str:
        return self.title or (self.resolved_question.title if self.resolved_question else "")

    @property
    def sql(self) -> str:
        """The SQL of its question, or what stands for it."""
        return self.source or (self.resolved_question.sql if self.resolved_question else "")

    @property
    def is_of_one_text(self) -> bool:
        """Whether its rows are of one corpus, which must be named where several have any."""
        return "corpus" in self.accepts or "one_corpus" in relations(self.sql)

    def arguments(self, choices: Mapping[str, object]) -> dict[str, object]:
        """Collect every argument by name: what is fixed, what is chosen as far as it is taken, and the question's defaults."""
        defaults = {p.name: p.default_value for p in self.resolved_question.parameters} if self.resolved_question else dict.fromkeys(self.accepts)
        return {**defaults, **{name: value for name, value in choices.items() if name in defaults}, **self.fixed}

    def ask(self, a: "Atlas", choices: Mapping[str, object]) -> pl.DataFrame:
        """Ask for the item's rows, or compute them. Raises AtlasError if the atlas cannot give them."""
        arguments = self.arguments(choices)
        return a.ask(self.resolved_question.name, **arguments) if self.resolved_question else self.compute(a, **arguments)  # type: ignore[misc]


@dataclass(frozen=True)
class Paper:
    """A paper's items in the order it has them; `authors` and `model` as headlines name them, `model_note` a sentence on that model.

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
        """What its numbers are of, and how it counts layers."""
        counts = " The paper counts layers from 1; here they count from 0." if self.counts_from_one else ""
        return f"{self.model}: {self.model_note}{counts}"


@dataclass(frozen=True)
class RenderedItem:
    """What became of an item: its rows and files, or the `reason` there are none; `is_failure` if that is no fault of the atlas's contents.

    `source` is the provenance of its files.
    """

    item: Item
    seconds: float = 0.0
    frame: pl.DataFrame | None = None
    caption: str = ""
    source: dict[str, object] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    reason: str | None = None
    is_failure: bool = False
