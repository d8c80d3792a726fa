"""A lake beside others and beside what a user keeps, on a disk and on S3: whatever is done to it, every byte that is not its own is there afterwards."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from uuid import uuid4

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from psycopg.conninfo import conninfo_to_dict
from pyarrow import fs

from ingest.store.committer import recover
from ingest.store.lake import doctor, marking
from ingest.store.lake.compact import compact, old_files, orphans
from ingest.store.lake.marking import check_place
from ingest.store.lake.place import Mark, Place, known_words
from ingest.store.lake.staging import Storage
from ingest.store.lake.store import LakeStore, opened_lake
from schema.errors import AtlasError
from schema.open.lake import Lake, attach, connect, describe
from schema.open.store import OFFLINE
from tests.exact.tiny import Tiny, run
from tests.lake.servers import Servers

pytestmark = pytest.mark.thorough

NUMBERS = count()
NO_MARK = Mark("a database", "0" * 32)
DUCKLAKE = f"ducklake-{uuid4()}.parquet"
THEIRS = (
    "measurements.parquet",
    "main/measurements.parquet",
    "main/trigger/measurements.parquet",
    "main/trigger/ducklake-notes.parquet",
    "main/trigger/deeper/" + DUCKLAKE,
    "shards/notes.parquet",
    "shards/notes/manifest.json",
    "shards/mine/000-00000-0123456789ab/manifest.json",
    "shards/000-00001-of-mine/trigger.parquet",
    "shards/000-00001-0123456789ab/notes/trigger.parquet",
    f"two/atlas-lake/{uuid4()}.json",
    "two/main/trigger/" + DUCKLAKE,
    "two/shards/000-00000-0123456789ab/trigger.parquet",
    "two/shards/000-00000-0123456789ab/manifest.json",
)
"""What others may keep in a lake's place, since nobody stops them."""
OWN = ("main/trigger/" + DUCKLAKE, "parts/trigger/" + DUCKLAKE, "shards/009-00000-0123456789ab/trigger.parquet")
"""What the lake's own writers leave when they are killed."""


class World:
    """A lake with rows in several files, and a database without a lake for those that are refused."""

    def __init__(self, folder: Path, catalogue: str, empty: str, data: str) -> None:
        self.path, self.empty, self.lake = folder / "one.lake", empty, Lake(catalogue, data)
        self.taken: dict[str, bytes] = {}
        describe(self.path, self.lake)
        with opened_lake(self.path) as store:
            for i in range(3):
                store.con.execute(f"INSERT INTO value_cluster (space, layer, neuron, cluster) SELECT 'value', {i}, range, 0 FROM range(20)")
            store.publish()

    @property
    def storage(self) -> tuple[fs.FileSystem, str]:
        system, shards = Storage(self.lake).open_filesystem()
        return system, shards.removesuffix("/shards")

    def put(self, *names: str, within: str = "") -> None:
        """Put what was taken back, and what is new there. within: another folder than the lake's place."""
        system, root = self.storage
        root = within.removeprefix("s3://") or root
        for name in names:
            system.create_dir(f"{root}/{name}".rpartition("/")[0], recursive=True)
            with system.open_output_stream(f"{root}/{name}") as stream:
                stream.write(self.taken.pop(name, name.encode()))

    def take(self, *names: str) -> None:
        system, root = self.storage
        for name in names:
            self.taken[name] = self.read(name)
            system.delete_file(f"{root}/{name}")

    def names(self) -> list[str]:
        system, root = self.storage
        found = system.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
        return [f.path.removeprefix(f"{root}/") for f in found if f.type == fs.FileType.File]

    def read(self, name: str) -> bytes:
        system, root = self.storage
        with system.open_input_stream(f"{root}/{name}") as stream:
            return stream.read()

    def files(self) -> dict[str, bytes]:
        """Name → content, but for the lake's own mark, which every opening renews."""
        return {name: b"" if name.startswith("atlas-lake/") else self.read(name) for name in self.names()}

    def marks(self) -> list[str]:
        return [name for name in self.names() if name.startswith("atlas-lake/")]

    def refusal(self, data: str) -> str:
        """What an ingest that makes a new lake there is told; '' where it is let in."""
        with psycopg.connect(self.empty, autocommit=True) as session:
            try:
                check_place(session, Lake(self.empty, data))
            except AtlasError as error:
                return str(error)
        return ""


