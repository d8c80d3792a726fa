"""A few turns of what `make kill-live` and `make soak-live` do hundreds of."""

import shutil
from pathlib import Path

import pytest

from tests.crash.live_kills import live_kills
from tests.crash.live_soak import grown, live_soak
from tests.crash.soak_figures import Usage
from tests.live.conftest import World, kept, live_process, private_sockets


@pytest.fixture
def copied(world: World, tmp_path: Path) -> World:
    """An atlas to save beside."""
    return World(world.tiny, Path(shutil.copy(world.atlas, tmp_path / "copy.duckdb")))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_model_process_that_is_killed_again_and_again_leaves_nothing(copied: World) -> None:
    with private_sockets() as sockets:
        kept(copied, sockets)
        found, n_kills, _ = live_kills(copied, kills=3, minutes=4, n_clients=1, seed=1)
    assert 0 < n_kills <= 3 and found["answered"] + found["saved"] > 0


@pytest.mark.long
def test_a_short_soak_of_the_model_process_ends_well(copied: World) -> None:
    with private_sockets(), live_process(copied) as process:
        found, rows = live_soak(process.pid, copied.atlas, requests=40, seed=1)
        assert process.poll() is None
    assert {"answered", "refused", "gone"} <= found.keys()
    assert (len(rows), grown(rows)) == (10, [])


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (Usage(499, 30), []),
        (Usage(501, 30), ["memory grew from 400 to 501 MB"]),
        (Usage(400, 41), ["handles grew from 30 to 41"]),
    ],
)
def test_growth_is_what_the_last_has_beyond_the_first(last: Usage, said: list[str]) -> None:
    """Allowed are 15 % and 40 MB, 400 · 1.15 + 40 = 500 and less than 501, and 10 handles."""
    assert grown([Usage(400, 30), Usage(9000, 900), last]) == said
