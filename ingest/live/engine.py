"""The loaded model of one atlas, and the answers computed with it. One thread uses it at a time."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from ingest.live.jobs import limit_time
from ingest.live.request import LiveRequest
from schema.errors import AtlasError
from schema.interventions.resolve import LookUp
from schema.live import LONGEST
from schema.open.store import open_reader

if TYPE_CHECKING:
    import numpy as np

    from ingest.live.jobs import Tell
    from ingest.model.models import Model

BOS = """
SELECT coalesce(max(c.source ->> 'bos'), 'auto') FROM corpus AS c WHERE c.corpus_id = (SELECT min(i.corpus_id) FROM corpus AS i)
"""

QUANTITIES = {"max": "s.max", "min": "s.min", "mean": "s.mean"}


class Engine:
    """The model of one atlas, loaded at the first request, so that the process can answer at once and report its progress."""

    def __init__(self, path: Path, source: str | None, device: str) -> None:
        self.path, self.source, self.device = path, source, device
        self.model: Model | None = None
        self.heads_hold = False
        """Whether the identities of attention were checked and hold. The first attribution checks them: a model that fails them can still show its FFNs."""
        self.is_lost = False
        """Whether loading the model failed. The process then stops, so that a new process can be started with another model."""

    def load(self, tell: "Tell") -> "Model":
        """Return the model; load and check it first if it is not loaded. Raises AtlasError if it is not the atlas's model, or its identities do not hold."""
        if self.model is None:
            try:
                self.model = self.load_checked_model(tell)
            except AtlasError:
                self.is_lost = True
                raise
        return self.model

    def load_checked_model(self, tell: "Tell") -> "Model":
        tell("starting torch", 0.0)
        from ingest.acting.checks import check_acting
        from ingest.live.weights import load_wanted, wanted_model
        from ingest.model.checks import check_identities

        with closing(open_reader(self.path)) as con:
            wanted = wanted_model(con)
        model = load_wanted(wanted, self.source, self.device, lambda stage: tell(stage, 0.0))
        tell("checking that what is recorded and changed adds up", 0.0)
        check_identities(model)
        check_acting(model)
        return model

    def check_heads(self, model: "Model", tell: "Tell") -> None:
        """Raise AtlasError for a model whose identities of attention do not hold, so that its heads cannot be separated."""
        from ingest.model.checks import check_attention

        if not self.heads_hold:
            tell("checking that heads add up", 0.0)
            try:
                check_attention(model)
            except AtlasError as error:
                raise AtlasError(f"{error}. The prompt can be traced without taking its prediction apart, as `atlas trace` does") from error
            self.heads_hold = True

    def trace(self, asked: LiveRequest, tell: "Tell") -> Iterator[dict[str, pa.Table]]:
        """Yield the tables for the prompt, unchanged and under arms, in parts as they are computed: the trace, and the predictions of the base and the arms.

        The prompt's ids are negative. Raises AtlasError if the request needs something that the model or the atlas does not have.
        """
        model, started_at = self.load(tell), datetime.now(UTC)
        tell = limit_time(LONGEST, tell)
        from ingest.acting.generation import require_room
        from ingest.live.apart import PredictionAttribution
        from ingest.live.continuation_rows import generation_table
        from ingest.live.outcomes import outcome_tables
        from ingest.live.prompt import copy_prompt_per_arm, cut_prompt, prompt_tables, require_few
        from ingest.live.record import arm_tables, record_tables
        from ingest.live.tracing import n_runs, read_prompts, resolved_arms, traced_tables

        if asked.weights_sha256 != model.weights_sha256:
            raise AtlasError("the atlas has another model than when its model process was started; stop the process with `atlas live --stop`, and ask again")
        with closing(open_reader(self.path)) as con:
            bos, value_tops = bos_rule(con), read_value_tops(con, model)
            arms = resolved_arms(model, asked.arms, look_up(con), tell)
        prompts = copy_prompt_per_arm(cut_prompt(model, asked.text, bos, is_chat=asked.is_chat), len(arms))
        require_few(prompts, n_runs(arms))
        if asked.n_new:
            # before the trace, which may take minutes
            require_room(model, len(prompts[0].sequences[0].token_ids), asked.n_new)
        if asked.apart is not None:
            self.check_heads(model, tell)
        apart = PredictionAttribution(model, prompts, asked.apart) if asked.apart is not None else None
        traced = read_prompts(model, prompts, arms, tell, apart)
        yield outcome_tables(model, traced, tell)
        yield arm_tables(traced, model.dtype)
        if asked.is_traced:
            yield prompt_tables(prompts, bos)
            for tables in traced_tables(model, traced, value_tops, tell):
                yield apart.narrow_tables(tables) if apart is not None and asked.is_narrow else tables
        if apart is not None:
            yield apart.tables()
        # half a gigabyte of states, which what follows has no need of
        del traced
        yield {"generation": generation_table(model, prompts[0], arms, asked, tell)}
        yield record_tables(model, prompts[0], asked, bos, started_at)


def bos_rule(con: duckdb.DuckDBPyConnection) -> str:
    """Read the BOS setting of the atlas's first corpus; auto if there is no corpus or no such setting."""
    rows = con.execute(BOS).fetchall()
    return rows[0][0] if rows else "auto"


def read_value_tops(con: duckdb.DuckDBPyConnection, model: "Model") -> "np.ndarray":
    from ingest.recorders.loaded_rows import top_tokens

    return top_tokens(con, model.n_layers)


def look_up(con: duckdb.DuckDBPyConnection) -> LookUp:
    """Build the function that looks up a neuron's value norm and statistics. It reads a whole layer at a time, since arms may name all neurons of a layer."""

    @cache
    def of_layer(quantity: str, layer: int, corpus_id: int | None) -> dict[int, float | None]:
        if quantity == "value_norm":
            return dict(con.execute("SELECT n.neuron, n.value_norm FROM neuron AS n WHERE n.layer = ?", [layer]).fetchall())
        sql = f"SELECT s.neuron, {QUANTITIES[quantity]} FROM neuron_statistics AS s WHERE s.corpus_id = ? AND s.layer = ?"
        return dict(con.execute(sql, [corpus_id, layer]).fetchall())

    return lambda quantity, layer, neuron, corpus_id: of_layer(quantity, layer, corpus_id).get(neuron)
