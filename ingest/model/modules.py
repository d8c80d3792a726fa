"""Find a module by its dotted path, or say what is there instead."""

from torch import nn

from schema.errors import AtlasError


class ModuleMissing(AtlasError, LookupError):
    """A dotted path names no module of this model."""


def find(root: nn.Module, path: str) -> nn.Module:
    """The submodule of `root` at a dotted path; ModuleMissing names the first part that is not there and its siblings."""
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
