"""The interface of a kind of experiment: its settings and prompts as data, and a plan that is computed part by part."""

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
"""Name of a table of the experiments file → its rows, without the column experiment_id."""

Progress = Callable[[int, int], None]
"""Callback: gets the amount done and the total amount of a part. An exception that it raises ends the work."""


@dataclass(frozen=True)
class Cost:
    """Cost of a part. n_forwards: sequences read. n_tokens: their tokens, each weighted by the share of layers it passes, and times 3 with gradients."""

    n_forwards: int
    n_tokens: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.n_forwards + other.n_forwards, self.n_tokens + other.n_tokens)


@dataclass(frozen=True)
class PartResult:
    """Result of a part. note: why it has no rows, or a remark that a reader of its rows needs."""

    tables: Tables = field(default_factory=dict)
    note: str | None = None


@dataclass(frozen=True)
class Part:
    """A piece of an experiment that is computed and stored as a unit. Its result is the same, to the bit, whatever was computed before it.

    So an experiment can resume after any part.
    """

    name: str
    cost: Cost
    compute: Callable[[Progress], PartResult]


@dataclass(frozen=True)
class Plan:
    """Plan of an experiment. tables: rows stored at the beginning, with `prompt` and `prompt_token`; without `arm`, the base arm is the only one.

    measured: quantities measured during planning on which the results depend, by name; they are stored with the settings. is_most: the costs are upper bounds,
    since the amount of computation depends on intermediate results.
    """

    tables: Tables
    parts: Sequence[Part]
    measured: Mapping[str, Any] = field(default_factory=dict)
    is_most: bool = False


@dataclass(frozen=True)
class ExperimentContext:
    """The atlas and its model. con: the atlas, read-only, with its questions. bos: the rule of `BOS_RULES` that the atlas's first corpus has."""

    path: "Path"
    model: "Model"
    con: "duckdb.DuckDBPyConnection"
    bos: str


World, Found = ExperimentContext, PartResult
"""The former names of these classes, for kinds of experiments in other distributions until the next version."""


class Kind(ABC):
    """A kind of experiment. Its module must not import torch before `plan` is called."""

    name: str
    help: str
    """Text of the command's help."""
    example: str
    settings: type
    """A frozen dataclass; its fields are made by `setting`, each with a default."""
    prompt: type
    """A frozen dataclass; its fields are made by `setting`, and `text` is the first."""

    shipped: Mapping[str, Callable[[], list[dict[str, Any]]]] = {}
    """Name → prompts that come with the atlas; a spec may give the name instead of a list of prompts."""
    usual: str = ""
    """Name of the shipped prompts that are used if no prompt is given; '' if a prompt must be given."""

    @abstractmethod
    def plan(self, world: ExperimentContext, settings: Any, prompts: Sequence[Any], seed: int) -> Plan:
        """Plan the experiment. Raises AtlasError for anything that the model, the atlas or this installation lacks; nothing has been stored by then."""
