"""Experiments from the command line: the same by options as by a file."""

from pathlib import Path

import pytest

import atlas
from atlas.beside.experiments import EXPERIMENTS
from atlas.beside.experiments.store import save
from atlas.cli.main import run
from ingest.experiments.cli import spec_in
from ingest.experiments.spec import of_toml, spec_of, to_toml
from tests.atlas.experiments.tiny_experiments import BASE, arrow, experiment, prompt, tables, with_arms
from tests.experiments.conftest import World
from tests.experiments.kept import kept, specs, word_lists


def called(world: World, *arguments: str) -> int:
    return run(["experiment", *arguments, "--db", str(world.atlas)], is_debug=True)


def test_options_a_file_and_python_ask_for_the_same(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = world.prompts(2)
    model = ("--model", str(world.tiny.folder))
    of_prompts = [text for p in (one, two) for text in ("--subject", p["subject"], "--answer", p["answer"])]
    asked = ("tracing", one["text"], two["text"], *of_prompts, "--title", "two", "--draws", "1", "--every", "3", "--sites", "ffn_out", "--seed", "5", *model)
    assert called(world, *asked, "--dry-run") == 0
    assert "2 parts, " in capsys.readouterr().out and not EXPERIMENTS.path(world.atlas).exists()
    assert called(world, *asked) == 0
    assert f"kept as experiment 0: atlas experiment show 0 --db {world.atlas}" in capsys.readouterr().err
    assert called(world, "export", "0") == 0
    text = capsys.readouterr().out
    spec = of_toml(text.encode())
    assert (spec.title, spec.seed, spec.settings.draws, spec.settings.sites, [p.subject for p in spec.prompts]) == (
        "two", 5, 1, ("ffn_out",), [one["subject"], two["subject"]],
    )  # fmt: skip
    file = tmp_path / "again.toml"
    file.write_text(text)
    assert called(world, "run", str(file), *model) == 0
    assert kept(world.atlas, 0) == kept(world.atlas, 1)
    assert called(world, "show", "1") == 0
    assert "two" in capsys.readouterr().out


def test_the_command_of_each_kind_tells_what_its_file_would_cost(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By options and by a file the same parts; nothing is kept."""
    with atlas.open(world.atlas) as a:
        concept, unwanted = word_lists(a.con)
    settings = {
        "concept": concept,
        "unwanted": unwanted,
        "values": 2,
        "min_tokens": 2,
        "samples": 1,
        "new_tokens": 2,
        "text_tokens": 60,
        "descriptions": ["the the:"],
    }
    prompts = [{"text": text, "cluster": text} for text in ("The first", "The people")]
    suppression = {"kind": "suppression", "title": "s", "settings": settings | {"scorers": ["unwanted-words"]}, "prompts": prompts}
    for kind, asked in (specs(world) | {"suppression": suppression}).items():
        first, *others = asked["prompts"][0]
        settings = [(name, one) for name, value in asked["settings"].items() for one in (value if isinstance(value, list) else [value])]
        options = [(name, given[name]) for given in asked["prompts"] for name in others] + settings
        by_options = [kind, *(given[first] for given in asked["prompts"])]
        by_options += [word for name, value in options for word in (f"--{name.replace('_', '-')}", str(value))]
        file = tmp_path / f"{kind}.toml"
        file.write_text(to_toml(spec_of(asked)))
        said = []
        for command in (by_options, ["run", str(file)]):
            assert called(world, *command, "--dry-run", "--model", str(world.tiny.folder)) == 0, capsys.readouterr().err
            said.append(capsys.readouterr().out)
        assert " parts, " in said[0] and said[0].partition(" parts, ")[0] == said[1].partition(" parts, ")[0]
    assert not EXPERIMENTS.path(world.atlas).exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("tracing",), 2, "no prompt was given: give one, or --facts"),
        (("tracing", "a b", "--facts"), 2, "prompts and --facts were given: give only one of them"),
        (("saliency",), 2, "no prompt was given"),
        (("tracing", "a", "b", "--subject", "a"), 2, "2 prompts were given, and --subject 1 times: give it once for each prompt"),
        (("tracing", "a"), 2, "--subject is missing: part of the text, at its first occurrence; give one for each prompt"),
        (("patching", "a"), 2, "--corrupted is missing: the corrupted text, of as many tokens; give one for each prompt"),
        (("run", "nothing.toml"), 2, "'nothing.toml' does not exist"),
        (("export", "7"), 1, "no experiment 7; there are none yet"),
        (("export", "7" * 60), 1, f"Error: no experiment {'7' * 60}; there are none yet"),
        (("remove", "7" * 60), 1, f"Error: no experiment {'7' * 60}; there are none yet"),
    ],
)
def test_what_is_missing_is_said(world: World, arguments: tuple[str, ...], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiment", *arguments, "--db", str(world.atlas)], is_debug=False) == code
    assert message in capsys.readouterr().err


@pytest.mark.thorough
def test_what_no_file_says_is_not_exported(world: World) -> None:
    with atlas.open(world.atlas) as a:
        weights = a.sql("SELECT weights_sha256 FROM model").item()
    row = experiment("live", "by hand", weights_sha256=weights)
    save(world.atlas, arrow(tables(row, [prompt(0, "The", [(1, 0, 3, "last")])], **with_arms([BASE]))))
    with pytest.raises(atlas.AtlasError, match="experiment 0 is of kind live and was saved by hand: no file can repeat it"):
        spec_in(world.atlas, 0)
