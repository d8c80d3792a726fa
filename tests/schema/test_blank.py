"""What stands for a file that does not lie beside an atlas is the same from the user's cache as made anew, and never in the way."""

import os
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

import atlas
from schema.errors import NotAnAtlas
from schema.open import beside
from schema.open.beside import LEFT_S
from schema.open.kinds import Companion, kinds
from tests.atlas.tiny_atlas import write_tiny_atlas
from tests.schema.conftest import without_second_names

BESIDE = "SELECT {columns} FROM {found}() WHERE database_name IN ('annotations', 'collections', 'experiments', 'retrievals') ORDER BY ALL"
SHOWN = {
    "duckdb_columns": "database_name, table_name, column_name, column_index, data_type, is_nullable, comment",
    # not the text of these, which DuckDB writes otherwise once it is stored
    "duckdb_views": "database_name, view_name, comment",
    "duckdb_functions": "database_name, function_name, parameters, comment",
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An atlas with nothing beside it."""
    return write_tiny_atlas(tmp_path_factory.mktemp("alone") / "tiny.duckdb")


def shown(path: Path) -> tuple[set[bool], list[list[tuple]]]:
    """Whether what is beside the atlas is in files, and all that SQL says of it."""
    with atlas.open(path) as opened:
        databases = opened.con.execute("SELECT path IS NOT NULL FROM duckdb_databases() WHERE database_name IN ('annotations', 'experiments')").fetchall()
        said = [opened.con.execute(BESIDE.format(columns=columns, found=found)).fetchall() for found, columns in SHOWN.items()]
        said += [opened.con.execute(f"SELECT version, derived_sha256 FROM {kind.name}.{kind.label}").fetchall() for kind in kinds()]
        ((allowed,),) = opened.con.execute("SELECT current_setting('allowed_paths')").fetchall()
        assert [path for path in allowed if Path(path).exists()] == []
    return {is_file for (is_file,) in databases}, said


@pytest.mark.thorough
def test_the_cache_says_what_memory_does(alone: Path, kept: Path) -> None:
    files, said = shown(alone)
    assert files == {True}
    assert len(list(kept.glob("blank-*.duckdb"))) == len(kinds())
    times = {file: file.stat().st_mtime_ns for file in kept.glob("blank-*")}
    assert shown(alone) == ({True}, said)
    assert {file: file.stat().st_mtime_ns for file in kept.glob("blank-*")} == times
    for file in times:
        file.unlink()
        file.mkdir()
    assert shown(alone) == ({False}, said)
    assert len(said[0]) > 100


@pytest.mark.ci_cases(2)
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("damage", [b"", b"text", None])
def test_one_that_cannot_be_read_is_done_without_and_made_again(alone: Path, kept: Path, damage: bytes | None) -> None:
    _, said = shown(alone)
    whole = {file: file.read_bytes() for file in kept.glob("blank-*")}
    for file, content in whole.items():
        file.write_bytes(content[:20000] if damage is None else damage)
    assert shown(alone) == ({False}, said)
    assert shown(alone) == ({True}, said)
    assert len(whole) == len(kinds())


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("change", ["other", "row"])
def test_one_that_is_not_what_it_is_called_is_done_without_and_made_again(alone: Path, kept: Path, change: str) -> None:
    _, said = shown(alone)
    annotations, *others = sorted(kept.glob("blank-*"))
    if change == "other":
        for file in others:
            file.write_bytes(annotations.read_bytes())
    else:
        with duckdb.connect(annotations) as con:
            con.execute("INSERT INTO annotation VALUES (0, 'value', NULL, 0, 0, 30, 'a stranger', false, 'weights', now())")
    for _ in range(2):
        assert n_annotations(alone) == 0
        files, found = shown(alone)
        assert found == said
    assert files == {True}


def n_annotations(path: Path) -> int:
    with atlas.open(path) as opened:
        n: int = opened.sql("SELECT count(*) AS n FROM annotations.annotation").item()
    return n


@pytest.mark.thorough
def test_several_at_once_make_each_file_whole(alone: Path, kept: Path) -> None:
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: shown(alone)[1], range(6)))
    assert found == found[:1] * 6
    assert sorted(file.name.split("-")[0] for file in kept.iterdir() if "definitions" not in file.name) == ["blank"] * len(kinds())


@pytest.mark.thorough
def test_what_a_killed_maker_left_goes_after_an_hour(alone: Path, kept: Path) -> None:
    for name, age in (("new", 0), ("left", 2 * LEFT_S)):
        (kept / f".blank-{name}").mkdir(parents=True)
        os.utime(kept / f".blank-{name}", (time.time() - age,) * 2)
    shown(alone)
    assert [file.name for file in kept.glob(".blank-*")] == [".blank-new"]


@pytest.mark.parametrize("folder", ["y" * 300, "a?b", "[a]*?", "half\udcff"])
def test_a_cache_that_cannot_be_used_is_done_without(alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / folder))
    assert shown(alone)[0] == {False}


@pytest.mark.thorough
def test_a_full_disk_is_no_hindrance(alone: Path, kept: Path) -> None:
    """The system sends a signal as well, which ends a process that does not ignore it; Python does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, limits[1]))
    try:
        files, said = shown(alone)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert files == {False}
    assert shown(alone) == ({True}, said)


@pytest.mark.thorough
def test_where_nothing_can_be_kept_it_is_done_without(alone: Path, kept: Path) -> None:
    kept.write_text("a file where the folder should be")
    assert shown(alone)[0] == {False}


@pytest.fixture
def read_only(alone: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As in a folder that may only be read: DuckDB then hands out what it opened first, which is shut already."""
    without_second_names(monkeypatch, alone.parent)
    return alone


@pytest.mark.thorough
def test_an_atlas_without_a_second_name_opens_again(read_only: Path, kept: Path) -> None:
    with atlas.open(read_only):
        assert n_annotations(read_only) == 0


@pytest.mark.thorough
def test_a_thread_finds_nothing_before_it_is_filled(read_only: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.write_text("a file where the folder should be")
    filling = beside.creation_sql

    def slow(kind: Companion) -> str:
        time.sleep(0.1)
        return filling(kind)

    monkeypatch.setattr("schema.open.beside.creation_sql", slow)
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(n_annotations, [read_only] * 3)) == [0] * 3


@pytest.mark.thorough
def test_a_relative_cache_folder_is_none(alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert shown(alone)[0] == {True}
    assert [file.name for file in tmp_path.iterdir()] == ["home"]


@pytest.mark.thorough
def test_a_file_that_is_no_atlas_is_named_by_its_own_tables(kept: Path, tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "other.duckdb") as con:
        con.execute("CREATE TABLE weather (day DATE)")
    with pytest.raises(NotAnAtlas, match="it is a DuckDB file with weather, and without"):
        atlas.open(tmp_path / "other.duckdb")
