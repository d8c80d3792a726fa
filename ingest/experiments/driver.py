"""Experiments run in the caller's process: each part is stored as soon as it is computed, so that an interrupted experiment resumes where it stopped."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from ingest.acting.checks import check_acting
from ingest.experiments.base import ExperimentContext, Plan
from ingest.experiments.kinds import kind_named
from ingest.experiments.rows import experiment_row, first_tables, part_tables
from ingest.experiments.spec import Spec
from ingest.live.engine import bos_rule
from ingest.live.weights import load_wanted, wanted_model
from ingest.model.checks import check_identities
from schema.errors import AtlasError
from schema.open.store import open_reader
from schema.registry import find_parts

STORE = "activation_atlas.experiment_store"
"""Group of the entry point that names the module which stores experiments. It is for ours alone, which lies in `atlas`: this package does not import it."""


FAULTS = (AtlasError, ArithmeticError, AssertionError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)
"""Exceptions that count as a failure of a part. Any other exception comes from a `Tell` that ends the work, and is passed on unchanged."""


class Tell(Protocol):
    """Receives progress. what: the current part or stage. share: how much of it is done. An exception that it raises ends the work between cells."""

    def __call__(self, what: str, share: float = 0.0) -> None: ...


def ignore_progress(what: str, share: float = 0.0) -> None:
    """Ignore progress; for callers that report none."""


@dataclass(frozen=True)
class ExperimentResult:
    """Result of an experiment. notes: name of a part → why it has no rows, or a remark on them. n_resumed: parts that an earlier run had done."""

    experiment_id: int
    n_parts: int
    n_resumed: int
    notes: dict[str, str]


def store() -> Any:
    """Load atlas/beside/experiments/store.py through its entry point: this package must not import it directly."""
    found = find_parts(STORE, {}, lambda point: {"the store of experiments": point.load()})
    if not found:
        raise AtlasError("nothing installed keeps experiments: install activation-atlas anew")
    return next(iter(found.values()))


@contextmanager
def open_context(path: Path | str, model: str | None, device: str, tell: Tell) -> Iterator[ExperimentContext]:
    """Open the atlas with its own model, loaded and checked. Raises AtlasError if the model is not the atlas's, or its identities do not hold."""
    with closing(open_reader(path)) as con:
        loaded = load_wanted(wanted_model(con), model, device, tell)
        tell("checking that what is recorded and changed adds up")
        check_identities(loaded)
        check_acting(loaded)
        yield ExperimentContext(Path(path), loaded, con, bos_rule(con))


def plan_experiment(world: ExperimentContext, spec: Spec) -> Plan:
    with torch.inference_mode():
        return kind_named(spec.kind).plan(world, spec.settings, spec.prompts, spec.seed)


def run(path: Path | str, spec: Spec, *, model: str | None = None, device: str = "cpu", tell: Tell = ignore_progress) -> ExperimentResult:
    """Compute an experiment beside the atlas at `path`, or only the missing parts of one begun earlier with the same settings, seed and versions.

    model: the atlas's own model, named as for `atlas ingest`, if it is not found under its name in the atlas. Raises AtlasError, before anything is stored,
    if the spec asks for something that the atlas, the model or this installation lacks.
    """
    with open_context(path, model, device, tell) as world:
        tell("reading the prompts")
        return carry_out(world, spec, plan_experiment(world, spec), tell)


def carry_out(world: ExperimentContext, spec: Spec, plan: Plan, tell: Tell) -> ExperimentResult:
    kept, n, notes = store(), len(plan.parts), {}
    row = experiment_row(world.model, spec, plan)
    begun = kept.find_unfinished(world.path, row)
    experiment_id, done = begun if begun is not None else (kept.save(world.path, first_tables(row, plan)), frozenset())
    for place, part in enumerate(plan.parts):
        if place in done:
            continue
        what = f"{part.name}, {place + 1} of {n}"
        tell(what)
        with torch.inference_mode(), translate_errors(part.name, experiment_id, world.path, is_begun=begun is not None or place > 0):
            found = part.compute(lambda read, of, what=what: tell(what, read / of))  # type: ignore[misc]
        if found.note is not None:
            notes[part.name] = found.note
        kept.add(world.path, experiment_id, part_tables(place, part.name, found), is_last=place == n - 1, row=row)
    return ExperimentResult(experiment_id, n, len(done), notes)


@contextmanager
def translate_errors(part: str, experiment_id: int, path: Path, *, is_begun: bool) -> Iterator[None]:
    """Turn a failure of a part into an AtlasError that names the part and says what is stored; a new experiment without a finished part is removed."""
    try:
        yield
    except FAULTS as error:
        said = str(error) if isinstance(error, AtlasError) else f"{type(error).__name__}: {error}"
        raise AtlasError(f"{part} could not be computed ({' '.join(said.split())}); {describe_kept_parts(experiment_id, path, is_begun=is_begun)}") from error


def describe_kept_parts(experiment_id: int, path: Path, *, is_begun: bool) -> str:
    """Describe what is stored of an experiment after a part failed. A new experiment is removed, unless another process has already added a part to it."""
    if is_begun:
        return f"the parts before it are kept: the same command continues after them, and `atlas experiment remove {experiment_id}` removes them"
    try:
        if store().remove_if_bare(path, experiment_id):
            return "nothing is kept"
    except AtlasError as error:
        return f"experiment {experiment_id} has begun, and it is unknown whether a part of it is kept ({error})"
    return f"experiment {experiment_id} is kept, since another process has added to it"
