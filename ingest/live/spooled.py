"""The tables of an answer in files that have no name. However much it is, and however long who asked takes to take it, no memory waits for it."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import IO

import pyarrow as pa

from ingest.live.jobs import Tell

PIECE = 1 << 18
"""Bytes of an answer that are sent at once."""


class Spooled(ExitStack):
    """Each table as an Arrow stream, to which parts of it are added as they come about; closed, it is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, IO[bytes]] = {}
        self.streams: dict[str, pa.ipc.RecordBatchStreamWriter] = {}

    def add(self, name: str, table: pa.Table) -> None:
        if name not in self.files:
            self.files[name] = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (it is one)
            self.streams[name] = pa.ipc.new_stream(self.files[name], table.schema)
        self.streams[name].write_table(table)

    def end(self) -> None:
        for stream in self.streams.values():
            stream.close()

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each, once they have ended."""
        return {name: file.tell() for name, file in self.files.items()}

    def pieces(self) -> Iterator[bytes]:
        for file in self.files.values():
            file.seek(0)
            while piece := file.read(PIECE):
                yield piece


def spooled(parts: Iterable[dict[str, pa.Table]], tell: Tell) -> Spooled:
    with ExitStack() as failed:
        found = failed.enter_context(Spooled())
        for tables in parts:
            for name, table in tables.items():
                found.add(name, table)
        tell("sending", 0.0)
        found.end()
        failed.pop_all()
    return found
