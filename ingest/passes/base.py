"""Base classes of passes. A pass is a kind of run. A module of this folder declares it, and the `Work` that it names does it."""

from collections.abc import Iterable
from functools import cached_property
from pkgutil import resolve_name
from typing import TYPE_CHECKING, ClassVar

import click

from ingest.recorders.plans import Basis, CostSample, Plan, Recording, Text, Work

if TYPE_CHECKING:
    from ingest.model.models import Model
    from ingest.request import Request

Probe = CostSample
"""Former name of `CostSample`, for passes of other distributions; the next version removes it."""

__all__ = ["Basis", "CostSample", "Pass", "Plan", "PlannedPass", "Probe", "Recording", "RecordingPass", "Text", "flag"]


class Pass(Work):
    """A kind of run. `run.kind` stores its name, and each table names the pass that fills it (schema/tables).

    The class that `work` names does the work, and is imported at first use. A subclass that leaves `work` empty overrides the methods instead.
    """

    name: ClassVar[str]
    after: ClassVar[tuple[str, ...]] = ()
    """Names of the passes that run before this one if both are requested: this pass reads their rows, or is less useful than they are."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Tables, filled by earlier runs, that this pass reads. The settings of its runs list, for each of these tables, the runs that had added rows to it."""
    options: ClassVar[tuple[click.Option, ...]] = ()
    """Options that the pass adds to `atlas ingest`; `Request.options` has their values."""
    needs_corpus: ClassVar[bool] = False
    """Whether the pass reads the request's corpus, so that its option is refused without --corpus."""
    is_repeatable: ClassVar[bool] = True
    """Whether a corpus, or the model, may have several runs of the pass, with different settings."""
    reads_heads: ClassVar[bool] = False
    """Whether the pass relies on what the model's entry says about attention. If so, the identities of attention are checked before it runs."""

    work: ClassVar[str] = ""
    """Class of the pass's `Work`, as module:class."""

    @cached_property
    def implementation(self) -> Work:
        """An instance of the class that `work` names or, if `work` is empty, a plain `Work`: the subclass then overrides the methods."""
        return resolve_name(self.work)() if self.work else Work()

    def is_wanted(self, request: "Request") -> bool:
        """Tell whether the request sets the pass's first option, and has a corpus if the pass needs one. A pass without options overrides this method."""
        return bool(request.options[str(self.options[0].name)]) and not (self.needs_corpus and request.corpus is None)

    def check(self, request: "Request") -> None:
        """Raise AtlasError if the pass cannot fulfil the request. Called before anything is written."""

    def check_model(self, request: "Request", model: "Model") -> None:
        self.implementation.check_model(request, model)

    def note(self, basis: Basis) -> str | None:
        return self.implementation.note(basis)

    def rows(self, sample: CostSample) -> dict[str, int]:
        return self.implementation.rows(sample)

    def seconds(self, sample: CostSample) -> float:
        return self.implementation.seconds(sample)

    def n_bytes(self, sample: CostSample) -> int | None:
        return self.implementation.n_bytes(sample)


class PlannedPass(Pass):
    """A pass that computes in its own jobs, and not while the text is read."""

    def plans(self, basis: Basis) -> Iterable[Plan]:
        return self.implementation.plans(basis)


class RecordingPass(Pass):
    """A pass that records while the text is read. All requested passes of this kind share the forward passes."""

    def recording(self, basis: Basis, text: Text) -> Recording:
        return self.implementation.recording(basis, text)


def flag(name: str, help: str) -> click.Option:
    return click.Option([f"--{name}"], is_flag=True, help=help)
