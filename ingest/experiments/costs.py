"""Estimate of an experiment's cost before it runs: its forward passes, and the minutes that they take, from the speed of a few measured passes."""

from collections.abc import Sequence

import torch

from ingest.acting.answers import Prompt
from ingest.acting.cells import Cell, patching_arm
from ingest.acting.changes import CPU_TOKENS, first_layer
from ingest.experiments.base import Cost, Plan
from ingest.model.device import USUAL_TOKENS
from ingest.model.models import Model
from ingest.timing import fastest_seconds
from schema.interventions.intervention import Arm


def cost_of_cells(model: Model, prompt: Prompt, cells: Sequence[Cell], n_bases: int) -> Cost:
    """Compute the cost of `answers_under` for cells whose states are replaced, and of the two runs of the prompt before it."""
    return cost_of_changes(model, prompt, [patching_arm(cell, model.n_layers) for cell in cells], n_bases, 2)


def cost_of_changes(model: Model, prompt: Prompt, changes: Sequence[Arm], n_bases: int, n_before: int) -> Cost:
    """Compute the cost of `answers_under` for changes on top of each of n_bases base arms, and of n_before other runs of the prompt."""
    layers = sum(model.n_layers - first_layer(change, model.n_layers) for change in changes) / model.n_layers
    n_whole = n_before + n_bases
    return Cost(n_whole + n_bases * len(changes), len(prompt.input_ids) * (n_whole + n_bases * layers))


def total(plan: Plan) -> Cost:
    return sum((part.cost for part in plan.parts), Cost(0, 0.0))


def seconds_a_token(model: Model, n_tokens: int) -> float:
    """Measure the seconds per token of a forward pass over sequences of n_tokens, in batches of the size that experiments use; the faster of two passes."""
    n = max(1, (CPU_TOKENS if model.device.type == "cpu" else USUAL_TOKENS) // n_tokens)
    ids = torch.zeros(n, n_tokens, dtype=torch.long, device=model.input_device)

    def run_forward() -> None:
        with torch.inference_mode():
            model.backbone(ids)

    return fastest_seconds(run_forward) / (n * n_tokens)


def report(plan: Plan, model: Model) -> str:
    """Report the cost of a plan in one line."""
    cost = total(plan)
    lengths = plan.tables["prompt"]["n_tokens"].to_pylist()
    seconds = cost.n_tokens * seconds_a_token(model, max(1, round(sum(lengths) / len(lengths))))
    bound, unit = "at most " if plan.is_most else "", "part" if len(plan.parts) == 1 else "parts"
    return (
        f"{len(plan.parts)} {unit}, {bound}{cost.n_forwards:,} forward passes, the work of {cost.n_tokens:,.0f} tokens through all layers: "
        f"{bound}about {seconds / 60:,.1f} minutes, from forward passes measured here"
    )
