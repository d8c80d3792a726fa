"""A token whose states leave float16's range is named, with its document and what helps."""

import json
import re
from collections.abc import Callable

import pytest
import torch

from ingest import run as driver
from ingest.recorders.overflow import locate_overflow
from ingest.workers.finite import NotFinite
from schema.errors import AtlasError
from schema.progress import progress_bar
from tests.ingest.test_run import request
from tests.ingest.tiny_models import tiny_hf, tiny_model, tiny_tokenizer

TEXTS = ["the quick brown fox", "the people", "a Z in the text"]


@pytest.fixture(scope="module")
def ingest(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """Ingests with a model that makes of Z what float16 does not hold, in its first layer."""
    folder = tmp_path_factory.mktemp("overflow")
    model, tokenizer = tiny_hf("llama"), tiny_tokenizer()
    with torch.no_grad():
        model.model.embed_tokens.weight[tokenizer.convert_tokens_to_ids("Z")] = 65_000
        model.model.layers[0].self_attn.o_proj.weight.mul_(20_000)
    model.half().save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    (folder / "texts.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in TEXTS))

    def run(**options: object) -> None:
        with progress_bar(is_quiet=True) as bar:
            driver.ingest(request(folder / "atlas.duckdb", folder / "model", str(folder / "texts.jsonl"), dtype="float16", **options), bar)

    return run


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("options", [{"triggers": 2, "trace": 0}, {"triggers": 0, "trace": 20}])
def test_the_place_of_an_overflow_is_named(ingest: Callable[..., None], options: dict[str, object]) -> None:
    ids = tiny_tokenizer()(TEXTS[2])["input_ids"]
    place = ids.index(tiny_tokenizer().convert_tokens_to_ids("Z"))
    position = sum(len(tiny_tokenizer()(text)["input_ids"]) for text in TEXTS[:2]) + place
    said = f"layer 0 at token {place} 'Z' of its sequence (position_id {position}), in document texts.jsonl:2. float16 holds no number above 65,504"
    with pytest.raises(AtlasError, match=rf"{re.escape(said)}: run again with --dtype bfloat16 or --dtype float32$"):
        ingest(**options)


def test_what_no_state_shows_has_no_place() -> None:
    said = r"^trace\.x is not finite\. The model's weights or its configuration make numbers that float32 does not hold$"
    with pytest.raises(NotFinite, match=said), locate_overflow(tiny_model("gpt2"), []):
        raise NotFinite("trace.x is not finite")
