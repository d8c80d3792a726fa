"""What a kind of experiment is: its settings and prompts as data, and what it computes of them part by part."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb
    import pyarrow as pa

    from ingest.model.models import Model

Tables = Mapping[str, "pa.Table"]
"""Rows by table of the file of experiments, without experiment_id."""

Progress = Callable[[int, int], None]
"""(what of a part is done, what there is to do). What it raises ends the work."""


@dataclass(frozen=True)
class Cost:
    """n_forwards: sequences read. n_tokens: their tokens, each times the share of the model's layers that it passes; those of gradients count three times."""

    n_forwards: int
    n_tokens: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.n_forwards + other.n_forwards, self.n_tokens + other.n_tokens)


@dataclass(frozen=True)
class PartResult:
    """What a part brings. note: why it brings nothing, or what is to be known of it."""

    tables: Tables = field(default_factory=dict)
    note: str | None = None


@dataclass(frozen=True)
class Part:
    """What is computed and kept at once. It is the same, to the bit, whatever was computed before it, so that an experiment goes on after any of them."""

    name: str
    cost: Cost
    compute: Callable[[Progress], PartResult]


@dataclass(frozen=True)
class Plan:
    """tables: rows that are there from the beginning, `prompt` and `prompt_token` among them; without `arm` there is the base arm alone.

    measured: what was found on the way and the numbers hang on, by name, kept with the settings. is_most: the costs are bounds, since what is computed depends
    on what comes of it.
    """

    tables: Tables
    parts: Sequence[Part]
    measured: Mapping[str, Any] = field(default_factory=dict)
    is_most: bool = False


@dataclass(frozen=True)
class ExperimentContext:
    """con: the atlas, read-only, its questions among it. bos: a rule of `BOS_RULES`, that of the atlas's first corpus."""

    path: "Path"
    model: "Model"
    con: "duckdb.DuckDBPyConnection"
    bos: str


class Kind(ABC):
    """A kind of experiment. Its module imports torch when it plans, not before."""

    name: str
    help: str
    """What the command says it does."""
    example: str
    settings: type
    """A frozen dataclass, its fields made by `setting`, each with a default."""
    prompt: type
    """A frozen dataclass, its fields made by `setting`; `text` comes first."""

    shipped: Mapping[str, Callable[[], list[dict[str, Any]]]] = {}
    """Name → prompts that come with the atlas; the name stands in the place of a list."""
    usual: str = ""
    """The name of those that are taken where no prompt is given; '' where one must be."""

    @abstractmethod
    def plan(self, world: ExperimentContext, settings: Any, prompts: Sequence[Any], seed: int) -> Plan:
        """Plan what is to be computed. Raises AtlasError for what the model, the atlas or this installation has not; nothing has been kept then."""
