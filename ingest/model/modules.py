"""Access to modules by their dotted paths, with errors that name the modules that exist, and to the tensors of projections and norms."""

import copy

import torch
from accelerate.hooks import remove_hook_from_module
from torch import Tensor, nn

from schema.errors import AtlasError

EPSILONS = ("eps", "variance_epsilon", "epsilon", "norm_eps")
"""Attributes in which families keep the epsilon."""

MODEL_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, OSError, RuntimeError, StopIteration, TypeError, ValueError
)  # fmt: skip
"""What the code of a model may raise on a text, or when one of its modules is called by itself."""


class ModuleMissing(AtlasError, LookupError):
    """Error for a dotted path, or a tensor's name, that this model does not have."""


def find(root: nn.Module, path: str) -> nn.Module:
    """Find the submodule of `root` at a dotted path. Raises ModuleMissing, which names the path and the children of the last module found on it."""
    module = root
    walked: list[str] = []
    for name in path.split("."):
        children = dict(module.named_children())
        if name not in children:
            place = ".".join(walked) or type(root).__name__
            raise ModuleMissing(f"no module '{path}' in {type(root).__name__}; children of {place}: {', '.join(children) or 'none'}")
        module = children[name]
        walked.append(name)
    return module


def tensor_of(module: nn.Module, name: str) -> Tensor:
    """Find a parameter or buffer of a module. Raises ModuleMissing, which names the module's tensors, if it has none of this name."""
    found = getattr(module, name, None)
    if not isinstance(found, Tensor):
        there = [name for name, _ in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))]
        raise ModuleMissing(f"no tensor '{name}' in {type(module).__name__}; it has {', '.join(there) or 'none'}")
    return found


def bias_of(module: nn.Module) -> Tensor | None:
    return None if getattr(module, "bias", None) is None else tensor_of(module, "bias")


def epsilon_of(norm: nn.Module) -> float:
    """Read the epsilon that a norm adds to the mean square."""
    return next(float(getattr(norm, name)) for name in EPSILONS if hasattr(norm, name))


def in_float32(norm: nn.Module, device: torch.device) -> nn.Module:
    """Copy a norm in float32 to a device."""
    # a copy would go on sending what it is given to the device of the original
    copied: nn.Module = remove_hook_from_module(copy.deepcopy(norm))
    return copied.to(device, torch.float32)
