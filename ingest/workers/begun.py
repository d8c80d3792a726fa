"""What was read of a shard that is not done yet, written every minute: a process that is killed goes on with the next batch, to the same bits.

WORK/begun    a line of JSON, whose arrays are their places in what follows: the bytes of all
"""

import dataclasses
import hashlib
import importlib
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import torch

from schema.durable import put_in_place

EVERY = 60.0
"""Seconds of work that an interruption may cost."""

SHARE = 20
"""Nor is it written before so many times what the last writing took has gone by."""

OURS = "ingest.recorders."
"""Where the classes are of which a state may have instances: named tuples and data classes."""


class Resumable(Protocol):
    def state(self) -> dict[str, Any]:
        """All that it holds of what was read, between two batches."""

    def restore(self, state: dict[str, Any]) -> None:
        """Hold that instead."""


class Begun:
    """The file of one process, which reads one shard after the other. tell: called whenever all that was done is on the disk."""

    def __init__(self, path: Path, every: float = EVERY) -> None:
        self.path, self.every = path, every
        self.tell: Callable[[], None] = lambda: None
        self.saved_at, self.saving_took = time.monotonic(), 0.0

    def restore(self, identity: str, recorders: Sequence[Resumable]) -> int:
        """Batches that the recorders have heard, once they hold what the file says; none where it is of something else, or damaged."""
        self.saved_at = time.monotonic()
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, ImportError, pa.ArrowException):
            with self.path.open("rb") as file:
                header = json.loads(file.readline(2**26))
                if header["identity"] != identity:
                    return 0
                data = file.read()
            if hashlib.sha256(data).hexdigest() == header["sha256"]:
                states = thawed(header["states"], np.frombuffer(data, np.uint8))
                for recorder, state in zip(recorders, states, strict=True):
                    recorder.restore(state)
                return int(header["n_batches"])
        return 0

    def save_if_due(self, identity: str, n_batches: int, recorders: Sequence[Resumable]) -> None:
        if time.monotonic() - self.saved_at < max(self.every, SHARE * self.saving_took):
            return
        start = time.monotonic()
        arrays: list[np.ndarray] = []
        states = frozen([recorder.state() for recorder in recorders], arrays)
        digest = hashlib.sha256()
        for array in arrays:
            digest.update(array.data)
        header = {"identity": identity, "n_batches": n_batches, "states": states, "sha256": digest.hexdigest()}
        draft = self.path.with_name(self.path.name + ".new")
        # a disk that is full is no reason to stop: the shard is computed all the same
        with suppress(OSError):
            with draft.open("wb") as file:
                file.write(json.dumps(header).encode() + b"\n")
                for array in arrays:
                    file.write(array.data)
            put_in_place(draft, self.path)
            self.tell()
        self.saved_at = time.monotonic()
        self.saving_took = self.saved_at - start


def frozen(value: Any, arrays: list[np.ndarray]) -> Any:
    """A state as JSON, its arrays appended to `arrays` as bytes. Raises TypeError for what it has no form for: nothing is left out."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.ndarray):
        return {"array": value.dtype.str, "shape": list(value.shape), "at": placed(np.ascontiguousarray(value).reshape(-1).view(np.uint8), arrays)}
    if isinstance(value, torch.Tensor):
        of_bytes = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return {"tensor": str(value.dtype).removeprefix("torch."), "shape": list(value.shape), "at": placed(of_bytes, arrays)}
    if isinstance(value, pa.Table):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_table(value)
        return {"table": placed(np.frombuffer(sink.getvalue(), np.uint8), arrays)}
    if isinstance(value, dict):
        return {"dict": [[frozen(k, arrays), frozen(v, arrays)] for k, v in value.items()]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [frozen(each, arrays) for each in value]}
    if is_ours(type(value)):
        names = getattr(value, "_fields", None) or [field.name for field in dataclasses.fields(value)]
        return {"class": [type(value).__module__, type(value).__qualname__], "fields": {name: frozen(getattr(value, name), arrays) for name in names}}
    raise TypeError(f"a state has no form for {type(value)}")


def placed(of_bytes: np.ndarray, arrays: list[np.ndarray]) -> tuple[int, int]:
    """Where these bytes begin and end, behind those that were appended before: at multiples of 8, which every number may begin at."""
    start = sum(map(len, arrays))
    arrays.append(np.pad(of_bytes, (0, -len(of_bytes) % 8)))
    return start, start + len(of_bytes)


def thawed(tree: Any, data: np.ndarray) -> Any:
    """The state that `frozen` gave this JSON for. Raises TypeError for a class that is none of the recorders'."""
    match tree:
        case {"array": dtype, "shape": shape, "at": [start, end]}:
            return data[start:end].view(dtype).reshape(shape).copy()
        case {"tensor": dtype, "shape": shape, "at": [start, end]}:
            return torch.from_numpy(data[start:end].copy()).view(getattr(torch, dtype)).reshape(shape)
        case {"table": [start, end]}:
            return pa.ipc.open_stream(pa.py_buffer(data[start:end])).read_all()
        case {"dict": pairs}:
            return {thawed(k, data): thawed(v, data) for k, v in pairs}
        case {"list": found}:
            return [thawed(each, data) for each in found]
        case {"tuple": found}:
            return tuple(thawed(each, data) for each in found)
        case {"class": [module, name], "fields": fields}:
            made = getattr(importlib.import_module(module), name) if module.startswith(OURS) else None
            if not isinstance(made, type) or not is_ours(made):
                raise TypeError(f"{module}.{name} is no class of a recorder's state")
            return made(**{key: thawed(each, data) for key, each in fields.items()})
    return tree


def is_ours(made: type) -> bool:
    return made.__module__.startswith(OURS) and (dataclasses.is_dataclass(made) or (issubclass(made, tuple) and hasattr(made, "_fields")))
