"""What a terminal shows while the model process works: one line of what it does, one a text, each no wider than the terminal, and nothing in the end."""

import os
import pty
import sys
import threading
from contextlib import suppress
from typing import Any

import pytest

import atlas
from atlas.cli.main import run
from atlas.cli.trace import lines_of, shown_progress
from tests.live.conftest import PROMPT, World


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        ({"stage": "forward pass", "share": 0.5}, ["forward pass 50%"]),
        ({"waiting": 3}, ["3 before you in "]),
        ({"stage": "generating", "share": 0.25, "texts": [" to be", " to go\x1b[31m\n on"]}, ["generating 25%", "base: to be", "L1N3=0:b[31m↵ on"]),
        ({"stage": "generating", "share": 0.25, "texts": ["日本語の文章を書く", ""]}, ["generating 25%", "base:文章を書く", "L1N3=0:"]),
        ({"stage": ""}, [""]),
    ],
)
def test_lines(said: dict[str, Any], lines: list[str]) -> None:
    """A text's end is shown where it is longer than the terminal is wide."""
    assert lines_of(said, ["base", "L1N3=0"], 16) == lines


def on_terminal(process: World, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a terminal gets to see of a prompt that goes on."""
    ours, theirs = pty.openpty()
    parts: list[bytes] = []

    def read_on() -> None:
        # a terminal that nobody reads holds up who writes; its end is an error
        with suppress(OSError):
            while part := os.read(ours, 1 << 16):
                parts.append(part)

    reader = threading.Thread(target=read_on)
    reader.start()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert run(["trace", PROMPT, "--set", "L1N3=0", "--generate", "20", "--db", str(process.atlas)], False) == 0
        monkeypatch.undo()
    reader.join()
    os.close(ours)
    return b"".join(parts).decode()


@pytest.mark.thorough
def test_a_terminal_shows_texts_while_they_come_and_is_clean_in_the_end(process: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with atlas.open(process.atlas) as a:
        whole = a.live().trace(PROMPT, n_new=20).continuations["text"].item()
    beginnings: set[str] = set()
    # a process that is quick, or not given the processor, may be done before anybody looks
    for _ in range(20):
        shown = on_terminal(process, monkeypatch)
        assert shown.endswith("\x1b[J\r")
        texts = {part.partition("base:")[2].splitlines()[0] for part in shown.split("\x1b[J") if "base:" in part}
        # tokens that are half a character show as nothing that the whole text has
        beginnings |= {text for text in texts if text and text != whole and whole.startswith(text.rstrip("�"))}
        if beginnings:
            break
    assert beginnings


def test_no_terminal_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress(["base"]) as progress:
        progress({"stage": "generating", "texts": ["x"]})
    assert capsys.readouterr() == ("", "")
