"""Forward passes that begin at a layer, with states that are known already: the blocks below are gone round."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from ingest.model.hooks import hooked
from ingest.model.models import Model
from ingest.model.modules import find


@contextmanager
def output_kinds(model: Model) -> Iterator[set[bool]]:
    """A set that a forward pass within the context fills: whether blocks return a tuple, of which the state is the first, or the state."""
    found: set[bool] = set()

    def hook(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        found.add(isinstance(output, tuple))

    with hooked(model, [], [(model.layer_path(0), hook)], lambda *_: None):
        yield found


@contextmanager
def starting_at(model: Model, layer: int, states: Tensor, is_tuple: bool) -> Iterator[None]:
    """Let every forward pass within the context take `states`, [batch, seq, d_model], for resid_post of the layer before.

    Each block below returns them at once, so that hooks on its output run as they do elsewhere. is_tuple: what blocks return, as `output_kinds` finds it.
    The batch has as many rows as the states, and positions from 0 on. A layer of 0 changes nothing.
    """

    def passed(*_args: Any, **_kwargs: Any) -> Any:
        return (states, None) if is_tuple else states

    with ExitStack() as stack:
        for below in range(layer):
            module = find(model.backbone_module, model.layer_path(below))
            stack.callback(put_back(module))
            vars(module)["forward"] = passed
        yield


def put_back(module: nn.Module) -> Callable[[], None]:
    """What gives a module the forward that it has now: its class's, or one of its own, as accelerate sets."""
    own = vars(module).get("forward")

    def put() -> None:
        if own is None:
            del vars(module)["forward"]
        else:
            vars(module)["forward"] = own

    return put
