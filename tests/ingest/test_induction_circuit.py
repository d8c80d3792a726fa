"""A model that does induction by weights set by hand: every number that the circuit pass stores of it is known."""

import math

import numpy as np
import pytest
import torch

from ingest.model.models import Model
from ingest.model.parts import mean_reader
from ingest.model.token_states import TokenStates
from ingest.recorders.attribution_recorder import AttributionRecorder
from ingest.recorders.circuits import circuit_tables
from ingest.recorders.heads import CorpusHeadRecorder
from ingest.recorders.reading import read_batch
from ingest.text.sequences import Sequence
from tests.exact.heads_reference import Heads
from tests.ingest.induction_model import D_MODEL, N_TOKENS, induction_model

torch.set_num_threads(1)

SEQUENCE = [0, 3, 5, 1, 6, 2, 3, 5, 1, 6]
"""From the second 3 on, every token has been there before, and what followed it is known."""


def sequence(tokens: list[int]) -> Sequence:
    return Sequence(0, 0, 0, *[np.array(tokens, np.int32)] * 4)


def rows_of(model: Model) -> dict[str, list[dict]]:
    states = TokenStates(model)
    found = [circuit_tables(model, layer, states, None) for layer in range(2)]
    return {name: [row for tables in found for row in tables[name].to_pylist()] for name in found[0]}


@pytest.fixture(scope="module")
def tables() -> dict[str, list[dict]]:
    return rows_of(induction_model())


def test_the_model_predicts_what_followed_its_token_and_looks_there() -> None:
    seen = induction_model().hf(torch.tensor([SEQUENCE]), output_attentions=True)
    assert seen.logits[0, 6:].argmax(-1).tolist() == [5, 1, 6, 2]
    first, later = (weights[0] for weights in seen.attentions)
    assert all(float(first[0, i, i - 1]) > 1 - 1e-8 for i in range(1, 10))
    assert all(float(later[0, i, i - 4]) > 1 - 1e-8 for i in range(6, 10))
    assert all(float(later[0, i, 0]) > 1 - 1e-7 for i in range(1, 6))


def test_the_later_head_reads_the_earlier_by_its_keys_and_no_other_pair_but_the_eraser_composes(tables: dict) -> None:
    scores = {(row["kind"], row["head"], row["from_head"]): row["score"] for row in tables["composition"]}
    assert len(scores) == 12
    composed = {("k", 0, 0), ("v", 1, 0)}
    assert {key: score for key, score in scores.items() if score} == pytest.approx(dict.fromkeys(composed, 1 / math.sqrt(8)), abs=1e-6)
    assert {row["score_averaged"] for row in tables["composition"]} == {None}


def test_it_looks_for_its_own_token_through_the_earlier_head(tables: dict) -> None:
    matching = {(row["head"], row["from_head"]): row["matching"] for row in tables["composition"] if row["kind"] == "k"}
    assert matching == pytest.approx({(0, 0): 1.0, (0, 1): 0.0, (1, 0): 0.0, (1, 1): 0.0}, abs=1e-6)


def test_it_copies_what_it_looks_at_and_the_eraser_takes_out_what_it_reads(tables: dict) -> None:
    induction, eraser = (next(row for row in tables["head"] if (row["layer"], row["head"]) == (1, head)) for head in (0, 1))
    ratios = ("copying_token", "copying_effective", "copying_uncentred", "matching", "own_first_share", "stream_ratio")
    assert [induction[name] for name in ratios] == pytest.approx([1, 1, 1, 1, 1, 0], abs=1e-6)
    assert [eraser[name] for name in ratios] == pytest.approx([0, 0, 0, 0, 0, -1], abs=1e-6)
    assert (induction["window_size"], induction["bias_norm"], eraser["ov_norm"]) == (None, 0, pytest.approx(math.sqrt(8 * 3 / D_MODEL)))


