"""The run of kind `paper` as a user meets it: what it brings, what it leaves out and says so, and what a second one adds."""

import json
import re
import shutil
from contextlib import closing
from pathlib import Path

import click
import pytest

from ingest.cli import ingest as command
from ingest.store import committer
from schema.audits import run_audits
from schema.errors import AtlasError
from schema.open.store import open_reader
from tests.ingest.test_run import TEXT, checksums, ingest, saved

REPEATED = re.compile("note: .* times in this corpus: .*\n")
"""The text is one sentence again and again."""

TABLES = ("removal", "next_token_rank", "control_token", "value_cluster")


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory) -> Path:
    return saved(tmp_path_factory.mktemp("gpt2"), seed=0)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for i in range(4):
        (folder / f"{i}.txt").write_text(TEXT[i * 7 :] + str(i))
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory, gpt2, corpus) -> Path:
    """An atlas with a paper run of 4 keys a layer, made in one go; not to be written to."""
    target = tmp_path_factory.mktemp("whole") / "a.duckdb"
    ingest(target, gpt2, corpus, paper=True)
    return target


@pytest.fixture
def target(tmp_path, whole) -> Path:
    """A copy of it."""
    return Path(shutil.copy(whole, tmp_path / "copy.duckdb"))


def counts(target) -> dict[str, int]:
    with closing(open_reader(target)) as con:
        return {table: con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0] for table in TABLES}


def rows(target, sql: str) -> list[tuple]:
    with closing(open_reader(target)) as con:
        return con.execute(sql).fetchall()


@pytest.mark.thorough
def test_a_paper_run_fills_its_tables_and_keeps_every_rule(whole, gpt2):
    found = counts(whole)
    assert all(found.values())
    with closing(open_reader(whole)) as con:
        assert [f.audit.name for f in run_audits(con) if f.n_rows] == []
        runs = con.execute("SELECT kind, corpus_id, n_shards, settings FROM run WHERE run_id > 2 ORDER BY run_id").fetchall()
        n_layers, d_ffn = con.execute("SELECT n_layers, d_ffn FROM model").fetchall()[0]
        traced = con.execute("SELECT count(*) FROM trace JOIN position AS p USING (position_id) WHERE p.index > 0").fetchall()[0][0]
        tables = con.execute("SELECT DISTINCT r.kind, json_keys(s.n_rows) FROM shard AS s JOIN run AS r USING (run_id) WHERE run_id > 2").fetchall()
    assert [run[:3] for run in runs] == [
        ("control_token", None, n_layers), ("next_token_rank", 0, n_layers), ("removal", 0, n_layers), ("value_cluster", None, 1)
    ]  # fmt: skip
    assert sorted(tables) == [(name, [name]) for name in sorted(TABLES)]
    shared = {"model": str(gpt2), "revision": None, "dtype": "float32"}
    assert [json.loads(run[3]) for run in runs] == [
        {**shared, "seed": 0, "items_per_layer": 10, "updates_per_layer": traced, "reads": {"trace": [2], "residual_state": [2], "position": [1, 2]}},
        {**shared, "reads": {"trigger": [1], "position": [1, 2], "sequence": [1, 2]}},
        {**shared, "seed": 0, "batch_size": 4, "keys_per_layer": 4, "triggers_per_key": 5, "reads": {"trigger": [1], "position": [1, 2], "sequence": [1, 2]}},
        {**shared, "seed": 0, "n_clusters": round(n_layers * d_ffn * 10_000 / 65_536), "cluster_blocks": 1},
    ]
    ends = "SELECT count(*) FROM trigger AS t JOIN position AS p USING (position_id) WHERE t.tail = 'max' AND t.rank = 1 AND p.next_token_id IS NULL"
    assert found["next_token_rank"] == n_layers * d_ffn - rows(whole, ends)[0][0]
    assert found["control_token"] == n_layers * 30 * (10 + traced)
    assert found["value_cluster"] == 2 * n_layers * d_ffn


