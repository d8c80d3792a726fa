"""Train until the validation loss hardly falls any more."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import OPTForCausalLM

from ingest.model.reference.data import batch, epoch, windows
from ingest.model.reference.recipe import AVERAGE_DECAY, BATCH_SIZE, CHECKS_PER_EPOCH, LEARNING_RATE, MAX_EPOCHS, MIN_FALL, WARMUP_STEPS, new_optimizers

Log = Callable[[str], None]
Keep = Callable[[OPTForCausalLM], None]


@dataclass
class State:
    """Where training stands: the model, the running mean of its weights, the steps taken, and (step, training loss since the last check,
    validation loss of the mean) of every check."""

    model: OPTForCausalLM
    average: AveragedModel
    optimizers: list[torch.optim.Optimizer]
    step: int = 0
    losses: list[tuple[int, float, float]] = field(default_factory=list)

    @property
    def mean(self) -> OPTForCausalLM:
        """The model whose weights are the running mean."""
        return cast(OPTForCausalLM, self.average.module)


@dataclass(frozen=True)
class Speeches:
    """Token ids of the speeches of two splits, and what stands before each window."""

    training: list[Tensor]
    validation: list[Tensor]
    bos: int

    @property
    def steps(self) -> int:
        """Steps of a pass over the training speeches, about."""
        return len(epoch(self.training, self.bos, np.random.default_rng(0), BATCH_SIZE))


def begin(model: OPTForCausalLM) -> State:
    """Nothing learned yet."""
    return State(model, AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(AVERAGE_DECAY)), new_optimizers(model))


def save(state: State, file: Path) -> None:
    """All that training goes on from, whole or not at all."""
    draft = file.with_suffix(".tmp")
    parts = {"model": state.model.state_dict(), "average": state.average.state_dict(), "optimizers": [o.state_dict() for o in state.optimizers]}
    torch.save({**parts, "step": state.step, "losses": state.losses, "random": torch.get_rng_state()}, draft)
    draft.rename(file)


def restore(state: State, file: Path) -> None:
    """Stand where `save` was called."""
    saved = torch.load(file, weights_only=True)
    state.model.load_state_dict(saved["model"])
    state.average.load_state_dict(saved["average"])
    for optimizer, was in zip(state.optimizers, saved["optimizers"], strict=True):
        optimizer.load_state_dict(was)
    state.step, state.losses = saved["step"], saved["losses"]
    torch.set_rng_state(saved["random"])


def train(model: OPTForCausalLM, speeches: Speeches, seed: int, log: Log, keep: Keep, file: Path) -> State:
    """Train at a constant rate until a pass lowers the validation loss of the mean weights by less than MIN_FALL.

    keep: called with the mean whenever its validation loss is the lowest so far. file: holds, from check to check, where training stands; if it is
    there, training goes on from it, to the same end. Returns where training ended; losses are in nats per token.
    """
    state = begin(model)
    source = endless(speeches, np.random.default_rng(seed))
    if file.exists():
        restore(state, file)
        for _ in range(state.step):
            next(source)
    while len(state.losses) < MAX_EPOCHS * CHECKS_PER_EPOCH and not is_over([loss for _, _, loss in state.losses]):
        training = advance(state, source, speeches.steps // CHECKS_PER_EPOCH)
        validation = mean_loss(state.mean, speeches.validation, speeches.bos)
        log(f"step {state.step}: training loss {training:.4f}, validation loss {validation:.4f} nats per token")
        if validation < min((loss for _, _, loss in state.losses), default=math.inf):
            keep(state.mean)
        state.losses.append((state.step, training, validation))
        save(state, file)
    return state


def is_over(losses: list[float]) -> bool:
    """Whether the last pass lowered the lowest by less than MIN_FALL."""
    before = losses[:-CHECKS_PER_EPOCH]
    return bool(before) and min(before) - min(losses) < MIN_FALL


def advance(state: State, source: Iterator[tuple[Tensor, Tensor]], n_steps: int) -> float:
    """Take some steps; returns their mean training loss."""
    state.model.train()
    total = 0.0
    for _ in range(n_steps):
        for optimizer in state.optimizers:
            optimizer.param_groups[0]["lr"] = LEARNING_RATE * min(1.0, (state.step + 1) / WARMUP_STEPS)
        total += step(state, *next(source))
        state.average.update_parameters(state.model)
        state.step += 1
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


def endless(speeches: Speeches, rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        yield from epoch(speeches.training, speeches.bos, rng, BATCH_SIZE)


@torch.inference_mode()
def mean_loss(model: OPTForCausalLM, speeches: list[Tensor], bos: int) -> float:
    """Mean negative log-likelihood over every token of the speeches, each read in windows from its start, nats."""
    model.eval()
    total, n = 0.0, 0
    rows = sorted((w for s in speeches for w in windows(s, bos)), key=len)
    for start in range(0, len(rows), BATCH_SIZE):
        inputs, targets = batch(rows[start : start + BATCH_SIZE])
        logits = model(inputs, use_cache=False).logits
        total += cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=-100, reduction="sum").item()
        n += int((targets >= 0).sum())
    return total / n
