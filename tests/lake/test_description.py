"""What a file that describes a lake may hold. The oracle for what is a password is PostgreSQL's own library, and the password itself."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from schema.errors import AtlasError, NotAnAtlas
from schema.open.lake import Lake, check_description, describe, read_lake, storage

WITH_PASSWORD = [
    "postgresql://u:topsecret@h/db",
    "postgresql://u@h/db?password=topsecret",
    "postgresql://u@h/db?connect_timeout=3&password=topsecret",
    "postgresql://u@h/db?pass%77ord=topsecret",
    "postgresql:///db?user=u&password=topsecret",
    "postgresql://u@h/db?sslpassword=topsecret",
    "postgresql://u:top#secret@h/db",
    "postgresql://u:top?secret@h/db",
    "postgresql://u:top/secret@h/db",
    "postgres://:topsecret@h/db",
    "mysql://u:topsecret@h/db",
    "host=h dbname=db password=topsecret",
    "postgresql://u@h/db?passwd=topsecret",
    "postgresql://u:topsecret@[h/db",
]


@pytest.mark.parametrize("catalogue", WITH_PASSWORD)
def test_a_password_is_refused_in_every_form_and_neither_written_nor_repeated(tmp_path: Path, catalogue: str) -> None:
    path = tmp_path / "a.lake"
    with pytest.raises(AtlasError) as caught:
        describe(path, Lake(catalogue, "/data"))
    assert "secret" not in str(caught.value)
    assert not path.exists()
    path.write_text(json.dumps({"catalogue": catalogue, "data": "/data"}))
    with pytest.raises(AtlasError) as caught:
        read_lake(path)
    assert "secret" not in str(caught.value)
    assert str(path) in str(caught.value)


@settings(deadline=None)
@given(
    user=st.text("u:/?#@%=&[]", max_size=4),
    host=st.text("h:/?#@,1", max_size=4),
    name=st.text("d/?#@", max_size=3),
    query=st.text("password=&%?x", max_size=12),
)
def test_whatever_libpq_would_take_for_a_password_is_refused(user: str, host: str, name: str, query: str) -> None:
    address = f"postgresql://{user}:x@{host}/{name}?{query}"
    try:
        is_secret = "password" in conninfo_to_dict(address)
    except Exception:
        is_secret = True
    if is_secret:
        with pytest.raises(AtlasError):
            check_description(Path("never.lake"), Lake(address, "/data"))


@pytest.mark.parametrize(
    "catalogue", ["postgresql://me@db.example/atlases", "postgresql:///atlases", "postgres://a,b:5433/x?sslmode=require&passfile=/home/me/.pgpass"]
)
def test_an_address_without_a_password_is_written_and_read(tmp_path: Path, catalogue: str) -> None:
    path = tmp_path / "a.lake"
    describe(path, Lake(catalogue, "/data"))
    assert read_lake(path) == Lake(catalogue, "/data")


@pytest.mark.parametrize("data", ["s3://bucket/p?s3_secret_access_key=topsecret", "s3://key:topsecret@bucket/p", "gs://key:topsecret@bucket"])
def test_keys_of_the_storage_are_refused_and_not_repeated(data: str) -> None:
    with pytest.raises(AtlasError) as caught:
        storage(data)
    assert "topsecret" not in str(caught.value)


def test_a_lake_has_a_folder_of_its_own() -> None:
    with pytest.raises(AtlasError, match="not the root of the file system"):
        storage("/tmp/..")


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "[]",
        "{}",
        '{"catalogue": 1, "data": "/d"}',
        '{"catalogue": "postgresql://h/d", "data": null}',
        "[" * 100_000,
        "\ud800".encode("utf-16", "surrogatepass").decode("latin1"),
    ],
)
def test_a_file_that_describes_no_lake_is_said_to(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.lake"
    path.write_text(text)
    with pytest.raises(NotAnAtlas, match="does not describe a lake"):
        read_lake(path)


def test_nobody_waits_for_a_pipe_that_is_called_a_lake(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.lake")
    (tmp_path / "b.lake").symlink_to("/dev/zero")
    for name in ("a.lake", "b.lake"):
        with pytest.raises(AtlasError, match=f"{name} is no file"):
            read_lake(tmp_path / name)


@pytest.mark.parametrize("data", ["s3://bucket/a?s3_endpoint=elsewhere.example.org", "https://elsewhere.example.org/a", "s3://key:secret@bucket/a"])
def test_files_elsewhere_are_refused_whoever_wrote_the_description(tmp_path: Path, data: str) -> None:
    path = tmp_path / "a.lake"
    path.write_text(json.dumps({"catalogue": "postgresql://u@h/db", "data": data}))
    with pytest.raises(AtlasError, match="s3://bucket/prefix"):
        read_lake(path)