@pytest.mark.thorough
def test_the_same_command_again_adds_nothing_and_says_nothing(target, whole, gpt2, corpus, capfd):
    ingest(target, gpt2, corpus, paper=True)
    assert REPEATED.sub("", capfd.readouterr().err) == ""
    assert checksums(target) == checksums(whole)
    assert rows(target, "SELECT count(*) FROM run") == [(7,)]


SWEPT = [f"no {table}: this corpus has no finished sweep; ingest again with a sweep (--triggers)" for table in ("next_token_rank", "removal")]
TRACED = ["no FFN updates in control_token: no position is traced; ingest again with --trace"]


@pytest.mark.ci_cases(2)
@pytest.mark.first_cases(0)
@pytest.mark.parametrize(
    ("changes", "missing", "empty"),
    [
        ({"triggers": 0}, SWEPT, {"removal", "next_token_rank"}),
        ({"trace": 0}, TRACED, set()),
        ({"triggers": 0, "trace": 0}, TRACED + SWEPT, {"removal", "next_token_rank"}),
    ],
)
def test_what_is_not_there_is_left_out_said_and_brought_by_a_later_run(tmp_path, whole, gpt2, corpus, capfd, changes, missing, empty):
    target = tmp_path / "a.duckdb"
    ingest(target, gpt2, corpus, paper=True, **changes)
    said = capfd.readouterr().err
    assert REPEATED.sub("", said).splitlines() == [f"note: {text}" for text in missing]
    assert {table for table, n in counts(target).items() if not n} == empty
    controls = rows(target, "SELECT DISTINCT control FROM control_token ORDER BY ALL")
    assert controls == ([("random_vector",)] if "trace" in changes else [("ffn_update",), ("random_vector",)])
    ingest(target, gpt2, corpus, paper=True)
    assert REPEATED.sub("", capfd.readouterr().err) == ""
    others = set(TABLES) - {"control_token"}
    assert {t: c for t, c in checksums(target).items() if t in others} == {t: c for t, c in checksums(whole).items() if t in others}
    # FFN updates are those of a trace that was read by itself, and not beside a sweep
    (found, expected) = (rows(path, "FROM control_token ORDER BY control, layer, item, rank") for path in (target, whole))
    assert [row[:-1] for row in found] == [row[:-1] for row in expected]
    assert [row[-1] for row in found] == pytest.approx([row[-1] for row in expected], rel=1e-4, abs=1e-5)


@pytest.mark.thorough
def test_more_keys_add_to_the_fewer(target, tmp_path, gpt2, corpus):
    straight = tmp_path / "straight.duckdb"
    few = set(rows(target, "FROM removal"))
    ingest(target, gpt2, corpus, paper=True, paper_keys=7)
    ingest(straight, gpt2, corpus, paper=True, paper_keys=7)
    grain = "SELECT DISTINCT layer, neuron, rank, removed FROM removal ORDER BY ALL"
    assert few < set(rows(target, "FROM removal"))
    assert rows(target, grain) == rows(straight, grain)
    # of one of them every trigger is the first token of its sequence
    assert rows(target, "SELECT layer, count(DISTINCT neuron) FROM removal GROUP BY layer ORDER BY layer") == [(0, 7), (1, 6)]
    assert counts(target) == counts(straight)


