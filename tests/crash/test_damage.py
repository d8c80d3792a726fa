"""`atlas verify` reads an atlas, its keys and what lies beside it, and notices what is not what was written; all ways of damage: `make damage`."""

import os
import shutil
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from atlas.cli.verify import command as verify
from ingest.store.doctor_cli import doctor
from schema import reading_back
from schema.errors import AtlasError
from schema.key_files import keys_folder
from schema.open.kinds import Companion, kinds
from schema.open.store import HEADER_BYTES
from schema.table_digests import digest_tables, store_digests
from tests.crash import damage


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return damage.write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def atlas(world: Path, tmp_path: Path) -> Path:
    """A copy of it, with all that lies beside it."""
    shutil.copytree(world.parent, tmp_path / "copy")
    return tmp_path / "copy" / world.name


def ask(*arguments: object) -> Result:
    return CliRunner().invoke(verify, [*map(str, arguments)])


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1 << 7
    file.write_bytes(data)


def add_unread(atlas: Path) -> int:
    """Give a run a long text, which no rule reads; returns a place in the file that holds a part of it and nothing else."""
    with closing(duckdb.connect(str(atlas))) as con:
        con.execute("UPDATE run SET versions = (SELECT to_json(string_agg(md5(i::VARCHAR), '')) FROM range(40000) AS r (i)) WHERE run_id = 0")
        store_digests(con, "tiny", digest_tables(con, "tiny"))
    with closing(duckdb.connect(str(atlas), read_only=True)) as con:
        found = con.execute("SELECT s.additional_block_ids FROM pragma_storage_info('run') AS s WHERE s.column_name = 'versions'").fetchall()
        ((size,),) = con.execute("SELECT p.block_size FROM pragma_database_size() AS p").fetchall()
    return HEADER_BYTES + size * next(blocks[0] for (blocks,) in found if blocks) + 1000


@pytest.mark.thorough
def test_what_is_whole_is_said_to_be(atlas: Path) -> None:
    done = ask(atlas)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    read = [Path(line.split(":")[0].removeprefix("ok      ")).name for line in lines[: 1 + len(kinds())]]
    assert read == [atlas.name, *(kind.path(atlas).name for kind in kinds())]
    assert "and 2 files of keys are as they were written" in lines[0]
    assert lines[-1].endswith(f"rules hold; {1 + len(kinds())} files are as they were written")


@pytest.mark.thorough
def test_a_flipped_bit_in_a_column_that_no_rule_reads(atlas: Path) -> None:
    flip(atlas, add_unread(atlas))
    # the rules alone do not see it
    assert ask(atlas, "--quick").exit_code == 0
    done = ask(atlas, "--quiet")
    assert isinstance(done.exception, AtlasError)
    assert str(done.exception) == f"damaged: {atlas}. Restore it from a backup, or see what `atlas doctor {atlas}` proposes"
    (line,) = done.output.splitlines()
    assert line.startswith(f"DAMAGED {atlas}: the table run cannot be read: IO Error: Corrupt database file: computed checksum")


@pytest.mark.ci_cases(3)
@pytest.mark.first_cases(0)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE trigger SET coefficient = coefficient + 1 WHERE rank = 1", "the table trigger has other rows than were written"),
        ("DELETE FROM trigger WHERE rank = 3", "the table trigger has 96 rows, but 144 were written"),
        ("ALTER TABLE trigger RENAME coefficient TO other", "the table trigger has other rows than were written"),
        ("COMMENT ON COLUMN trigger.coefficient IS 'another'", "the table trigger has other columns than were written"),
        ("DELETE FROM table_digest WHERE table_name = 'trigger'", "the table trigger was not written with the others, or its digest is missing"),
        ("DROP TABLE map_point", "the table map_point is missing"),
    ],
)
def test_what_still_reads_and_is_not_what_was_written(atlas: Path, change: str, said: str) -> None:
    with closing(duckdb.connect(str(atlas))) as con:
        con.execute(change)
    done = ask(atlas, "--quiet")
    assert isinstance(done.exception, AtlasError)
    assert done.output == f"DAMAGED {atlas}: {said}\n"
    assert f"{atlas} does not read back as it was written: {said}" in CliRunner().invoke(doctor, [str(atlas)]).output


