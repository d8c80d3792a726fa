"""The model: rows, bytes, memory and seconds of a sweep, and what the weights cost, out of a model's sizes and the constants."""

import math
from collections.abc import Collection
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from ingest.passes import passes
from ingest.recorders.lens import N_LENS_TOKENS
from ingest.recorders.predictions import ROWS
from ingest.recorders.traces import N_SUB_UPDATES
from ingest.store.committer import PUBLISH_SHARE
from schema.tables import metadata
from schema.terms import HISTOGRAM_BINS, PRECEDING, SITES, TAILS
from tests.scale.constants import (
    ASK_SECONDS,
    CUT_SECONDS,
    HAND_OVER_BYTES,
    HAND_OVER_SECONDS,
    LOAD_SECONDS,
    PUBLISH_SECONDS,
    PUBLISHED_BYTES,
    SHARD_BYTES,
    SHARD_SECONDS,
    SURVEY_SECONDS,
    WORK_BYTES,
    WRITING_BYTES,
)
from tests.scale.fit import total
from tests.scale.shapes import Shape, Sweep, candidates, loaded_rows

if TYPE_CHECKING:
    from ingest.passes.base import CostSample

    pass

BYTES_PER_ROW = {name: table.info["bytes_a_row"] for name, table in metadata(1).tables.items()}

PEAK_FLOPS, UTILISATION = 989e12, 0.4
"""ASSUMED: an H100's dense bfloat16 peak, and the share of it that the sweep reaches, 2 FLOP a parameter and token."""

PEAK_FLOPS_32 = 67e12
"""ASSUMED at the same share for the weights' own products, which are float32."""

COEFFICIENTS = 100
"""`--coefficients`, as `atlas ingest` has it by default."""


def tokens_per_second(shape: Shape) -> float:
    """Of one GPU: an assumption, not a measurement."""
    return PEAK_FLOPS * UTILISATION / (2 * shape.n_parameters)


def shard_units(shape: Shape, sweep: Sweep) -> dict[str, float]:
    """Rows of a sweep's mean shard, as SHARD_SECONDS and the like count them."""
    n_triggers = candidates(shape, sweep, sweep.k) / sweep.n_shards
    return {"shard": 1, "neuron": shape.n_neurons, "trigger": n_triggers, "position": sweep.n_positions / sweep.n_shards}


def publish_units(shape: Shape, sweep: Sweep) -> dict[str, float]:
    """Rows that a publication reads, as PUBLISH_SECONDS counts them."""
    rows = loaded_rows(shape, sweep)
    units = {"snapshot": 1, "neuron": shape.n_neurons, "statistics": rows["neuron_statistics"]}
    return {**units, "trigger": rows["trigger"], "position": rows["position"]}


def work_units(shape: Shape, sweep: Sweep) -> dict[str, float]:
    """Rows of the committer's file, as WORK_BYTES counts them: a histogram takes more bits the more positions a shard has."""
    units = publish_units(shape, sweep)
    of_count = units.pop("statistics") * math.log2(sweep.shard_positions) / 8
    return {"file": units.pop("snapshot"), **units, "statistics_bytes_of_count": of_count}


def published_units(shape: Shape, sweep: Sweep) -> dict[str, float]:
    bytes_of_id = math.log2(sweep.n_positions) / 8
    return {"file": 1, "neuron": shape.n_neurons, "neuron_bytes_of_id": shape.n_neurons * bytes_of_id, "position": sweep.n_positions}


def work_bytes(shape: Shape, sweep: Sweep) -> float:
    return total(work_units(shape, sweep), WORK_BYTES)


def published_bytes(shape: Shape, sweep: Sweep) -> float:
    return total(published_units(shape, sweep), PUBLISHED_BYTES)


def disk_bytes(shape: Shape, sweep: Sweep) -> float:
    """At the peak: the committer's file, the snapshot and the next one, and a shard of every worker."""
    staged = min(sweep.n_workers, sweep.n_shards) * total(shard_units(shape, sweep), SHARD_BYTES)
    return work_bytes(shape, sweep) + 2 * published_bytes(shape, sweep) + staged


def reduction_bytes(shape: Shape, k: int) -> int:
    """Memory of TorchKeys: exact, but for cells that wait to be sorted in. A trigger is a coefficient, a position, PRECEDING levels and their scale."""
    of_trigger = 4 + 8 + PRECEDING + 4
    of_statistics = 8 + 8 + 4 + 4 + 8 + 8 * HISTOGRAM_BINS
    return shape.n_neurons * (len(TAILS) * k * of_trigger + of_statistics)


def writing_bytes(shape: Shape, k: int) -> float:
    """Memory that a worker needs on its processor's side to make its first shard."""
    return len(TAILS) * k * shape.n_neurons * WRITING_BYTES


def handed_over_bytes(sweep: Sweep) -> float:
    """Text that is with the workers at once."""
    return min(sweep.n_workers * sweep.shard_positions, sweep.n_positions) * HAND_OVER_BYTES


def worker_seconds(shape: Shape, sweep: Sweep) -> float:
    """From the text of a mean shard to its files."""
    units = shard_units(shape, sweep)
    return units["position"] / tokens_per_second(shape) + total(units, SHARD_SECONDS)


