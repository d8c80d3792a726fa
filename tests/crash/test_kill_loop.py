"""A few turns of the loops that `make kill-loop` runs hundreds of."""

import pytest

from tests import preloaded


def kill_loop(*arguments: str) -> str:
    """What it says in the end. Raises AssertionError if what an ingest ended with was not the same."""
    done = preloaded.run("from tests.crash.kill_loop import main; main()", "--seed", "1", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return preloaded.told(done)[-1]


@pytest.mark.thorough
def test_an_ingest_that_is_killed_again_and_again_ends_as_if_it_had_not_been() -> None:
    assert kill_loop("--kills", "6").startswith("6 kills")


@pytest.mark.thorough
def test_so_does_one_into_a_lake_whose_catalogue_is_restarted_as_well() -> None:
    found = kill_loop("--kills", "4", "--lake")
    assert found.startswith("4 kills")
    assert "PostgreSQL 1" in found
