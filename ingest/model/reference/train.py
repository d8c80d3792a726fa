"""Training by a recipe: for a number of steps, or until the validation loss hardly falls."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import PreTrainedModel

from ingest.model.reference.data import batch, epoch, windows
from ingest.model.reference.probe import Probe, measure
from ingest.model.reference.recipe import AVERAGE_DECAY, PATIENCE, WARMUP_STEPS, Recipe, new_optimizers
from schema.durable import put_in_place

Log = Callable[[str], None]
Keep = Callable[[PreTrainedModel], None]


READ_AT_ONCE = 8
"""Number of windows in a forward pass of validation."""

COUNTED = ("step", "n_tokens", "seconds", "losses")


@dataclass
class State:
    """State of a training: the model, the running mean of its weights, the steps and tokens taken, the CPU seconds they took, and the results of probes.

    losses: for every check (step, training loss since the last check, validation loss of the mean).
    """

    model: PreTrainedModel
    average: AveragedModel
    optimizers: list[torch.optim.Optimizer]
    learning_rate: float
    step: int = 0
    n_tokens: int = 0
    seconds: float = 0.0
    losses: list[tuple[int, float, float]] = field(default_factory=list)
    probes: list[Probe] = field(default_factory=list)

    @property
    def best_step(self) -> int:
        """Find the step whose mean had the lowest validation loss."""
        return min(self.losses, key=lambda check: check[2])[0]

    @property
    def mean(self) -> PreTrainedModel:
        """Give the model whose weights are the running mean."""
        return cast(PreTrainedModel, self.average.module)


@dataclass(frozen=True)
class Speeches:
    """Token ids of the speeches of two splits, and the BOS token that stands before each window."""

    training: list[Tensor]
    validation: list[Tensor]
    bos: int


def begin(model: PreTrainedModel, learning_rate: float) -> State:
    """Make the state of a training that has taken no step yet."""
    return State(model, AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(AVERAGE_DECAY)), new_optimizers(model, learning_rate), learning_rate)


def save(state: State, file: Path) -> None:
    """Save all that training needs to resume; the file appears whole or not at all."""
    draft = file.with_suffix(".tmp")
    parts = {"model": state.model.state_dict(), "average": state.average.state_dict(), "optimizers": [o.state_dict() for o in state.optimizers]}
    counted = {**{name: getattr(state, name) for name in COUNTED}, "probes": [tuple(p) for p in state.probes]}
    torch.save({**parts, **counted, "random": torch.get_rng_state()}, draft)
    put_in_place(draft, file)


def restore(state: State, file: Path) -> None:
    """Restore the state that `save` wrote."""
    saved = torch.load(file, weights_only=True)
    state.model.load_state_dict(saved["model"])
    state.average.load_state_dict(saved["average"])
    for optimizer, was in zip(state.optimizers, saved["optimizers"], strict=True):
        optimizer.load_state_dict(was)
    for name in COUNTED:
        setattr(state, name, saved[name])
    state.probes = [Probe(*p) for p in saved["probes"]]
    torch.set_rng_state(saved["random"])


def train(model: PreTrainedModel, recipe: Recipe, speeches: Speeches, seed: int, log: Log, keep: Keep, file: Path) -> State:
    """Train at a constant rate, after warm-up, until the recipe says that training ends.

    keep: called with the mean model whenever its validation loss is the lowest so far. file: stores the state at every check; if it exists, training resumes
    from it, with the same result as without an interruption. Returns the final state; losses are in nats per token.
    """
    state = begin(model, recipe.learning_rate)
    source = endless_batches(speeches, np.random.default_rng(seed), recipe)
    if file.exists():
        restore(state, file)
        for _ in range(state.step):
            next(source)
    while state.step < recipe.max_steps and not is_loss_settled([loss for _, _, loss in state.losses], recipe.min_fall):
        training = advance(state, source, recipe.check_steps)
        validation = mean_loss(state.mean, speeches.validation[:: recipe.check_every], speeches.bos)
        log(f"step {state.step}: training loss {training:.4f}, validation loss {validation:.4f} nats per token")
        if recipe.is_probed:
            state.probes.append(measure(state.model, state.step, speeches.bos))
            log(f"  {state.probes[-1]}")
        if validation < min((loss for _, _, loss in state.losses), default=math.inf):
            keep(state.mean)
        state.losses.append((state.step, training, validation))
        save(state, file)
    return state


def is_loss_settled(losses: list[float], min_fall: float | None) -> bool:
    """Tell whether the last PATIENCE checks lowered the lowest loss by less than min_fall."""
    before = losses[:-PATIENCE]
    return min_fall is not None and bool(before) and min(before) - min(losses) < min_fall


def advance(state: State, source: Iterator[tuple[Tensor, Tensor]], n_steps: int) -> float:
    """Take n_steps steps, and return their mean training loss."""
    state.model.train()
    total, begun = 0.0, time.process_time()
    for _ in range(n_steps):
        for optimizer in state.optimizers:
            optimizer.param_groups[0]["lr"] = state.learning_rate * min(1.0, (state.step + 1) / WARMUP_STEPS)
        inputs, targets = next(source)
        total += step(state, inputs, targets)
        state.n_tokens += int((targets >= 0).sum())
        state.average.update_parameters(state.model)
        state.step += 1
    state.seconds += time.process_time() - begun
    return total / n_steps


def step(state: State, inputs: Tensor, targets: Tensor) -> float:
    with torch.autocast("cpu", torch.bfloat16):
        logits = state.model(inputs, use_cache=False).logits
    loss = cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=-100)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(state.model.parameters(), 1.0)
    for optimizer in state.optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.item()


def endless_batches(speeches: Speeches, rng: np.random.Generator, recipe: Recipe) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        yield from epoch(speeches.training, speeches.bos, rng, recipe)


@torch.inference_mode()
def mean_loss(model: PreTrainedModel, speeches: list[Tensor], bos: int) -> float:
    """Compute the mean negative log-likelihood over every token of the speeches, each read in windows from its start, nats."""
    model.eval()
    total, n = 0.0, 0
    rows = sorted((w for s in speeches for w in windows(s, bos)), key=len)
    for start in range(0, len(rows), READ_AT_ONCE):
        inputs, targets = batch(rows[start : start + READ_AT_ONCE])
        logits = model(inputs, use_cache=False).logits
        total += cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=-100, reduction="sum").item()
        n += int((targets >= 0).sum())
    return total / n
