"""Other systems than Linux: Windows is refused in a line, and macOS is told which limits it does not hold."""

import subprocess
import sys
import tomllib

import pytest

from tests.rooms import ROOT

WINDOWS = "import click, importlib.metadata, signal, subprocess, sys; sys.platform = 'win32'; sys.modules |= {'fcntl': None, 'resource': None}; "
"""A process that looks like one there: it has neither module."""

SAID = "activation-atlas runs on Linux and macOS: Windows lacks the file locks that it needs (flock). On Windows, use it in WSL"


@pytest.mark.parametrize("command", ["status", "ingest", "ui", "live"])
def test_a_command_on_windows_is_one_line(command: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"{WINDOWS}from atlas.cli import main; main(['{command}'])"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"Error: {SAID}\n")


def test_an_atlas_on_windows_is_one_error() -> None:
    code = f"{WINDOWS}import atlas\ntry: atlas.open('a.duckdb')\nexcept atlas.AtlasError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{SAID}\n", "")


def test_the_package_names_the_systems_that_it_runs_on() -> None:
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert [name for name in said if name.startswith("Operating System")] == ["Operating System :: POSIX :: Linux", "Operating System :: MacOS"]
