"""The command `atlas live`: the model in a process of its own, which answers requests for one atlas."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from schema.errors import AtlasError

if TYPE_CHECKING:
    from ingest.live.server import Port

PATIENCE = 10
"""Seconds that a model process has to confirm that it ends."""


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--model", help="The atlas's own model, named as for `atlas ingest`; needed if it is not found under the name in the atlas.")
@click.option("--device", default="auto", show_default=True, help="As for `atlas ingest`.")
@click.option("--idle", default=15.0, show_default=True, type=click.FloatRange(0.01), help="Minutes without a request after which the process ends.")
@click.option("--tcp", metavar="127.0.0.1:PORT", help="Also listen on a port of this machine; clients of the port need a token.")
@click.option("--stop", is_flag=True, help="End the process that answers for this atlas.")
def live(target: Path, model: str | None, device: str, idle: float, tcp: str | None, stop: bool) -> None:
    """Keep the model of the atlas TARGET in memory, and trace prompts with it for `atlas trace`, Python and the pages.

    These start the process themselves; start it yourself to choose another device, or to name the weights. It listens on a Unix socket in a folder of
    yours, and on no port except that of --tcp, which is for a model behind an SSH tunnel: set ATLAS_LIVE=127.0.0.1:PORT and ATLAS_LIVE_TOKEN to use it.
    """
    from schema.live import TAKEN, socket_path
    from schema.open.store import open_reader

    if stop:
        click.echo(f"ended the process that answered for {target}" if end_process(target) else f"no process answers for {target}", err=True)
        return
    open_reader(target).close()
    # torch, which knows what GPUs there are, takes seconds
    if device not in ("cpu", "auto"):
        from ingest.model.loading import checked_device

        checked_device(device)
    from ingest.live.server import serve

    port = None if tcp is None else open_port(target, tcp)
    click.echo(f"answering for {target} at {socket_path(target)}; ends after {idle:g} minutes without a request", err=True)
    if not serve(target, model, device, 60 * idle, port):
        click.echo(f"Error: another process answers for {target} already; `atlas live {target} --stop` ends it", err=True)
        raise SystemExit(TAKEN)


def open_port(target: Path, address: str) -> "Port":
    """Listen on an address, and print the path of the token's file."""
    from ingest.live.server import Port
    from ingest.live.tcp import new_token, open_listener

    listener = open_listener(address)
    token, path = new_token(target)
    click.echo(f"answering at {address} too, to clients that have the token in {path}", err=True)
    return Port(listener, token)


def end_process(target: Path) -> bool:
    """End the model process of an atlas, and tell whether there was one."""
    from contextlib import closing
    from http.client import HTTPException

    from schema.live import UnixConnection, socket_path
    from schema.live_peer import peer_of

    with closing(UnixConnection(socket_path(target), timeout=PATIENCE)) as connection:
        peer = None
        try:
            connection.connect()
            peer = peer_of(connection.sock)
            connection.request("POST", "/stop")
            return connection.getresponse().status == 200
        except TimeoutError:
            if peer is None or not peer.is_hung():
                raise AtlasError(f"the model process of {target} is busy, and did not answer within {PATIENCE} s; try again") from None
            peer.end()
            return True
        except (OSError, HTTPException):
            return False
