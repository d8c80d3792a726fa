"""What a pickle of weights names, before torch reads it: it runs no program, and yet lets one fill memory by a word, such as bytearray."""

import pickletools
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from pickle import UnpicklingError
from typing import IO

TENSORS = frozenset(
    (
        "collections OrderedDict", "torch Size", "torch.nn.parameter Parameter", "torch.serialization _get_layout", "torch._utils _rebuild_parameter",
        "torch._utils _rebuild_parameter_with_state", "torch._utils _rebuild_tensor", "torch._utils _rebuild_tensor_v2",
    )
)  # fmt: skip
"""What weights are written with, beside storages and the types of numbers."""

LEGACY = 5
"""Pickles at the beginning of a file of torch before 1.6: how it is written, the weights, and where each lies behind them."""

MOST_BYTES = 64 << 20
"""Of a pickle, in which are names and shapes and no weights."""


def check_pickle(path: Path) -> None:
    """Raise UnpicklingError for a file that names more than tensors are written with, ValueError for one that is compressed, as torch writes none."""
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            check_names(name for _ in range(LEGACY) for name in imported_names(file))
        return
    with zipfile.ZipFile(path) as packed:
        entries = packed.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ValueError(f"{path.name} is compressed, as torch writes none, and may hold far more than it has bytes")
        for entry in entries:
            if entry.filename.endswith(".pkl"):
                if entry.file_size > MOST_BYTES:
                    raise ValueError(f"{path.name} names its tensors in {entry.file_size:,} bytes, and {MOST_BYTES:,} are read at most")
                with packed.open(entry) as file:
                    check_names(imported_names(file))


def imported_names(file: IO[bytes]) -> Iterator[str]:
    """Yield the modules and names that the next pickle of a file would import; torch reads no other way to say one."""
    for code, argument, _ in pickletools.genops(file):
        if code.name in ("GLOBAL", "INST", "STACK_GLOBAL"):
            yield str(argument)


def check_names(names: Iterator[str]) -> None:
    strange = (name for name in names if name not in TENSORS and not is_of_numbers(name))
    if found := list(islice(strange, 1)):
        raise UnpicklingError(f"it names {found[0]}")


def is_of_numbers(name: str) -> bool:
    """Tell whether a name is a storage of torch's, or one of its types, which are spelt in small letters and make nothing."""
    module, _, inner = name.partition(" ")
    is_type = module == "torch" and inner.rstrip("0123456789") in ("float", "bfloat", "int", "uint", "bool")
    return is_type or (module.partition(".")[0] == "torch" and inner.endswith("Storage"))
