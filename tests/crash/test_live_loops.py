"""A few turns of what `make kill-live` and `make soak-live` do hundreds of."""

import pytest

from tests import preloaded
from tests.crash.live_soak import grown
from tests.crash.soak_figures import Usage


def test_a_model_process_that_is_killed_again_and_again_leaves_nothing() -> None:
    done = preloaded.run("from tests.crash.live_kills import main; main()", "--kills", "4", "--clients", "2", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    said = preloaded.told(done)[-1]
    assert said.startswith("4 kills; requests: ")
    assert said.endswith("the atlas and its experiments are whole, no process and no socket is left")


def test_a_short_soak_of_the_model_process_ends_well() -> None:
    done = preloaded.run("from tests.crash.live_soak import main; main()", "--requests", "40", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    *rows, said = preloaded.told(done)
    assert (len(rows), said.startswith("40 requests ("), said.endswith("nothing grew")) == (10, True, True)


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (Usage(500, 30), []),
        (Usage(501, 30), ["memory grew from 400 to 501 MB"]),
        (Usage(400, 41), ["handles grew from 30 to 41"]),
    ],
)
def test_growth_is_what_the_last_has_beyond_the_first(last: Usage, said: list[str]) -> None:
    """Allowed are 15 % and 40 MB, 400 · 1.15 + 40 = 500, and 10 handles."""
    assert grown([Usage(400, 30), Usage(9000, 900), last]) == said
