"""`atlas ui`: open an atlas in the web browser."""

import json
import os
import re
import sys
from pathlib import Path

import click

from schema.errors import AtlasError
from schema.platforms import LIMITS_MEMORY
from ui.listening import checked_address, is_loopback

SERVER = Path(__file__).with_name("server.py")

LOOPBACK = "127.0.0.1"

CACHED = "512mb"
"""Maximum memory for all answers that a server caches for its visitors."""


def names(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Check that names have the form of a Host header without a port. Raises BadParameter for others."""
    for name in given:
        if not re.fullmatch(r"[\w.-]+|[\da-fA-F:.]+", name, re.ASCII) or name.count(":") == 1:
            raise click.BadParameter(f"'{name}' is not the name of a host: write it without scheme or port, as in atlas.example.org")
    return given


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
@click.option("--db", type=click.Path(path_type=Path), envvar="ATLAS_DB", metavar="FILE", show_envvar=True, help="The atlas to browse.")
@click.option("--port", type=click.IntRange(0, 65535), default=8501, show_default=True, help="Port to listen at; 0 takes any free port.")
@click.option(
    "--address",
    default=LOOPBACK,
    show_default=True,
    callback=checked_address,
    help="Where to listen; 0.0.0.0 lets others on the network read this atlas.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    callback=names,
    metavar="NAME",
    help="A further name under which the pages are served, such as a proxy's. May be given again.",
)
@click.option("--browser/--no-browser", default=True, help="Open a browser window.")
def ui(paths: tuple[Path, ...], db: Path | None, port: int, address: str, hosts: tuple[str, ...], browser: bool) -> None:
    """Browse atlases in the web browser: keys, predictions, promotion and elimination, figures, SQL. Stop it with Ctrl-C.

    The first atlas is shown if a link names none; the menu under its name lists the others.

    The pages write annotations and collections, in files beside an atlas, and nothing else.
    """
    chosen = paths or ((db,) if db else ())
    if not chosen:
        raise click.UsageError("which atlas? Give FILE or --db FILE, or set ATLAS_DB")
    # not where links lead: what people keep lies beside the name that an atlas is opened by, for every command
    places = list(dict.fromkeys(str(path.absolute()) for path in chosen))
    from ui.hosts import own_hosts
    from ui.snapshot import MOST_SERVED

    if len(places) > MOST_SERVED:
        raise click.UsageError(f"{len(places)} atlases were given, but one server shows at most {MOST_SERVED}: start another server for the others")
    for path in chosen:
        check(path)
    if not is_loopback(address):
        click.echo(f"note: {address} may be reached from other machines: whoever reaches it can read this atlas", err=True)
        click.echo("note: the server answers under this machine's addresses and host name; --host NAME adds a name, such as a proxy's", err=True)
    if not LIMITS_MEMORY:
        click.echo("note: this system cannot limit the memory of a process: statements are limited to 3 GB by DuckDB's own count, and to 10 seconds", err=True)
    # not the folder it is called in: a file there may be called as a module is, or be a configuration of Streamlit's
    os.chdir(SERVER.parent)
    command = [sys.executable, "-P", "-m", "streamlit", "run", str(SERVER), f"--server.address={address}", f"--server.port={port}"]
    command += [f"--server.headless={str(not browser).lower()}", "--server.fileWatcherType=none", "--browser.gatherUsageStats=false"]
    command += [f"--server.maxCacheDataSize={CACHED}", "--server.showEmailPrompt=false"]
    # this process becomes the server, so that who ends it ends the pages
    os.execve(
        sys.executable, command, {**os.environ, "ATLAS_DB": places[0], "ATLAS_SERVED": json.dumps(places), "ATLAS_HOSTS": " ".join(own_hosts(address, hosts))}
    )


def check(path: Path) -> None:
    """Raise AtlasError unless the pages can be shown: Streamlit is installed, and the file is an atlas."""
    try:
        import streamlit  # noqa: F401
    except ImportError as error:
        raise AtlasError(f"the pages need streamlit: pip install 'activation-atlas[ui]' ({error})") from error
    from atlas import open

    open(path).close()
