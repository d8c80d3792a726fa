"""Structural probe: a linear map of words' states, fitted so that squared distances are those in a parse tree, or squared lengths are the depths in it.

Source: Hewitt and Manning 2019, "A Structural Probe for Finding Syntax in Word Representations", sections 2 and 3: L1 loss, summed over pairs and divided by
the squared length of the sentence; batches of 20 sentences; Adam, whose rate is divided by 10 whenever the loss on held-out sentences has not fallen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

BATCH = 20
"""Sentences in a batch."""
HELD_OUT = 0.1
"""Share of the sentences to learn from that is held out. The probe chosen is the one with the least loss on these sentences."""
RATE = 3e-3
LEAST_RATE = 1e-6
ROUNDS = 60
STEPS = 50
"""Fewest steps in a round: with few sentences, a round goes through all of them several times before the held-out loss is computed."""


@dataclass(frozen=True, eq=False)
class Sentences:
    """States of sentences and the targets to learn from them, padded: states [n, longest, d_model], gold [n, longest] or [n, longest, longest], lengths [n]."""

    states: Tensor
    gold: Tensor
    lengths: Tensor


def squared_distances(x: Tensor) -> Tensor:
    """Compute the squared distances between all words of a sentence, [n, longest, rank] to [n, longest, longest]."""
    squares = x.square().sum(-1)
    return (squares[:, :, None] + squares[:, None] - 2 * x @ x.mT).clamp_min(0)


def squared_lengths(x: Tensor) -> Tensor:
    """Compute the squared length of each word, [n, longest, rank] to [n, longest]."""
    return x.square().sum(-1)


SQUARED: dict[str, Callable[[Tensor], Tensor]] = {"distance": squared_distances, "depth": squared_lengths}


def loss(weights: Tensor, of: Sentences, target: str) -> Tensor:
    """Compute the mean over sentences of the mean error per pair of words (distance) or per word (depth). weights: [rank, d_model]."""
    there = torch.arange(of.states.shape[1]) < of.lengths[:, None]
    there = there[:, :, None] & there[:, None] if target == "distance" else there
    errors = (SQUARED[target](of.states @ weights.T) - of.gold).abs() * there
    return (errors.flatten(1).sum(1) / of.lengths ** (2 if target == "distance" else 1)).mean()


def batch_sentences(states: Sequence[np.ndarray], gold: Sequence[np.ndarray]) -> list[Sentences]:
    """Batch sentences of about the same length together."""
    order = sorted(range(len(states)), key=lambda i: len(states[i]))
    return [stack_sentences([states[i] for i in some], [gold[i] for i in some]) for some in (order[i : i + BATCH] for i in range(0, len(order), BATCH))]


def stack_sentences(states: Sequence[np.ndarray], gold: Sequence[np.ndarray]) -> Sentences:
    longest = max(map(len, states))
    padded = [np.pad(each, [(0, longest - n) for n in each.shape]).astype(np.float32) for each in gold]
    return Sentences(
        pad_sequence([torch.from_numpy(s) for s in states], batch_first=True), torch.from_numpy(np.stack(padded)), torch.tensor([len(s) for s in states])
    )


def fit_probe(states: Sequence[np.ndarray], gold: Sequence[np.ndarray], target: str, rank: int, seed: int) -> tuple[np.ndarray, int]:
    """Fit the map; return its weights, [rank, d_model] float32, and the number of passes over the sentences.

    states: of each sentence, [n, d_model] float32; gold: its distances [n, n], or depths [n]; target: 'distance' or 'depth'.
    """
    random = np.random.default_rng(seed)
    order = random.permutation(len(states))
    n_held = max(1, round(HELD_OUT * len(order))) if len(order) > 1 else 0
    held, learned = (batch_sentences([states[i] for i in some], [gold[i] for i in some]) for some in (order[:n_held], order[n_held:]))
    held = held or learned
    d_model = states[0].shape[1]
    # squared distances of standardised states begin at about those of a tree
    start = random.normal(size=(rank, d_model)) / np.sqrt(rank * d_model / 2)
    weights = torch.tensor(start, dtype=torch.float32, requires_grad=True)
    n_passes = -(-STEPS // len(learned))
    best, least, rate, n_rounds = weights.detach().clone(), mean_loss(weights, held, target), RATE, 0
    optimizer = torch.optim.Adam([weights], lr=rate)
    while rate > LEAST_RATE and n_rounds < ROUNDS:
        n_rounds += 1
        for i in np.concatenate([random.permutation(len(learned)) for _ in range(n_passes)]):
            optimizer.zero_grad()
            loss(weights, learned[i], target).backward()
            optimizer.step()
        now = mean_loss(weights, held, target)
        if now < least:
            best, least = weights.detach().clone(), now
        else:
            rate /= 10
            optimizer = torch.optim.Adam([weights], lr=rate)
    return best.numpy(), n_rounds * n_passes


def mean_loss(weights: Tensor, of: Sequence[Sentences], target: str) -> float:
    """Average the loss over the sentences."""
    with torch.no_grad():
        return sum(float(loss(weights, batch, target)) * len(batch.lengths) for batch in of) / sum(len(batch.lengths) for batch in of)


def predict_squares(weights: np.ndarray, states: np.ndarray, target: str) -> np.ndarray:
    """Compute squared distances [n, n] or lengths [n] of the words of a sentence, states [n, d_model]; float64."""
    found: np.ndarray = SQUARED[target](torch.from_numpy(states.astype(np.float64) @ weights.T.astype(np.float64))[None])[0].numpy()
    return found


def timed_step(states: Sequence[np.ndarray], rank: int) -> Callable[[], None]:
    """Make a function that computes the loss and its gradient on one batch of sentences, to time a step."""
    n = len(states[0])
    batch = stack_sentences(states, [np.ones((n, n))] * len(states))
    weights = torch.ones(rank, states[0].shape[1], requires_grad=True)
    return lambda: loss(weights, batch, "distance").backward()
