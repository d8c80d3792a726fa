"""Every call of every module in one forward pass of a model, with copies of what each was given and gave."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel


class Refused(Exception):
    """Reason why a model's facts were not found: the step, the nearest candidate, and its error."""


@dataclass(eq=False)
class Call:
    """One call of a module. start, end: places in the order of all beginnings and ends."""

    path: str
    module: nn.Module
    inputs: list[Tensor]
    words: list[str]
    """The strings that it was given: the kind of layer, where one module serves several."""
    start: int
    outputs: list[Tensor] = field(default_factory=list)
    end: int = -1
    is_plain: bool = True
    """Whether it gave a tensor, or a tuple that begins with one, as hooks take it."""


def tensors_in(found: Any) -> Iterator[Tensor]:
    """Find the tensors in the arguments or in the output of a module, two levels deep."""
    if isinstance(found, Tensor):
        yield found
    elif isinstance(found, dict):
        yield from (tensor for part in found.values() for tensor in tensors_in(part))
    elif isinstance(found, list | tuple):
        yield from (tensor for part in found for tensor in tensors_in(part))


class Trace:
    """One forward pass over `tokens`, [batch, seq]: its calls in the order in which they began, its logits, and the states among their tensors.

    Copies, because some families change a state in place after a module gave it (Falcon adds attention into the FFN's output).
    """

    def __init__(self, hf: PreTrainedModel, tokens: Tensor) -> None:
        self.batch, self.seq = tokens.shape
        self.calls: list[Call] = []
        self.by_path: dict[str, list[Call]] = defaultdict(list)
        self.open: list[Call] = []
        self.clock = 0
        handles = [handle for path, module in hf.named_modules() if path for handle in self.watch(path, module)]
        try:
            with torch.no_grad():
                self.logits: Tensor = hf(input_ids=tokens, use_cache=False).logits.float().cpu()
        finally:
            for handle in handles:
                handle.remove()

    def watch(self, path: str, module: nn.Module) -> tuple[Any, Any]:
        """Register the two hooks that note the calls of a module."""

        def begin(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = (*args, *kwargs.values())
            self.clock += 1
            call = Call(path, module, [copy_tensor(x) for x in tensors_in(given)], [word for word in given if isinstance(word, str)], self.clock)
            self.calls.append(call)
            self.by_path[path].append(call)
            self.open.append(call)

        def end(_module: nn.Module, _args: object, _kwargs: object, output: object) -> None:
            self.clock += 1
            call = self.open.pop()
            call.end, call.outputs = self.clock, [copy_tensor(x) for x in tensors_in(output)]
            call.is_plain = isinstance(output[0] if isinstance(output, tuple) and output else output, Tensor)

        return module.register_forward_pre_hook(begin, with_kwargs=True), module.register_forward_hook(end, with_kwargs=True)

    def state(self, found: Sequence[Tensor]) -> Tensor | None:
        """Find the first tensor that has a row for every position, and reshape it to [batch, seq, width]."""
        return next((state for x in found if (state := self.as_state(x)) is not None), None)

    def as_state(self, x: Tensor) -> Tensor | None:
        if not x.is_floating_point() or x.dim() < 2:
            return None
        if x.shape[:2] == (self.batch, self.seq) and x.dim() <= 4:
            return x.flatten(2) if x.dim() > 2 else None
        # OPT and experts flatten batch and positions into one dimension
        return x.view(self.batch, self.seq, -1) if x.dim() == 2 and len(x) == self.batch * self.seq else None

    def input_state(self, call: Call) -> Tensor | None:
        """Find the state that a call was given."""
        return self.state(call.inputs)

    def output_state(self, call: Call) -> Tensor | None:
        """Find the state that a call gave: the first tensor of its output, if that is one."""
        return self.state(call.outputs[:1])

    def calls_within(self, call: Call) -> list[Call]:
        """List the calls that began and ended within a call."""
        return [inner for inner in self.calls if call.start < inner.start and inner.end < call.end]

    def only_call(self, path: str) -> Call | None:
        """Find the call of a module that was called once; None if it was called never or more often."""
        calls = self.by_path.get(path, [])
        return calls[0] if len(calls) == 1 else None


def copy_tensor(x: Tensor) -> Tensor:
    return x.detach().to("cpu", torch.float32 if x.is_floating_point() else x.dtype, copy=True)