def test_the_sums_of_its_eigenvalues_are_known(tables: dict) -> None:
    def total(head: int, spectrum: str) -> float:
        return sum(row["real"] for row in tables["head_eigenvalue"] if (row["layer"], row["head"], row["spectrum"]) == (1, head, spectrum))

    # centring takes one of eight away. The first norm makes a token without a position √2 long, and so long is the predecessor that is written: tokens are
    # √3 long behind the first block, and the norm before the second leaves them as they are
    gain, n = math.sqrt(3 / D_MODEL), N_TOKENS - 1
    assert total(0, "ov_token") == pytest.approx(n * gain * math.sqrt(D_MODEL), rel=1e-5)
    assert total(0, "ov_effective") == pytest.approx(n, rel=1e-5)
    assert total(1, "stream") == pytest.approx(-N_TOKENS * gain, rel=1e-5)


def test_copies_share_what_is_looked_at_and_count_together() -> None:
    """The third 3 finds two that went before, and what followed both."""
    model, tokens = induction_model(), [0, 3, 5, 1, 3, 5, 2, 3]
    later = model.hf(torch.tensor([tokens]), output_attentions=True).attentions[1][0]
    assert later[0, 7, [2, 5]].tolist() == pytest.approx([0.5, 0.5], abs=1e-6)
    recorder = CorpusHeadRecorder(model, len(tokens), 0)
    list(read_batch(model, [(recorder, None)], (sequence(tokens),)))
    rows = recorder.tables(lambda _: None)["head_statistics"].to_pylist()
    found = {(row["layer"], row["head"]): row for row in rows}
    assert (found[1, 0]["n_repeated"], found[1, 0]["induction"]) == (3, pytest.approx(1, abs=1e-6))
    assert (found[0, 0]["previous"], found[1, 1]["self"]) == (pytest.approx(1, abs=1e-6), pytest.approx(1, abs=1e-6))


def test_what_a_head_adds_is_not_what_is_lost_without_it() -> None:
    """The earlier head writes nothing that a logit reads: its direct effect is 0, and the prediction is gone when it is switched off."""
    model = induction_model()
    recorder = AttributionRecorder(model, 0, mean_reader(model))
    list(read_batch(model, [(recorder, np.array([9]))], (sequence(SEQUENCE),)))
    parts = recorder.tables(lambda _: None)["contribution"].to_pylist()
    # token, position and out are left of the stream: the eraser has taken the previous token away
    whole = math.sqrt(D_MODEL / 3)
    direct = {(row["layer"], row["head"]): row["final_logit"] for row in parts if row["kind"] == "head"}
    assert direct == pytest.approx({(0, 0): 0, (0, 1): 0, (1, 0): whole, (1, 1): 0}, abs=1e-5)
    assert {(row["layer"], row["head"]): row["norm"] for row in parts if row["kind"] == "head"} == pytest.approx(
        {(0, 0): 1, (0, 1): 0, (1, 0): 1, (1, 1): 1}, abs=1e-5
    )
    before = model.hf(torch.tensor([SEQUENCE])).logits[0, 9, 2]
    with torch.no_grad():
        model.hf.transformer.h[0].attn.c_proj.weight[: model.d_head] = 0
    after = model.hf(torch.tensor([SEQUENCE])).logits[0, 9, 2]
    assert (float(before), float(after)) == (pytest.approx(whole, rel=1e-5), pytest.approx(0, abs=1e-5))


def test_a_head_that_composes_only_as_the_erratum_counts_it_is_found() -> None:
    """It writes positions where keys are read: the norm of the factors in another order is 0, and that of their product is not."""
    model = induction_model(writes_position=True)
    heads = Heads(model.hf)
    shifted = heads.reader(1, 0, 1) @ heads.ov(0, 1) @ heads.reader(1, 0, 0).T
    assert np.linalg.norm(shifted) < 1e-6
    scores = {(row["kind"], row["head"], row["from_head"]): row["score"] for row in rows_of(model)["composition"]}
    assert scores["k", 0, 1] == pytest.approx(1 / math.sqrt(8), abs=1e-6)
