"""One request to the model process: its progress reports, and the tables of its answer."""

import json
import os
from collections.abc import Callable
from contextlib import closing, suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

import pyarrow as pa

from atlas.live.process import connect_model_process
from schema import errors
from schema.live import MOST_LINE, TOKEN
from schema.live_peer import WORD, is_stuck, peer_of, wait_readable

Progress = Callable[[dict[str, Any]], None]
"""Callback for progress: gets {"waiting": place in line} or {"stage": the current step, "share": the share of it that is done}."""


class ModelProcessHung(errors.AtlasError):
    """Error of a request whose model process hung and was therefore ended."""


def ask_process(atlas: Path, what: str, request: dict[str, Any], progress: Progress, visitor: str) -> dict[str, pa.Table]:
    """Send one request, and return the tables of the answer by name. If `progress` raises an error, the request ends.

    A process that hangs is ended, and the request goes to a new one.
    visitor: id of the client; a later request with the same id replaces one that waits.
    Raises AtlasError with the message of the process, or if the process ended.
    """
    try:
        return ask_once(atlas, what, request, progress, visitor)
    except ModelProcessHung:
        progress({"stage": "the model process hung and was ended; another is started"})
        return ask_once(atlas, what, request, progress, visitor)


def ask_once(atlas: Path, what: str, request: dict[str, Any], progress: Progress, visitor: str) -> dict[str, pa.Table]:
    with closing(connect_model_process(atlas)) as connection:
        peer = peer_of(connection.sock)
        try:
            headers = {"Content-Type": "application/json", "X-Visitor": visitor}
            if token := os.environ.get(TOKEN):
                headers["Authorization"] = f"Bearer {token}"
            # who refuses a request need not read the whole of it, and says why all the same
            with suppress(BrokenPipeError):
                connection.request("POST", f"/{what}", json.dumps(request).encode(), headers)
            if peer is not None and not wait_readable(connection.sock.fileno(), WORD) and peer.is_hung():
                peer.end()
                raise ModelProcessHung(f"the model process of {atlas} hung and was ended; ask again to start another")
            with closing(connection.getresponse()) as response:
                return read_answer(response, progress)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise errors.AtlasError(
                f"the process that answers for {atlas} is not a model process, or is one of another release: its answer does not follow the protocol"
            ) from error
        except (OSError, HTTPException) as error:
            ended = "ended"
            if isinstance(error, TimeoutError) and peer is not None and is_stuck(peer.pid):
                peer.end()
                ended = "hung and was ended"
            raise errors.AtlasError(
                # what it said may be anything, line breaks too
                f"the model process of {atlas} {ended} before it answered ({' '.join(str(error).split()) or type(error).__name__}); ask again to start another"
            ) from error


def read_answer(response: HTTPResponse, progress: Progress) -> dict[str, pa.Table]:
    while data := response.readline(MOST_LINE):
        said = json.loads(data)
        if not isinstance(said, dict):
            raise ValueError("a line is no object")
        if "error" in said:
            kind = vars(errors).get(said["error"])
            raise (kind if isinstance(kind, type) and issubclass(kind, errors.AtlasError) else errors.AtlasError)(said["message"])
        if "tables" in said:
            return {name: pa.ipc.open_stream(response.read(n)).read_all() for name, n in said["tables"].items()}
        progress(said)
    raise HTTPException("its answer is incomplete")
