"""Arrow tables built from a sweep's data in memory: texts and their positions, triggers, statistics."""

import json

import numpy as np
import pyarrow as pa

from ingest.recorders.ffn_keys import CpuKeys, KeyTriggers
from ingest.recorders.top_k_kernel import ABSENT, NOWHERE
from ingest.recorders.torch_keys import TorchKeys
from ingest.text.sequences import CutDocument
from schema.terms import PRECEDING_RANKS, TAILS


def text_tables(documents: list[CutDocument], corpus_id: int) -> dict[str, pa.Table]:
    """Build the rows of `document`, `sequence` and `position`."""
    sequences = [s for d in documents for s in d.sequences]
    lengths = [len(s.token_ids) for s in sequences]

    def join_field(field: str) -> np.ndarray:
        return np.concatenate([np.empty(0, np.int32), *(getattr(s, field) for s in sequences)])

    following = join_field("next_token_ids")
    return {
        "document": pa.table(
            {
                "document_id": pa.array([d.document_id for d in documents], pa.int64()),
                "corpus_id": np.full(len(documents), corpus_id, np.int32),
                "name": [d.document.name for d in documents],
                "metadata": [json.dumps(d.document.metadata | d.document.nested, default=str, ensure_ascii=False) for d in documents],
                "text": pa.array([d.document.text for d in documents], pa.large_string()),
            }
        ),
        "sequence": pa.table(
            {
                "sequence_id": pa.array([s.sequence_id for s in sequences], pa.int64()),
                "document_id": pa.array([s.document_id for s in sequences], pa.int64()),
                "first_position_id": pa.array([s.first_position_id for s in sequences], pa.int64()),
                "n_positions": pa.array(lengths, pa.int32()),
            }
        ),
        "position": pa.table(
            {
                "position_id": np.concatenate([np.empty(0, np.int64), *(s.first_position_id + np.arange(n) for s, n in zip(sequences, lengths, strict=True))]),
                "sequence_id": np.repeat(np.array([s.sequence_id for s in sequences], np.int64), lengths),
                "index": np.concatenate([np.empty(0, np.int32), *(np.arange(n, dtype=np.int32) for n in lengths)]),
                "token_id": join_field("token_ids"),
                "next_token_id": pa.array(following, mask=following < 0),
                "char_start": join_field("char_starts"),
                "char_end": join_field("char_ends"),
            }
        ),
    }


def trigger_rows(keys: CpuKeys | TorchKeys, corpus_id: int, first: int, last: int) -> pa.Table:
    """Build the rows of `trigger` whose position is in [first, last). Their rank is 0, since the merge ranks them.

    Only triggers that may be among the first PRECEDING_RANKS have preceding coefficients.
    """
    kept = keys.triggers()
    chosen = (kept.positions >= first) & (kept.positions < last) & (kept.positions != NOWHERE)
    layer, tail, neuron, place = np.nonzero(chosen)
    n = len(layer)
    is_late = ~is_leading(kept)[chosen]
    return pa.table(
        {
            "corpus_id": np.full(n, corpus_id, np.int32),
            "layer": layer.astype(np.int16),
            "neuron": neuron.astype(np.int32),
            "tail": pa.DictionaryArray.from_arrays(pa.array(tail.astype(np.int8)), list(TAILS)),
            "rank": np.zeros(n, np.int16),
            "position_id": kept.positions[layer, tail, neuron, place],
            "coefficient": kept.coefficients[layer, tail, neuron, place],
            "preceding": lists(kept.levels[chosen], is_late),
            "preceding_scale": pa.array(kept.scales[chosen], mask=is_late),
            "context": pa.nulls(n, pa.int64()) if kept.contexts is None else kept.contexts[layer, tail, neuron, place],
        }
    )


def is_leading(kept: KeyTriggers) -> np.ndarray:
    """Tell whether each trigger is, ties included, among the first PRECEDING_RANKS of its key and tail so far: [n_layers, 2, d_ffn, k]."""
    n = min(PRECEDING_RANKS, kept.coefficients.shape[-1])
    signed = kept.coefficients * np.array([-1, 1], np.float32)[:, None, None]
    return signed <= np.partition(signed, n - 1, axis=-1)[..., n - 1 : n]


def lists(levels: np.ndarray, is_null: np.ndarray) -> pa.LargeListArray:
    """Convert levels [n, PRECEDING] to lists without absent levels; null where `is_null` is true."""
    is_there = (levels != ABSENT) & ~is_null[:, None]
    ends = is_there.sum(1).cumsum()
    return pa.LargeListArray.from_arrays(pa.array(np.concatenate([[0], ends])), pa.array(levels[is_there]), mask=pa.array(is_null))


def statistics_rows(keys: CpuKeys | TorchKeys, corpus_id: int) -> pa.Table:
    """Build the rows of `neuron_statistics` over one shard; none if no position of the shard counts."""
    s = keys.statistics()
    n_layers, d_ffn, bins = s.histogram.shape
    mean = s.total / max(1, s.n_positions)
    variance = np.maximum(s.square / max(1, s.n_positions) - mean * mean, 0)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(s.histogram.ravel()), bins)
    rows = pa.table(
        {
            "corpus_id": np.full(n_layers * d_ffn, corpus_id, np.int32),
            "layer": np.repeat(np.arange(n_layers, dtype=np.int16), d_ffn),
            "neuron": np.tile(np.arange(d_ffn, dtype=np.int32), n_layers),
            "n_positions": np.full(n_layers * d_ffn, s.n_positions, np.int64),
            "n_active": s.n_active.ravel(),
            "mean": mean.ravel(),
            "std": np.sqrt(variance).ravel(),
            "min": s.low.ravel(),
            "max": s.high.ravel(),
            "histogram": lists,
        }
    )
    return rows if s.n_positions else rows.slice(0, 0)
