"""What the model process does, and what a prompt goes on with while it comes, on lines of a terminal that go away in the end."""

import shutil
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from atlas.export.visible import visible_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from atlas.live.asking import Progress


@contextmanager
def shown_progress(names: Sequence[str] = ()) -> "Iterator[Progress]":
    """names: of base and arms, as their texts come in."""
    n_lines = 1

    def show(said: dict[str, Any]) -> None:
        nonlocal n_lines
        if sys.stderr.isatty():
            lines = lines_of(said, names, shutil.get_terminal_size().columns - 1)
            up = f"\x1b[{n_lines - 1}A" if n_lines > 1 else ""
            # to the first of the lines that are there, and everything from there on away
            click.echo(f"{up}\r\x1b[J" + "\n".join(lines) + ("" if lines[0] else "\r"), nl=False, err=True)
            n_lines = len(lines)

    try:
        yield show
    finally:
        show({"stage": ""})


def lines_of(said: dict[str, Any], names: Sequence[str], width: int) -> list[str]:
    """What is being done, and of each text the name and as much of its end as there is room for."""
    from rich.cells import cell_len

    words = f"{said['waiting']} before you in line" if "waiting" in said else said["stage"]
    share = said.get("share", 0)
    lines = [visible_line(f"{words} {share:.0%}" if share else words)[:width]]
    for name, text in zip(names, said.get("texts", ()), strict=False):
        head, text = visible_line(name)[: width // 2] + ":", visible_line(text)
        while text and cell_len(head + text) > width:
            text = text[1:]
        lines.append(head + text)
    return lines
