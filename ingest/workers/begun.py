"""Checkpoint of an unfinished shard, written every minute. If a process is killed, the next process continues with the next batch, and gets the same bits.

WORK/begun    a signature of 64 digits; a line of JSON, which gives each array as its place in the bytes that follow; the bytes of all arrays

In a shared folder, other users may write a file of that name with numbers of their own. So the file is signed with a secret of this user.
"""

import dataclasses
import hmac
import importlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import pyarrow as pa
import torch

from schema.durable import fsync, put_in_place
from schema.open.definitions import cache_folder

EVERY = 60.0
"""Seconds of work between two checkpoints, which an interruption may lose."""

SHARE = 20
"""Multiple of the duration of the last writing that must pass before the file is written again."""

OURS = "ingest.recorders."
"""Package of the classes whose instances a state may hold: named tuples and data classes."""


class Resumable(Protocol):
    def state(self) -> dict[str, Any]:
        """Collect everything that the recorder has stored so far; called between two batches."""

    def restore(self, state: dict[str, Any]) -> None:
        """Replace the recorder's state by this one."""


class ShardCheckpoint:
    """Checkpoint file of one process, which computes one shard after the other. tell: called whenever all work so far is on the disk."""

    def __init__(self, path: Path, every: float = EVERY) -> None:
        self.path, self.every = path, every
        self.tell: Callable[[], None] = lambda: None
        self.saved_at, self.saving_took = time.monotonic(), 0.0

    def restore(self, identity: str, recorders: Sequence[Resumable]) -> int:
        """Restore the recorders from the file, and return how many batches they have read; 0 if the file is of another shard or user, or is damaged."""
        self.saved_at = time.monotonic()
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, ImportError, RecursionError, MemoryError, pa.ArrowException):
            whole = read_signed_file(self.path)
            found, end = memoryview(whole), whole.index(b"\n")
            header = json.loads(bytes(found[:end]))
            if header["identity"] != identity:
                return 0
            for recorder, state in zip(recorders, thaw(header["states"], np.frombuffer(found[end + 1 :], np.uint8)), strict=True):
                recorder.restore(state)
            return int(header["n_batches"])
        return 0

    def save_if_due(self, identity: str, n_batches: int, recorders: Sequence[Resumable]) -> None:
        if time.monotonic() - self.saved_at < max(self.every, SHARE * self.saving_took):
            return
        start = time.monotonic()
        arrays: list[np.ndarray] = []
        header = {"identity": identity, "n_batches": n_batches, "states": freeze([recorder.state() for recorder in recorders], arrays)}
        parts: list[bytes | memoryview] = [json.dumps(header).encode() + b"\n", *(array.data for array in arrays)]
        draft = self.path.with_name(self.path.name + ".new")
        # a disk that is full is no reason to stop: the shard is computed all the same
        with suppress(OSError):
            draft.unlink(missing_ok=True)
            with draft.open("xb") as file:
                file.write(sign(parts).encode())
                for part in parts:
                    file.write(part)
            put_in_place(draft, self.path)
            self.tell()
        self.saved_at = time.monotonic()
        self.saving_took = self.saved_at - start


N_SECRET, N_DIGITS, BLOCK = 32, 64, 2**20
"""Bytes of a secret, digits of a signature, and bytes that are signed at once."""


def open_own(path: Path) -> BinaryIO:
    """Open a file that this user owns. Raises OSError for a link, a pipe, a device and another user's file."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    told = os.fstat(file.fileno())
    if not stat.S_ISREG(told.st_mode) or told.st_uid != os.getuid():
        file.close()
        raise OSError(f"{path} is no file that this user's ingest wrote")
    return file


def read_signed_file(path: Path) -> bytes:
    """Read the content after a file's signature. Raises OSError if the signature is not this user's; until it is checked, at most a block is in memory."""
    with open_own(path) as file:
        if os.fstat(file.fileno()).st_size > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
            raise OSError(f"{path} is larger than the memory")
        signature = file.read(N_DIGITS)
        if not re.fullmatch(rb"[0-9a-f]{%d}" % N_DIGITS, signature) or not hmac.compare_digest(sign(iter(lambda: file.read(BLOCK), b"")).encode(), signature):
            raise OSError(f"{path} has no signature of this user's")
        file.seek(N_DIGITS)
        return file.read()


def sign(parts: Iterable[bytes | memoryview]) -> str:
    """Compute the HMAC-SHA256 of the parts, in hexadecimal, with the secret in this user's cache. Raises OSError if the secret cannot be read or made."""
    signed = hmac.new(secret(), digestmod="sha256")
    for part in parts:
        signed.update(part)
    return signed.hexdigest()