@pytest.fixture(scope="module", params=["disk", "s3"])
def world(request: pytest.FixtureRequest, servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder, name = tmp_path_factory.mktemp("places"), f"places{next(NUMBERS)}"
    data = servers.data(f"{name}/one") if request.param == "s3" else str(folder / "files" / "one")
    return World(folder, servers.catalogue(name), servers.catalogue(f"{name}empty"), data)


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor does not read the tables, which takes longest."""
    monkeypatch.setattr(doctor, "table_findings", lambda _: iter(()))


@pytest.fixture
def beside(world: World) -> Iterator[dict[str, bytes]]:
    """What others have in the lake's place, until the test is over."""
    world.put(*THEIRS)
    yield {name: name.encode() for name in THEIRS}
    world.take(*THEIRS)


@pytest.fixture
def listed(world: World, tmp_path: Path) -> Iterator[Path]:
    """A user's file that the catalogue, which may be a stranger's, names among those to remove, as it does others'."""
    mine = tmp_path / "mine.parquet"
    mine.write_bytes(b"mine")
    with psycopg.connect(world.lake.catalogue, autocommit=True) as session:
        for path in (str(mine), f"{world.lake.data}/measurements.parquet", f"{world.lake.data}/main/../two/main/trigger/{DUCKLAKE}"):
            session.execute("INSERT INTO ducklake_files_scheduled_for_deletion VALUES (99, %s, false, now() - INTERVAL '9 days')", [path])
        yield mine
        session.execute("DELETE FROM ducklake_files_scheduled_for_deletion WHERE data_file_id = 99")


def test_compaction_removes_the_lakes_own_and_nothing_else(
    world: World, beside: dict[str, bytes], listed: Path, call: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put(*OWN)
    before = world.files()
    code, planned, err = call("compact", world.path, "--dry-run")
    assert code == 0, err
    assert world.files() == before
    named = {line.split(f"{world.lake.data}/")[1] for line in planned.splitlines()[:-1]}
    assert {line.split(f"{world.lake.data}/")[1] for line in planned.splitlines() if line.startswith("would remove")} == set(OWN)

    with monkeypatch.context() as patched:
        patched.setattr(LakeStore, "remove", lambda store, names, real=LakeStore.remove: (real(store, list(names)[:1]), stop()))
        with pytest.raises(KeyboardInterrupt):
            compact(world.path, 0)
    killed = world.files()
    assert len(before.keys() - killed.keys()) == 1, "killed after its first file"
    assert beside.items() <= killed.items()

    code, _, err = call("compact", world.path, "--keep-hours", "0")
    assert code == 0, err
    after = world.files()
    assert beside.items() <= after.items()
    assert listed.read_bytes() == b"mine"
    removed = before.keys() - after.keys()
    assert set(OWN) < removed <= named, "merged files are removed too, and all were listed"
    with opened_lake(world.path) as store:
        assert store.con.execute("SELECT count(*) FROM value_cluster").fetchall() == [(60,)]
        assert (list(old_files(store)), orphans(store)) == ([], [])


def stop() -> None:
    raise KeyboardInterrupt


def test_a_repair_removes_the_lakes_own_and_nothing_else(world: World, beside: dict[str, bytes], unread: None, call: Callable) -> None:
    world.put(*OWN)
    code, out, _ = call("doctor", world.path, "--repair", "--dry-run")
    assert code == 1
    assert [line.strip() for line in out.splitlines() if "would remove" in line] == [f"would remove {world.lake.data}/{name}" for name in sorted(OWN)]
    assert set(OWN) < world.files().keys()
    assert call("doctor", world.path, "--repair")[0] == 0
    after = world.files()
    assert beside.items() <= after.items()
    assert not after.keys() & set(OWN)


def test_a_new_lake_gets_an_empty_place_of_its_own(world: World) -> None:
    data = world.lake.data
    (mark,) = world.marks()
    elsewhere = "give --data an empty folder or prefix for this lake alone"
    assert world.refusal(data) == f"{data} is the place of another lake, whose mark is {data}/{mark}: {elsewhere}"
    assert world.refusal(f"{data}/main/two") == f"{data}/main/two lies in {data}, the place of another lake, whose mark is {data}/{mark}: {elsewhere}"
    above = data.removesuffix("/one")
    assert world.refusal(above) == f"{above} contains the place of another lake, whose mark is {data}/{mark}: {elsewhere}"
    assert world.refusal(f"{above}/three") == ""
    world.put("measurements.parquet", within=f"{above}/files")
    assert (
        world.refusal(f"{above}/files") == f"{above}/files is not empty: it contains measurements.parquet, which might be mistaken for the lake's: {elsewhere}"
    )


def test_an_ingest_into_anothers_place_writes_and_discards_nothing(world: World, tiny: Tiny, tmp_path: Path) -> None:
    """Of the ingest itself, and of a lake that an earlier version let in: its catalogue is there already, and the waiting shard of the first is not its own."""
    rows = pa.table({"space": ["value"], "layer": pa.array([0], pa.int16()), "neuron": pa.array([1], pa.int32()), "cluster": pa.array([0], pa.int32())})
    Storage(world.lake).write(0, 0, 70, {"value_cluster": rows})
    before = world.files()
    with pytest.raises(AtlasError, match="is the place of another lake, whose mark is"):
        run(tiny.request(tmp_path / "two.lake", lake=world.empty, data=world.lake.data))
    assert not (tmp_path / "two.lake").exists()

    second = Lake(world.empty, world.lake.data)
    with closing(connect(second, OFFLINE)) as con:
        attach(con, second)
    describe(tmp_path / "second.lake", second)
    with pytest.raises(AtlasError, match="is the place of another lake, whose mark is"), opened_lake(tmp_path / "second.lake") as store:
        recover(store)
    assert world.files() == before

    # neither has a mark, as earlier versions left none
    (mark,) = world.marks()
    world.take(mark)
    with (
        pytest.raises(AtlasError, match=r"has no valid mark, since an earlier version made the lake, .* unknown to the catalogue of .*second\.lake"),
        opened_lake(tmp_path / "second.lake"),
    ):
        pass
    world.put(mark)
    assert before.keys() == world.files().keys()
    with psycopg.connect(world.empty, autocommit=True) as session:
        session.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    with opened_lake(world.path) as store:
        store.staging.discard(store.staging.waiting_shards()[0])
        store.remove([name for name in store.place.files() if name.startswith("shards/000-00070-")])


def test_a_lake_of_an_earlier_version_gets_its_mark_where_nothing_strange_lies(world: World, unread: None, call: Callable) -> None:
    (mark,) = world.marks()
    world.take(mark)
    world.put("measurements.parquet", *OWN)
    code, _, err = call("compact", world.path)
    assert code == 1
    said = " ".join(err.split())
    assert (
        f"4 of its files are unknown to the catalogue of {world.path} ({OWN[0]}, measurements.parquet, {OWN[1]}, …): they may be another lake's, yours" in said
    )
    assert f"then `atlas doctor {world.path} --claim` marks the place as this lake's" in said
    assert world.marks() == []
    world.take("measurements.parquet", *OWN)
    # whoever is killed while he writes the mark leaves its draft
    draft = f"atlas-lake/.{Path(mark).name}.{'0af1' * 4}.tmp"
    world.put(draft)
    assert call("doctor", world.path)[0] == 0
    assert mark in world.marks()
    world.take(*world.marks())
    world.put("measurements.parquet", *OWN)
    assert call("doctor", world.path, "--claim", "--repair")[0] == 0
    assert world.marks() == [mark]
    assert world.files().keys() & {"measurements.parquet", *OWN} == {"measurements.parquet"}
    world.take("measurements.parquet")


def test_of_two_that_mark_a_place_at_once_the_second_takes_its_mark_back(world: World) -> None:
    before, place = world.files(), Place(world.lake.data)
    for data in (world.lake.data, f"{world.lake.data}/two"):
        with pytest.raises(AtlasError, match="place of another lake"):
            Place(data).mark(str(uuid4()), world.lake, NO_MARK)
    assert world.files() == before
    with pytest.raises(AtlasError, match="place of another lake"):
        place.remove(str(uuid4()), NO_MARK, list(before)[:0])
    (mark,) = world.marks()
    own = mark.removeprefix("atlas-lake/").removesuffix(".json")
    for name in THEIRS:
        with pytest.raises(AtlasError, match="is not a name that a lake gives its files"):
            place.remove(own, NO_MARK, [name])
    with pytest.raises(AtlasError, match="was overwritten meanwhile by a catalogue that is a copy of this one"):
        place.remove(own, NO_MARK, [name for name in before if name.startswith("main/")])
    world.take(mark)
    with pytest.raises(AtlasError, match="is gone, and without it nothing in"):
        place.remove(own, NO_MARK, [name for name in before if name.startswith("main/")])
    world.put(mark)
    assert world.files().keys() == before.keys()


def test_a_catalogue_that_was_copied_or_forged_removes_nothing_of_the_one_that_made_the_mark(
    world: World, servers: Servers, unread: None, tmp_path: Path, call: Callable
) -> None:
    """As a dump that is restored: the copy has the identity, and does not know what the first has written since."""
    copy = copy_catalogue(world, servers, tmp_path)
    with opened_lake(world.path) as store:
        store.con.execute("INSERT INTO value_cluster (space, layer, neuron, cluster) SELECT 'value', 9, range, 0 FROM range(20)")
    before = world.files()
    for command in (("compact", copy, "--keep-hours", "0"), ("doctor", copy, "--repair")):
        code, _, err = call(*command)
        assert code == 1
        assert f"two catalogues claim the files in {world.lake.data}: that of {copy}, and another, which" in " ".join(err.split())
        assert world.files() == before
    # whoever says so takes the place, and is refused to the other
    with opened_lake(copy, claims=True):
        pass
    with pytest.raises(AtlasError, match="two catalogues claim"), opened_lake(world.path):
        pass
    with opened_lake(world.path, claims=True):
        pass
    assert world.files() == before


def test_a_copy_of_a_whole_server_is_known_by_the_word_alone(world: World, servers: Servers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(marking, "database", lambda _: "one and the same")
    with opened_lake(world.path, claims=True):
        pass
    copy = copy_catalogue(world, servers, tmp_path)
    with opened_lake(world.path):
        pass
    with pytest.raises(AtlasError, match="two catalogues claim"), opened_lake(copy):
        pass
    with opened_lake(world.path):
        pass
    monkeypatch.undo()
    with opened_lake(world.path, claims=True):
        pass


def test_a_copy_that_knows_the_word_is_another_database(world: World, servers: Servers, tmp_path: Path) -> None:
    """As a dump that is made while the lake is written, and restored before it is opened again."""
    with opened_lake(world.path):
        pass
    copy = copy_catalogue(world, servers, tmp_path)
    before = world.files()
    with pytest.raises(AtlasError, match="two catalogues claim"):
        compact(copy, 0)
    with opened_lake(world.path) as store:
        assert store.con.execute("SELECT count(*) > 0 FROM value_cluster").fetchall() == [(True,)]
    assert world.files() == before


def test_a_role_with_a_schema_of_its_own_finds_the_catalogues_words(world: World) -> None:
    with psycopg.connect(world.lake.catalogue, autocommit=True) as session:
        session.execute("CREATE SCHEMA mine")
        session.execute("SET search_path = mine, public")
        known = known_words(session)
        session.execute("DROP SCHEMA mine")
    assert len(known) == 2
    with opened_lake(world.path) as store:
        assert store.mark.word not in known


def copy_catalogue(world: World, servers: Servers, folder: Path) -> Path:
    name = f"copied{next(NUMBERS)}"
    servers.postgres.psql(f"CREATE DATABASE {name} TEMPLATE {conninfo_to_dict(world.lake.catalogue)['dbname']};")
    copy = folder / "copy.lake"
    describe(copy, Lake(servers.postgres.get_uri(name), world.lake.data))
    return copy


def test_a_mark_that_is_a_link_or_a_pipe_is_none(world: World, tmp_path: Path) -> None:
    if world.lake.data.startswith("s3://"):
        # which has neither
        return
    (mark,) = world.marks()
    path, theirs = Path(world.lake.data) / mark, tmp_path / "theirs.json"
    theirs.write_text("{}")
    world.take(mark)
    path.symlink_to(theirs)
    with pytest.raises(AtlasError, match="is not one that a lake writes"), opened_lake(world.path):
        pass
    path.unlink()
    path.symlink_to(tmp_path / "nothing")
    for claims in (True, False):
        with opened_lake(world.path, claims=claims):
            pass
    assert (theirs.read_text(), (tmp_path / "nothing").exists(), path.is_symlink()) == ("{}", False, False)
    path.unlink()
    os.mkfifo(path)
    with suppress(AtlasError), opened_lake(world.path, claims=True):
        pass
    path.unlink()
    world.put(mark)
    with opened_lake(world.path, claims=True):
        pass


def test_a_claim_takes_no_place_in_which_anothers_lies(world: World) -> None:
    (mark,) = world.marks()
    inner = f"two/atlas-lake/{uuid4()}.json"
    world.take(mark)
    world.put(inner)
    with (
        pytest.raises(AtlasError, match=rf"contains the place of another lake, whose mark is .*{inner}: move that lake out of it first"),
        opened_lake(world.path, claims=True),
    ):
        pass
    world.take(inner)
    with opened_lake(world.path, claims=True):
        pass
    assert world.marks() == [mark]


def test_a_mark_of_an_earlier_release_is_completed(world: World) -> None:
    (mark,) = world.marks()
    write(world, mark, b'{"identity": "x"}')
    with opened_lake(world.path) as store:
        assert json.loads(world.read(mark))["word"] == store.mark.word


def test_who_dies_while_the_mark_is_renewed_knows_it_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (mark,) = world.marks()
    before = world.read(mark)
    with monkeypatch.context() as patched:
        patched.setattr(Place, "mark", lambda *_: stop())
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt), opened_lake(world.path):
                pass
    assert world.read(mark) == before
    with opened_lake(world.path):
        pass
    assert world.read(mark) != before


UNWRITTEN = {
    "empty": b"", "deep": b"[" * 70_000, "long": b'{"word": ' + b"9" * 5000 + b"}", "cut": b'{"word": "x"', "half": b'{"word": "\\ud800"}',
    "zero": b'{"word": "\\u0000"}',
}  # fmt: skip


@pytest.mark.parametrize("said", UNWRITTEN.values(), ids=UNWRITTEN)
def test_a_mark_that_no_lake_writes_is_refused(world: World, said: bytes) -> None:
    (mark,) = world.marks()
    world.take(mark)
    write(world, mark, said)
    with pytest.raises(AtlasError, match=rf"the mark .*{mark} is not one that a lake writes: move it away"), opened_lake(world.path):
        pass
    world.put(mark)


def write(world: World, name: str, content: bytes) -> None:
    system, root = world.storage
    with system.open_output_stream(f"{root}/{name}") as stream:
        stream.write(content)


def test_a_shard_that_cannot_be_loaded_is_removed_by_a_repair_as_its_error_says(world: World, unread: None, call: Callable) -> None:
    """A compaction took files of a worker that was only thought dead, and its manifest came after that; another manifest is cut short."""
    rows = pa.table({"space": ["value"], "layer": pa.array([0], pa.int16()), "neuron": pa.array([1], pa.int32()), "cluster": pa.array([0], pa.int32())})
    storage = Storage(world.lake)
    lost, cut, less, other = (
        world.files().keys() ^ (storage.write(0, 0, number, {"value_cluster": rows}) and world.files()).keys() for number in range(80, 84)
    )
    world.take(*(name for name in lost if name.endswith(".parquet")))
    (manifest,) = (name for name in cut if name.endswith("manifest.json"))
    write(world, manifest, b"{")
    system, root = world.storage
    for (name,), table in ((filter(is_parquet, less), rows[:0]), (filter(is_parquet, other), rows.append_column("more", rows["layer"]))):
        with system.open_output_stream(f"{root}/{name}") as stream:
            pq.write_table(table, stream)
    code, out, _ = call("doctor", world.path)
    assert code == 1
    assert out.count("is damaged") == 4
    for said in ("value_cluster.parquet cannot be read", "has 0 rows where the manifest says 1", "has a column more, which the table does not have"):
        assert said in out
    code, out, err = call("doctor", world.path, "--repair")
    assert (code, err) == (0, ""), out
    assert not world.files().keys() & (lost | cut | less | other)
    assert call("doctor", world.path)[:2] == (0, f"{world.path}: nothing to mend\n")
    assert call("compact", world.path)[0] == 0


def is_parquet(name: str) -> bool:
    return name.endswith(".parquet")
