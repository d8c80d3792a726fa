"""A text's numbers are its own, whatever is read beside it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ingest.model.neighbours import SHORT, neighbour_error, reads_alike
from schema.store import open_reader
from tests.exact.tiny import asked, run, tokenizer
from tests.ingest.tiny_models import tiny_hf, tiny_model

torch.set_num_threads(1)

LONGROPE = {"rope_type": "longrope", "rope_theta": 10_000.0, "short_factor": [1.0, 1.0], "long_factor": [1.0, 8.0]}
LONGROPE |= {"original_max_position_embeddings": 16, "factor": 4.0}


def test_a_model_that_looks_at_the_longest_of_a_batch_is_seen_where_the_context_reaches_so_far() -> None:
    model = tiny_model("llama", rope_parameters=LONGROPE)
    assert neighbour_error(model, 16) < 1e-6 and reads_alike(model, 16)
    assert neighbour_error(model, 17) > 1e-3 and not reads_alike(model, 17)
    # no further than the model was made for
    assert neighbour_error(model, 10_000) == neighbour_error(model, 64)
    assert neighbour_error(model, SHORT) == 0


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "bloom"])
def test_others_read_every_text_as_it_is_alone(model_type: str) -> None:
    assert neighbour_error(tiny_model(model_type), 64) < 1e-5


@pytest.mark.thorough
def test_such_a_model_is_read_text_by_text_and_to_the_same_numbers_as_with_batches_of_one(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tiny_hf("llama", rope_parameters=LONGROPE).save_pretrained(tmp_path / "long")
    tokenizer(False).save_pretrained(tmp_path / "long")
    corpus = tmp_path / "texts.jsonl"
    corpus.write_text('{"text": "The first of the people"}\n{"text": "We hold these truths to be self-evident, that all men are created equal."}\n')
    found = []
    for batch_size in (1, 3):
        request = asked(
            tmp_path / f"{batch_size}.duckdb", str(tmp_path / "long"), str(corpus), context=48, triggers=4, batch_size=batch_size, shard_positions=100, seed=0
        )
        con = open_reader(run(request))
        found.append(con.execute("SELECT neuron, layer, mean, max, min FROM neuron_statistics ORDER BY ALL").fetchnumpy())
        assert con.execute("SELECT DISTINCT settings->>'batch_size' FROM run WHERE kind = 'sweep'").fetchall() == [("1",)]
        con.close()
    assert all(np.array_equal(found[0][name], found[1][name]) for name in found[0])
    said = "note: long reads a text otherwise beside a longer one, as with RoPE of the type longrope: texts are read one by one"
    assert capfd.readouterr().err.count(said) == 1
