"""What one block of a traced model adds to the stream, which of it is the FFN, and how the FFN follows from keys and values."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.activations import ACT2FN
from transformers.pytorch_utils import Conv1D

from ingest.model.agreement import TOLERANCE, error_between, holds, is_same, snap
from ingest.model.facts import RowOrder, Spread
from ingest.model.recognition.stream import Traced
from ingest.model.recognition.trace import Call, Refused

MOST_WRITERS = 3
"""Most parts of a block that write to the stream."""

MOST_PARTS = 64
"""Most parts of a block of which all triples are tried; blocks have ten to twenty."""


class Affine(NamedTuple):
    """A call of a projection: y = weight·x + bias, all [batch, seq, width]."""

    call: Call
    x: Tensor
    y: Tensor


class Update(NamedTuple):
    """A part that a block adds to the stream, times a factor: the calls that gave it, outermost first."""

    value: Tensor
    calls: list[Call]
    factor: float


class Angles(NamedTuple):
    """Cosines and sines that a module gave, [seq, pairs], for pairs that lie apart or side by side. words: the kind of layer that it was asked for, if any."""

    path: str
    words: tuple[str, ...]
    cosine: Tensor
    sine: Tensor
    spread: Spread


class Reading(NamedTuple):
    """A way to write an FFN: coefficients = act(gate·x)·(up·x) or act(up·x), what it writes = down·coefficients + bias, through a norm or not."""

    update: Update
    up: Call
    gate: Call | None
    down: Call
    activation: str
    layout: RowOrder
    x: Tensor
    after_norm: Call | None

    @property
    def words(self) -> tuple[str | None, ...]:
        """What tells a reading from others: the paths of its calls, and the order of gate and up."""
        return (*(None if call is None else call.path for call in (self.up, self.gate, self.down, self.after_norm)), self.layout)


@dataclass(frozen=True, eq=False)
class Block:
    """One call of a block: the states before and after it, [batch, seq, d_model], and the calls within it that are looked at."""

    traced: Traced
    call: Call
    pre: Tensor
    post: Tensor
    inside: list[Call]
    turn: Angles | None = None
    """The one rotation that is tried; None for every one that a module gave."""
    activation: str | None = None
    """The one activation that is tried, by its name; None for all."""

    def relative(self, path: str) -> str:
        """Write a path from the block."""
        return path.removeprefix(f"{self.call.path}.")

    def norms_giving(self, y: Tensor) -> Iterator[tuple[Call, Tensor]]:
        """List the norms that gave a state, each with what it was given."""
        for call in self.inside:
            if is_same(self.traced.trace.output_state(call), y) and self.traced.norm_of(call) is not None:
                x = self.traced.trace.input_state(call)
                if x is not None and not is_same(x, y):
                    yield call, x

    def behind_norms(self, y: Tensor) -> Iterator[tuple[Tensor, Call | None]]:
        """List the states from which a written one follows: itself, and what a norm that gave it was given."""
        yield y, None
        for call, x in self.norms_giving(y):
            yield x, call


def find_updates(block: Block) -> list[Update]:
    """Find the smallest set of the block's parts that sum to what it adds, post = pre + Σ factor·part. Raises Refused if there is none, or more than one."""
    delta = (block.post - block.pre).double()
    parts = distinct_parts(block)
    if len(parts) > MOST_PARTS:
        raise Refused(f"it has {len(parts)} parts that give states, and sums of up to {MOST_PARTS} are tried")
    vectors = torch.stack([value.double().flatten() for value, _ in parts]) if parts else delta.new_zeros(0, delta.numel())
    gram, with_delta, size = vectors @ vectors.T, vectors @ delta.flatten(), float(delta.square().sum())
    for n in range(1, MOST_WRITERS + 1):
        found = []
        for chosen in combinations(range(len(parts)), n):
            at = list(chosen)
            factors = torch.linalg.lstsq(gram[at][:, at], with_delta[at][:, None]).solution[:, 0]
            # what these leave of it, from products of all pairs: the sums themselves are computed for those that come near
            if size - float(factors @ with_delta[at]) > 1e-6 * size or bool((factors.abs() < 1e-3).any()):
                continue
            updates = [Update(*parts[i], snap(float(factor), block.traced.numbers.values())) for i, factor in zip(at, factors, strict=True)]
            if holds(sum_of(block.pre, updates), block.post) and error_of_change(block, updates) < 5 * TOLERANCE:
                require_one_source(block, updates)
                found.append(updates)
        if len(found) > 1:
            raise Refused(f"{len(found)} sets of its parts sum to what it adds: {'; '.join(', '.join(u.calls[0].path for u in updates) for updates in found)}")
        if found:
            return found[0]
    raise Refused(f"what it adds is no sum of up to {MOST_WRITERS} outputs of its {len(parts)} parts")


def require_one_source(block: Block, updates: list[Update]) -> None:
    """Raise Refused if two modules computed one update, each by itself: which of them is added cannot be told."""
    for update in updates:
        first = update.calls[0]
        for call in update.calls[1:]:
            is_within = first.start < call.start and call.end < first.end
            if not is_within and not is_same(block.traced.trace.input_state(call), update.value):
                raise Refused(f"{first.path} and {call.path} give one and the same, and either may be what it adds")


def sum_of(state: Tensor, updates: Iterable[Update]) -> Tensor:
    for update in updates:
        state = state + (update.value if update.factor == 1 else update.value * update.factor)
    return state


def error_of_change(block: Block, updates: list[Update]) -> float:
    delta = block.post - block.pre
    return float((sum_of(torch.zeros_like(delta), updates) - delta).double().norm() / delta.double().norm().clamp_min(1e-300))


