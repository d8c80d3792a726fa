"""`atlas collection`, as typed."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from atlas.cli.main import cli
from schema.errors import AtlasError


@pytest.fixture
def path(tiny_path: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(tiny_path, tmp_path / "tiny.duckdb"))


def run(path: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["collection", *words, "--db", str(path)], catch_exceptions=False)


def test_from_the_first_member_to_the_last(path: Path, tmp_path: Path) -> None:
    assert run(path, "list").stderr == (
        f"note: no collections yet; `atlas collection add first --sql 'FROM neuron LIMIT 3' --by YOU --db {path}` makes a collection that holds three neurons\n"
    )
    assert run(path, "add", "cats", "L0N1", "L1H0", "--token", " cat", "--position", "2", "--by", "ada", "--note", "of cats").stderr == "cats: 4 added\n"
    sql = "SELECT layer, neuron FROM neuron WHERE neuron = 1"
    assert run(path, "add", "cats", "--sql", sql, "--by", "ada", "--member-note", "all of one row").stderr == "cats: 2 added, 1 were in it already\n"
    shown = run(path, "show", "cats", "--format", "csv", "--columns", "kind,layer,neuron,note").stdout.splitlines()
    assert shown[1] == 'neuron,0,1,""'
    assert shown[-1] == "neuron,2,1,all of one row"
    assert run(path, "remove", "cats", "L0N1", "--token", " cat").stderr == "cats: 2 removed\n"
    run(path, "rename", "cats", "dogs")
    run(path, "describe", "dogs", "of dogs")
    assert run(path, "list", "--format", "csv", "--columns", "name,n_members,note").stdout == "name,n_members,note\ndogs,4,of dogs\n"
    run(path, "show", "dogs", "-o", str(tmp_path / "dogs.csv"))
    assert (tmp_path / "dogs.csv.provenance.json").exists()
    assert run(path, "remove", "dogs", "--whole").stderr == "dogs: 4 removed, and the collection with them\n"


@pytest.mark.first_cases(10)
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("add", "x", "L0N1x", "--by", "a"), "'L0N1x' is not an address"),
        (("add", "x", "--token", "no such", "--by", "a"), "no token 'no such' in the vocabulary"),
        (("add", "x", "--sql", "SELECT name FROM corpus", "--by", "a"), "these rows name nothing to collect"),
        (
            ("add", "x", "--sql", "SELECT 'a' AS layer, 1 AS neuron", "--by", "a"),
            "layer is of type String; layers, neurons and heads must be integers",
        ),
        (("add", "x", "--sql", "SELECT 1e300 AS position_id", "--by", "a"), "nothing to collect: position_id is of type Float64"),
        (("add", "x", "--sql", "SELECT 3000000000 AS token_id", "--by", "a"), "^this atlas has no token 3000000000$"),
        (("add", "x", "--position", "9" * 23, "--position", "2", "--by", "a"), f"^this atlas has no position {'9' * 23}$"),
        (("add", "x", "--by", "a"), "nothing to add"),
        (("show", "x"), "no collection 'x'; there are none yet"),
        (("rename", "\udcff", "x"), "cannot be encoded in UTF-8"),
        (("describe", "\udcff", "x"), "cannot be encoded in UTF-8"),
        (("remove", "\udcff", "--whole"), "cannot be encoded in UTF-8"),
        (("add", "x", "--token", "\udcff", "--by", "a"), "cannot be encoded in UTF-8"),
        (("rename", "x", "y"), "no collection 'x'"),
    ],
)
def test_what_is_wrong_is_said(path: Path, words: tuple[str, ...], why: str) -> None:
    with pytest.raises(AtlasError, match=why):
        run(path, *words)


@pytest.mark.parametrize("words", [("remove", "x"), ("remove", "x", "L0N1", "--whole")])
def test_removing_wants_one_of_both(path: Path, words: tuple[str, ...]) -> None:
    assert run(path, *words).exit_code == 2
