"""Train until a pass over the text brings little, by the validation loss, then let the learning rate fall to zero from the best weights."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import OPTForCausalLM

from ingest.reference.data import batch, epoch, windows
from ingest.reference.recipe import BATCH_SIZE, CHECKS_PER_EPOCH, DECAY_EPOCHS, LEARNING_RATE, MAX_EPOCHS, MIN_GAIN, WARMUP_STEPS, new_optimizers

Log = Callable[[str], None]
Keep = Callable[[OPTForCausalLM], None]


@dataclass
class State:
    """Where training stands: the model, its optimizers, the steps taken, and (step, training loss since the last check, validation loss) of every check."""

    model: OPTForCausalLM
    optimizers: list[torch.optim.Optimizer]
    step: int = 0
    losses: list[tuple[int, float, float]] = field(default_factory=list)


@dataclass
class Best:
    """The weights with the lowest validation loss so far, as they are saved: in float16."""

    keep: Callable[[OPTForCausalLM], None]
    loss: float = math.inf
    weights: dict[str, Tensor] = field(default_factory=dict)

    def see(self, model: OPTForCausalLM, loss: float) -> None:
        if loss < self.loss:
            self.loss, self.weights = loss, {name: weight.half() for name, weight in model.state_dict().items()}
            self.keep(model)


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


def train(model: OPTForCausalLM, speeches: Speeches, seed: int, log: Log, keep: Keep) -> State:
    """Train in place, in two phases. keep: called with the model whenever its validation loss is the lowest so far.

    Returns the state with the lowest validation loss; its losses are in nats per token.
    """
    best = Best(keep)
    first = constant_phase(model, speeches, seed, log, best)
    model.load_state_dict(best.weights)
    log("a pass brings little; the learning rate now falls, from the best weights and with new optimizers")
    last = decay_phase(model, speeches, seed + 1, log, best, first.step)
    model.load_state_dict(best.weights)
    return State(model, last.optimizers, last.step, first.losses + last.losses)


def constant_phase(model: OPTForCausalLM, speeches: Speeches, seed: int, log: Log, best: Best) -> State:
    """A constant rate, until a pass lowers the validation loss by less than MIN_GAIN."""
    state = State(model, new_optimizers(model))
    source = endless(speeches, np.random.default_rng(seed))
    before = math.inf
    for check in range(1, MAX_EPOCHS * CHECKS_PER_EPOCH + 1):
        loss = advance(state, source, speeches.steps // CHECKS_PER_EPOCH, lambda step: LEARNING_RATE * min(1.0, (step + 1) / WARMUP_STEPS), speeches, log)
        best.see(model, loss)
        if check % CHECKS_PER_EPOCH == 0:
            if loss > before - MIN_GAIN:
                break
            before = loss
    return state


def decay_phase(model: OPTForCausalLM, speeches: Speeches, seed: int, log: Log, best: Best, start: int) -> State:
    """New optimizers, and a rate that falls to 0 over DECAY_EPOCHS passes."""
    torch.manual_seed(seed)
    state = State(model, new_optimizers(model), start)
    source = endless(speeches, np.random.default_rng(seed))
    n_checks = round(DECAY_EPOCHS * CHECKS_PER_EPOCH)
    n_steps = n_checks * (speeches.steps // CHECKS_PER_EPOCH)
    for _ in range(n_checks):
        loss = advance(
            state, source, n_steps // n_checks, lambda step: LEARNING_RATE * min((step - start + 1) / WARMUP_STEPS, 1 - (step - start) / n_steps), speeches, log
        )
        best.see(model, loss)
    return state


def advance(state: State, source: Iterator[tuple[Tensor, Tensor]], n_steps: int, rate: Callable[[int], float], speeches: Speeches, log: Log) -> float:
    """Take some steps, then measure; returns the validation loss."""
    state.model.train()
    total = 0.0
    for _ in range(n_steps):
        for optimizer in state.optimizers:
            optimizer.param_groups[0]["lr"] = rate(state.step)
        total += step(state, *next(source))
        state.step += 1
    loss = mean_loss(state.model, speeches.validation, speeches.bos)
    state.losses.append((state.step, total / n_steps, loss))
    log(f"step {state.step}: training loss {total / n_steps:.4f}, validation loss {loss:.4f} nats per token")
    return loss


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
