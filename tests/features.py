"""What `make test` must execute at least once: each command, pass, question, page, kind of experiment, family, export and item of a paper.

The lists come from the registries. A run with `--features FOLDER` notes there what it executed to its end (`watch`); `make test` then runs the test of
this file, which no other run collects, with the folder in the environment.
"""

import functools
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

import click

FOLDER = "ATLAS_FEATURES"
"""Environment variable: the folder that a run notes what it executed in, for this process and those that it starts."""

noted: set[str] = set()


@functools.cache
def notes() -> TextIO:
    """The file of this process and of those that it forks: opened before a test makes it another user."""
    return Path(os.environ[FOLDER], str(os.getpid())).open("a", buffering=1, encoding="utf-8")


def note(kind: str, *names: str) -> None:
    """Note that features of a kind were executed; without a folder to note it in, do nothing."""
    new = {f"{kind} {name}" for name in names if FOLDER in os.environ} - noted
    for line in sorted(new):
        notes().write(f"{line}\n")
    noted.update(new)


def watch() -> None:
    """Note every feature that this process executes to its end, until it ends."""
    notes()
    wrap("atlas.frames", "fetch", lambda _answer, _con, sql, *_, **__: note("question", *questions_in(sql)))
    wrap("atlas.typed.execution", "run_select", lambda _answer, _con, sql, *_, **__: note("question", *questions_in(sql)))
    wrap("atlas.export.formats", "render", lambda _bytes, _frame, format, _style: note("export", format))
    wrap("atlas.export.rendering", "convert_svg", lambda _bytes, _svg, format: note("export", format))
    wrap("atlas.papers.make", "make_item", lambda made, *_: note("item", *([] if made.frame is None else [made.item.name])))
    wrap("ingest.store.register", "finish_run", note_run)
    wrap("ingest.experiments.driver", "carry_out", lambda _ran, _world, spec, *_: note("kind", spec.kind))
    wrap("ingest.model.checks", "check_identities", lambda _errors, model: note("family", model.model_type))
    invoke = click.Command.invoke

    def invoked(self: click.Command, ctx: click.Context) -> Any:
        answer = invoke(self, ctx)
        if self.callback is not None and not isinstance(self, click.Group):
            note("command", command_id(self))
        return answer

    click.Command.invoke = invoked  # type: ignore[method-assign]


def wrap(module: str, name: str, after: Callable[..., None]) -> None:
    """Call `after` with the answer and the arguments of each call of a function that returns, wherever it was imported to by name."""
    function = getattr(importlib.import_module(module), name)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        answer = function(*args, **kwargs)
        after(answer, *args, **kwargs)
        return answer

    for place in [m for loaded, m in sys.modules.items() if loaded.split(".")[0] in ("atlas", "ingest", "schema", "ui")]:
        if getattr(place, name, None) is function:
            setattr(place, name, called)


@functools.cache
def questions_in(sql: str) -> frozenset[str]:
    """The questions that a statement calls."""
    from atlas.questions import questions

    return frozenset(re.findall(r"\b(\w+)\s*\(", sql)) & questions().keys()


def note_run(_: None, con: Any, run_id: int) -> None:
    """Note the pass of a run that is complete."""
    note("pass", con.execute("SELECT kind FROM run WHERE run_id = ?", [run_id]).fetchone()[0])


def command_id(command: click.Command) -> str:
    """Where a command's function is written, and its name where one function makes several: what a test calls by itself has no group above it.

    The commands of `atlas ask` are one, since each question is a feature by itself.
    """
    assert command.callback is not None
    written = f"{command.callback.__module__}.{command.callback.__qualname__}"
    return f"{written} {command.name}" if "<locals>" in written and command.callback.__module__ != "atlas.cli.ask" else written


def commands() -> Iterable[str]:
    """Every command that is no group."""
    from atlas.cli.main import cli

    def leaves(command: click.Command, context: click.Context) -> Iterable[click.Command]:
        if not isinstance(command, click.Group):
            yield command
            return
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from leaves(below, click.Context(below, info_name=name, parent=context))

    return map(command_id, leaves(cli, click.Context(cli, info_name="atlas")))


def registered() -> set[str]:
    """Every feature, from its registry."""
    from atlas.export.formats import FORMATS
    from atlas.export.rendering import FIGURE_FORMATS
    from atlas.papers.catalogue import PAPERS
    from atlas.questions import questions
    from ingest.experiments.kinds import kinds
    from ingest.model.architectures import architectures
    from ingest.passes import passes

    pages = Path(importlib.import_module("ui").__path__[0], "app_pages").glob("*.py")
    lists = {
        "command": commands(),
        "pass": passes(),
        "question": questions(),
        "page": (page.stem for page in pages),
        "kind": kinds(),
        "family": architectures(),
        "export": [*FORMATS, *FIGURE_FORMATS],
        "item": (item.name for paper in PAPERS.values() for item in paper.items),
    }
    return {f"{kind} {name}" for kind, names in lists.items() for name in names}


def executed(folder: Path) -> set[str]:
    """What a run noted, all its processes together."""
    return {line for file in folder.iterdir() for line in file.read_text(encoding="utf-8").splitlines()}


def test_every_feature_was_executed() -> None:
    assert FOLDER in os.environ, f"say with {FOLDER} where a run with --features noted what it executed"
    missing = sorted(registered() - executed(Path(os.environ[FOLDER])))
    assert not missing, "no test executed them: " + ", ".join(missing)
