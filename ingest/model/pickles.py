"""Checks of the names in a pickle of weights before torch reads it: torch runs no program from it, but one name in it, such as bytearray, can fill memory."""

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
"""Names that weights are written with, beside storages and the types of numbers."""

LEGACY = 5
"""Number of pickles at the beginning of a file by torch before 1.6: the file's format, the weights, and the place of each behind the pickles."""

MOST_BYTES = 64 << 20
"""Maximum bytes of a pickle, which holds names and shapes but no weights."""


def check_pickle(path: Path) -> None:
    """Raise UnpicklingError if a file names more than tensors are written with.

    Raises ValueError if the file is compressed, which torch never does, or names its tensors in more than MOST_BYTES.
    """
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
    """Yield the modules and names that the next pickle of a file would import; torch accepts no other way to name one."""
    for code, argument, _ in pickletools.genops(file):
        if code.name in ("GLOBAL", "INST", "STACK_GLOBAL"):
            yield str(argument)


def check_names(names: Iterator[str]) -> None:
    strange = (name for name in names if name not in TENSORS and not is_of_numbers(name))
    if found := list(islice(strange, 1)):
        raise UnpicklingError(f"it names {found[0]}")


def is_of_numbers(name: str) -> bool:
    """Tell whether a name is one of torch's storages, or one of its types, which are spelt in lower case and create nothing."""
    module, _, inner = name.partition(" ")
    is_type = module == "torch" and inner.rstrip("0123456789") in ("float", "bfloat", "int", "uint", "bool")
    return is_type or (module.partition(".")[0] == "torch" and inner.endswith("Storage"))
