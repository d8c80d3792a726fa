"""How far apart two computations of the same logits may be: as far as the precision that they are made in lets them, and no further.

Two processors, two shapes of a batch, or a pass with a cache and one without do the same operations, but add in other orders, and round what
comes of each operation to its own type. With eps the distance from 1 to the next number of that type, a sum, a product and a cast are within
eps/2 of the exact result, relative to its size, and exp, tanh and 1/√ of a vector library within eps, a unit in the last place. Where that
leads depends on the type of each state, on how many operations follow, on the size of the states, and on whether what follows draws apart
what was near. None of it needs to be guessed: the forward pass is run many times, and each time every state that an operation makes is moved
at random by up to one such unit of its own type (stochastic arithmetic: Vignes 1993, Parker 1997). The bound is the farthest that a logit of
one of these runs is from the same logit of another.

A float64 model that casts nothing is so held to some 1e-15 of its logits. One whose family casts states to float32, as Llama and Gemma do in
their norms, Bloom in its softmax and GPT-J in its attention, is held to float32's rounding, which Gemma-2's cap widens tenfold: it brings the
largest logits near each other and leaves the errors of small ones. A family that casts elsewhere needs no entry here. What does not come of
the text, as the rotation of a position, is the same in both computations and stays as it is.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

N_DRAWS = 64
"""Of twice as many, spread normally, the farthest two are but a tenth farther apart."""


class Wobble(TorchFunctionMode):
    """Moves every new state by up to a unit in its last place. A state is what has a gradient: it comes of the text."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(0)

    def __torch_function__(self, function: Callable, types: Sequence[type], args: tuple = (), kwargs: dict | None = None) -> object:
        made = function(*args, **(kwargs or {}))
        is_state = isinstance(made, Tensor) and made.is_floating_point() and made.requires_grad
        # a view is of what was moved when it was made
        return self.move(made, made.dtype) if is_state and not made._is_view() else made

    def move(self, state: Tensor, dtype: torch.dtype) -> Tensor:
        """Multiply by 1 + r·eps of a type, r uniform in [-1, 1]."""
        r = 2 * torch.rand(state.shape, generator=self.generator, dtype=state.dtype) - 1
        return state * (1 + r * torch.finfo(dtype).eps)


@contextmanager
def wobbling(hf: PreTrainedModel, given: torch.dtype | None = None) -> Iterator[None]:
    """Let every state of the model's forward passes be moved at random by a unit in its last place.

    given: the type that states put in from outside were rounded to, where it is coarser than the model's.
    """
    wobble = Wobble()

    def begin(_module: nn.Module, _args: tuple, embedded: Tensor) -> Tensor:
        return wobble.move(embedded.detach(), given or embedded.dtype).requires_grad_()

    handle = hf.get_input_embeddings().register_forward_hook(begin)
    try:
        with torch.enable_grad(), wobble:
            yield
    finally:
        handle.remove()


def bound_logits(hf: PreTrainedModel, token_ids: Tensor, given: torch.dtype | None = None) -> float:
    """Find how far apart two computations of the logits of one sequence [seq] may be, in the units of logits."""
    with wobbling(hf, given):
        logits = hf(input_ids=token_ids.expand(N_DRAWS, -1), use_cache=False).logits.detach()
    return float((logits.amax(0) - logits.amin(0)).max())
