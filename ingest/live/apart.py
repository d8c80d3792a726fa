"""Attribution of one prediction of a prompt, unchanged and under arms: the tables of the pass `attribution`."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.model.hooks import Listener
from ingest.model.models import Model
from ingest.model.parts import mean_reader
from ingest.recorders.attribution_recorder import AttributionRecorder
from ingest.recorders.base import Batch
from ingest.recorders.reading import listener
from ingest.text.sequences import CutDocument
from schema.errors import AtlasError

ROWS_OF_ATTENTION = ("attention", "head_activity")
"""Tables computed from queries and keys. They would not show what an arm changes in a head or an attention weight, so only the base's rows are returned."""


BULKY = ("residual_state", "coefficient")
"""Tables that make up most of an answer's bytes."""


class PredictionAttribution:
    """Attribution of the prediction at one position, for the prompt and for each arm. index: of the position, from the end if negative.

    Raises AtlasError for an index that the prompt does not have.
    """

    def __init__(self, model: Model, prompts: Sequence[CutDocument], index: int) -> None:
        n = len(prompts[0].sequences[0].token_ids)
        if not -n <= index < n:
            raise AtlasError(f"no token {index}: the prompt has {n} tokens")
        self.model = model
        self.position_ids = np.array([prompt.sequences[0].first_position_id + index % n for prompt in prompts], np.int64)
        self.recorder = AttributionRecorder(model, -1, mean_reader(model))

    def listeners(self, batch: Batch) -> list[Listener]:
        heard = listener(self.model, self.recorder, self.position_ids, batch)
        return [heard] if heard is not None else []

    def narrow_tables(self, tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
        """Leave out the states and coefficients of all positions but the attributed one."""
        own = pc.field("position_id").isin(self.position_ids.tolist())
        return {name: table.filter(own) if name in BULKY else table for name, table in tables.items()}

    def tables(self) -> dict[str, pa.Table]:
        found = self.recorder.tables(lambda _: None)
        base = pc.field("position_id") == int(self.position_ids[0])
        return {name: table.filter(base) if name in ROWS_OF_ATTENTION else table for name, table in found.items()}
