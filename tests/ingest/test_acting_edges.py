"""Attention that may not read an edge, in every family: its pattern without that edge, and its rows normalised anew."""

import pytest
import torch
from torch import Tensor

from ingest.acting.acting import BlockedEdges, apply_arms, with_edges
from ingest.acting.edits import AssignedArm
from ingest.acting.places import shape_of
from ingest.model.eager import use_eager_attention
from ingest.model.models import Model, wrap
from schema.errors import AtlasError
from schema.interventions.parse import arm_of
from schema.interventions.resolve import resolve
from tests.ingest.acting_oracle import Names, by_hand
from tests.ingest.parts_oracle import Oracle
from tests.ingest.tiny_models import FAMILIES, tiny_hf, tiny_model, tiny_tokenizer, token_batch
from tests.rounding import bound_logits

torch.set_num_threads(1)

every_family = pytest.mark.parametrize("family", FAMILIES)
N = 9
PROMPT = token_batch(1, N)[0]
BLOCKED = {1: [(8, 7), (8, 6), (5, 5), (7, 5)], 0: [(8, 8), (6, 4)]}
"""Head → destination and source."""


def assign_arm(model: Model, *items: dict, n_positions: int = N) -> list[AssignedArm]:
    return [AssignedArm(resolve(arm_of(list(items)), shape_of(model), lambda *_: None), slice(0, 1), n_positions, n_positions)]


def block(layer: int, edges: object, **more: object) -> dict:
    return {"site": "attention", "layer": layer, "op": "block", "edges": [list(edge) for edge in edges], **more}


def gathered_by_hand(oracle: Oracle, layer: int) -> Tensor:
    """What heads gather, [seq, n_heads·d_head], from transformers' own weights with the edges at 0 and rows over their sums."""
    taken = oracle.take(PROMPT)
    weights, values = taken.weights[layer].clone(), taken.values[layer]
    for head, edges in BLOCKED.items():
        for destination, source in edges:
            weights[destination, head, source] = 0
    weights = weights / weights.sum(-1, keepdim=True)
    return torch.einsum("dhs,shv->dhv", weights, values).flatten(1)


@every_family
@pytest.mark.parametrize("code", ["own", "eager"])
def test_a_head_reads_as_if_the_edge_were_not_there(family: str, code: str) -> None:
    """In float64, in both layers, of which some have a window; heads that share keys and values lose an edge each by itself."""
    model = wrap(tiny_hf(family, dtype=torch.float64), tiny_tokenizer(), "exact")
    for layer in (0, 1):
        arm = [block(layer, edges, units=[head]) for head, edges in BLOCKED.items()]
        with apply_arms(model, assign_arm(model, *arm)), torch.no_grad():
            if code == "eager":
                with use_eager_attention(model):
                    got = model.hf(PROMPT[None], use_cache=False).logits[0]
            else:
                got = model.hf(PROMPT[None], use_cache=False).logits[0]
        oracle = Oracle(model)
        oracle.hf.set_attn_implementation("eager")
        gathered = gathered_by_hand(oracle, layer)
        expected = by_hand(oracle.hf, PROMPT, [(Names(family).o(layer), "in", lambda _, new=gathered: new)])
        # transformers' eager attention, which most families' expected weights are from, computes the softmax in float32 even here
        assert (got - expected).abs().max() <= bound_logits(oracle.hf, PROMPT), layer
        assert (got - by_hand(oracle.hf, PROMPT, [])).abs().max() > 1e-3


@every_family
def test_with_all_edges_blocked_but_the_diagonal_each_token_is_read_alone_at_its_position(family: str) -> None:
    model = tiny_model(family)
    edges = [(destination, source) for destination in range(N) for source in range(destination)]
    with apply_arms(model, assign_arm(model, block(0, edges), block(1, edges))), torch.no_grad():
        got = model.hf(PROMPT[None], use_cache=False).logits[0]
    # products of one row and of nine, in float32
    bound = bound_logits(model.hf, PROMPT)
    for index in range(N):
        place = {} if family == "bloom" else {"position_ids": torch.tensor([[index]])}
        alone = by_hand(model.hf, PROMPT[index : index + 1], [], **place)
        assert (got[index] - alone[0]).abs().max() <= bound, index


@pytest.mark.parametrize("family", ["llama", "mistral", "gpt_neo"])
def test_a_position_with_nothing_left_to_read_is_refused_windows_counted_in(family: str) -> None:
    """mistral's window, and that of gpt_neo's second layer, is 4."""
    model, all_of_it = tiny_model(family), [(8, source) for source in (5, 6, 7, 8)]
    if family == "llama":
        with apply_arms(model, assign_arm(model, block(1, all_of_it))):
            model.backbone(PROMPT[None])
        return
    # the second of one head, in two interventions
    two = [block(1, all_of_it[:2], units=[1]), block(1, all_of_it[2:], units=[1])]
    for head, items in ((0, [block(1, all_of_it)]), (1, two)):
        refused = pytest.raises(AtlasError, match=f"block of layer 1, head {head}: position 8 would have nothing left to read")
        with refused, apply_arms(model, assign_arm(model, *items)):
            pass


def test_each_kind_of_mask_by_hand() -> None:
    model, one = tiny_model("llama"), [BlockedEdges(slice(1, 2), (0, 1, 2, 3), frozenset({(2, 0)}))]
    causal = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=torch.bool)
    expected = causal.clone()
    expected[2, 0] = False
    for mask in (None, causal[None, None]):
        found = with_edges(model, one, mask, (2, 3), 0)
        assert found.dtype == torch.bool and tuple(found.shape) == (2, 1, 3, 3)
        assert torch.equal(found[0, 0], causal) and torch.equal(found[1, 0], expected)
    added = torch.zeros(3, 3).masked_fill(~causal, torch.finfo(torch.float32).min)
    found = with_edges(model, one, added[None, None], (2, 3), 0)
    assert torch.equal(found[0, 0], added) and torch.equal(found[1, 0] == 0, expected)
    assert not added[2].any(), "the model's own mask was changed"
    # one head of several, with a cache of two positions, of which a window of one may be left
    head = [BlockedEdges(slice(0, 2), (3,), frozenset({(2, 1)}))]
    found = with_edges(model, head, None, (2, 1), 2)
    assert found[0, :, 0].tolist() == [[True] * 3] * 3 + [[True, False, True]]
    assert with_edges(model, head, torch.ones(2, 1, 1, 2, dtype=torch.bool), (2, 1), 2)[0, 3, 0].tolist() == [False, True]
    # what has fallen out of the window is gone already
    assert with_edges(model, [BlockedEdges(slice(0, 1), (3,), frozenset({(2, 0)}))], torch.ones(2, 1, 1, 2, dtype=torch.bool), (2, 1), 2).all()
    # nothing of this piece is blocked, and the mask is what it was
    assert with_edges(model, head, None, (2, 2), 0) is None


def test_attention_that_takes_no_mask_is_refused() -> None:
    model = tiny_model("llama")
    before = model.hf.config._attn_implementation
    model.hf.config._attn_implementation = "flash_attention_2"
    with pytest.raises(AtlasError, match="its attention runs as flash_attention_2, which is given no mask in which edges could be blocked"):
        with_edges(model, [BlockedEdges(slice(0, 1), (0,), frozenset({(1, 0)}))], None, (1, 2), 0)
    model.hf.config._attn_implementation = before
