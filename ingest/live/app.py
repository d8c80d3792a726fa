"""The model process's web application: Starlette on a Unix socket. Limits are checked before parsing; nothing is ever unpickled.

The tables of an answer wait in unnamed temporary files, so that they take no memory, however slowly the client receives them.
"""

import json
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import IO, Any

import pyarrow as pa
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ingest.live.engine import Engine
from ingest.live.jobs import Busy, Cancelled, Jobs, Tell
from ingest.live.request import parse_request
from schema.errors import AtlasError
from schema.live import MOST_BODY

PIECE = 1 << 18
"""Bytes of one piece of an answer."""


class TableSpool(ExitStack):
    """Temporary files with one Arrow stream per table. Parts of a table are added as they are computed; closing the spool deletes the files."""

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
        """The bytes of each stream, after `end`."""
        return {name: file.tell() for name, file in self.files.items()}

    def pieces(self) -> Iterator[bytes]:
        for file in self.files.values():
            file.seek(0)
            while piece := file.read(PIECE):
                yield piece


def spool_tables(parts: Iterable[dict[str, pa.Table]], tell: Tell) -> TableSpool:
    with ExitStack() as failed:
        found = failed.enter_context(TableSpool())
        for tables in parts:
            for name, table in tables.items():
                found.add(name, table)
        tell("sending", 0.0)
        found.end()
        failed.pop_all()
    return found


LONGEST_MESSAGE = 10_000

SENT_WITHIN = 300.0
"""Seconds after which the server gives up sending an answer that the client has not fully received."""


class TooLarge(AtlasError):
    """Error for a request body of more than MOST_BODY bytes."""


class Process:
    """The application. last_asked: the time at which a request last arrived or was answered."""

    def __init__(self, engine: Engine, stop: Callable[[], None]) -> None:
        self.engine, self.stop, self.jobs = engine, stop, Jobs()
        self.last_asked = time.monotonic()
        routes = [
            Route("/", self.status, methods=["GET"]),
            Route("/trace", self.trace, methods=["POST"]),
            Route("/stop", self.end, methods=["POST"]),
        ]
        self.app = Starlette(routes=routes)

    async def status(self, _: Request) -> Response:
        model = self.engine.model
        return JSONResponse({"model": None if model is None else model.name, "in_line": len(self.jobs.line)})

    async def end(self, _: Request) -> Response:
        self.stop()
        return JSONResponse({"stopped": True})

    async def trace(self, request: Request) -> Response:
        self.last_asked = time.monotonic()
        try:
            # first the body: who still sends it when the answer closes the connection never reads why
            body = await body_of(request)
            if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                raise AtlasError("a request is JSON: its content type is application/json")
            asked = parse_request(body)
            visitor = request.headers.get("x-visitor", "")[:64]
            ticket = self.jobs.enter(visitor, lambda tell: spool_tables(self.engine.trace(asked, tell), tell))
        except AtlasError as error:
            return JSONResponse(refusal(error), status_code=429 if isinstance(error, Busy) else 413 if isinstance(error, TooLarge) else 400)
        except ClientDisconnect:
            return Response(status_code=400)
        return StreamingResponse(self.answer(self.jobs.events(ticket)), media_type="application/x-ndjson")

    async def answer(self, events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
        try:
            async for event in events:
                if "result" not in event:
                    yield line(event)
                    continue
                with event["result"] as found:
                    yield line({"tables": found.sizes})
                    end = time.monotonic() + SENT_WITHIN
                    for piece in found.pieces():
                        if time.monotonic() > end:
                            break
                        yield piece
        except (AtlasError, Cancelled) as error:
            yield line(refusal(error))
        except MemoryError:
            yield line(refusal(AtlasError("there was not enough memory for this request: give a shorter prompt, or fewer arms")))
        except Exception as error:
            words = f"{type(error).__name__}: {error}".partition("\n")[0]
            yield line(refusal(AtlasError(f"the model process could not answer this request ({words}); it still answers others")))
        finally:
            await events.aclose()  # type: ignore[attr-defined]
            self.last_asked = time.monotonic()
            if self.engine.is_lost:
                self.stop()


async def body_of(request: Request) -> bytes:
    """Read the body of a request. Raises TooLarge as soon as more than MOST_BODY bytes have arrived."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BODY:
            raise TooLarge(f"a request has at most {MOST_BODY:,} bytes")
    return bytes(body)


def refusal(error: Exception) -> dict[str, str]:
    return {"error": type(error).__name__, "message": str(error)[:LONGEST_MESSAGE]}


def line(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode() + b"\n"
