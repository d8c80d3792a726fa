"""An ingest that is refused leaves the name free: nothing of it binds whoever asks for something else next."""

import shutil
import sys
from contextlib import closing
from importlib.util import find_spec
from io import BytesIO, TextIOWrapper
from pathlib import Path

import click
import pytest
from transformers import GPT2Config, GPT2LMHeadModel

from ingest import run as driver
from ingest.cli import ingest as command
from ingest.store import committer
from schema.errors import AtlasError
from schema.open.store import open_reader
from tests.ingest.test_run import corpus, ingest, saved
from tests.ingest.tiny_models import tiny_tokenizer

__all__ = ["corpus"]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    """gpt2; another of its weights' shapes; one of another width, whose tokenizer has no BOS."""
    folder = tmp_path_factory.mktemp("models")
    made = {"gpt2": saved(folder / "gpt2", seed=0), "seed1": saved(folder / "seed1", seed=1), "wide": folder / "wide"}
    GPT2LMHeadModel(GPT2Config(vocab_size=320, n_embd=48, n_layer=2, n_head=2, n_positions=64)).save_pretrained(made["wide"])
    tokenizer = tiny_tokenizer()
    tokenizer.bos_token = None
    tokenizer.save_pretrained(made["wide"])
    return made


def call(target: Path, model: Path, text: Path | str, *options: str) -> None:
    command.main([str(target), "--model", str(model), "--corpus", str(text), "--context", "16", "--triggers", "5", *options], standalone_mode=False)


def free_again(target: Path, models: dict[str, Path], corpus: Path) -> None:
    """Nothing is there, and another model and other settings are taken."""
    assert sorted(p.name for p in target.parent.glob("a.*")) == []
    ingest(target, models["seed1"], corpus, trace=0, triggers=3)
    assert [p.name for p in target.parent.glob("a.*")] == [target.name]


@pytest.mark.ci_cases(3)
@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("blank.txt", (), "has no text"),
        ("empty.jsonl", (), "is empty"),
        ("broken.jsonl", (), "broken.jsonl"),
        ("-", (), "gives no text"),
        ("good.txt", ("--seed", str(2**63)), "not in the range"),
        ("good.txt", ("--context", "100000"), "is more than the"),
    ],
)
def test_a_refused_ingest_leaves_nothing(tmp_path, models, corpus, monkeypatch, text, options, said) -> None:
    (tmp_path / "blank.txt").write_text(" \n ")
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "broken.jsonl").write_text('{"text": "the first of the people"}\n{"text": \n')
    (tmp_path / "good.txt").write_text("the first of the people")
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"")))
    with pytest.raises((AtlasError, click.ClickException), match=said):
        call(tmp_path / "a.duckdb", models["gpt2"], text if text == "-" else tmp_path / text, *options)
    free_again(tmp_path / "a.duckdb", models, corpus)


@pytest.mark.thorough
def test_a_bos_that_the_tokenizer_does_not_have_leaves_nothing(tmp_path, models, corpus) -> None:
    with pytest.raises(AtlasError, match="has no BOS token"):
        call(tmp_path / "a.duckdb", models["wide"], corpus / "*.txt", "--bos", "always")
    free_again(tmp_path / "a.duckdb", models, corpus)


@pytest.mark.thorough
def test_workers_without_ray_are_refused_before_the_model_is_read(tmp_path, models, corpus, monkeypatch) -> None:
    monkeypatch.setattr("ingest.refusals.find_spec", lambda name: None if name == "ray" else find_spec(name))
    monkeypatch.setattr(driver, "load_model", None)
    with pytest.raises(AtlasError, match="need Ray"):
        call(tmp_path / "a.duckdb", models["gpt2"], corpus / "*.txt", "--workers", "100")
    monkeypatch.undo()
    free_again(tmp_path / "a.duckdb", models, corpus)


def killed_before_the_first_shard(target: Path, model: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, **changes: object) -> None:
    """What a kill leaves: a working file with a model, a corpus and runs, and no shard."""
    with monkeypatch.context() as patched:
        patched.setattr(driver, "remove_unused_work", lambda target, work: None)
        patched.setattr(committer, "load_shard", lambda con, shard: (shutil.rmtree(shard.path), exec("raise KeyboardInterrupt")))
        with pytest.raises(KeyboardInterrupt):
            ingest(target, model, corpus, **changes)
    assert (committer.work_folder(target) / "atlas.duckdb").exists()


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("next_one", ["seed1", "wide"])
def test_a_working_folder_without_a_shard_binds_to_no_model(tmp_path, models, corpus, monkeypatch, next_one) -> None:
    target = tmp_path / "a.duckdb"
    killed_before_the_first_shard(target, models["gpt2"], corpus, monkeypatch)
    ingest(target, models[next_one], corpus, trace=0)
    with closing(open_reader(target)) as con:
        assert con.execute("SELECT name FROM model").fetchall() == [(next_one,)]


@pytest.mark.thorough
def test_a_corpus_of_which_no_shard_was_added_binds_neither_its_text_nor_its_settings(tmp_path, models, corpus, monkeypatch) -> None:
    target = tmp_path / "a.duckdb"
    ingest(target, models["gpt2"], None)
    killed_before_the_first_shard(target, models["gpt2"], corpus, monkeypatch, triggers=9)
    (corpus / "0.txt").write_text("the last of the world")
    ingest(target, models["gpt2"], corpus, triggers=3, trace=0)
    with closing(open_reader(target)) as con:
        assert con.execute("SELECT max(rank) FROM trigger").fetchall() == [(3,)]
        assert con.execute("SELECT text FROM document ORDER BY document_id LIMIT 1").fetchall() == [("the last of the world",)]
        assert con.execute("SELECT count(*) FROM corpus").fetchall() == [(1,)]


@pytest.mark.thorough
def test_a_model_that_was_moved_is_the_same_model(tmp_path, models, corpus, monkeypatch) -> None:
    target, moved = tmp_path / "a.duckdb", tmp_path / "elsewhere" / "renamed"
    ingest(target, models["gpt2"], corpus)
    shutil.copytree(models["gpt2"], moved)
    (corpus / "0.txt").rename(tmp_path / "more.txt")
    monkeypatch.chdir(moved.parent)
    ingest(target, Path("renamed"), str(tmp_path / "more.txt"))
    with closing(open_reader(target)) as con:
        assert con.execute("SELECT name FROM model").fetchall() == [("gpt2",)]
        runs = con.execute("SELECT kind, corpus_id, status, settings ->> 'model' FROM run ORDER BY run_id").fetchall()
    first, second = str(models["gpt2"]), "renamed"
    assert runs == [
        ("weights", None, "finished", first), ("sweep", 0, "finished", first), ("trace", 0, "finished", first),
        ("sweep", 1, "finished", second), ("trace", 1, "finished", second),
    ]  # fmt: skip


@pytest.mark.thorough
def test_other_weights_under_the_same_name_are_another_model(tmp_path, models, corpus) -> None:
    target, place = tmp_path / "a.duckdb", tmp_path / "gpt2"
    shutil.copytree(models["gpt2"], place)
    ingest(target, place, corpus, trace=0)
    shutil.rmtree(place)
    shutil.copytree(models["seed1"], place)
    with pytest.raises(AtlasError, match="One atlas holds one model"):
        ingest(target, place, corpus, trace=0)
