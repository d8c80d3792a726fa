"""On a machine without LaTeX or Chromium the suite leaves their tests out, names them, and passes; in CI it does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHOSEN = ["tests/atlas/test_latex.py", "tests/ui/test_browser.py", "-k", "every_token_is_on_the_page or leading_space or next_neuron"]


IN_TWO = ["-n", "2", "--dist", "loadfile"]
"""As `make test` runs them."""


def suite(path: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Some tests of tables and pages, run where only the programs in the folder `path` are found."""
    known = {name: value for name, value in os.environ.items() if name not in ("CI", "PATH")} | {"PATH": str(path)} | environment
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *options, *CHOSEN], cwd=ROOT, env=known, capture_output=True, text=True)


@pytest.mark.thorough
@pytest.mark.parametrize("options", [[], IN_TWO], ids=["in one process", "in two"])
def test_what_lacks_its_program_is_left_out_by_name_and_the_last_line_says_what_brings_it(tmp_path: Path, options: list[str]) -> None:
    done = suite(tmp_path, *options)
    assert done.returncode == 0, done.stdout
    named = [line.removeprefix("LEFT OUT ") for line in done.stdout.splitlines() if line.startswith("LEFT OUT ")]
    assert "tests/atlas/test_latex.py::test_every_token_is_on_the_page_as_it_is" in named
    assert "tests/ui/test_browser.py::test_next_neuron_renews_the_link" in named
    assert len(named) == 2
    assert "1 passed" in done.stdout
    wanted = "2 tests were left out, named above, for want of Chromium and LaTeX (pdflatex, lualatex, lmodern): install them, and run again."
    assert done.stdout.splitlines()[-1] == wanted


@pytest.mark.thorough
def test_on_debian_one_command_brings_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "apt-get").symlink_to("/bin/true")
    assert suite(tmp_path).stdout.splitlines()[-1].endswith(": `sudo make packages` brings them.")


@pytest.mark.thorough
def test_latex_without_its_fonts_is_as_good_as_none(tmp_path: Path) -> None:
    for engine in ("pdflatex", "lualatex"):
        (tmp_path / engine).symlink_to("/bin/true")
    (tmp_path / "kpsewhich").symlink_to("/bin/false")
    assert "LEFT OUT tests/atlas/test_latex.py" in suite(tmp_path).stdout


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("options", [[], IN_TWO], ids=["in one process", "in two"])
def test_in_ci_nothing_is_left_out(tmp_path: Path, options: list[str]) -> None:
    done = suite(tmp_path, *options, CI="true")
    assert done.returncode != 0
    assert "2 tests need Chromium and LaTeX (pdflatex, lualatex, lmodern), and with CI set none may be left out" in done.stdout + done.stderr
    assert "passed" not in done.stdout
