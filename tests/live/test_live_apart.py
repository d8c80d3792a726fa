"""A live prediction taken apart: its parts against the logits of plain transformers in float64, with and without a switched head."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
import torch

import atlas
from atlas.live import LiveTrace
from schema.errors import AtlasError
from tests.live.conftest import PROMPT, World
from tests.live.test_live_trace import TOKENS, without

ZEROED = {"site": "coefficient", "layer": 1, "units": [3, 7], "op": "zero", "positions": "all"}


@pytest.fixture(scope="module")
def traced(process: World) -> Iterator[LiveTrace]:
    with atlas.open(process.atlas) as a:
        yield a.live().trace(PROMPT, [[ZEROED], ["L1H0=0@last"]], apart=-2)


@pytest.mark.thorough
def test_parts_sum_to_the_logits_of_plain_transformers(process: World, traced: LiveTrace) -> None:
    hf = process.tiny.hf.double()
    ids = torch.tensor([traced.sql(TOKENS)["token_id"].to_list()])
    with torch.no_grad():
        base = hf(ids).logits[0, -2]
        with without(hf, 1, [3, 7]):
            switched = hf(ids).logits[0, -2]
    hf.float()
    for arm, logits in enumerate((base, switched)):
        parts = traced.ask("prediction_parts", traced.position_id(-2, arm), n=3)
        np.testing.assert_allclose(parts["logit"].sum(), logits.max(), rtol=2e-5)
        mean = traced.ask("prediction_logits", traced.position_id(-2, arm))["mean_logit"][0]
        np.testing.assert_allclose(mean, logits.mean(), rtol=1e-4, atol=1e-5)


@pytest.mark.thorough
def test_a_switched_head_adds_nothing_where_it_was_switched_and_its_row_is_told_of_the_base_alone(traced: LiveTrace) -> None:
    own = [traced.ask("prediction_parts", traced.position_id(-2, arm), n=100).filter(kind="head", layer=1, head=0)["logit"].item() for arm in (0, 2)]
    # it was switched at the last token, which this one does not see
    assert own[0] == pytest.approx(own[1]) != 0
    assert traced.ask("attention_sources", traced.position_id(-2), 1, 0)["weight"].sum() == pytest.approx(1, abs=1e-5)
    assert traced.ask("attention_sources", traced.position_id(-2, 2), 1, 0).is_empty()


def n_tokens(tables: dict[str, pa.Table]) -> int:
    return tables["prompt_token"].num_rows


@pytest.mark.thorough
def test_what_is_no_token_of_the_prompt_is_said(process: World) -> None:
    with atlas.open(process.atlas) as a:
        with pytest.raises(AtlasError, match=r"no token 50: the prompt has \d+ tokens"):
            a.live().trace(PROMPT, apart=50)
        with pytest.raises(AtlasError, match="apart is 5000; it must be at least -1,024 and at most 1,023 .index of the token"):
            a.live().trace(PROMPT, apart=5000)
        with pytest.raises(AtlasError, match="true only if apart is given"):
            a.live().answer(PROMPT, [], is_narrow=True)
        narrow = a.live().answer(PROMPT, [["L1H0=0"]], apart=-1, is_narrow=True)
        assert [len(set(narrow[name]["position_id"].to_pylist())) for name in ("residual_state", "coefficient", "logit_lens")] == [2, 2, 2 * n_tokens(narrow)]
        zeroed = a.live().trace(PROMPT, ["L1H0=0@last"], apart=-1)
        of_head = zeroed.ask("prediction_parts", zeroed.position_id(-1, 1), n=100).filter(kind="head", layer=1, head=0)
        assert of_head["logit"].item() == pytest.approx(0, abs=1e-6)