def secret() -> bytes:
    """Read this user's secret, random bytes that are made when they are first needed."""
    path = cache_folder() / "begun.secret"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(N_SECRET))
        fsync(draft)
        # of two that make one at once the first is taken by both
        with suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    with open_own(path) as file:
        found = file.read(N_SECRET + 1)
    if len(found) != N_SECRET:
        raise OSError(f"{path} is no secret of {N_SECRET} bytes")
    return found


def freeze(value: Any, arrays: list[np.ndarray]) -> Any:
    """Convert a state to JSON, and append its arrays to `arrays` as bytes. Raises TypeError for a type that has no JSON form here."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.ndarray):
        return {"array": value.dtype.str, "shape": list(value.shape), "at": append(np.ascontiguousarray(value).reshape(-1).view(np.uint8), arrays)}
    if isinstance(value, torch.Tensor):
        of_bytes = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return {"tensor": str(value.dtype).removeprefix("torch."), "shape": list(value.shape), "at": append(of_bytes, arrays)}
    if isinstance(value, pa.Table):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_table(value)
        return {"table": append(np.frombuffer(sink.getvalue(), np.uint8), arrays)}
    if isinstance(value, dict):
        return {"dict": [[freeze(k, arrays), freeze(v, arrays)] for k, v in value.items()]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [freeze(each, arrays) for each in value]}
    if is_ours(type(value)):
        names = getattr(value, "_fields", None) or [field.name for field in dataclasses.fields(value)]
        return {"class": [type(value).__module__, type(value).__qualname__], "fields": {name: freeze(getattr(value, name), arrays) for name in names}}
    raise TypeError(f"a state has no form for {type(value)}")


def append(of_bytes: np.ndarray, arrays: list[np.ndarray]) -> tuple[int, int]:
    """Append bytes to `arrays`, and return their start and end among all bytes. The start is a multiple of 8, so that numbers are aligned."""
    start = sum(map(len, arrays))
    arrays.append(np.pad(of_bytes, (0, -len(of_bytes) % 8)))
    return start, start + len(of_bytes)


def thaw(tree: Any, data: np.ndarray) -> Any:
    """Rebuild the state that `freeze` converted to this JSON. Raises TypeError for a class that is not one of the recorders'."""
    match tree:
        case {"array": dtype, "shape": shape, "at": [start, end]}:
            return data[start:end].view(dtype).reshape(shape).copy()
        case {"tensor": dtype, "shape": shape, "at": [start, end]}:
            return torch.from_numpy(data[start:end].copy()).view(getattr(torch, dtype)).reshape(shape)
        case {"table": [start, end]}:
            return pa.ipc.open_stream(pa.py_buffer(data[start:end])).read_all()
        case {"dict": pairs}:
            return {thaw(k, data): thaw(v, data) for k, v in pairs}
        case {"list": found}:
            return [thaw(each, data) for each in found]
        case {"tuple": found}:
            return tuple(thaw(each, data) for each in found)
        case {"class": [module, name], "fields": fields}:
            made = getattr(importlib.import_module(module), name) if module.startswith(OURS) else None
            if not isinstance(made, type) or not is_ours(made):
                raise TypeError(f"{module}.{name} is no class of a recorder's state")
            return made(**{key: thaw(each, data) for key, each in fields.items()})
    return tree


def is_ours(made: type) -> bool:
    return made.__module__.startswith(OURS) and (dataclasses.is_dataclass(made) or (issubclass(made, tuple) and hasattr(made, "_fields")))
