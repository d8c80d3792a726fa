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
"""Names that a pickle of weights imports, besides storages and number types."""

LEGACY = 5
"""Number of pickles at the beginning of a file written by torch before 1.6: three about the format, one of the weights, one of the data's order."""

MOST_BYTES = 64 << 20
"""Maximum bytes of a pickle, which holds names and shapes but no weights."""


def check_pickle(path: Path) -> None:
    """Raise UnpicklingError if a file imports a name that is not in TENSORS, and is no storage or number type.

    Raises ValueError if the file is compressed, which files of torch never are, or if a pickle in it has more than MOST_BYTES.
    """
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            check_names(name for _ in range(LEGACY) for name in imported_names(file))
        return
    with zipfile.ZipFile(path) as packed:
        entries = packed.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ValueError(f"{path.name} is compressed, which files of torch never are, and may unpack to far more than its size")
        for entry in entries:
            if entry.filename.endswith(".pkl"):
                if entry.file_size > MOST_BYTES:
                    raise ValueError(f"{path.name} names its tensors in {entry.file_size:,} bytes, and {MOST_BYTES:,} are read at most")
                with packed.open(entry) as file:
                    check_names(imported_names(file))


def imported_names(file: IO[bytes]) -> Iterator[str]:
    """Yield 'MODULE NAME' for each import of the next pickle in a file: of those kinds of import that torch accepts."""
    for code, argument, _ in pickletools.genops(file):
        if code.name in ("GLOBAL", "INST", "STACK_GLOBAL"):
            yield str(argument)


def check_names(names: Iterator[str]) -> None:
    strange = (name for name in names if name not in TENSORS and not is_of_numbers(name))
    if found := list(islice(strange, 1)):
        raise UnpicklingError(f"it names {found[0]}")


def is_of_numbers(name: str) -> bool:
    """Tell whether a name is that of a torch storage, or of a number type such as `torch float32`, which creates nothing."""
    module, _, inner = name.partition(" ")
    is_type = module == "torch" and inner.rstrip("0123456789") in ("float", "bfloat", "int", "uint", "bool")
    return is_type or (module.partition(".")[0] == "torch" and inner.endswith("Storage"))
