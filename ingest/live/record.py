"""What a live trace is, for whoever keeps it: rows of `experiment`, `prompt` and `prompt_token`."""

import json
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from ingest.live.request import LiveRequest
from ingest.model.models import Model
from ingest.store.register import versions
from ingest.text.sequences import CutDocument, bos_token


def record_tables(model: Model, prompt: CutDocument, asked: LiveRequest, bos: str, started_at: datetime) -> dict[str, pa.Table]:
    """Build the rows that record a live trace. The title is left to whoever keeps it. The answer is, at each index, the token that is likeliest in the base."""
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
