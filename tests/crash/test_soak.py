"""A turn of what `make soak` does for an hour, and what it says of figures that grow."""

from dataclasses import replace

import pytest

from tests import preloaded
from tests.crash.soak_figures import Row, Usage, grown


@pytest.mark.long
def test_a_short_soak_ends_well() -> None:
    done = preloaded.run("from tests.crash.soak import main; main()", "--minutes", "0.1", "--seed", "1", "--no-browser")
    assert done.returncode == 0, done.stdout + done.stderr
    head, *rows, said = preloaded.told(done)
    assert head.split()[:4] == ["minute", "ingests", "kills", "snapshots"]
    assert rows
    assert "each the same to the bit" in said
    assert said.endswith("nothing grew, nothing is left")


FLAT = Row(1.0, 6, 4, 100, 5.0, Usage(400, 30), Usage(500, 30), Usage(200, 20), Usage(), 0)


@pytest.mark.parametrize(
    ("later", "said"),
    [
        ({}, []),
        ({"reader": Usage(269, 30)}, []),
        ({"reader": Usage(271, 30)}, ["reader grew from 200 to 271 MB"]),
        ({"steady": Usage(500, 41)}, ["steady grew from 30 to 41 handles"]),
        ({"disk_mb": 6.8}, ["the disk grew from 5 to 7 MB"]),
    ],
)
def test_growth_is_what_the_last_quarter_has_beyond_the_first(later: dict, said: list[str]) -> None:
    """Allowed are 10 handles and 15 % with 40 MB of memory or 1 MB of disk: 200 · 1.15 + 40 = 270, 5 · 1.15 + 1 = 6.75.

    Rows between the quarters do not count, nor one of a quarter's three.
    """
    peak = replace(FLAT, steady=Usage(5000, 500))
    after = replace(FLAT, **later)
    assert grown([FLAT, peak, FLAT, *[peak] * 6, after, peak, after]) == said
