"""The file of experiments: saved whole, added to arm by arm, and left as it was by whatever goes wrong."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner

import atlas
from atlas import AtlasError
from atlas.beside.annotations import ANNOTATIONS
from atlas.beside.experiments import EXPERIMENTS, inserting, store
from atlas.beside.experiments.store import add, remove, save
from atlas.cli.main import cli
from atlas.live.saving import save_answer
from schema.open.change import change_companion
from schema.open.store import open_writer
from tests.atlas.experiments.looking import ids, rewritten
from tests.atlas.experiments.tiny_experiments import ARMS, BASE, arrow, experiment, live, suppression, tables, tracing, with_arms
from tests.atlas.experiments.tiny_experiments import THE_CAT as CAT

ROOT = Path(__file__).parents[3]


ROW = experiment("live", "begun", status="running", finished_at=None)


def begun(path: Path) -> int:
    return save(path, arrow(tables(ROW, [CAT], **with_arms([BASE]))))


def test_an_atlas_without_experiments_answers_with_no_rows(path: Path) -> None:
    with atlas.open(path) as a:
        assert a.experiment_summary().is_empty()
        assert a.sql("FROM experiments.outcome").columns[:4] == ["experiment_id", "arm_id", "prompt_id", "index"]
        with pytest.raises(AtlasError, match=r"no experiment 0; there are none yet \(atlas experiment list\)"):
            a.arm_effects(0)
    assert not EXPERIMENTS.path(path).exists()


def test_parts_that_wait_for_an_experiment_are_not_taken_for_a_new_ones(path: Path) -> None:
    first = begun(path)
    with closing(open_writer(EXPERIMENTS.path(path))) as con:
        con.execute("INSERT INTO part BY NAME SELECT ? AS experiment_id, r.range::INTEGER AS part, 'done' AS name FROM range(3) AS r", [first + 1])
    second = begun(path)
    assert second == first + 2
    with atlas.open(path) as a:
        assert a.sql(f"SELECT count(*) FROM experiments.part WHERE experiment_id = {second}").item() == 0


@pytest.mark.thorough
def test_both_files_beside_one_atlas(full_path: Path, tiny_path: Path) -> None:
    shutil.copy(ANNOTATIONS.path(tiny_path), ANNOTATIONS.path(full_path))
    with atlas.open(full_path) as a:
        assert a.geva2021_fig2().height > 0
        assert a.arm_effects(0).height == 5
        sql = "SELECT t.text FROM experiments.prompt AS p INNER JOIN token AS t ON p.answer_token_id = t.token_id WHERE p.experiment_id = 0 AND p.prompt_id = 0"
        assert a.sql(sql).item() == " sat"
        assert (
            a.sql("SELECT count(*) FROM experiments.arm AS e CROSS JOIN annotations.annotation AS a WHERE e.experiment_id = 0", own_process=True).item() == 60
        )
    assert save(full_path, arrow(live())) == 6
    with change_companion(ANNOTATIONS, full_path) as con:
        con.execute("DELETE FROM annotations.pattern_match")
    assert ids(full_path) == list(range(7))


def test_the_file_answers_without_us(full_path: Path) -> None:
    """Any DuckDB: attach, ask."""
    con = duckdb.connect()
    con.execute(f"ATTACH '{EXPERIMENTS.path(full_path)}' AS experiments (READ_ONLY)")
    assert con.execute("SELECT token, base_token FROM experiments.before_after(0, 0, 1) WHERE index = 1 AND rank = 1").fetchall() == [(" cat", " sat")]


@pytest.mark.thorough
def test_experiments_of_another_model_are_left_out_and_none_is_added(full_path: Path) -> None:
    n = len(ids(full_path))
    con = open_writer(full_path)
    con.execute("UPDATE model SET weights_sha256 = 'others'")
    con.close()
    with atlas.open(full_path) as a:
        said = f"experiments: {n} of another model than this atlas's, not shown here, but kept in the file"
        assert said in a.status().notes
        assert a.experiment_summary().is_empty()
        with pytest.raises(AtlasError, match=rf"no experiment 0; .*\(atlas experiment list; {said}\)"):
            a.arm_effects(0)
        assert a.sql("SELECT count(*) FROM experiments.outcome", own_process=True).item() == 0
    with pytest.raises(AtlasError, match="experiments are of the model of the atlas"):
        save(full_path, arrow(live()))
    with pytest.raises(AtlasError, match="no experiment 0"):
        remove(full_path, 0)
    assert f"note: {said}\n" in CliRunner().invoke(cli, ["experiment", "list", "--db", str(full_path)]).stderr
    with closing(open_writer(EXPERIMENTS.path(full_path))) as con:
        assert con.execute("SELECT count(*) FROM experiment").fetchall() == [(n,)]


def test_texts_of_another_vocabulary_do_not_stand_under_the_numbers_of_this_one(full_path: Path) -> None:
    before = EXPERIMENTS.path(full_path).read_bytes()
    con = open_writer(full_path)
    con.execute("UPDATE token SET text = ' HUND' WHERE text = ' dog'; UPDATE token SET text = ' saß' WHERE text = ' sat'")
    con.close()
    with pytest.raises(
        AtlasError,
        match="are of a model whose token .* is ' .*'; in this atlas's model it is ' .*'. One file .* both models: move the file of experiments away",
    ):
        save(full_path, arrow(live()))
    assert EXPERIMENTS.path(full_path).read_bytes() == before


def test_a_file_of_another_version_is_refused(full_path: Path) -> None:
    rewritten(full_path, "UPDATE experiments.experiment_schema SET version = 0")
    said = r"tiny\.experiments\.duckdb has version 0; this is activation-atlas for experiments of version 1"
    with pytest.raises(AtlasError, match=said):
        atlas.open(full_path)
    with pytest.raises(AtlasError, match=said):
        save(full_path, arrow(live()))


def test_what_a_stranger_defined_in_the_file_is_not_run(full_path: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    ends = f"SELECT 'ww' AS weights_sha256 FROM enable_logging('QueryLog', storage = 'file', storage_config = {{'path': '{logs}'}})"
    rewritten(full_path, f"ALTER TABLE experiments.experiment RENAME TO kept; CREATE VIEW experiments.experiment AS {ends}")
    with atlas.open(full_path) as a:
        assert a.experiment_summary().is_empty()
        assert a.sql("SELECT count(*) FROM experiments.arm").item() > 0
    assert not logs.exists()


@pytest.mark.thorough
def test_an_experiment_is_begun_and_added_to_arm_by_arm(path: Path) -> None:
    number = begun(path)
    rows = live()
    for arm_id in (1, 2):
        part = {name: [row for row in rows[name] if row["arm_id"] == arm_id and row.get("prompt_id", 0) == 0] for name in ("arm", "arm_change", "outcome")}
        add(path, number, arrow(part), is_last=arm_id == 2, row=ROW)
        with atlas.open(path) as a:
            assert a.arm_effects(number)["arm"].to_list() == list(range(arm_id + 1))
            assert a.experiment_summary()["status"].to_list() == ["finished" if arm_id == 2 else "running"]
            assert a.sql("SELECT finished_at IS NULL FROM experiments.experiment").item() == (arm_id == 1)
    with pytest.raises(AtlasError, match="experiment 0 is finished, so nothing can be added to it"):
        add(path, number, {}, is_last=True, row=ROW)


def test_what_is_added_twice_is_refused(path: Path) -> None:
    number = begun(path)
    before = EXPERIMENTS.path(path).read_bytes()
    with pytest.raises(AtlasError, match="one row per experiment_id, arm_id"):
        add(path, number, arrow(with_arms([BASE])), is_last=False, row=ROW)
    with pytest.raises(AtlasError, match="experiment 0 has its row"):
        add(path, number, arrow(live()), is_last=False, row=ROW)
    with pytest.raises(AtlasError, match="no experiment 7; available: 0"):
        add(path, 7, {}, is_last=False, row=ROW)
    assert EXPERIMENTS.path(path).read_bytes() == before


@pytest.mark.thorough
def test_a_removed_experiment_leaves_the_others_and_no_texts_of_its_own(path: Path) -> None:
    for made in (tracing, suppression):
        save(path, arrow(made()))
    remove(path, 0)
    assert ids(path) == [1]
    with atlas.open(path) as a:
        assert a.sql("SELECT list(token_id ORDER BY token_id) FROM experiments.token_text").item().to_list() == [1, 2, 3, 5, 10]
        assert a.sql("SELECT count(*) FROM experiments.effect").item() == 0
        assert a.arm_effects(1).height == 4
    with pytest.raises(AtlasError, match="no experiment 0; available: 1"):
        remove(path, 0)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda t: t.pop("experiment"), "the table `experiment` must have one row; it has 0"),
        (lambda t: t.update(trace=t["arm"]), "experiments have no table trace; they have arm, arm_change"),
        (lambda t: t.update(token_text=t["arm"]), "experiments have no table token_text"),
        (lambda t: t["outcome"][0].update(loss=1.0), "the table outcome of experiments has no column loss; it has experiment_id, arm_id"),
        (lambda t: t["prompt"][0].update(text=None), "these rows do not fit the table prompt of experiments: Constraint Error: NOT NULL"),
        (lambda t: t["experiment"][0].update(status="guess"), "these rows do not fit the table experiment of experiments: Constraint Error: CHECK"),
        (lambda t: t["experiment"][0].update(settings="no JSON"), "do not fit the table experiment of experiments: Conversion Error: Malformed JSON"),
        (lambda t: [row.pop("role") for row in t["arm"]], "these rows do not fit the table arm of experiments: Constraint Error: NOT NULL"),
    ],
)  # fmt: skip
def test_what_the_tables_do_not_hold_is_refused_and_nothing_changes(path: Path, spoil: Callable, said: str) -> None:
    rows = live()
    spoil(rows)
    with pytest.raises(AtlasError, match=said):
        save(path, arrow(rows))
    assert sorted(p.name for p in path.parent.glob("tiny*")) == ["tiny.duckdb"]


def test_a_file_that_would_grow_too_large_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(path)
    monkeypatch.setattr(inserting, "MOST_BYTES", 1 << 20)
    said = r"experiments would take \d MB, and may take at most 1 MB, since every change rewrites their file. `atlas experiment remove` removes one"
    with pytest.raises(AtlasError, match=said):
        save(path, arrow(live()))
    long = arrow(live()) | {"experiment": pa.Table.from_pylist([experiment("live", "x" * 2_000_000)])}
    monkeypatch.setattr(store, "keep_texts", lambda *_: pytest.fail("it was inserted"))
    with pytest.raises(AtlasError, match="experiments would take 2 MB"):
        save(path, long)
    assert ids(path) == [0]


@pytest.mark.thorough
def test_an_open_atlas_is_no_hindrance_and_keeps_what_it_has(full_path: Path) -> None:
    with atlas.open(full_path) as a:
        assert save(full_path, arrow(tracing())) == 6
        remove(full_path, 0)
        assert a.experiment_summary()["experiment"].to_list() == list(range(6))
        assert a.arm_effects(0).height == 5
    assert ids(full_path) == list(range(1, 7))


SAVER = """
import sys
from pathlib import Path
from atlas.beside.experiments.store import save
from tests.atlas.experiments.tiny_experiments import arrow, live
for _ in range({n}):
    print(save({path!r}, arrow(live())), flush=True)
