"""Experiments with an atlas's own model: specified completely in a file or in Python, computed part by part, and stored beside the atlas.

Each kind of experiment is a file in kinds/. Torch is imported only when an experiment is planned.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ingest.experiments.driver import ExperimentResult


def run(path: Path | str, spec: Any, **given: Any) -> "ExperimentResult":
    """Compute an experiment as `ingest.experiments.driver.run` does. spec: a `Spec`, or a mapping for `spec_of`: {"kind": "tracing", "title": …, …}."""
    from ingest.experiments.driver import run as carried_out
    from ingest.experiments.spec import Spec, spec_of

    return carried_out(path, spec if isinstance(spec, Spec) else spec_of(spec), **given)
