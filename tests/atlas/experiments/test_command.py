"""`atlas experiment`: list, show, remove."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from atlas.cli.main import cli
from schema.errors import AtlasError
from tests.atlas.experiments.looking import ids


def ran(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["experiment", *map(str, arguments)])


@pytest.mark.thorough
def test_they_are_listed(full_path: Path) -> None:
    found = ran("list", "--db", full_path, "--format", "json", "--columns", "experiment,kind,n_arms")
    assert json.loads(found.stdout)[0] == {"experiment": 0, "kind": "live", "n_arms": 5}
    assert len(json.loads(found.stdout)) == 6


def test_commands_that_run_a_model_stand_among_the_others_in_the_order_of_the_alphabet() -> None:
    names = re.findall(r"^  ([a-z]+) ", ran("--help").stdout.partition("Commands:")[2], re.MULTILINE)
    assert [name for name in names if name in ("list", "remove", "run", "show", "tracing")] == ["list", "remove", "run", "show", "tracing"]


def test_where_there_are_none_it_says_so(path: Path) -> None:
    found = ran("list", "--db", path)
    assert (found.exit_code, found.stderr) == (0, "note: no experiments yet\n")


def test_one_is_shown_with_its_prompts_and_arms(full_path: Path) -> None:
    found = ran("show", 0, "--db", full_path)
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert lines[0] == "experiment 0: cats and dogs"
    assert 'settings        {"noise": 3}' in lines
    for part in ("The dog", "L1N0 at 2", "random_control", '"op":"zero"', "outcome_token"):
        assert part in found.stdout


def test_one_is_removed_and_the_others_stay(full_path: Path) -> None:
    assert ran("remove", 0, "--db", full_path).stderr == "experiment 0 is removed\n"
    assert ids(full_path) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("command", ["show", "remove"])
def test_what_there_is_not_is_refused_with_what_there_is(full_path: Path, command: str) -> None:
    found = ran(command, 6, "--db", full_path)
    assert isinstance(found.exception, AtlasError)
    assert str(found.exception).startswith("no experiment 6; available: 0")