"""


def saver(path: Path, n: int) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", SAVER.format(n=n, path=str(path))], stdout=subprocess.PIPE, text=True, cwd=ROOT)


@pytest.mark.thorough
def test_of_two_processes_that_save_neither_loses_an_experiment(path: Path) -> None:
    """With threads of this one between them."""
    with saver(path, 3) as other:
        with ThreadPoolExecutor(2) as threads:
            ours = list(threads.map(lambda _: save(path, arrow(live())), range(3)))
        said, _ = other.communicate()
    assert other.returncode == 0
    assert sorted([*ours, *map(int, said.split())]) == ids(path) == list(range(6))


KILLED = """
import os, random, signal, sys, time
import atlas.beside.experiments.rules
from atlas.beside.experiments.store import save
from tests.atlas.experiments.tiny_experiments import arrow, tracing

draw = random.Random(0)

def saving():
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        rows = arrow(tracing())
        while True:
            os.write(writer, b"%d\\n" % save(sys.argv[1], rows))
    os.close(writer)
    return child, os.fdopen(reader)

def killed(child, said):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(said.read(), end="", flush=True)

start = time.monotonic()
child, said = saving()
print(said.readline(), end="")
took = time.monotonic() - start
killed(child, said)
for _ in range(24):
    child, said = saving()
    time.sleep(draw.uniform(0, took))
    killed(child, said)
