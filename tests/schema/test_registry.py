"""Two things of one name are refused, and so is a thing that cannot be loaded: in one line, with the distributions, whatever the group."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from click import Command, Context
from click.testing import CliRunner

import atlas.questions
from atlas.cli import experiment
from atlas.cli.main import cli, find_commands, run
from ingest import passes
from ingest.experiments import driver, kinds
from ingest.model import architectures
from ingest.text import suites
from schema import release
from schema.errors import AtlasError
from schema.open import kinds as companions
from tests.distribution import installed

SWEEP, SALIENCY, COLLECTIONS = (SimpleNamespace(name=name) for name in ("sweep", "saliency", "collections"))
FAMILIES, SUITES = {"llama": architectures.ARCHITECTURES["llama"]}, {".json": None}
COMMANDS = {"list": Command("list")}
WORDS, NUMBERS = [".json"], {1: None}


def questions() -> dict[str, str]:
    return {"top_triggers": ""}


def uncached(read: Callable[[], object]) -> Callable[[], object]:
    return getattr(read, "__wrapped__", read)


READERS = {
    passes.GROUP: (passes.passes, "SWEEP", "sweep"),
    kinds.GROUP: (kinds.kinds, "SALIENCY", "saliency"),
    architectures.GROUP: (architectures.architectures, "FAMILIES", "llama"),
    suites.GROUP: (suites.readers, "SUITES", r"\.json"),
    companions.GROUP: (companions.kinds, "COLLECTIONS", "collections"),
    release.QUESTION_GROUP: (release.question_sources, "questions", "top_triggers"),
    experiment.PLUGIN_GROUP: (lambda: experiment.command.list_commands(Context(experiment.command)), "COMMANDS", "list"),
    driver.STORE: (driver.store, "SWEEP", "the store of experiments"),
}
"""Group → what reads it, and what of this file has a name that is taken, and that name."""


@pytest.mark.parametrize("group", READERS)
def test_a_name_that_is_taken_is_refused_with_both_that_have_it(tmp_path: Path, group: str) -> None:
    read, value, name = READERS[group]
    both = rf"^'{name}' is brought twice, by .*activation-atlas .*and by .*mine = tests\.schema\.test_registry:{value} of {group} \(noise 0\).*: rename one"
    both = both if "store" not in group else rf"^'{name}' is brought twice, by the entry point mine .*\(noise 0\) and by .*activation-atlas 0"
    both = both if group != release.QUESTION_GROUP else rf"^'{name}' is brought twice, by .*activation-atlas 0.* and by the entry point mine .*\(noise 0\)"
    with installed(tmp_path, {group: {"mine": f"tests.schema.test_registry:{value}"}}), pytest.raises(AtlasError, match=both) as refused:
        uncached(read)()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("group", READERS)
def test_what_cannot_be_loaded_is_refused_with_its_distribution(tmp_path: Path, group: str) -> None:
    said = rf"^the entry point mine = no\.such:THING of {group} \(noise 0\) is broken: ModuleNotFoundError: No module named 'no'$"
    with installed(tmp_path, {group: {"mine": "no.such:THING"}}), pytest.raises(AtlasError, match=said):
        uncached(READERS[group][0])()


@pytest.mark.parametrize(("value", "kind"), [("WORDS", "list"), ("NUMBERS", "dict")])
def test_what_is_no_mapping_from_names_is_refused_with_its_distribution(tmp_path: Path, value: str, kind: str) -> None:
    said = rf"^the entry point mine = .* of {suites.GROUP} \(noise 0\) is broken: it gives {kind}, which must be a mapping from names$"
    with installed(tmp_path, {suites.GROUP: {"mine": f"tests.schema.test_registry:{value}"}}), pytest.raises(AtlasError, match=said):
        uncached(suites.readers)()


def test_a_broken_command_is_listed_and_refused_when_it_is_called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with installed(tmp_path, {"activation_atlas.commands": {"mine": "no.such:THING"}}):
        assert "\n  mine" in CliRunner().invoke(cli, ["--help"]).output
        assert run(["mine"], False) == 1
    assert capsys.readouterr().err == (
        "Error: the entry point mine = no.such:THING of activation_atlas.commands (noise 0) is broken: ModuleNotFoundError: No module named 'no'\n"
    )


@pytest.mark.parametrize("name", ["status", "doctor"])
def test_a_command_whose_name_is_taken_is_refused_unloaded(tmp_path: Path, name: str) -> None:
    groups = {"activation_atlas.commands": {name: "no.such:THING"}}
    with installed(tmp_path, groups), pytest.raises(AtlasError, match=rf"'{name}' is brought twice, .*{name} = no.such:THING"):
        find_commands()


def test_a_table_module_that_two_name_is_refused(tmp_path: Path) -> None:
    groups = {release.TABLE_GROUP: {"noise": "tests.schema.noise.noise_tables", "again": "tests.schema.noise.noise_tables"}}
    with installed(tmp_path, groups), pytest.raises(AtlasError, match=r"'tests\.schema\.noise\.noise_tables' is brought twice"):
        release.added_modules()


def test_a_question_of_a_companion_and_of_atlases_are_not_called_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atlas.questions, "question_sources", lambda: {"experiment_summary": ""})
    with pytest.raises(AtlasError, match="two questions are called experiment_summary, in atlases and experiments"):
        uncached(import_module("atlas.questions").questions)()


def test_another_distribution_adds_a_reader_of_suites(tmp_path: Path) -> None:
    with installed(tmp_path / "site", {suites.GROUP: {"mine": "tests.schema.test_registry:TSV"}}):
        assert ".tsv" in uncached(suites.readers)()


TSV = {".tsv": lambda path, name, seed: []}