def distinct_parts(block: Block) -> list[tuple[Tensor, list[Call]]]:
    """List the distinct states that calls within the block gave, each with the calls that gave it, outermost first."""
    found: list[tuple[Tensor, list[Call]]] = []
    for call in block.inside:
        y = block.traced.trace.output_state(call)
        # hooks take what was given first, if it is a state, and a state has no further dimensions
        if y is None or y.shape != block.pre.shape or not call.is_plain or call.outputs[0].dim() > block.pre.dim() or not bool(y.isfinite().all()):
            continue
        same = next((calls for value, calls in found if is_same(value, y)), None)
        if same is None:
            found.append((y, [call]))
        else:
            same.append(call)
    return found


def weight_of(module: nn.Module) -> tuple[Tensor, Tensor | None] | None:
    """Read a projection's weight, [out, in], and bias; None for a module without a matrix."""
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2 or isinstance(module, nn.Embedding):
        return None
    bias = bias if isinstance(bias, Tensor) else None
    return (weight.T if isinstance(module, Conv1D) else weight).float().cpu(), None if bias is None else bias.float().cpu()


def find_affine(block: Block) -> list[Affine]:
    """List the calls within a block that are affine maps of the states that they were given."""
    found, trace = [], block.traced.trace
    for call in block.inside:
        own, x, y = weight_of(call.module), trace.input_state(call), trace.output_state(call)
        if own is None or x is None or y is None or (y.shape[-1], x.shape[-1]) != own[0].shape:
            continue
        if holds(F.linear(x, *own), y):
            found.append(Affine(call, x, y))
    return found


@cache
def activations() -> dict[str, nn.Module]:
    """List the activation functions by the names of transformers, one name for each function, those with parameters left out."""
    x, found = torch.linspace(-6, 6, 4001), dict[str, nn.Module]()
    values: list[Tensor] = []
    for name in ACT2FN:
        if name == "linear":
            continue
        try:
            function = ACT2FN[name]
            y = function(x)
        except (TypeError, RuntimeError, ImportError):
            continue
        if any(True for _ in function.parameters()) or any(float((y - other).abs().max()) < 1e-6 for other in values):
            continue
        found[name] = function
        values.append(y)
    return found


def find_readings(block: Block, update: Update, affine: list[Affine]) -> list[Reading]:
    """List the ways to write an update as the output of an FFN."""
    found = []
    for raw, after in block.behind_norms(update.value):
        for down in affine:
            if not is_same(down.y, raw):
                continue
            before = [projection for projection in affine if projection.call.end < down.call.start]
            for up, gate, activation, layout in formulas(down.x, before, block.activation):
                found.append(Reading(update, up.call, gate and gate.call, down.call, activation, layout, up.x, after))
    return found


def formulas(coefficients: Tensor, before: list[Affine], only: str | None) -> Iterator[tuple[Affine, Affine | None, str, RowOrder]]:
    """List the ways (up, gate or None, activation, order of rows) to write coefficients by projections that read one state."""
    width = coefficients.shape[-1]
    alone = [projection for projection in before if projection.y.shape[-1] == width]
    for up in alone:
        if (name := fitting_activation(up.y, None, coefficients, only)) is not None:
            yield up, None, name, "apart"
    for gate, up in permutations(alone, 2):
        if is_same(gate.x, up.x) and (name := fitting_activation(gate.y, up.y, coefficients, only)) is not None:
            yield up, gate, name, "apart"
    for both in before:
        if both.y.shape[-1] == 2 * width:
            first, last = both.y.chunk(2, -1)
            ways: dict[RowOrder, tuple[Tensor, Tensor]] = {"gate first": (first, last), "up first": (last, first)}
            for layout, (of_gate, of_up) in (ways | {"interleaved": (both.y[..., ::2], both.y[..., 1::2])}).items():
                if (name := fitting_activation(of_gate, of_up, coefficients, only)) is not None:
                    yield both, both, name, layout


def fitting_activation(gate: Tensor, up: Tensor | None, coefficients: Tensor, only: str | None) -> str | None:
    """Find the activation, of all or of one name, for which act(gate)·up, or act(gate), is the coefficients."""
    last, times = gate[:, -1], None if up is None else up[:, -1]
    for name, function in activations().items():
        if only not in (None, name):
            continue
        # most do not fit, which one position shows
        if holds(product(function(last), times), coefficients[:, -1]) and holds(product(function(gate), up), coefficients):
            return name
    return None


def product(x: Tensor, times: Tensor | None) -> Tensor:
    return x if times is None else x * times


def find_ffn(block: Block, updates: list[Update], affine: list[Affine]) -> Reading:
    """Find the one update that is an FFN, and the one way to write it. Raises Refused if none is, or if more than one way is there."""
    readings = [reading for update in updates for reading in find_readings(block, update, affine)]
    if not readings:
        raise Refused(f"none of what it adds ({', '.join(update.calls[0].path for update in updates)}) is an FFN of keys and values")
    if len({(reading.update.calls[0].path, *reading.words) for reading in readings}) > 1:
        raise Refused(f"{len(readings)} readings of an FFN fit: {'; '.join(' '.join(filter(None, reading.words)) for reading in readings[:3])}")
    return readings[0]


def find_reads(block: Block, x: Tensor, states: dict[str, Tensor]) -> list[tuple[str, Call | None]]:
    """List which of some states of the stream a part reads, by name, and through which norm, if any."""
    found: list[tuple[str, Call | None]] = [(name, None) for name, state in states.items() if error_between(x, state) < 1e-6]
    for call, given in block.norms_giving(x):
        found += [(name, call) for name, state in states.items() if error_between(given, state) < 1e-6]
    return found
