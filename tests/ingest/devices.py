"""Devices that are made up: tensors on them hold their numbers on the CPU, and may not meet those of another."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from transformers import PreTrainedModel

FIRST, SECOND = torch.device("lazy:0"), torch.device("lazy:1")
"""Of a kind that the CPU build of torch knows and has nothing behind."""

BETWEEN_DEVICES = ("_to_copy", "copy_", "to")
WITH_INDICES_FROM_THE_CPU = ("index", "index_put_", "_index_put_impl_")


class Elsewhere(torch.Tensor):
    """A tensor on a made-up device."""

    here: torch.Tensor

    @staticmethod
    def __new__(cls, here: torch.Tensor, device: torch.device) -> "Elsewhere":
        tensor = torch.Tensor._make_wrapper_subclass(cls, here.shape, strides=here.stride(), dtype=here.dtype, device=device)
        tensor.here = here
        return tensor

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})


class Computed(TorchDispatchMode):
    """While it is on, tensors can be made on made-up devices and sent there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})


class OfNumbers(TorchFunctionMode):
    """While it is on, so can tensors of given numbers: in some versions torch brings these to their device unseen by a dispatch mode."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if func is not torch.tensor or device is None or torch.device(device).type != FIRST.type:
            return func(*args, **kwargs)
        return func(*args, **kwargs | {"device": "cpu"}).to(device)


@contextmanager
def made_up_devices() -> Iterator[None]:
    """Tensors can be made on them and sent there. None computes in mixed precision: some versions of torch refuse to say so of a kind that cannot."""
    real = torch.is_autocast_enabled

    def is_autocast_enabled(device_type: str | None = None) -> bool:
        return False if device_type == FIRST.type else real(*([] if device_type is None else [device_type]))

    with patch.object(torch, "is_autocast_enabled", is_autocast_enabled), Computed(), OfNumbers():
        yield


def compute(func: Any, args: Any, kwargs: Any) -> Any:
    """What an operation gives, on the device of its arguments or the one it names."""
    name, flat = func.overloadpacket.__name__, tree_flatten((args, kwargs))[0]
    wanted = [x for x in flat if isinstance(x, torch.device)]
    tensors = [x for x in flat if isinstance(x, torch.Tensor) and x.ndim]
    if name in WITH_INDICES_FROM_THE_CPU:
        tensors = [x for x in tensors if x is args[0] or x.device.type != "cpu"]
    found = {x.device for x in tensors} or {x.device for x in flat if isinstance(x, torch.Tensor)}
    if len(found) > 1 and name not in BETWEEN_DEVICES:
        raise RuntimeError(f"{name}: tensors on {', '.join(map(str, found))} meet")
    device = wanted[0] if wanted else args[0].device if name in BETWEEN_DEVICES else next(iter(found), torch.device("cpu"))
    here_args, here_kwargs = tree_map(brought, (args, kwargs))
    result = func(*here_args, **here_kwargs)
    if name.endswith("_") and not name.endswith("__"):
        return args[0]
    if "out" in kwargs:
        return kwargs["out"]
    return tree_map(lambda x: Elsewhere(x, device) if isinstance(x, torch.Tensor) and device.type == "lazy" else x, result)


def brought(x: Any) -> Any:
    """An argument as the CPU takes it."""
    if isinstance(x, torch.device):
        return torch.device("cpu")
    return x.here if isinstance(x, Elsewhere) else x


def spread(hf: PreTrainedModel, where: Callable[[str], torch.device]) -> PreTrainedModel:
    """The model with every module that has weights on the device that `where` gives for its path, and the states sent there as by a device_map."""
    moved: dict[int, torch.Tensor] = {}
    for name, module in hf.named_modules():
        own = [*module._parameters.items(), *module._buffers.items()]
        for key, tensor in own:
            if tensor is not None:
                there = moved.setdefault(id(tensor), Elsewhere(tensor.detach(), where(name)))
                if key in module._parameters:
                    module._parameters[key] = nn.Parameter(there, requires_grad=False)
                else:
                    module._buffers[key] = there
    for name, module in hf.named_modules():
        is_block = name.rpartition(".")[2].isdigit()
        if is_block or not list(module.children()):
            add_hook_to_module(module, AlignDevicesHook(where(name), place_submodules=False, skip_keys=hf._skip_keys_device_placement))
    return hf