@pytest.mark.thorough
def test_rows_in_another_order_are_the_same(atlas: Path) -> None:
    with closing(duckdb.connect(str(atlas))) as con:
        con.execute("CREATE TEMP TABLE t AS FROM trigger ORDER BY hash(position_id, rank); DELETE FROM trigger; INSERT INTO trigger FROM t")
        con.execute("ALTER TABLE trigger ADD COLUMN later INTEGER")
    assert ask(atlas, "--quiet").output == f"DAMAGED {atlas}: the table trigger has other columns than were written\n"
    with closing(duckdb.connect(str(atlas))) as con:
        con.execute("ALTER TABLE trigger DROP COLUMN later")
    assert ask(atlas, "--quiet").exit_code == 0


@pytest.mark.thorough
def test_without_digests_it_is_read_and_that_is_said(atlas: Path) -> None:
    with closing(duckdb.connect(str(atlas))) as con:
        con.execute("DELETE FROM table_digest; UPDATE trigger SET preceding_scale = 9")
    done = ask(atlas, "--quiet")
    assert done.exit_code == 0, done.output
    assert done.output.endswith(f"; no digests tell whether {atlas} is as it was written\n")


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("harm", ["flipped", "gone"])
def test_keys(atlas: Path, harm: str) -> None:
    file = keys_folder(atlas) / "101.parquet"
    if harm == "flipped":
        flip(file, 500)
    else:
        file.unlink()
    said = f"{file} is {'missing' if harm == 'gone' else 'not the file that was written'}"
    done = ask(atlas, "--quiet")
    assert (done.exit_code, done.output) == (1, f"DAMAGED {atlas}: {said}\n")
    doctored = CliRunner().invoke(doctor, [str(atlas), "--repair"])
    assert f"{said}\n    to do: run the ingest again, with --keys as before" in doctored.output
    assert atlas.exists()


@pytest.mark.thorough
def test_an_atlas_without_the_folder_of_its_keys_is_whole(atlas: Path) -> None:
    shutil.rmtree(keys_folder(atlas))
    done = ask(atlas)
    assert done.exit_code == 0, done.output
    assert "files of keys" not in done.output


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_a_file_beside_it(atlas: Path, kind: Companion) -> None:
    file = kind.path(atlas)
    with closing(duckdb.connect(str(file))) as con:
        table = con.execute("SELECT t.table_name FROM duckdb_tables() AS t WHERE t.estimated_size > 1 ORDER BY ALL").fetchall()[0][0]
        con.execute(f"DELETE FROM {table} WHERE rowid = 1")
    done = ask(atlas, "--quiet")
    assert done.exit_code == 1
    assert done.output.startswith(f"DAMAGED {file}: the table {table} has ")


@pytest.mark.thorough
@pytest.mark.parametrize("how", damage.WAYS)
def test_a_sample_of_what_disks_do(world: Path, how: str) -> None:
    """More of each: `make damage`."""
    assert [found for seed in range(2) if (found := damage.damage(world, how, seed)).kind.isupper()] == []


def end_reader(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Let the process that reads a file end in this way."""
    command = [sys.executable, "-c", f"import os; {how}"]
    monkeypatch.setattr(reading_back, "command_of", lambda _: (command, {**os.environ}))


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_reader_that_is_stopped_says_nothing_of_the_file(atlas: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    end_reader(monkeypatch, f"import signal; os.kill(os.getpid(), signal.{name})")
    done = ask(atlas)
    assert done.exit_code == 1
    assert f"the signal {name} ended the process that read {atlas}, so the file was not checked; run the command again" in str(done.exception)
    assert "DAMAGED" not in done.output


@pytest.mark.parametrize(("how", "said"), [("pass", "the process that read it ended without a message"), ("raise SystemExit('no memory')", "no memory")])
def test_a_reader_that_says_nothing_of_a_file_is_an_error(atlas: Path, monkeypatch: pytest.MonkeyPatch, how: str, said: str) -> None:
    end_reader(monkeypatch, how)
    done = ask(atlas)
    assert done.exit_code == 1
    assert f"cannot read {atlas}: {said}" in str(done.exception)


def test_a_file_that_its_reader_does_not_live_through_is_damaged(atlas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end_reader(monkeypatch, "os.abort()")
    done = ask(atlas)
    assert done.exit_code == 1
    assert f"DAMAGED {atlas}: reading it crashes DuckDB (SIGABRT)" in done.output


def test_a_name_that_a_terminal_would_act_on_is_shown(atlas: Path) -> None:
    with closing(duckdb.connect(str(atlas))) as con:
        con.execute('CREATE TABLE "\x1b]0;owned\x07" (i INTEGER)')
    done = ask(atlas)
    assert done.exit_code == 1
    assert "was not written with the others" in done.output
    assert "\x1b" not in done.output
    assert "\x07" not in done.output
