"""The loaded model of one atlas, and what is answered with it. Used by one thread at a time."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from ingest.live.jobs import within
from ingest.live.request import Asked
from schema.errors import AtlasError
from schema.interventions.resolve import LookUp
from schema.live import LONGEST
from schema.open.store import open_reader

if TYPE_CHECKING:
    import numpy as np

    from ingest.live.jobs import Tell
    from ingest.model.models import Model
import json

import numpy as np
import torch

from ingest.acting.used import used_arm
from ingest.live.tracing import Traced
from ingest.model.models import Model
from ingest.store.register import versions
from ingest.text.sequences import CutDocument, bos_token
from schema.interventions.changes import change_rows
from schema.interventions.resolve import arm_sha256, canonical_json


def record_tables(model: Model, prompt: CutDocument, asked: Asked, bos: str, started_at: datetime) -> dict[str, pa.Table]:
    """The title is left to whoever keeps it. The answer is, at each index, the token that the base has likeliest."""
    (s,) = prompt.sequences
    n = len(s.token_ids)
    experiment = {
        "kind": "live", "title": "", "settings": json.dumps({"bos": bos, "n_new": asked.n_new, "seed": asked.seed}), "versions": json.dumps(versions()),
        "seed": asked.seed or 0, "device": str(model.device), "dtype": str(model.dtype).removeprefix("torch."),
        "attention": model.hf.config._attn_implementation, "weights_sha256": model.weights_sha256, "started_at": started_at,
        "finished_at": datetime.now(UTC), "status": "finished",
    }  # fmt: skip
    has_bos = int(s.token_ids[0]) == bos_token(model.tokenizer, bos)
    tokens = {
        "prompt_id": np.zeros(n, np.int32), "index": np.arange(n, dtype=np.int32), "token_id": s.token_ids, "char_start": s.char_starts,
        "char_end": s.char_ends, "role": ["other"] * (n - 1) + ["last"],
    }  # fmt: skip
    return {
        "experiment": pa.Table.from_pylist([experiment]),
        "prompt": pa.table({"prompt_id": [0], "text": [prompt.document.text], "n_tokens": [n], "has_bos": [has_bos]}),
        "prompt_token": pa.table(tokens),
    }


ARM = pa.schema(
    [("arm_id", pa.int32()), ("name", pa.string()), ("role", pa.string()), ("interventions", pa.string()), ("sha256", pa.string()), ("is_as_base", pa.bool_())]
)
CHANGE = pa.schema(
    [
        ("arm_id", pa.int32()), ("rank", pa.int32()), ("site", pa.string()), ("layer", pa.int16()), ("unit", pa.int32()), ("op", pa.string()),
        ("value", pa.float32()), ("strength_kind", pa.string()), ("strength", pa.float32()), ("positions", pa.string()), ("is_first_skipped", pa.bool_()),
    ]
)  # fmt: skip


def arm_tables(traced: Traced, dtype: torch.dtype) -> dict[str, pa.Table]:
    """The base is arm 0. is_as_base: the arm changed no bit of any position. `arm` has values as they were asked for, `arm_change` as the dtype has them."""
    arms = [{"arm_id": 0, "name": "base", "role": "base", "interventions": "[]", "sha256": arm_sha256(()), "is_as_base": True}]
    changes = []
    for k, (arm, same) in enumerate(zip(traced.arms, traced.is_as_base, strict=True), start=1):
        arms.append({"arm_id": k, "name": f"arm {k}", "role": "treatment", "interventions": canonical_json(arm), "sha256": arm_sha256(arm), "is_as_base": same})
        changes += [{"arm_id": k, **row} for row in change_rows(used_arm(arm, dtype))]
    return {"arm": pa.Table.from_pylist(arms, ARM), "arm_change": pa.Table.from_pylist(changes, CHANGE)}


BOS = """
SELECT coalesce(max(c.source ->> 'bos'), 'auto') FROM corpus AS c WHERE c.corpus_id = (SELECT min(i.corpus_id) FROM corpus AS i)
"""

QUANTITIES = {"max": "s.max", "min": "s.min", "mean": "s.mean"}


class Engine:
    """Loads the model at the first request, so that the process answers at once, and says what it is doing."""

    def __init__(self, path: Path, source: str | None, device: str) -> None:
        self.path, self.source, self.device = path, source, device
        self.model: Model | None = None
        self.heads_hold = False
        """The identities of attention have been checked: when a prediction is first taken apart, since FFNs are shown of a model that fails them."""
        self.is_lost = False
        """The model cannot be had: whoever named it can name it anew, to another process."""

    def load(self, tell: "Tell") -> "Model":
        """The model, loaded and checked. Raises AtlasError if it is not the atlas's, or its identities do not hold."""
        if self.model is None:
            try:
                self.model = self.loaded(tell)
            except AtlasError:
                self.is_lost = True
                raise
        return self.model

    def loaded(self, tell: "Tell") -> "Model":
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
        """Raise AtlasError for a model whose heads cannot be told apart."""
        from ingest.model.checks import check_attention

        if not self.heads_hold:
            tell("checking that heads add up", 0.0)
            try:
                check_attention(model)
            except AtlasError as error:
                raise AtlasError(f"{error}. Without taking its prediction apart the prompt can be traced, as `atlas trace` does") from error
            self.heads_hold = True

    def trace(self, asked: Asked, tell: "Tell") -> Iterator[dict[str, pa.Table]]:
        """Tables of the prompt, its ids negative, and under arms, in parts as they come about: those of a trace, and what base and arms predict.

        Raises AtlasError for what the model or the atlas has not.
        """
        model, started_at = self.load(tell), datetime.now(UTC)
        tell = within(LONGEST, tell)
        from ingest.acting.generation import require_room
        from ingest.live.apart import Apart

        pass
        from ingest.live.continuing import generation_table
        from ingest.live.outcomes import outcome_tables
        from ingest.live.prompt import cut_prompt, prompt_tables, require_few, under_arms

        pass
        from ingest.live.tracing import n_runs, read_prompts, resolved_arms, traced_tables

        if asked.weights_sha256 != model.weights_sha256:
            raise AtlasError("the atlas has another model than when its model process was started; end that with `atlas live --stop`, and ask again")
        with closing(open_reader(self.path)) as con:
            bos, value_tops = bos_rule(con), read_value_tops(con, model)
            arms = resolved_arms(model, asked.arms, look_up(con), tell)
        prompts = under_arms(cut_prompt(model, asked.text, bos, is_chat=asked.is_chat), len(arms))
        require_few(prompts, n_runs(arms))
        if asked.n_new:
            # before the trace, which may take minutes
            require_room(model, len(prompts[0].sequences[0].token_ids), asked.n_new)
        if asked.apart is not None:
            self.check_heads(model, tell)
        apart = Apart(model, prompts, asked.apart) if asked.apart is not None else None
        traced = read_prompts(model, prompts, arms, tell, apart)
        yield outcome_tables(model, traced, tell)
        yield arm_tables(traced, model.dtype)
        if asked.is_traced:
            yield prompt_tables(prompts, bos)
            for tables in traced_tables(model, traced, value_tops, tell):
                yield apart.narrowed(tables) if apart is not None and asked.is_narrow else tables
        if apart is not None:
            yield apart.tables()
        # half a gigabyte of states, which what follows has no need of
        del traced
        yield {"generation": generation_table(model, prompts[0], arms, asked, tell)}
        yield record_tables(model, prompts[0], asked, bos, started_at)


def bos_rule(con: duckdb.DuckDBPyConnection) -> str:
    """Of the atlas's first corpus."""
    rows = con.execute(BOS).fetchall()
    return rows[0][0] if rows else "auto"


def read_value_tops(con: duckdb.DuckDBPyConnection, model: "Model") -> "np.ndarray":
    from ingest.recorders.reads import top_tokens

    return top_tokens(con, model.n_layers)


def look_up(con: duckdb.DuckDBPyConnection) -> LookUp:
    """Reads a layer at a time: arms may name every neuron of it."""

    @cache
    def of_layer(quantity: str, layer: int, corpus_id: int | None) -> dict[int, float | None]:
        if quantity == "value_norm":
            return dict(con.execute("SELECT n.neuron, n.value_norm FROM neuron AS n WHERE n.layer = ?", [layer]).fetchall())
        sql = f"SELECT s.neuron, {QUANTITIES[quantity]} FROM neuron_statistics AS s WHERE s.corpus_id = ? AND s.layer = ?"
        return dict(con.execute(sql, [corpus_id, layer]).fetchall())

    return lambda quantity, layer, neuron, corpus_id: of_layer(quantity, layer, corpus_id).get(neuron)
