"""Ingest as a user meets it: what is refused, in which words, and that nothing is lost."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import click
import duckdb
import pytest
import torch

from ingest import run as driver
from ingest.cli import ingest as command
from ingest.recorders import triggers
from ingest.request import Request
from ingest.store import committer
from schema.errors import AtlasError, Locked, NotAnAtlas
from schema.open.store import open_reader
from schema.progress import progress_bar
from tests import preloaded
from tests.exact.tiny import asked
from tests.ingest.tiny_models import tiny_hf, tiny_tokenizer

TEXT = "the first of the people and the last of the world. " * 12


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory) -> Path:
    return saved(tmp_path_factory.mktemp("gpt2"), seed=0)


def saved(folder: Path, seed: int) -> Path:
    tiny_hf("gpt2", seed=seed).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def corpus(tmp_path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    for i in range(4):
        (folder / f"{i}.txt").write_text(TEXT[i * 7 :] + str(i))
    return folder


def request(target: Path, model: Path, corpus: Path | str | None, **changes) -> Request:
    options = {
        "target": target, "model": str(model), "corpus": str(corpus / "*.txt") if isinstance(corpus, Path) else corpus, "revision": None, "dtype": "float32",
        "device": "cpu", "split": None, "config": None, "column": None, "corpus_revision": None, "every": 1, "max_documents": None, "document_tokens": None,
        "context": 16, "bos": "auto", "cut": "tokens", "triggers": 5, "trace": 6, "coefficients": 10,
        "batch_size": 4, "shard_positions": 200, "seed": 0, "paper": False, "paper_keys": 4, "map": False, "circuit": False, "workers": 1,
        "ray": None, "lake": None, "data": None,
    }  # fmt: skip
    return asked(**{**options, **changes})


def ingest(*args, **changes):
    with progress_bar(is_quiet=True) as bar:
        return driver.ingest(request(*args, **changes), bar)


def checksums(target: Path) -> dict[str, object]:
    """A sum over every row of every table that does not tell the time."""
    with closing(open_reader(target)) as con:
        tables = [t for (t,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall() if t not in ("run", "shard", "table_digest")]
        return {t: con.execute(f"SELECT count(*), sum(hash(t)) FROM {t} AS t").fetchall() for t in tables}


@pytest.mark.thorough
def test_an_ingest_leaves_one_file_that_any_client_reads(tmp_path, gpt2, corpus):
    target = tmp_path / "a.duckdb"
    seen = ingest(target, gpt2, corpus)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.duckdb", "texts"]
    with closing(duckdb.connect(str(target), read_only=True)) as con:
        assert con.execute("SELECT count(*) FROM position").fetchall() == [(seen.n_positions,)]
        assert con.execute("SELECT kind, status FROM run ORDER BY run_id").fetchall() == [("weights", "finished"), ("sweep", "finished"), ("trace", "finished")]
        assert len(con.execute("FROM top_triggers(1, 3, n := 5)").fetchall()) == 5
        assert con.execute("SELECT count(*) FROM duckdb_indexes()").fetchall() == [(0,)]


@pytest.mark.thorough
def test_the_same_command_again_changes_nothing(tmp_path, gpt2, corpus):
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, corpus)
    before = checksums(target)
    ingest(target, gpt2, corpus)
    assert checksums(target) == before


@pytest.mark.thorough
def test_a_second_model_is_refused_and_the_atlas_stays(tmp_path, gpt2, corpus):
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, corpus)
    before = checksums(target)
    other = saved(tmp_path / "other", seed=1)
    with pytest.raises(AtlasError, match=r"this atlas is of gpt2.*not of other.*new file"):
        ingest(target, other, corpus)
    assert checksums(target) == before
    assert not driver.work_folder(target).exists()


def test_a_missing_corpus_is_said_before_the_model_is_read(tmp_path):
    with pytest.raises(AtlasError, match="no file matches"):
        ingest(tmp_path / "a.duckdb", tmp_path / "no model", str(tmp_path / "missing.txt"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_a_sweep_with_other_settings_is_refused_by_name(tmp_path, gpt2, corpus):
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, corpus)
    with pytest.raises(AtlasError, match="triggers was 5 and is now 7"):
        ingest(target, gpt2, corpus, triggers=7)


@pytest.mark.thorough
def test_a_corpus_that_changed_is_refused(tmp_path, gpt2, corpus):
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, corpus)
    (corpus / "2.txt").write_text("something else")
    with pytest.raises(AtlasError, match="has changed"):
        ingest(target, gpt2, corpus)


@pytest.mark.thorough
def test_a_larger_trace_adds_to_the_smaller_one(tmp_path, gpt2, corpus):
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, corpus)
    ingest(target, gpt2, corpus, trace=20)
    with closing(open_reader(target)) as con:
        assert con.execute("SELECT run_id, count(*) FROM trace GROUP BY ALL ORDER BY ALL").fetchall() == [(2, 6), (3, 14)]
        assert con.execute("SELECT count(*), count(DISTINCT position_id) FROM trace").fetchall() == [(20, 20)]


@pytest.mark.thorough
def test_blank_documents_are_counted_and_kept(tmp_path, gpt2, corpus):
    (corpus / "9.txt").write_text(" \n\t ")
    seen = ingest(tmp_path / "a.duckdb", gpt2, corpus)
    assert (seen.n_documents, seen.n_blank_documents) == (5, 1)
    with closing(open_reader(tmp_path / "a.duckdb")) as con:
        assert con.execute("SELECT count(*) FROM document").fetchall() == [(5,)]


def test_a_corpus_of_blank_documents_is_refused(tmp_path, gpt2):
    (tmp_path / "blank.txt").write_text("  \n ")
    with pytest.raises(AtlasError, match=r"no text: every document is blank, 1 of 1"):
        ingest(tmp_path / "a.duckdb", gpt2, str(tmp_path / "blank.txt"))


def test_a_context_longer_than_the_model_is_refused(tmp_path, gpt2, corpus):
    with pytest.raises(AtlasError, match="is more than the"):
        ingest(tmp_path / "a.duckdb", gpt2, corpus, context=100_000)


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b""])
def test_a_file_that_is_no_atlas_is_not_touched(tmp_path, gpt2, corpus, content):
    target = tmp_path / "a.duckdb"
    target.write_bytes(content)
    with pytest.raises(NotAnAtlas):
        ingest(target, gpt2, corpus)
    assert target.read_bytes() == content


def test_another_database_is_not_touched(tmp_path, gpt2, corpus):
    target = tmp_path / "a.duckdb"
    with closing(duckdb.connect(str(target))) as con:
        con.execute("CREATE TABLE mine AS SELECT 42 AS answer")
    with pytest.raises(NotAnAtlas, match="mine"):
        ingest(target, gpt2, corpus)
    with closing(duckdb.connect(str(target))) as con:
        assert con.execute("FROM mine").fetchall() == [(42,)]


@pytest.mark.thorough
def test_another_schema_version_is_refused(tmp_path, gpt2, corpus):
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, corpus)
    with closing(duckdb.connect(str(target))) as con:
        con.execute("UPDATE model SET schema_version = 99")
    with pytest.raises(NotAnAtlas, match="schema version 99"):
        ingest(target, gpt2, corpus)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_target_that_is_a_link_is_refused(tmp_path, gpt2, corpus, is_there):
    target, real = tmp_path / "a.duckdb", tmp_path / "elsewhere.duckdb"
    target.symlink_to(real)
    if is_there:
        real.write_bytes(b"x")
    with pytest.raises(AtlasError, match=r"a\.duckdb: it is a link.*elsewhere\.duckdb"):
        ingest(target, gpt2, corpus)
    assert target.is_symlink()
    assert real.exists() is is_there


def test_a_corpus_without_a_name_is_not_the_weights_alone(tmp_path, gpt2):
    with pytest.raises(AtlasError, match="names nothing"):
        ingest(tmp_path / "a.duckdb", gpt2, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_a_token_without_an_embedding_is_refused_by_its_document(tmp_path, gpt2):
    folder = shutil.copytree(gpt2, tmp_path / "model")
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens([f"word{i}" for i in range(100)])
    tokenizer.save_pretrained(folder)
    (tmp_path / "a.txt").write_text("the first")
    (tmp_path / "b.txt").write_text("the word99")
    assert ingest(tmp_path / "a.duckdb", folder, str(tmp_path / "a.txt")).n_positions > 0
    with pytest.raises(AtlasError, match=r"its tokenizer makes token \d+ of document 'b.txt', and the model has embeddings of tokens 0 to 299 only"):
        ingest(tmp_path / "b.duckdb", folder, str(tmp_path / "b.txt"))


@pytest.mark.parametrize("name", ["annotations.duckdb", "x.annotations.duckdb"])
def test_a_name_that_annotations_have_is_refused(tmp_path, gpt2, corpus, name):
    with pytest.raises(AtlasError, match="are for the annotations of an atlas"):
        ingest(tmp_path / name, gpt2, corpus)


@pytest.mark.thorough
def test_a_target_that_was_cut_short_is_refused_before_anything_is_computed(tmp_path, gpt2, corpus, monkeypatch):
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, corpus)
    os.truncate(target, target.stat().st_size - 1)
    monkeypatch.setattr(driver, "load_model", None)
    with pytest.raises(
        AtlasError, match=r"a\.duckdb is damaged: (it was cut short|IO Error: Could not read enough bytes from file \"(?:(?!opening-)[^\"])*/a\.duckdb\")"
    ):
        ingest(target, gpt2, corpus)


@pytest.mark.thorough
def test_a_target_whose_free_blocks_were_cut_off_by_duckdb_is_whole(tmp_path, gpt2, corpus):
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, corpus)
    with duckdb.connect(target) as con:
        con.execute("CREATE TABLE notes AS SELECT hash(i) AS h FROM range(1_000_000) AS r (i)")
        con.execute("CHECKPOINT")
        con.execute("DROP TABLE notes")
        con.execute("CHECKPOINT")
        # what follows the free blocks moves into them, so that they end the file
        con.execute("UPDATE run SET finished_at = finished_at + INTERVAL 1 SECOND")
        con.execute("CHECKPOINT")
    with duckdb.connect(target, read_only=True) as con:
        n_blocks, block_bytes = con.execute("SELECT total_blocks, block_size FROM pragma_database_size()").fetchone()
    assert target.stat().st_size < n_blocks * block_bytes
    assert ingest(target, gpt2, corpus).n_positions > 0


@pytest.mark.thorough
def test_a_target_that_lacks_a_whole_block_is_refused(tmp_path, gpt2, corpus):
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, corpus)
    with duckdb.connect(target, read_only=True) as con:
        block_bytes = con.execute("SELECT block_size FROM pragma_database_size()").fetchone()[0]
    os.truncate(target, target.stat().st_size - block_bytes)
    with pytest.raises(AtlasError, match=r"a\.duckdb is damaged"):
        ingest(target, gpt2, corpus)


def test_a_sqlite_database_is_named_as_what_it_is(tmp_path, gpt2, corpus):
    with closing(sqlite3.connect(tmp_path / "a.duckdb")) as con:
        con.execute("CREATE TABLE t (i INTEGER)")
    with pytest.raises(NotAnAtlas, match="is not an atlas: it is a SQLite database"):
        ingest(tmp_path / "a.duckdb", gpt2, corpus)


def test_a_target_in_no_folder_is_refused(tmp_path, gpt2, corpus):
    with pytest.raises(AtlasError, match="there is no folder"):
        ingest(tmp_path / "nowhere" / "a.duckdb", gpt2, corpus)


def test_a_second_ingest_into_one_atlas_names_the_first(tmp_path, gpt2, corpus):
    work = tmp_path / "a.duckdb.work"
    work.mkdir()
    hold = f"import duckdb, sys; c = duckdb.connect({str(work / 'atlas.duckdb')!r}); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Locked, match=f"PID {holder.pid}"):
            ingest(tmp_path / "a.duckdb", gpt2, corpus)
        holder.stdin.close()


def test_no_permission_is_said(tmp_path, gpt2, corpus):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o555)
    root = os.geteuid() == 0
    if root:
        tmp_path.chmod(0o755)
        os.seteuid(65534)
    try:
        with pytest.raises(AtlasError, match="no permission to write"), driver.explain_write_errors(folder / "a.duckdb"):
            driver.work_folder(folder / "a.duckdb").mkdir()
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("limit", [300_000, 900_000, 3_000_000])
def test_a_full_disk_is_said_and_the_run_goes_on_when_there_is_room(tmp_path, gpt2, corpus, limit):
    """A limit on the size of files stands in for a full disk; the run under it dies, the run without it finishes."""
    target = tmp_path / "a.duckdb"
    # sums depend on the number of threads in their last bit
    code = (
        f"import resource, signal, sys, torch; from atlas.cli import main; torch.set_num_threads({torch.get_num_threads()}); "
        f"signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY)); main(sys.argv[1:])"
    )
    options = ["ingest", str(target), "--model", str(gpt2), "--corpus", str(corpus / "*.txt"), "--context", "16", "--triggers", "5", "--trace", "6"]
    options += ["--coefficients", "10", "--batch-size", "4", "--shard-positions", "200", "--no-prediction", "--skip-first", "0"]
    died = preloaded.run(code, *options)
    assert died.returncode == 1, died.stderr
    assert "no space left" in died.stderr and "Traceback" not in died.stderr
    ingest(target, gpt2, corpus)
    undisturbed = tmp_path / "b.duckdb"
    ingest(undisturbed, gpt2, corpus)
    assert checksums(target) == checksums(undisturbed)


@pytest.mark.ci_cases(2)
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("n_shards", [0, 1, 3, 5])
def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, gpt2, corpus, monkeypatch, n_shards):
    target, loaded = tmp_path / "a.duckdb", []
    real = committer.load_shard

    def load_or_stop(con, shard):
        if len(loaded) == n_shards:
            raise KeyboardInterrupt
        loaded.append((shard.run_id, shard.shard_id))
        real(con, shard)

    monkeypatch.setattr(committer, "load_shard", load_or_stop)
    with pytest.raises(KeyboardInterrupt):
        ingest(target, gpt2, corpus)
    monkeypatch.setattr(committer, "load_shard", lambda con, shard: (loaded.append((shard.run_id, shard.shard_id)), real(con, shard)))
    ingest(target, gpt2, corpus)
    assert len(loaded) == len(set(loaded))
    undisturbed = tmp_path / "b.duckdb"
    monkeypatch.setattr(committer, "load_shard", real)
    ingest(undisturbed, gpt2, corpus)
    assert checksums(target) == checksums(undisturbed)


@pytest.mark.thorough
def test_more_triggers_than_positions_take_the_room_of_the_positions(tmp_path, gpt2, corpus, monkeypatch):
    """A corpus of n positions has n triggers of each key and tail, whatever was asked for; a larger one that is added later has its own."""
    target, asked, made, real = tmp_path / "a.duckdb", 1_000_000, [], triggers.kept_keys
    monkeypatch.setattr(triggers, "kept_keys", lambda worker, run_id, k, *rule: made.append((run_id, k)) or real(worker, run_id, k, *rule))
    short = tmp_path / "short.txt"
    short.write_text("the first")
    n_short = ingest(target, gpt2, str(short), triggers=asked).n_positions
    n_long = ingest(target, gpt2, corpus, triggers=asked).n_positions
    assert set(made) == {(1, n_short), (3, n_long)}
    with closing(open_reader(target)) as con:
        of_each = "SELECT corpus_id, count(*) AS n FROM trigger GROUP BY corpus_id, layer, neuron, tail"
        assert con.execute(f"SELECT corpus_id, min(n), max(n) FROM ({of_each}) GROUP BY corpus_id ORDER BY corpus_id").fetchall() == [
            (0, n_short, n_short),
            (1, n_long, n_long),
        ]
        settings = con.execute("SELECT DISTINCT (settings ->> 'triggers')::BIGINT FROM run WHERE kind = 'sweep'").fetchall()
    assert settings == [(asked,)]
    made.clear()
    ingest(target, gpt2, corpus, triggers=asked)
    assert made == []


@pytest.mark.thorough
def test_an_interrupted_sweep_of_more_triggers_than_positions_goes_on(tmp_path, gpt2, corpus, monkeypatch):
    target, undisturbed, n_loaded, real = tmp_path / "a.duckdb", tmp_path / "b.duckdb", 0, committer.load_shard

    def load_or_stop(con, shard):
        nonlocal n_loaded
        if n_loaded == 4:
            raise KeyboardInterrupt
        n_loaded += 1
        real(con, shard)

    monkeypatch.setattr(committer, "load_shard", load_or_stop)
    with pytest.raises(KeyboardInterrupt):
        ingest(target, gpt2, corpus, triggers=1_000_000, trace=0)
    monkeypatch.setattr(committer, "load_shard", real)
    n_positions = ingest(target, gpt2, corpus, triggers=1_000_000, trace=0).n_positions
    ingest(undisturbed, gpt2, corpus, triggers=n_positions, trace=0)
    assert checksums(target) == checksums(undisturbed)


@pytest.mark.thorough
def test_more_triggers_than_the_table_has_ranks_are_refused_before_the_sweep(tmp_path, gpt2):
    corpus = tmp_path / "long.txt"
    corpus.write_text("ab " * 14_000)
    with pytest.raises(AtlasError, match=r"--triggers 1000000: this corpus has 42,000 positions, but at most 32,767"):
        ingest(tmp_path / "a.duckdb", gpt2, str(corpus), triggers=1_000_000)
    assert ingest(tmp_path / "a.duckdb", gpt2, str(corpus), triggers=3, trace=0).n_positions == 42_000


@pytest.mark.thorough
def test_publishing_in_the_middle_shows_whole_shards_only(tmp_path, gpt2, corpus, monkeypatch):
    target, views = tmp_path / "a.duckdb", []
    real = committer.load_shard

    def load_and_look(con, shard):
        if target.exists():
            with closing(open_reader(target)) as reader:
                positions = reader.execute("SELECT count(*) FROM position").fetchall()[0][0]
                promised = reader.execute(
                    "SELECT coalesce(sum((n_rows ->> 'position')::INT), 0) FROM shard JOIN run USING (run_id) WHERE kind = 'sweep'"
                ).fetchall()[0][0]
                views.append((positions, promised))
        real(con, shard)

    monkeypatch.setattr(committer, "load_shard", load_and_look)
    monkeypatch.setattr(committer, "PUBLISH_SHARE", 0)
    ingest(target, gpt2, corpus, trace=0)
    assert len(views) > 2 and views[-1][0] > 0
    assert all(positions == promised for positions, promised in views)


@pytest.mark.thorough
def test_settings_of_a_run_repeat_it(tmp_path, gpt2, corpus):
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, corpus)
    with closing(open_reader(target)) as con:
        settings = [json.loads(s) for (s,) in con.execute("SELECT settings FROM run ORDER BY run_id").fetchall()]
        source = json.loads(con.execute("SELECT source FROM corpus").fetchall()[0][0])
    assert settings[1] == {
        "model": str(gpt2),
        "revision": None,
        "dtype": "float32",
        "triggers": 5,
        "batch_size": 4,
        "shard_positions": 200,
        "skip_first": 0,
        "distinct": 0,
    }
    assert (settings[2]["trace"], settings[2]["seed"], settings[2]["coefficients"]) == (6, 0, 10)
    assert (source["context"], source["bos"], source["cut"], source["document_tokens"]) == (16, "auto", "tokens", None)


@pytest.mark.thorough
def test_half_precision_is_another_atlas(tmp_path, gpt2, corpus):
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, corpus)
    with pytest.raises(AtlasError, match="bfloat16"):
        ingest(target, gpt2, corpus, dtype="bfloat16")


@pytest.mark.thorough
def test_a_dry_run_foretells_the_rows_and_writes_nothing(tmp_path, gpt2, corpus, capsys):
    target = tmp_path / "a.duckdb"
    arguments = ["--model", str(gpt2), "--corpus", str(corpus / "*.txt"), "--context", "16", "--triggers", "5", "--trace", "6", "--coefficients", "10"]
    command.main([str(target), *arguments, "--dry-run"], standalone_mode=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    foretold = {line[0]: int(line[1].replace(",", "")) for line in lines if len(line) == 3 and line[1].replace(",", "").isdigit()}
    assert not target.exists() and not driver.work_folder(target).exists()
    command.main([str(target), *arguments], standalone_mode=False)
    with closing(open_reader(target)) as con:
        found = {t: con.execute(f"SELECT count(*) FROM {t}").fetchall()[0][0] for t in foretold if t != "total"}
    assert {t: n for t, n in foretold.items() if t != "total"} == found
    assert len(found) == 14


def test_a_dry_run_refuses_what_the_ingest_would(tmp_path, gpt2, corpus):
    arguments = ["--model", str(gpt2), "--corpus", str(corpus / "*.txt"), "--context", "100"]
    for dry in ([], ["--dry-run"]):
        with pytest.raises(AtlasError, match=r"a context of 100 tokens is more than the 64 .*use --context 64"):
            command.main([str(tmp_path / "a.duckdb"), *arguments, *dry], standalone_mode=False)


def test_a_trace_without_a_corpus_is_not_left_out_silently(tmp_path, gpt2):
    with pytest.raises(click.UsageError, match="--trace needs --corpus"):
        command.main([str(tmp_path / "a.duckdb"), "--model", str(gpt2), "--trace", "5"], standalone_mode=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_nothing_but_notes_is_printed_on_stderr_without_a_terminal(tmp_path, gpt2, corpus, capfd):
    torch.manual_seed(0)
    ingest(tmp_path / "a.duckdb", gpt2, corpus)
    assert [line[:6] for line in capfd.readouterr().err.splitlines()] == ["note: "], "of the text that repeats"


@pytest.mark.thorough
def test_a_text_that_is_cut_into_documents_is_said_so_before_and_in_the_dry_run(tmp_path, gpt2, capsys):
    (tmp_path / "long.txt").write_text("the first of the people\n" * 10_000)
    (tmp_path / "short.txt").write_text(TEXT)
    arguments = ["--model", str(gpt2), "--corpus", str(tmp_path / "*.txt"), "--context", "16", "--triggers", "1", "--document-tokens", "8"]
    # 240,000 characters in pieces of at most 100,000, and the short text
    expected = "note: 3 of the 4 documents are pieces of text files longer than 100,000 characters, cut at line ends; no context spans two pieces"
    command.main([str(tmp_path / "a.duckdb"), *arguments, "--dry-run"], standalone_mode=False)
    assert expected in capsys.readouterr().out.splitlines()
    command.main([str(tmp_path / "a.duckdb"), *arguments], standalone_mode=False)
    assert expected in capsys.readouterr().err.splitlines()


@pytest.mark.thorough
def test_the_same_text_cut_in_another_way_is_said_to_be_another_corpus(tmp_path, gpt2, corpus, capfd):
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, corpus, triggers=7)
    assert capfd.readouterr().err == ""
    ingest(target, gpt2, corpus, triggers=7, context=12)
    name = corpus / "*.txt"
    said = capfd.readouterr().err.strip()
    assert said == (
        f"note: {name} is in this atlas already, and is added as another corpus, 1, with context 12: corpus 0 has context 16. "
        "Questions about one corpus need its corpus_id; other questions use all corpora unless they are given one"
    )
    ingest(target, gpt2, corpus, triggers=7, context=12)
    assert capfd.readouterr().err == ""
