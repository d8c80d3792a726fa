"""The residual stream of a traced model: its blocks, what enters the first of them, and how the last state becomes logits."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from ingest.model.agreement import error_between, factor_between, holds, is_same, snap
from ingest.model.modules import tensor_of
from ingest.model.norms import Norm, read_norm
from ingest.model.recognition.trace import Call, Refused, Trace

LARGEST = 1e30
"""Largest number of a configuration that is looked at."""


class Chain(NamedTuple):
    """A list of blocks of which each reads what the one before gave: its path, the blocks' calls, and the states before and after each."""

    path: str
    calls: list[Call]
    pre: list[Tensor]
    post: list[Tensor]


@dataclass(frozen=True, eq=False)
class Traced:
    """A model and one traced forward pass of it."""

    hf: PreTrainedModel
    tokens: Tensor
    trace: Trace
    norms: dict[Call, Norm | None] = field(default_factory=dict)
    """Formulas of the norms that were looked at so far."""

    @cached_property
    def numbers(self) -> dict[str, float]:
        """Numbers of the configuration by name, zeros and booleans left out."""
        config = self.hf.config.get_text_config().to_dict()
        whole = {name: x for name, x in config.items() if isinstance(x, int | float) and not isinstance(x, bool)}
        return {name: float(x) for name, x in whole.items() if 0 < abs(x) < LARGEST}

    @cached_property
    def turns(self) -> list[Call]:
        """List the calls that gave cosines and sines of every position, [seq, n] or [1, seq, n] each."""
        pairs = [call for call in self.trace.calls if len(call.outputs) == 2 and call.outputs[0].shape == call.outputs[1].shape]
        return [
            call
            for call in pairs
            if call.outputs[0].is_floating_point()
            and call.outputs[0].dim() in (2, 3)
            and call.outputs[0].shape[-2] == self.trace.seq
            and float((call.outputs[0].square() + call.outputs[1].square()).std()) < 1e-3
        ]

    def path_of(self, module: nn.Module) -> str:
        found = next((path for path, found in self.hf.named_modules() if found is module), None)
        if found is None:
            raise Refused(f"its {type(module).__name__} is none of its own modules")
        return found

    def norm_of(self, call: Call) -> Norm | None:
        """Find the formula of a call that norms a state; None if it does anything else."""
        if call not in self.norms:
            x, y = self.trace.input_state(call), self.trace.output_state(call)
            self.norms[call] = None if x is None or y is None or x.shape != y.shape else read_norm(call.module, x)
        return self.norms[call]


def find_chain(traced: Traced) -> Chain:
    """Find the blocks. Raises Refused if no list of modules is a chain, or if the head follows from several."""
    chains = list(all_chains(traced))
    outer = [chain for chain in chains if not any(chain.path.startswith(f"{other.path}.") for other in chains)]
    if not outer:
        raise Refused("no list of blocks was found of which each reads the state that the one before gave")
    fitting = [chain for chain in outer if final_norms(traced, chain.post[-1])]
    if len(fitting) != 1:
        raise Refused(f"the output head follows from the last state of {len(fitting)} lists of blocks ({', '.join(chain.path for chain in outer)})")
    return fitting[0]


def all_chains(traced: Traced) -> Iterator[Chain]:
    """List the lists of modules of which each reads what the one before gave."""
    trace = traced.trace
    for path, module in traced.hf.named_modules():
        if not isinstance(module, nn.ModuleList | nn.Sequential) or not len(module):
            continue
        calls = [call for i in range(len(module)) if (call := trace.only_call(f"{path}.{i}")) is not None]
        states = [
            (x, y)
            for call in calls
            if call.is_plain and (x := trace.input_state(call)) is not None and (y := trace.state(call.outputs)) is not None and x.shape == y.shape
        ]
        if len(states) < len(module):
            continue
        pre, post = [x for x, _ in states], [y for _, y in states]
        if all(is_same(y, x) for y, x in zip(post[:-1], pre[1:], strict=True)):
            yield Chain(path, calls, pre, post)


class Final(NamedTuple):
    """The final norm's path, and the factor on what it gives before the head reads it."""

    path: str
    factor: float


def final_norms(traced: Traced, last: Tensor) -> list[Final]:
    """List the norms of the last state that the head's input is a multiple of."""
    read = head_input(traced)
    if read is None or read.shape != last.shape:
        return []
    found = {}
    for call in traced.trace.calls:
        y = traced.trace.output_state(call)
        if y is not None and y.shape == read.shape and is_same(traced.trace.input_state(call), last) and not is_same(y, last) and traced.norm_of(call):
            factor = factor_between(y, read)
            if holds(y * factor, read):
                found[call.path] = Final(call.path, snap(factor, traced.numbers.values()))
    return list(found.values())


