"""A prompt is answered with numbers that add up, though the model was checked on shorter texts; heads are told of a model whose heads hold."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
import pytest

from ingest.live.engine import Engine
from ingest.live.request import LiveRequest
from ingest.live.weights import wanted_model
from ingest.model import models
from ingest.model.checks import SHORT
from schema.errors import AtlasError
from schema.open.store import open_reader
from tests.ingest.test_sabotage import FFN, PATTERN, ffn, later, output, unrotated
from tests.live.conftest import PROMPT, World, private_sockets

LONG = f"{PROMPT}: {PROMPT}"

Answer = Callable[..., dict[str, pa.Table]]


@contextmanager
def engine_of(world: World, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], object]) -> Iterator[Answer]:
    """Answers of the atlas's own weights in changed code."""
    load = models.load_hf

    def changed(*args: Any) -> Any:
        hf = load(*args)
        change(hf)
        return hf

    with private_sockets(), closing(open_reader(world.atlas)) as con:
        monkeypatch.setattr(models, "load_hf", changed)
        engine, weights = Engine(world.atlas, str(world.tiny.folder), "cpu"), wanted_model(con).weights_sha256

        def answer(text: str, **asked: Any) -> dict[str, pa.Table]:
            parts = engine.trace(LiveRequest(text, weights, **asked), lambda *_, **__: None)
            return {name: table for part in parts for name, table in part.items()}

        yield answer


def test_a_model_that_does_otherwise_further_on_answers_no_prompt_that_is_so_long(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    n_long = len(world.tiny.tokenizer(LONG).input_ids)
    assert len(world.tiny.tokenizer(PROMPT).input_ids) < n_long - 5
    with engine_of(world, monkeypatch, output(ffn(0), later(max(SHORT, n_long - 5)))) as answer:
        assert answer(PROMPT)["coefficient"].num_rows
        with pytest.raises(AtlasError) as raised:
            answer(LONG)
        assert FFN in str(raised.value) and "fails at layer 0: relative error 0.5" in str(raised.value)


def test_a_prediction_is_taken_apart_where_heads_hold(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine_of(world, monkeypatch, unrotated) as answer:
        assert answer(PROMPT)["coefficient"].num_rows
        with pytest.raises(AtlasError, match="as `atlas trace` does") as raised:
            answer(PROMPT, apart=-1)
        assert PATTERN in str(raised.value)
        assert answer(PROMPT)["coefficient"].num_rows, "the process goes on"
