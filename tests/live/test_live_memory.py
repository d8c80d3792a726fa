"""What the model process holds at once: of an answer one part, and of prompts as many positions as it says."""

import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from ingest.live.app import TableSpool, spool_tables
from ingest.live.prompt import require_few
from ingest.live.tracing import n_runs
from schema.errors import AtlasError
from schema.interventions.parse import arm_of
from schema.live import MOST_POSITIONS

ROWS = 1000


def tell(*_: object, **__: object) -> None:
    """Says nothing."""


def test_parts_of_an_answer_are_not_held_until_it_is_sent() -> None:
    before: list[weakref.ref[pa.Table]] = []
    alive: list[int] = []

    def parts() -> Iterator[dict[str, pa.Table]]:
        for k in range(5):
            alive.append(sum(ref() is not None for ref in before))
            table = pa.table({"part": pa.repeat(k, ROWS)})
            before.append(weakref.ref(table))
            yield {"x": table, "y": table.slice(0, 1)} if k < 2 else {"x": table}

    with spool_tables(parts(), tell) as found:
        sizes, data = found.sizes, b"".join(found.pieces())
        files = list(found.files.values())
    assert max(alive) <= 1
    assert sum(sizes.values()) == len(data)
    x, y = pa.ipc.open_stream(data[: sizes["x"]]).read_all(), pa.ipc.open_stream(data[sizes["x"] :]).read_all()
    assert x["part"].to_pylist() == [k for k in range(5) for _ in range(ROWS)]
    assert y["part"].to_pylist() == [0, 1]
    assert all(file.closed for file in files)


def test_what_fails_on_the_way_leaves_no_file_open(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[TableSpool] = []
    monkeypatch.setattr(TableSpool, "__enter__", lambda self: made.append(self) or self)

    def parts() -> Iterator[dict[str, pa.Table]]:
        yield {"x": pa.table({"part": [1]})}
        raise AtlasError("no more")

    with pytest.raises(AtlasError, match="no more"):
        spool_tables(parts(), tell)
    assert [file.closed for file in made[0].files.values()] == [True]


PATCHED = {"site": "resid_post", "layer": 1, "op": "patch", "from": {"prompt_id": 0, "index": 1}, "positions": [2]}
RESAMPLED = {"site": "ffn_out", "layer": 1, "op": "resample", "seed": 1, "positions": "all"}


@pytest.mark.parametrize(("arms", "n"), [([[]], 0), ([[PATCHED], [PATCHED, PATCHED]], 1), ([[PATCHED], [RESAMPLED]], 2)])
def test_runs_that_states_are_taken_from_are_counted(arms: list[Any], n: int) -> None:
    assert n_runs([arm_of(arm) for arm in arms]) == n


def test_positions_are_bounded_with_those_of_such_runs() -> None:
    n_tokens = MOST_POSITIONS // 51
    prompts: list[Any] = [SimpleNamespace(sequences=[SimpleNamespace(token_ids=range(n_tokens))])] * 51
    require_few(prompts, 0)
    with pytest.raises(AtlasError, match="under 50 arms that take states from its own run is 1,040 positions; at most 1,024"):
        require_few(prompts, 1)
