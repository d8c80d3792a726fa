"""Experiments with an atlas's own model: said whole in a file or in Python, computed part by part, and kept beside the atlas.

A kind of experiment is a file of kinds/. What computes (torch) is imported when an experiment is planned.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ingest.experiments.driver import ExperimentResult


def run(path: Path | str, spec: Any, **given: Any) -> "ExperimentResult":
    """Compute an experiment as `ingest.experiments.driver.run` does. spec: a `Spec`, or what `spec_of` reads: {"kind": "tracing", "title": …, "prompts": …}."""
    from ingest.experiments.driver import run as carried_out
    from ingest.experiments.spec import Spec, spec_of

    return carried_out(path, spec if isinstance(spec, Spec) else spec_of(spec), **given)
