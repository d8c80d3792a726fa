"""A text's numbers are its own, whatever is read beside it or follows it; a model of which this is not so is refused with the context of which it is."""

import json
from pathlib import Path

import pytest
import torch

from ingest.model.checks import SHORT
from ingest.model.neighbours import check_texts, neighbour_error, places, reads_alike
from ingest.request import Request
from schema.errors import AtlasError
from tests.exact.tiny import asked, run, tokenizer
from tests.ingest.tiny_models import tiny_hf, tiny_model

torch.set_num_threads(1)

LONGROPE = {"rope_type": "longrope", "rope_theta": 10_000.0, "short_factor": [1.0, 1.0], "long_factor": [1.0, 8.0]}
LONGROPE |= {"original_max_position_embeddings": 16, "factor": 4.0}


def test_a_model_that_looks_at_the_longest_of_a_batch_is_seen_where_the_context_reaches_so_far() -> None:
    model = tiny_model("llama", rope_parameters=LONGROPE)
    assert neighbour_error(model, 16) < 1e-6 and reads_alike(model, 16)
    assert neighbour_error(model, 17) > 1e-3 and not reads_alike(model, 17)
    assert neighbour_error(model, SHORT) == 0


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "bloom"])
def test_others_read_every_text_as_it_is_alone(model_type: str) -> None:
    assert neighbour_error(tiny_model(model_type), 64) < 1e-5


def test_places_are_spread_and_those_with_the_largest_coefficients() -> None:
    coefficients = torch.zeros(1000, 3)
    coefficients[5, 1], coefficients[700, 2] = -9, 8
    found = places(coefficients).tolist()
    assert {0, 5, 700, 999} <= set(found) and len(found) == 40
    assert set(places(coefficients[:4]).tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("context", [17, 48])
def test_such_a_model_is_refused_with_the_context_that_can_be_read(context: int) -> None:
    model = tiny_model("llama", rope_parameters=LONGROPE)
    with pytest.raises(AtlasError, match=rf"a text of {context} tokens .*relative error 0\.\d+\), as with RoPE of the type longrope: .*; use --context 16$"):
        check_texts(model, context)
    check_texts(model, 16)


def test_an_ingest_of_such_a_model_stores_nothing_until_its_context_is_one_that_can_be_read(tmp_path: Path) -> None:
    tiny_hf("llama", rope_parameters=LONGROPE).save_pretrained(tmp_path / "long")
    tokenizer(False).save_pretrained(tmp_path / "long")
    (tmp_path / "texts.jsonl").write_text(json.dumps({"text": "We hold these truths to be self-evident."}) + "\n")

    def request(context: int) -> Request:
        of = {"context": context, "triggers": 4, "batch_size": 1, "shard_positions": 100, "seed": 0}
        return asked(tmp_path / "a.duckdb", str(tmp_path / "long"), str(tmp_path / "texts.jsonl"), **of)

    with pytest.raises(AtlasError, match="use --context 16"):
        run(request(48))
    assert not (tmp_path / "a.duckdb").exists()
    assert run(request(16)).exists()
