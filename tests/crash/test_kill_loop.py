"""A few turns of the loop that `make kill-loop` runs two hundred of."""

import subprocess
import sys
from pathlib import Path


def test_an_ingest_that_is_killed_again_and_again_ends_as_if_it_had_not_been() -> None:
    command = [sys.executable, "-m", "tests.crash.kill_loop", "--kills", "12", "--seed", "1"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("12 kills")
