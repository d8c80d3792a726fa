"""What the model process answered, kept as an experiment beside the atlas."""

from pathlib import Path

import pyarrow as pa

KEPT = ("experiment", "prompt", "prompt_token", "arm", "arm_change", "outcome", "outcome_token", "generation")
"""Tables of an answer that a file of experiments has too."""


def save_answer(path: Path, tables: dict[str, pa.Table], title: str, author: str | None) -> int:
    """Returns the experiment's number. Raises AtlasError if it cannot be written."""
    from atlas.experiments.store import save  # what writes DuckDB files, which reading goes without

    kept = {name: tables[name] for name in KEPT}
    kept["arm"] = kept["arm"].drop_columns("is_as_base")
    said = {"title": pa.array([title]), "author": pa.array([author], pa.string())}
    kept["experiment"] = pa.table({**dict(zip(kept["experiment"].column_names, kept["experiment"].columns, strict=True)), **said})
    return save(path, kept)
