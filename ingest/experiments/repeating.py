"""The spec of an experiment that is there."""

import json
from contextlib import closing
from pathlib import Path

from ingest.experiments.spec import Spec, spec_of
from schema.errors import AtlasError, what_there_is
from schema.open.opening import open_with_beside

WANTED = "SELECT e.kind, e.title, e.seed, e.settings::TEXT FROM experiments.experiment AS e WHERE e.experiment_id = $id"
IDS = "SELECT e.experiment_id FROM experiments.experiment AS e ORDER BY e.experiment_id"


def spec_in(path: Path | str, experiment_id: int) -> Spec:
    """Raises AtlasError for an experiment that there is not, and for one that no command made, as a live prompt that was kept."""
    with closing(open_with_beside(path)) as con:
        ids = [one for (one,) in con.execute(IDS).fetchall()]
        # DuckDB takes no number of any size
        if experiment_id not in ids:
            raise AtlasError(f"no experiment {experiment_id}; {what_there_is(', '.join(map(str, ids)))}")
        kind, title, seed, settings = con.execute(WANTED, {"id": experiment_id}).fetchall()[0]
    try:
        asked = json.loads(settings)
    except RecursionError:
        raise AtlasError(f"the settings of experiment {experiment_id} are nested too deeply to be read: no file says it whole") from None
    if not isinstance(asked, dict) or "prompts" not in asked:
        raise AtlasError(f"experiment {experiment_id} is of kind {kind} and was kept by hand: no file says it whole")
    return spec_of({"kind": kind, "title": title, "seed": seed, "settings": asked.get("settings", {}), "prompts": asked["prompts"]})
