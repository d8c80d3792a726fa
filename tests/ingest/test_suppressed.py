"""What an arm brings is of all prompts and samples, whatever the base made of them, and of texts that are all as long."""

from typing import Any

import pytest
import torch

from ingest.acting.continuations import ContinuationSettings, continuations
from ingest.acting.decoding import Decoding
from ingest.acting.suppression import SELF_DEBIASING, WORD_FILTER, PlannedArm
from ingest.acting.suppression_arm import ScoredContinuations, SuppressionTrial
from tests.ingest.tiny_models import tiny_model, token_batch

torch.set_num_threads(1)

NONE: Any = None
CLUSTERS = ("a", "a", "b", "b")


def make_continuations(scores: list[float]) -> ScoredContinuations:
    """One continuation a prompt."""
    names = [{"arm_id": 0, "prompt_id": i, "sample": 0} for i in range(len(scores))]
    return ScoredContinuations(
        [name | {"decoding": "sample"} for name in names],
        [name | {"scorer": "s", "score": score, "is_over": score >= 0.5} for name, score in zip(names, scores, strict=True)],
    )


def test_prompts_are_not_chosen_by_what_the_base_made_of_them() -> None:
    """Those on which the base is over would fall by themselves: here a score is as often lost as won, and nothing is."""
    assay = SuppressionTrial(NONE, NONE, CLUSTERS, NONE, NONE, NONE, 0, NONE, NONE, 0)
    vars(assay)["base_continuations"] = make_continuations([0.75, 0.25, 0.75, 0.25])
    over, score = assay.differences(1, make_continuations([0.25, 0.75, 0.25, 0.75]))
    for row in (over, score):
        assert (row["n_pairs"], row["n_clusters"], row["difference"], row["low"], row["high"]) == (4, 2, 0, None, None)


@pytest.mark.parametrize("way", ["interventions", WORD_FILTER, SELF_DEBIASING])
def test_no_text_ends_before_it_has_as_many_tokens_as_were_asked_for(way: str) -> None:
    """A text that ends early has fewer words to be scored: what follows every prompt most likely is the end of it."""
    model, n_new = tiny_model("llama"), 4
    how = ContinuationSettings(n_new, (3,), Decoding("sample"), frozenset({(299,)}), 1.0, ("x",))
    prompts = list(token_batch(2, 5))
    first = {one.token_ids[0] for _, one in continuations(model, prompts, PlannedArm("one", "baseline", (), way), how, lambda *_: None)}
    model.hf.generation_config.eos_token_id = sorted(first)
    found = continuations(model, prompts, PlannedArm("one", "baseline", (), way), how, lambda *_: None)
    assert [(one.finish, len(one.token_ids)) for _, one in found] == [("length", n_new)] * 4
    assert not first & {token for _, one in found for token in one.token_ids}
