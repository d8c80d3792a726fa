"""Base classes of passes. A pass is a kind of run, declared in one file that is found by listing, and done by the `Work` that it names."""

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
"""The former name, until the next version, for passes of other distributions."""

__all__ = ["Basis", "CostSample", "Pass", "Plan", "PlannedPass", "Probe", "Recording", "RecordingPass", "Text", "flag"]


class Pass(Work):
    """A kind of run. Its name is stored in `run.kind`, and marks the tables that it fills (schema/tables).

    Its work is done by the class that `work` names, imported at first use, or by the methods of a subclass.
    """

    name: ClassVar[str]
    after: ClassVar[tuple[str, ...]] = ()
    """Passes that run first if both are requested: this pass reads their rows, or is of less use than they are."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Tables filled by other runs, on which its numbers depend. The settings of its runs name, for each table, the runs that had brought rows."""
    options: ClassVar[tuple[click.Option, ...]] = ()
    """Its options of `atlas ingest`; their values are in `Request.options`."""
    needs_corpus: ClassVar[bool] = False
    """Whether the option of its name asks for something of the request's corpus."""
    is_repeatable: ClassVar[bool] = True
    """Whether a corpus may have another finished run of it, with other settings."""
    reads_heads: ClassVar[bool] = False
    """Whether it relies on what the model's entry says of attention: its identities are then checked too."""

    work: ClassVar[str] = ""
    """module:class of its `Work`."""

    @cached_property
    def implementation(self) -> Work:
        """The `Work` that `work` names; if it names none, the bare `Work`, for a subclass that does everything itself."""
        return resolve_name(self.work)() if self.work else Work()

    def is_wanted(self, request: "Request") -> bool:
        """Tell whether the request asks for this pass: by its first option, and with a corpus if it needs one. A pass without options overrides this method."""
        return bool(request.options[str(self.options[0].name)]) and not (self.needs_corpus and request.corpus is None)

    def check(self, request: "Request") -> None:
        """Raise AtlasError for a request that the pass cannot do; called before anything is written."""

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
    """A pass with jobs of its own."""

    def plans(self, basis: Basis) -> Iterable[Plan]:
        return self.implementation.plans(basis)


class RecordingPass(Pass):
    """A pass that records while the text is read. All requested passes of this kind share the forward passes."""

    def recording(self, basis: Basis, text: Text) -> Recording:
        return self.implementation.recording(basis, text)


def flag(name: str, help: str) -> click.Option:
    return click.Option([f"--{name}"], is_flag=True, help=help)