@pytest.mark.thorough
def test_a_second_corpus_brings_what_is_of_the_corpus_and_not_what_is_of_the_model(target, tmp_path, gpt2):
    before = counts(target)
    (tmp_path / "other.txt").write_text(TEXT[5:])
    ingest(target, gpt2, str(tmp_path / "other.txt"), paper=True)
    after = counts(target)
    assert all(after[table] > before[table] for table in ("removal", "next_token_rank"))
    assert (after["control_token"], after["value_cluster"]) == (before["control_token"], before["value_cluster"])
    with closing(open_reader(target)) as con:
        assert [f.audit.name for f in run_audits(con) if f.n_rows] == []


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize(("run_id", "n_shards"), [(3, 0), (4, 1), (5, 1), (6, 0)])
def test_an_interrupted_paper_run_goes_on_to_the_same_end(tmp_path, whole, gpt2, corpus, monkeypatch, run_id, n_shards):
    target, loaded, real = tmp_path / "a.duckdb", [], committer.load_shard

    def load_or_stop(con, shard):
        if shard.run_id == run_id:
            if len(loaded) == n_shards:
                raise KeyboardInterrupt
            loaded.append(shard.shard_id)
        real(con, shard)

    with monkeypatch.context() as patched:
        patched.setattr(committer, "load_shard", load_or_stop)
        with pytest.raises(KeyboardInterrupt):
            ingest(target, gpt2, corpus, paper=True)
    ingest(target, gpt2, corpus, paper=True)
    assert loaded == list(range(n_shards))
    assert checksums(target) == checksums(whole)


@pytest.mark.thorough
def test_an_unfinished_run_with_other_settings_is_refused_by_name(tmp_path, gpt2, corpus, monkeypatch):
    target, real = tmp_path / "a.duckdb", committer.load_shard

    def stop(con, shard):
        if shard.run_id == 5:
            raise KeyboardInterrupt
        real(con, shard)

    with monkeypatch.context() as patched:
        patched.setattr(committer, "load_shard", stop)
        with pytest.raises(KeyboardInterrupt):
            ingest(target, gpt2, corpus, paper=True)
    with pytest.raises(AtlasError, match="keys_per_layer was 4 and is now 9"):
        ingest(target, gpt2, corpus, paper=True, paper_keys=9)


@pytest.mark.thorough
def test_sentences_are_traced_once_each_and_not_at_bos(tmp_path, corpus):
    target = tmp_path / "a.duckdb"
    ingest(target, saved(tmp_path / "model", seed=0), corpus, cut="sentences", bos="always", trace=1000, triggers=0)
    found = rows(
        target,
        "SELECT count(*), count(DISTINCT p.sequence_id), min(p.index), (SELECT count(*) FROM sequence) FROM trace JOIN position AS p USING (position_id)",
    )
    n, sequences, first_index, stored = found[0]
    assert n == sequences == stored > 20 and first_index == 1


def test_without_a_corpus_it_is_a_misuse(tmp_path):
    with pytest.raises(click.UsageError, match="--paper needs --corpus"):
        command.main([str(tmp_path / "a.duckdb"), "--model", "gpt2", "--paper"], standalone_mode=False)


@pytest.mark.thorough
def test_a_dry_run_foretells_the_paper_run(tmp_path, gpt2, corpus, capsys):
    target = tmp_path / "a.duckdb"
    arguments = ["--model", str(gpt2), "--corpus", str(corpus / "*.txt"), "--context", "16", "--triggers", "5", "--trace", "12", "--paper", "--paper-keys", "4"]
    command.main([str(target), *arguments, "--dry-run"], standalone_mode=False)
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    lines, times = ({words[0]: words[1:] for words in printed if len(words) == n} for n in (3, 2))
    assert not target.exists()
    assert all(times[name][0].count(":") == 2 for name in TABLES)
    command.main([str(target), *arguments], standalone_mode=False)
    found = counts(target)
    foretold = {table: int(lines[table][0].replace(",", "")) for table in TABLES}
    assert {t: foretold[t] for t in TABLES[2:]} == {t: found[t] for t in TABLES[2:]}
    # prefixes of one token are not read again, and nothing follows the end of a document
    assert foretold["removal"] == 2 * 4 * 5 * 3 and foretold["next_token_rank"] == 2 * 40
    assert all(0.6 * foretold[t] < found[t] <= foretold[t] for t in TABLES[:2])