def head_input(traced: Traced) -> Tensor | None:
    head = traced.hf.get_output_embeddings()
    call = None if head is None else traced.trace.only_call(traced.path_of(head))
    return None if call is None else traced.trace.input_state(call)


class Head(NamedTuple):
    """How the last state becomes logits: through the final norm, then head·x + b over the divisor, within the cap if there is one."""

    final_norm: str
    divisor: float
    softcap: float | None


def find_head(traced: Traced, last: Tensor) -> Head:
    """Find how the last state becomes logits. Raises Refused if they are no multiple of the head's output, capped or not."""
    finals, read = final_norms(traced, last), head_input(traced)
    if len(finals) != 1 or read is None:
        raise Refused(f"{len(finals)} final norms lead from the last state to the output head")
    head = traced.hf.get_output_embeddings()
    bias = head.bias if isinstance(getattr(head, "bias", None), Tensor) else None
    raw, logits = F.linear(read, head.weight.float().cpu(), None if bias is None else bias.float().cpu()), traced.trace.logits
    if raw.shape != logits.shape:
        raise Refused(f"its logits are {list(logits.shape)}, and its head would give {list(raw.shape)}")
    before = finals[0].factor
    if before != 1 and bias is not None:
        raise Refused("a factor stands between the final norm and a head with a bias")
    factor = factor_between(raw, logits)
    if holds(raw * factor, logits):
        return Head(finals[0].path, 1 / (snap(factor, [1 / x for x in traced.numbers.values()] + list(traced.numbers.values())) * before), None)
    caps = [x for name, x in traced.numbers.items() if "cap" in name]
    factors = {1.0, *(f for name, x in traced.numbers.items() if "scal" in name or "mult" in name for f in (x, 1 / x))}
    fitting = {(f, cap) for f in factors for cap in caps if holds(cap * torch.tanh(raw * f / cap), logits)}
    if len(fitting) != 1:
        raise Refused(f"its logits are no multiple of what its head gives (nearest error {error_between(raw * factor, logits):.1e}), and no cap fits them")
    factor, cap = fitting.pop()
    return Head(finals[0].path, 1 / (factor * before), cap)


class Entrance(NamedTuple):
    """What enters the first block: token rows × factor (+ position rows from `offset` on), through a norm or not. Paths from the model."""

    tokens: str
    factor: float
    norm: str | None
    positions: str | None
    offset: int


def find_entrance(traced: Traced, first: Tensor, before: list[Call]) -> Entrance:
    """Find what enters the first block from the calls before it. Raises Refused if it is no sum of embeddings."""
    trace, embedding = traced.trace, traced.hf.get_input_embeddings()
    path = traced.path_of(embedding)
    rows = tensor_of(embedding, "weight")[traced.tokens].float().cpu()
    targets: list[tuple[Tensor, str | None]] = [(first, None)]
    targets += [
        (x, call.path) for call in before if is_same(trace.output_state(call), first) and traced.norm_of(call) and (x := trace.input_state(call)) is not None
    ]
    for target, norm in targets:
        if target.shape != rows.shape:
            continue
        factor = factor_between(rows, target)
        if holds(rows * factor, target):
            return Entrance(path, snap_root(factor, traced), norm, None, 0)
        for call, table, offset in position_tables(traced, before):
            added = table[None].expand_as(rows)
            both = torch.stack([rows.flatten().double(), added.flatten().double()], 1)
            of_rows, of_added = torch.linalg.lstsq(both, target.flatten().double()[:, None]).solution[:, 0].tolist()
            of_rows = snap_root(of_rows, traced)
            if abs(of_added - 1) < 1e-4 and holds(rows * of_rows + added, target):
                return Entrance(path, of_rows, norm, call.path, offset)
    raise Refused("what enters the first block is no sum of a token's row and a position's")


def snap_root(number: float, traced: Traced) -> float:
    """Snap a factor to a number of the configuration, or to the root of one: Gemma multiplies token rows by √d_model."""
    return snap(number, [*traced.numbers.values(), *(x**0.5 for x in traced.numbers.values() if x > 0)])


def position_tables(traced: Traced, before: list[Call]) -> Iterator[tuple[Call, Tensor, int]]:
    """List the calls that gave consecutive rows of a table, one a position: (call, rows [seq, d_model], index of the first)."""
    for call in before:
        table = getattr(call.module, "weight", None)
        gave = call.outputs[0] if call.outputs else None
        if not isinstance(table, Tensor) or table.dim() != 2 or gave is None or gave.shape[-2:] != (traced.trace.seq, table.shape[1]):
            continue
        rows = gave.reshape(-1, *gave.shape[-2:])
        if any(not torch.equal(rows[0], other) for other in rows):
            continue
        for offset in range(min(8, len(table) - traced.trace.seq + 1)):
            if torch.equal(table[offset : offset + traced.trace.seq].float().cpu(), rows[0]):
                yield call, rows[0], offset
                break