"""
"""A process that has opened nothing forks others, which save until it kills them, a few dozen, and prints the ids of what they say that they saved."""


@pytest.mark.thorough
def test_killed_at_any_moment_the_last_good_file_is_there(path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", KILLED, str(path)], capture_output=True, text=True, cwd=ROOT, check=True)
    kept = [int(line) for line in ran.stdout.split()]
    with atlas.open(path) as a:
        there = a.experiment_summary()["experiment"].to_list()
        cells = a.sql("SELECT experiment_id, count(*) AS n FROM experiments.effect GROUP BY ALL ORDER BY ALL").rows()
    # one that was saved and not yet said to be may be there too
    assert kept and set(kept) <= set(there) and there == list(range(len(there)))
    assert cells == [(i, len(tracing()["effect"])) for i in there]
    assert save(path, arrow(tracing())) == len(there)
    assert sorted(p.name for p in path.parent.glob("tiny*")) == ["tiny.duckdb", "tiny.experiments.duckdb"]


FULL = """
import resource, signal
from atlas.beside.experiments.store import save
from schema.errors import AtlasError
from tests.atlas.experiments.tiny_experiments import arrow, live
rows = arrow(live())
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))
try:
    save({path!r}, rows)
except AtlasError as error:
    print(error)
"""


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("limit", [20_000, 1_000_000])
def test_a_full_disk_leaves_the_last_good_file(full_path: Path, limit: int) -> None:
    before = EXPERIMENTS.path(full_path).read_bytes()
    assert len(before) > limit
    ran = subprocess.run([sys.executable, "-c", FULL.format(limit=limit, path=str(full_path))], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "tiny.experiments.duckdb cannot be written, and is unchanged: " in ran.stdout
    assert ran.stdout.count("\n") == 1
    assert EXPERIMENTS.path(full_path).read_bytes() == before
    assert sorted(p.name for p in full_path.parent.glob("tiny*")) == ["tiny.duckdb", "tiny.experiments.duckdb"]
    assert save(full_path, arrow(live())) == 6


def test_arms_that_were_done_are_told_apart_by_their_hash(full_path: Path) -> None:
    with atlas.open(full_path) as a:
        found = a.sql("SELECT sha256 FROM experiments.arm WHERE experiment_id = 0 ORDER BY arm_id")["sha256"].to_list()
    assert found == [row["sha256"] for row, _ in ARMS]
    assert len(set(found)) == len(found)


@pytest.mark.thorough
def test_what_experiments_are_called_is_said_on_one_line(path: Path) -> None:
    save(path, arrow(tables(experiment("live", "a\r\n\x1b[31mb \u2028" + "c" * 60), [CAT], **with_arms([BASE]))))
    with atlas.open(path) as a, pytest.raises(AtlasError, match=r"no experiment 9; available: 0: a \x1b\[31mb c+…") as said:
        a.arm_effects(9)
    assert len(str(said.value).splitlines()) == 1


@pytest.mark.parametrize("title", ["\ud800", "\udcff\udcfe", "a\ud800"])
def test_a_title_that_is_no_text_is_refused_in_words(path: Path, title: str) -> None:
    with pytest.raises(AtlasError, match="cannot be encoded in UTF-8: give another title or author"):
        save_answer(path, {}, title, None)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("experiment", "title", "NULL"),
        ("experiment", "started_at", "'never'"),
        ("experiment", "experiment_id", "'x' || experiment_id"),
        ("experiment", "settings", "repeat('[', 200000)"),
        ("experiment", "status", "'other'"),
        ("outcome", "arm_id", "2::HUGEINT ** 100"),
    ],
)
def test_columns_of_other_types_that_somebody_sent_are_refused_when_the_file_is_opened(full_path: Path, table: str, column: str, value: str) -> None:
    spoiled(
        full_path, f"CREATE TABLE sent AS SELECT * REPLACE (({value}) AS {column}) FROM {table}", f"DROP TABLE {table}", f"ALTER TABLE sent RENAME TO {table}"
    )
    with pytest.raises(AtlasError, match="cannot read the experiments in .*tiny.experiments.duckdb: ") as said:
        atlas.open(full_path)
    assert len(str(said.value).splitlines()) == 1


@pytest.mark.thorough
def test_a_column_that_somebody_added_is_not_there(full_path: Path) -> None:
    spoiled(full_path, 'ALTER TABLE arm ADD COLUMN "\x1b[31m" INTEGER')
    with atlas.open(full_path) as a:
        assert a.sql("FROM experiments.arm").columns == ["experiment_id", "arm_id", "name", "role", "interventions", "sha256", "draw"]


def spoiled(path: Path, *statements: str) -> None:
    with closing(duckdb.connect(EXPERIMENTS.path(path))) as con:
        for statement in statements:
            con.execute(statement)
