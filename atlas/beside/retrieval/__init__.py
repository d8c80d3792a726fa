"""Retrievals: neighbours of a text's positions among the keys of other text, their predictions, and the gain over the model (Khandelwal et al. 2020).

Nothing here needs torch: keys are files beside the atlas, written by an ingest with --keys, and results are stored in NAME.retrievals.duckdb.
"""

from pathlib import Path

from schema.open.kinds import Companion

RETRIEVALS = Companion(
    name="retrievals",
    version=1,
    label="retrieval_schema",
    tables=Path(__file__).with_name("tables.sql"),
    folder=Path(__file__).parent,
    changed_by="atlas retrieve",
    told_by="atlas ask knn_result",
    again="run `atlas retrieve` again",
)
