"""Sub-updates of prompts switched off one at a time: does a sub-update's score predict the effect of removing it?"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import polars as pl
import pyarrow as pa

from atlas.address import Neuron
from atlas.frames import fetch
from atlas.live.asking import Progress
from atlas.live.saving import save_answer
from atlas.live.shape import OF_EXPERIMENT
from schema.errors import AtlasError
from schema.live import MOST_ARMS, MOST_POSITIONS

if TYPE_CHECKING:
    from atlas.live.session import Live, LiveTrace

LARGEST = """
SELECT c.layer, c.neuron
FROM live_coefficient AS c
WHERE c.position_id = $position AND list_contains($layers, c.layer)
QUALIFY row_number() OVER (PARTITION BY c.layer ORDER BY c.sub_update_norm DESC, c.neuron) <= $n
ORDER BY c.layer, c.sub_update_norm DESC, c.neuron
"""


MOST_LARGEST = 100
"""Number of sub-updates whose coefficients are stored for a layer and position: the largest ones."""


class SwitchOffResult:
    """Result of switching off sub-updates: the prompts, and one arm for each sub-update that was switched off at one token."""

    def __init__(self, path: Path, tables: dict[str, pa.Table]) -> None:
        self.path, self.tables = path, tables

    @property
    def frame(self) -> pl.DataFrame:
        """Sub-updates in the order requested, one row each: their score (raw and frozen norm), and what the answer's logit loses without each, in logits."""
        outcome, arm = (frame_of(self.tables[name]) for name in ("outcome", "arm_change"))
        base = outcome.filter(arm_id=0).select("prompt_id", pl.col("answer_logit").alias("base_logit"))
        return (
            outcome.filter(pl.col("arm_id") > 0)
            .join(arm, on="arm_id")
            .join(base, on="prompt_id")
            .sort("arm_id")
            .select(
                "prompt_id", "layer", pl.col("unit").alias("neuron"), "score", "frozen_score", (pl.col("base_logit") - pl.col("answer_logit")).alias("effect")
            )
        )

    def save(self, title: str, author: str | None = None) -> int:
        """Save the result as an experiment beside the atlas, and return its number for `experiments.score_and_effect(number)`.

        Raises AtlasError if it cannot be written.
        """
        return save_answer(self.path, self.tables, title, author)


def switch_off_largest(live: "Live", prompts: Sequence[str], n: int, layers: Sequence[int] | None, index: int, progress: Progress) -> SwitchOffResult:
    """Switch off the n sub-updates with the largest norm in each of the layers (None: all), at one token of each prompt alone, one sub-update per arm."""
    parts: list[dict[str, pl.DataFrame]] = []
    for prompt_id, text in enumerate(prompts):
        traced = live.trace(text, progress=progress)
        position_id = traced.position_id(index)
        at = traced.positions.filter(position_id=position_id)["index"].item()
        arms = [f"{neuron}=0@{at}" for neuron in largest_neurons(traced, position_id, n, layers)]
        # with the prompt itself, as many as are read at once
        size = max(1, min(MOST_ARMS, MOST_POSITIONS // traced.positions["index"].n_unique() - 1))
        for start in range(0, len(arms), size):
            tables = live.answer(text, arms[start : start + size], is_traced=False, progress=progress)
            n_before = sum(part["arm"].filter(pl.col("arm_id") > 0).height for part in parts)
            parts.append(fit_into_experiment(tables, prompt_id, n_before, at, is_first=start == 0))
    if not parts:
        raise AtlasError("no prompt was given: give one or more")
    asked: dict[str, object] = {"switched_off": n, "layers": None if layers is None else list(layers), "index": index}
    merged = {name: pl.concat([part[name] for part in parts]).to_arrow() for name in OF_EXPERIMENT}
    return SwitchOffResult(live.path, merged | {"experiment": one_experiment(merged["experiment"], asked)})


def largest_neurons(traced: "LiveTrace", position_id: int, n: int, layers: Sequence[int] | None) -> list[Neuron]:
    """List the neurons of the n largest sub-updates of each layer. Raises AtlasError for a layer that does not exist, or n outside 1 to MOST_LARGEST."""
    there = range(fetch(traced.con, "SELECT m.n_layers FROM model AS m").item())
    if not 1 <= n <= MOST_LARGEST:
        raise AtlasError(f"n is {n}, the number of largest sub-updates of a layer; it must be 1 to {MOST_LARGEST}")
    if unknown := sorted(set(layers or ()) - set(there)):
        raise AtlasError(f"layer {unknown[0]} was asked for; the model has layers 0 to {there[-1]}")
    asked = {"position": position_id, "layers": list(there if layers is None else layers), "n": n}
    return [Neuron(*row) for row in fetch(traced.con, LARGEST, asked).rows()]


def fit_into_experiment(tables: dict[str, pa.Table], prompt_id: int, n_before: int, at: int, *, is_first: bool) -> dict[str, pl.DataFrame]:
    """Fit an answer's rows into an experiment of several answers.

    The arms are numbered from `n_before` + 1. The base arm is stored once in all; its outcomes and the rows of a prompt are stored once for each prompt.
    """
    found = {}
    for name in OF_EXPERIMENT:
        frame = frame_of(tables[name])
        if "prompt_id" in frame.columns:
            frame = frame.with_columns(pl.lit(prompt_id, pl.Int32).alias("prompt_id"))
        if name in ("outcome", "outcome_token"):
            frame = frame.filter(index=at)
        if "arm_id" in frame.columns:
            is_treated, has_base = pl.col("arm_id") > 0, n_before == 0 if name == "arm" else is_first
            counted = pl.when(is_treated).then(pl.col("arm_id") + n_before).otherwise(0).cast(pl.Int32).alias("arm_id")
            frame = frame.filter(is_treated | has_base).with_columns(counted)
        elif name != "experiment" and not is_first:
            frame = frame.clear()
        found[name] = frame
    return found


def one_experiment(rows: pa.Table, asked: dict[str, object]) -> pa.Table:
    """Make one experiment of several requests, from the start of the first to the end of the last, with `asked` added to its settings."""
    first, last = rows.to_pylist()[0], rows.to_pylist()[-1]
    settings = json.dumps(json.loads(first["settings"]) | asked)
    return pa.Table.from_pylist([first | {"finished_at": last["finished_at"], "settings": settings}], rows.schema)


def frame_of(table: pa.Table) -> pl.DataFrame:
    return cast(pl.DataFrame, pl.from_arrow(table))
