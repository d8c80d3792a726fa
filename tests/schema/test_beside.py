"""A second kind of file beside an atlas, with its own tables, view and question, which another distribution brings."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

import atlas
from atlas.beside.annotations import ANNOTATIONS
from atlas.beside.collections import COLLECTIONS
from atlas.beside.experiments import EXPERIMENTS
from atlas.beside.retrieval import RETRIEVALS
from atlas.cli.main import cli
from atlas.dictionary import describe_blank
from ingest.store.doctor import findings
from schema.errors import AtlasError, Locked, NotAnAtlas, QueryRefused
from schema.open import locks
from schema.open.change import change_companion
from schema.open.kinds import kind_of, kinds
from tests.atlas.annotations.tiny_annotations import write_tiny_annotations
from tests.atlas.tiny_atlas import write_tiny_atlas
from tests.distribution import installed
from tests.schema.conftest import without_second_names
from tests.schema.noise.trials import TRIALS

EFFECTS = "INSERT INTO trials.trial VALUES (0, 0, 0.5), (1, 1, 2.0), (2, 1, 4.0), (3, 2, 1.0)"


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with installed(tmp_path / "site", {"activation_atlas.beside": {"trials": "tests.schema.noise.trials:TRIALS"}}):
        yield write_tiny_atlas(tmp_path / "tiny.duckdb")


@pytest.fixture
def tried(path: Path) -> Path:
    with change_companion(TRIALS, path) as con:
        con.execute(EFFECTS)
    return path


def test_there_are_four_kinds_of_our_own() -> None:
    assert kinds() == (ANNOTATIONS, COLLECTIONS, EXPERIMENTS, RETRIEVALS)


@pytest.mark.thorough
def test_without_a_file_its_tables_are_there_and_empty(path: Path) -> None:
    with atlas.open(path) as a:
        assert a.sql("FROM trials.trial").columns == ["trial_id", "layer", "effect"]
        assert a.largest_effects().is_empty()
        assert a.geva2021_fig2().is_empty()
    assert sorted(p.name for p in path.parent.glob("*.duckdb*")) == ["tiny.duckdb"]
    ran = CliRunner().invoke(cli, ["ask", "largest_effects", "--db", str(path)])
    assert ran.stderr == "note: no rows, because this atlas has no trials that the question reads (atlas try status)\n"


@pytest.mark.thorough
def test_what_is_kept_is_read_beside_the_annotations(tried: Path) -> None:
    write_tiny_annotations(tried)
    with atlas.open(tried) as a:
        assert a.largest_effects().rows() == [(1, 3.0), (2, 1.0)]
        assert a.largest_effects(n=1).rows() == [(1, 3.0)]
        assert a.sql("SELECT t.effect FROM trials.trial AS t INNER JOIN neuron AS n USING (layer) WHERE n.neuron = 0 AND t.layer = 0").item() == 0.5
        assert a.geva2021_fig2().height > 0
        assert a.schema().filter(relation="trials.trial")["meaning"].to_list() == [None, None, "Change of the loss, in nats."]
    assert "trials.layer_effect" in describe_blank()["relation"].to_list()
    assert TRIALS.path(tried) == tried.with_name("tiny.trials.duckdb")


@pytest.mark.thorough
@pytest.mark.parametrize("own_process", [False, True])
def test_a_typed_statement_reads_it_and_cannot_write_it(tried: Path, own_process: bool) -> None:
    before = TRIALS.path(tried).read_bytes()
    with atlas.open(tried) as a:
        if not own_process:
            assert a.sql("FROM trials.largest_effects(1)").item(0, 1) == 3.0
        for statement in ("DELETE FROM trials.trial", "DETACH trials", f"ATTACH '{TRIALS.path(tried)}' AS x", "COPY trials.trial TO 'x.csv'"):
            with pytest.raises(QueryRefused):
                a.sql(statement, own_process=own_process)
        with pytest.raises(duckdb.Error):
            a.con.execute("DELETE FROM trials.trial")
        with pytest.raises(duckdb.Error):
            a.con.execute(f"ATTACH '{TRIALS.path(tried)}' AS x")
    assert TRIALS.path(tried).read_bytes() == before


@pytest.mark.thorough
def test_an_open_atlas_keeps_what_it_attached_and_a_change_that_fails_leaves_nothing(tried: Path) -> None:
    before = TRIALS.path(tried).read_bytes()
    with pytest.raises(duckdb.Error), change_companion(TRIALS, tried) as con:
        con.execute("DELETE FROM trials.trial; SELECT no_such_column")
    assert TRIALS.path(tried).read_bytes() == before
    with atlas.open(tried) as a:
        with change_companion(TRIALS, tried) as con:
            con.execute("DELETE FROM trials.trial")
        assert a.largest_effects().height == 2
        with atlas.open(tried) as b:
            assert b.largest_effects().height == 0
    assert sorted(p.name for p in tried.parent.glob("tiny*")) == ["tiny.duckdb", "tiny.trials.duckdb"]


@pytest.mark.thorough
def test_who_waits_too_long_for_another_change_is_told(tried: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "PATIENCE", 0.2)
    code = (
        "from schema.open.change import change_companion\nfrom tests.schema.noise.trials import TRIALS\n"
        f"with change_companion(TRIALS, {str(tried)!r}):\n    print(1, flush=True)\n    input()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(Locked, match="another process is changing the trials"), change_companion(TRIALS, tried):
            pass
        # another kind is another file
        write_tiny_annotations(tried)
        other.communicate("\n")
    assert other.returncode == 0


def rewritten(path: Path, statement: str) -> None:
    with closing(duckdb.connect()) as con:
        con.execute(f"ATTACH '{TRIALS.path(path)}' AS trials; {statement}")


@pytest.mark.thorough
def test_the_rows_of_another_release_are_read_with_the_questions_of_this(tried: Path) -> None:
    rewritten(tried, "UPDATE trials.trial_schema SET derived_sha256 = 'older'; DROP MACRO TABLE trials.largest_effects; ALTER TABLE trials.trial DROP layer")
    rewritten(tried, "ALTER TABLE trials.trial ADD COLUMN layer SMALLINT; UPDATE trials.trial SET layer = 1")
    before = TRIALS.path(tried).read_bytes()
    with atlas.open(tried) as a:
        assert a.largest_effects().rows() == [(1, 1.875)]
    assert TRIALS.path(tried).read_bytes() == before


def test_a_file_of_another_version_is_refused(tried: Path) -> None:
    rewritten(tried, "UPDATE trials.trial_schema SET version = 9")
    with pytest.raises(AtlasError, match=r"tiny\.trials\.duckdb has version 9; this is activation-atlas for trials of version 3"):
        atlas.open(tried)


@pytest.mark.thorough
def test_a_file_that_is_none_is_refused_with_what_to_do_and_found_by_the_doctor(path: Path) -> None:
    TRIALS.path(path).write_text("no database")
    with pytest.raises(AtlasError, match=r"cannot read the trials in .*tiny\.trials\.duckdb.*Move the file away"):
        atlas.open(path)
    assert [(f.what.split(" does")[0], f.remedy) for f in findings(path)] == [
        (str(TRIALS.path(path)), "no repair changes trials: restore the file from a backup, or try again")
    ]


@pytest.mark.thorough
def test_its_name_is_taken_and_its_file_no_atlas(tried: Path) -> None:
    renamed = tried.with_name("trials.duckdb")
    renamed.write_bytes(tried.read_bytes())
    with pytest.raises(AtlasError, match="an atlas cannot be called trials"):
        atlas.open(renamed)
    renamed.unlink()
    with pytest.raises(NotAnAtlas, match=r"atlases beside it: tiny\.duckdb$"):
        atlas.open(tried.with_name("other.duckdb"))
    assert kind_of(TRIALS.path(tried)) == TRIALS
    assert kind_of(tried) is None


ADDITIONS = [
    "CREATE TABLE note (text VARCHAR)",
    "ALTER TABLE trial ADD COLUMN note VARCHAR DEFAULT 'n'",
    "CREATE SCHEMA mine; CREATE TABLE mine.note AS SELECT 'my note' AS text",
    "CREATE TABLE note (a INTEGER, text INTEGER GENERATED ALWAYS AS (a + 1))",
    "CREATE SEQUENCE note",
]


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("addition", ADDITIONS)
def test_what_a_later_release_keeps_is_read_without_and_not_dropped_by_a_change(tried: Path, addition: str) -> None:
    target = TRIALS.path(tried)
    with closing(duckdb.connect(target)) as con:
        con.execute(addition)
        con.execute("UPDATE trial_schema SET derived_sha256 = 'later'")
    before = target.read_bytes()
    with atlas.open(tried) as a:
        assert a.largest_effects().rows() == [(1, 3.0), (2, 1.0)]
    with (
        pytest.raises(
            AtlasError, match=r"has tables or columns that this release does not know, and a change would drop them: ((mine\.)?note\.|(trial|sequence)\.note)"
        ),
        change_companion(TRIALS, tried),
    ):
        pass
    assert target.read_bytes() == before
    assert not list(tried.parent.glob("*.tmp*"))


@pytest.mark.thorough
def test_rows_of_other_types_are_one_line(tried: Path) -> None:
    with closing(duckdb.connect(TRIALS.path(tried))) as con:
        con.execute("ALTER TABLE trial ALTER effect TYPE VARCHAR")
        con.execute("UPDATE trial SET effect = 'large'")
        con.execute("UPDATE trial_schema SET derived_sha256 = 'later'")
    with pytest.raises(AtlasError, match=r"cannot read the trials in .*tiny\.trials\.duckdb: Conversion Error"):
        atlas.open(tried)


@pytest.mark.thorough
def test_what_a_killed_change_left_goes_with_the_next_and_nothing_that_has_another_name(tried: Path) -> None:
    target = TRIALS.path(tried)
    left = [target.with_name(f".{target.name}.{'0af' * 5}0.tmp"), target.with_name(f".{target.name}.{'0af' * 5}0.tmp.wal")]
    mine = [target.with_name(f"{target.name}.tmp"), target.with_name(f".{target.name}.mine.tmp"), target.with_name(f".{target.name}.{'0af' * 5}x.tmp")]
    for path in [*left, *mine]:
        path.write_bytes(target.read_bytes()[:4096])
    with change_companion(TRIALS, tried) as con:
        con.execute("DELETE FROM trials.trial WHERE trial_id = 0")
    with atlas.open(tried) as a:
        assert a.sql("SELECT count(*) AS n FROM trials.trial").item() == 3
    assert [path.exists() for path in [*left, *mine]] == [False, False, True, True, True]


@pytest.mark.thorough
def test_who_opens_an_atlas_while_a_change_gets_its_name_finds_it_free(tried: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"import atlas\nwith atlas.open({str(tried)!r}) as a:\n    print(a.sql('SELECT count(*) AS n FROM collections.collection').item())"
    replace, said = Path.replace, []

    def renamed(path: Path, to: Path) -> None:
        replace(path, to)
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=60)
        said.append(found.stdout + found.stderr)

    monkeypatch.setattr(Path, "replace", renamed)
    with change_companion(COLLECTIONS, tried):
        pass
    assert said == ["0\n"]


def test_a_file_that_another_program_has_open_is_waited_for_and_not_moved_away(tried: Path) -> None:
    code = f"import duckdb\ncon = duckdb.connect({str(TRIALS.path(tried))!r})\nprint(1, flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        other.stdout.readline()
        for use in (lambda: atlas.open(tried), change_companion(TRIALS, tried).__enter__):
            with pytest.raises(Locked, match=rf"which holds the trials, is in use by another process: .*PID {other.pid}\)\. Wait for it, or close it there\.$"):
                use()
        other.communicate("\n")


def test_a_link_is_followed_and_one_to_nothing_said_to_be(tried: Path, tmp_path: Path) -> None:
    target, shared = TRIALS.path(tried), tmp_path / "shared" / "tiny.trials.duckdb"
    shared.parent.mkdir()
    target.rename(shared)
    shared.chmod(0o600)
    target.symlink_to(shared)
    with change_companion(TRIALS, tried) as con:
        con.execute("DELETE FROM trials.trial WHERE trial_id = 0")
    assert target.is_symlink()
    assert shared.stat().st_mode & 0o777 == 0o600
    with closing(duckdb.connect(shared, read_only=True)) as con:
        assert con.execute("SELECT count(*) FROM trial").fetchall() == [(3,)]
    shared.unlink()
    for use in (lambda: atlas.open(tried), change_companion(TRIALS, tried).__enter__):
        with pytest.raises(AtlasError, match=r"tiny\.trials\.duckdb is a link to .*shared/tiny\.trials\.duckdb, which does not exist: restore that file"):
            use()
    assert target.is_symlink()


def test_a_disk_that_fills_at_the_end_is_said(tried: Path) -> None:
    before = TRIALS.path(tried).read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_up() -> None:
        with change_companion(TRIALS, tried) as con:
            con.execute("INSERT INTO trials.trial SELECT i, 1, 0.5 FROM range(10, 300000) AS r (i)")
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))

    try:
        with pytest.raises(AtlasError, match=r"tiny\.trials\.duckdb cannot be written, and is unchanged: "):
            fill_up()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert TRIALS.path(tried).read_bytes() == before
    assert not list(tried.parent.glob("*.tmp*"))


def test_connections_that_share_a_file_share_what_was_attached(tried: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a folder that may only be read, of a file whose questions are another release's: the copy with this one's is another each time."""
    rewritten(tried, "UPDATE trials.trial_schema SET derived_sha256 = 'older'")
    without_second_names(monkeypatch, tried.parent)
    with atlas.open(tried), atlas.open(tried) as second:
        assert second.largest_effects().rows() == [(1, 3.0), (2, 1.0)]
