"""A few turns of the loops that `make kill-loop` runs hundreds of."""

import re

import pytest

from tests import preloaded

pytestmark = pytest.mark.timeout(900)


def kill_loop(*arguments: str) -> str:
    """What it says in the end. Raises AssertionError if what an ingest ended with was not the same."""
    done = preloaded.run("from tests.crash.kill_loop import main; main()", "--seed", "1", "--minutes", "6", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return preloaded.told(done)[-1]


@pytest.mark.long
def test_an_ingest_that_is_killed_again_and_again_ends_as_if_it_had_not_been() -> None:
    assert re.match(r"[1-3] kills", kill_loop("--kills", "3"))


@pytest.mark.long
def test_so_does_one_into_a_lake_whose_catalogue_is_restarted_as_well() -> None:
    """The second kill restarts it."""
    found = kill_loop("--kills", "3", "--lake")
    assert re.match(r"[1-3] kills", found)
    assert "PostgreSQL 1" in found or "its time was over" in found