def driver_parts(shape: Shape, sweep: Sweep) -> dict[str, float]:
    """What the one driver does for a mean shard, in seconds; nothing of it beside anything else."""
    units = shard_units(shape, sweep)
    parts = {"cut": units["position"] * CUT_SECONDS, "load": total({**units, "position": 0}, LOAD_SECONDS)}
    parts["load positions"] = units["position"] * LOAD_SECONDS["position"]
    if sweep.n_workers > 1:
        parts |= {"hand over": units["position"] * HAND_OVER_SECONDS, "ask": sweep.n_workers * ASK_SECONDS}
    return parts


def driver_seconds(shape: Shape, sweep: Sweep) -> float:
    return sum(driver_parts(shape, sweep).values())


def sweep_seconds(sweep: Sweep, worker: float, driver: float) -> float:
    """From the seconds that a worker and the driver need for a shard.

    A worker waits for the driver after each, the driver for nobody as long as any worker is done: whoever has more to do sets the pace.
    """
    rounds = -(-sweep.n_shards // sweep.n_workers)
    return max(rounds * (worker + driver), sweep.n_shards * driver + worker)


def publish_parts(shape: Shape, sweep: Sweep) -> dict[str, float]:
    """Seconds of the last snapshot, everything loaded."""
    units = publish_units(shape, sweep)
    return {"publish": total({**units, "position": 0}, PUBLISH_SECONDS), "publish positions": units["position"] * PUBLISH_SECONDS["position"]}


def publish_seconds(shape: Shape, sweep: Sweep) -> float:
    return sum(publish_parts(shape, sweep).values())


def ingest_seconds(shape: Shape, sweep: Sweep, without: Collection[str] = ()) -> float:
    """Survey, sweep with the snapshots on its way, and the last snapshot; the weights' own run, loading the model and starting Ray not counted.

    without: "survey", or names of driver_parts and publish_parts, that nobody has to wait for.
    """
    survey = 0 if "survey" in without else sweep.n_positions * SURVEY_SECONDS
    driver, publish = (sum(s for name, s in parts(shape, sweep).items() if name not in without) for parts in (driver_parts, publish_parts))
    # a snapshot on the way is worth its time only once PUBLISH_SHARE times as much has gone by
    return survey + sweep_seconds(sweep, worker_seconds(shape, sweep), driver) * (1 + 1 / PUBLISH_SHARE) + publish


def best_workers(shape: Shape, n_positions: int, shard_positions: int) -> tuple[int, float]:
    """The power of two of workers, up to 1,024, that is done first, and how many times quicker than one that is."""
    seconds = {w: ingest_seconds(shape, Sweep(n_positions, shard_positions, w)) for w in (1 << i for i in range(11))}
    best = min(seconds, key=lambda w: seconds[w])
    return best, seconds[1] / seconds[best]


def weights_seconds(shape: Shape) -> float:
    """Of one GPU: every value against the vocabulary and against every value."""
    products = 2 * shape.n_neurons * shape.d_model * (shape.d_vocab + shape.n_neurons)
    return products / (PEAK_FLOPS_32 * UTILISATION)


def unit_values_bytes(shape: Shape) -> int:
    """Memory of all values in float32, which the weights' run holds on its device at once."""
    return 4 * shape.n_neurons * shape.d_model


def stored_bytes(name: str, shape: Shape) -> float:
    """What a pass stores of a model, and of one traced position, by the rows that its dry run counts."""
    probe = cast("CostSample", SimpleNamespace(model=shape, seen=SimpleNamespace(sample=[0])))
    return sum(n * BYTES_PER_ROW[table] for table, n in passes()[name].rows(probe).items())


def traced_position_bytes(shape: Shape) -> int:
    """Of a traced position in a snapshot: states at resid_pre once, resid_mid and resid_post of every layer."""
    at_layer = {
        "logit_lens": len(SITES), "logit_lens_token": len(SITES) * N_LENS_TOKENS, "coefficient": COEFFICIENTS, "layer_activity": 1,
        "sub_update": 2 * N_SUB_UPDATES,
    }  # fmt: skip
    vectors = (2 * shape.n_layers + 1) * 4 * shape.d_model
    return BYTES_PER_ROW["trace"] + vectors + shape.n_layers * sum(n * BYTES_PER_ROW[table] for table, n in at_layer.items())


def head_share(shape: Shape) -> float:
    """FLOP of the output head over those of a forward pass without it."""
    head = shape.d_model * shape.d_vocab
    return head / (shape.n_parameters - head * (1 if shape.is_tied else 2))


def logits_bytes(shape: Shape) -> int:
    """Of the positions whose predictions are read at once."""
    return 4 * ROWS * shape.d_vocab


def keys_bytes(shape: Shape, n_positions: int) -> int:
    """Of the files beside an atlas."""
    return 2 * shape.d_model * n_positions


def probed_bytes(shape: Shape, n_words: int) -> int:
    """Of the file that holds states of every layer, of the model and of the untrained one."""
    return 2 * 2 * shape.d_model * (shape.n_layers + 1) * n_words


def weights_bytes(shape: Shape) -> int:
    """Of a model in bfloat16."""
    return 2 * shape.n_parameters
