"""The pass keys in whole ingests: stopped, killed, with files that were lost, and by two workers."""

import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
import torch

from ingest.recorders.key_entries import KeyRecorder
from ingest.store.committer import FileStore
from schema.key_files import file_sha256, keys_folder
from tests.exact.tiny import Tiny, make, run

torch.set_num_threads(1)
ASKED = {"trace": 0, "triggers": 0, "paper": False, "keys": True}

KILLED = """
import os, signal, sys, torch
from pathlib import Path
from ingest.recorders import key_entries
from tests.exact.tiny import run, tiny_request
torch.set_num_threads(1)
left = int(sys.argv[3])
put_in_place = key_entries.put_in_place
def killed(draft, path):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    put_in_place(draft, path)
key_entries.put_in_place = killed
folder = Path(sys.argv[1])
run(tiny_request(folder / "tiny-gpt2", folder / "corpus.jsonl", Path(sys.argv[2]), trace=0, triggers=0, paper=False, keys=True))
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("keys"), "gpt2")


@pytest.fixture(scope="module")
def expected(tiny: Tiny) -> dict[str, str]:
    """Of an ingest that nothing disturbed: name → digest of its files."""
    return files(run(tiny.request(tiny.folder.parent / "whole.duckdb", **ASKED)))


def files(target: Path) -> dict[str, str]:
    """Of the files that the atlas names, as they lie there; its own rows say the same, and so do its runs."""
    folder = keys_folder(target)
    with duckdb.connect(str(target), read_only=True) as con:
        rows = con.execute("SELECT name, sha256, n_entries, n_bytes FROM key_file ORDER BY first_position_id").fetchall()
        assert con.execute("SELECT status FROM run WHERE kind = 'keys'").fetchall() == [("finished",)]
        assert con.execute("SELECT sum(n_entries) FROM datastore").fetchall() == [
            con.execute("SELECT count(*) FROM position WHERE next_token_id IS NOT NULL AND index >= 1").fetchall()[0]
        ]
    assert {name: sha256 for name, sha256, _, _ in rows} == {path.name: file_sha256(path) for path in folder.iterdir()}
    assert len(rows) > 3
    return {name: sha256 for name, sha256, _, _ in rows}


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("n_files", [0, 1, 2])
def test_an_ingest_killed_while_it_writes_a_file_goes_on(tiny: Tiny, expected: dict[str, str], tmp_path: Path, n_files: int) -> None:
    """Killed when so many have their names and the next does not."""
    target = tmp_path / "a.duckdb"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tiny.folder.parent), str(target), str(n_files + 1)], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert [path.suffix for path in keys_folder(target).iterdir()].count(".tmp") == 1
    assert files(run(tiny.request(target, **ASKED))) == expected


@pytest.mark.thorough
def test_an_ingest_stopped_between_file_and_shard_goes_on(tiny: Tiny, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, loaded = tmp_path / "a.duckdb", []

    def load(store: FileStore, shard: object) -> None:
        loaded.append(shard)
        if len(loaded) == 3:
            raise KeyboardInterrupt
        real(store, shard)  # type: ignore[arg-type]

    real = FileStore.load
    monkeypatch.setattr(FileStore, "load", load)
    with pytest.raises(KeyboardInterrupt):
        run(tiny.request(target, **ASKED))
    monkeypatch.undo()
    assert files(run(tiny.request(target, **ASKED))) == expected


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("damage", ["gone", "cut", "other"])
def test_a_file_that_was_lost_is_written_again_by_the_same_ingest(
    tiny: Tiny, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    target = run(tiny.request(tmp_path / "a.duckdb", **ASKED))
    path = sorted(keys_folder(target).iterdir())[1]
    data = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else data[:100] + b"x" + data[101:])
    written, real = [], KeyRecorder.tables
    monkeypatch.setattr(KeyRecorder, "tables", lambda recorder, progress: written.append(1) or real(recorder, progress))
    assert files(run(tiny.request(target, **ASKED))) == expected
    assert len(written) == 1
    run(tiny.request(target, **ASKED))
    assert len(written) == 1


def test_another_min_index_is_refused_with_what_it_was(tiny: Tiny, tmp_path: Path) -> None:
    target = run(tiny.request(tmp_path / "a.duckdb", **ASKED))
    with pytest.raises(Exception, match="min_index was 1 and is now 2"):
        run(tiny.request(target, **ASKED, min_index=2))
    assert keys_folder(target) == tmp_path / "a.keys"


@pytest.mark.thorough
def test_two_workers_write_the_files_of_one(tiny: Tiny, expected: dict[str, str], tmp_path: Path) -> None:
    """The files have other bits where threads differ, so what is compared is which there are."""
    assert files(run(tiny.request(tmp_path / "a.duckdb", workers=2, **ASKED))).keys() == expected.keys()
