"""A statement over a lake opens no file that is not the lake's, and asks no server but the lake's."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from pyarrow import fs

import atlas
from atlas import QueryRefused
from schema.open.lake import Lake
from tests.atlas.tiny_atlas import write_tiny_atlas
from tests.lake.pushed import push
from tests.lake.servers import BUCKET, Servers


@pytest.fixture(scope="module")
def lake(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake, with a CSV file among its own and one beside them."""
    folder = tmp_path_factory.mktemp("typed")
    path = push(write_tiny_atlas(folder / "tiny.duckdb"), folder / "tiny.lake", Lake(servers.catalogue("typed"), servers.data("typed")))
    options = {"access_key": "somebody", "secret_key": "secret", "region": "us-east-1", "scheme": "http"}
    storage = fs.S3FileSystem(endpoint_override=servers.endpoint.removeprefix("http://"), **options)
    for name in ("typed/found.csv", "other/found.csv"):
        with storage.open_output_stream(f"{BUCKET}/{name}") as out:
            out.write(pa.py_buffer(b"private\n1\n"))
    return path


@pytest.fixture
def stranger() -> Iterator[socket.socket]:
    """A server that nobody should ask: whoever has is in its line at once."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


@pytest.mark.ci_cases(3)
@pytest.mark.thorough
@pytest.mark.parametrize("form", ["FROM '{}'", "DESCRIBE FROM '{}'", "SUMMARIZE '{}'", "SELECT (SELECT count(*) FROM '{}')"])
@pytest.mark.parametrize("file", ["typed/found.csv", "typed/../other/found.csv", "typed/*.csv"])
def test_no_file_is_named(lake: Path, form: str, file: str) -> None:
    with atlas.open(lake) as a, pytest.raises(QueryRefused, match="the table name"):
        a.sql(form.format(f"s3://{BUCKET}/{file}"))


@pytest.mark.thorough
def test_no_other_server_is_asked(lake: Path, stranger: socket.socket) -> None:
    address = f"s3://{BUCKET}/typed/x.csv?s3_endpoint=127.0.0.1:{stranger.getsockname()[1]}&s3_use_ssl=false&s3_url_style=path"
    for own_process in (False, True):
        with atlas.open(lake) as a, pytest.raises(QueryRefused, match="the table name"):
            a.sql(f"DESCRIBE FROM '{address}'", own_process=own_process, timeout=5)
    with pytest.raises(BlockingIOError):
        stranger.accept()


@pytest.mark.thorough
@pytest.mark.parametrize("function", ["pragma_table_info", "pragma_show"])
def test_tables_of_the_catalogues_database_are_not_looked_at(lake: Path, function: str) -> None:
    with psycopg.connect(json.loads(lake.read_text())["catalogue"], autocommit=True) as session:
        session.execute("CREATE TABLE IF NOT EXISTS payroll (salary integer)")
    with atlas.open(lake) as a, pytest.raises(QueryRefused, match=function):
        a.sql(f"FROM {function}('__ducklake_metadata_lake.public.payroll')")


@pytest.mark.thorough
def test_its_own_tables_are_read_and_described(lake: Path) -> None:
    with atlas.open(lake) as a:
        assert a.sql("DESCRIBE model").height == a.sql("DESCRIBE FROM model").height > 5
        assert a.sql("SUMMARIZE model").height > 5
        assert "model" in a.sql("SHOW TABLES")["name"].to_list()
        assert a.sql("SELECT count(*) FROM trigger").item() == 144
