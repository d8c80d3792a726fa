"""What cannot be done is said by `atlas trace` in one clear line on standard error, and nothing that a terminal would obey is ever printed."""

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from atlas.cli.main import run
from atlas.live import process as starting
from schema.live import private_folder, socket_path
from tests.live.conftest import PROMPT, World, private_sockets

OF_ANOTHER = [{"site": "coefficient", "layer": 29, "units": [1512], "op": "zero", "positions": "all"}]
GATED = [{"site": "pre_activation", "layer": 1, "units": [3], "op": "set", "value": 3.0, "positions": "all"}]
AHEAD = [{"site": "attention", "layer": 1, "units": "all", "op": "block", "edges": [[1, 2]]}]
BLIND = [{"site": "attention", "layer": 1, "units": "all", "op": "block", "edges": [[0, 0]]}]
OTHERS = [{"site": "resid_post", "layer": 1, "op": "patch", "from": {"prompt_id": 3, "index": 0}, "positions": "last"}]

WRONG: dict[str, tuple[list[str], object, str]] = {
    "no such layer": (["x", "--set", "L9N1=0"], None, "layer 9 was asked for; tiny-llama has layers 0 to 2"),
    "no such neuron": (["x", "--set", "L1N99=0"], None, "neuron 99 was asked for; layer 1 of tiny-llama has neurons 0 to 39"),
    "no such head": (["x", "--set", "L1H9=0"], None, "head 9 was asked for; layer 1 of tiny-llama has heads 0 to 3"),
    "no such site in the family": (["x"], GATED, "tiny-llama has a gated FFN, whose coefficients are a product, so it has no pre_activation"),
    "one cell twice": (["x", "--set", "L1N3=2", "--set", "L1N3=0"], None, "coefficient 3 of layer 1"),
    "no intervention": (["x", "--set", "L1N3"], None, '"L1N3" is no intervention; write one such as L20N630=max*0.5'),
    "a number that is none": (["x", "--set", "L1N3=max*x"], None, "is no intervention"),
    "a token that is not there": (["x", "--set", "L1N3=0@40"], None, "position 40 was asked for; the sequence has positions 0 to"),
    "no such corpus": (["x", "--set", "L1N3=max*1", "--corpus", "7"], None, "the atlas has no max of L1N3 in corpus 7"),
    "an arm of another model": (["x"], OF_ANOTHER, "layer 29 was asked for; tiny-llama has layers 0 to 2"),
    "an edge that reads ahead": (["x"], AHEAD, "reads ahead"),
    "nothing left to read": (["x"], BLIND, "position 0 would have nothing left to read"),
    "states of another prompt": (["x"], OTHERS, "an arm takes states of prompt 3; the only prompt is 0, the live one"),
    "no list": (["x"], {"site": "coefficient"}, "an arm must be a list of interventions"),
    "too long a prompt": (["x " * 100], None, "the prompt has 204 tokens; with tiny-llama, at most 64 are read"),
    "too long a continuation": ([PROMPT, "--generate", "60"], None, "are more than its context of 64"),
    "too many new tokens": (["x", "--generate", "999"], None, "n_new is 999; it must be at least 0 and at most 256"),
    "an empty prompt": ([""], None, "the prompt is empty: give it some text"),
    "half a pair": (["\ud800"], None, "text: character 0 is half a surrogate pair (U+D800)"),
    "no token there": (["x", "--index", "40"], None, "no token 40 under arm 0: the prompt has"),
    "control characters": (["x", "--set", "\x1b[31mL1"], None, "is no intervention"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", WRONG)
def test_one_line(process: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    arguments, arm, expected = WRONG[case]
    if arm is not None:
        (tmp_path / "arm.json").write_text(json.dumps(arm))
        arguments = [*arguments, "--arm", str(tmp_path / "arm.json")]
    said = one_line(process, arguments, capsys)
    assert said.startswith("Error: ") and expected in said


def one_line(world: World, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says on standard error, which is all."""
    assert run(["trace", *arguments, "--db", str(world.atlas)], False) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), "\x1b" in err, "Traceback" in err) == ("", 1, False, False)
    return err


@pytest.mark.thorough
@pytest.mark.parametrize("text", ["\x1b[31m\u202e red", "\r\n\t", "\x07\x9b2J", "\u2028\U000e0001"])
def test_control_characters_are_shown_and_not_obeyed(process: World, capsys: pytest.CaptureFixture[str], text: str) -> None:
    arguments = ["trace", text + " x", "--generate", "3", "--db", str(process.atlas)]
    assert run(arguments, False) == 0
    out, _ = capsys.readouterr()
    assert not set(out) & {"\x1b", "\x07", "\x9b", "\r", "\t", "\u202e", "\u2028", "\U000e0001"}


def garbage(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.sendall(b"220 ftp.example.org ready\r\n")


def other_json(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n[1, 2]\n")


def silence(connection: socket.socket) -> None:
    while connection.recv(1 << 16):
        pass


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (garbage, "ended before it answered"),
        (other_json, "is not a model process, or is one of another release: its answer does not follow the protocol"),
        (silence, "ended before it answered (timed out)"),
        (lambda _: None, "ended before it answered"),
    ],
)
def test_a_socket_that_another_process_holds(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, said: Callable[[socket.socket], None], expected: str
) -> None:
    monkeypatch.setattr(starting, "ANSWER", 0.5)
    with private_sockets(), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_path(world.atlas)))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                said(connection)

        thread = threading.Thread(target=answer)
        thread.start()
        assert expected in one_line(world, ["x"], capsys)
        thread.join()


@pytest.mark.thorough
def test_a_folder_of_sockets_that_is_another_users(world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The user that asks is made another, since only root gives folders away."""
    with private_sockets() as sockets:
        uid = os.getuid() + 1
        private_folder().rename(sockets / f"activation-atlas-{uid}")
        monkeypatch.setattr(os, "getuid", lambda: uid)
        assert "is for the socket of the model process, but is no folder that you alone can enter" in one_line(world, ["x"], capsys)
