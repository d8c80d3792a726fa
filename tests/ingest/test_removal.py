"""Triggers read again: which token goes, which texts share a forward pass, and that the pass ends at its layer."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.model.hooks import coefficients, listen, read_layer
from ingest.recorders import removal
from ingest.recorders.loaded_rows import Trigger
from ingest.recorders.reading import batches
from ingest.recorders.removal import hosts, random_places, read_ends, removal_rows, remove_token
from ingest.workers.worker import report_shares
from schema.errors import AtlasError
from tests.ingest.tiny_models import tiny_model, token_batch


def trigger(token_ids, has_bos=False, neuron=3, rank=1, position_id=70):
    return Trigger(neuron, rank, position_id, tuple(token_ids), has_bos)


@pytest.mark.parametrize(("removed", "left"), [("first", (8, 9, 7)), ("last", (7, 8, 9)), ("random", (7, 8, 7))])
def test_one_token_goes_and_bos_stays(removed, left):
    assert remove_token(trigger((7, 8, 9, 7)), removed, 2) == left
    assert remove_token(trigger((0, 7, 8, 9, 7), has_bos=True), removed, 2) == (0, *left)


def test_random_places_lie_in_the_prefix_evenly_and_are_the_same_for_every_key():
    triggers = [trigger(range(9), has_bos=True, position_id=p) for p in range(4000)]
    counts = np.bincount(random_places(triggers, 0))
    # binomial with n = 4000, p = 1/8: mean 500, standard deviation 20.9
    assert len(counts) == 8 and counts.min() > 395 and counts.max() < 605
    others = [trigger(t.token_ids, has_bos=True, neuron=1, rank=7, position_id=t.position_id) for t in triggers]
    assert (random_places(others, 0) == random_places(triggers, 0)).all()
    assert (random_places(triggers, 1) != random_places(triggers, 0)).any()


@pytest.mark.thorough
@settings(deadline=None)
@given(st.sets(st.lists(st.integers(0, 2), min_size=1, max_size=5).map(tuple)))
def test_every_text_is_read_once_within_one_that_it_begins(texts):
    found = hosts(texts)
    assert sorted(text for inside in found.values() for text in inside) == sorted(texts)
    assert all(host[: len(text)] == text for host, inside in found.items() for text in inside)
    assert not any(one != other and other[: len(one)] == one for one in found for other in found)


def test_batches_keep_to_their_tokens_and_hold_every_text():
    texts = [(i,) * n for i, n in enumerate([3, 5, 1, 9, 3, 2, 4])]
    parts = list(batches(texts, 10, len))
    assert [[len(text) for text in part] for part in parts] == [[9], [5, 4], [3, 3, 2], [1]]
    assert sorted(text for part in parts for text in part) == sorted(texts)
    assert [len(part) for part in batches(texts, 0, len)] == [len(part) for part in batches(texts, 1, len)] == [1] * 7


@pytest.mark.parametrize("model_type", ["gpt2", "gpt_neox", "opt", "llama", "gemma2"])
def test_one_layer_is_read_as_the_whole_forward_gives_it_and_nothing_above_is_run(model_type):
    model, ids, seen, ran = tiny_model(model_type), token_batch(3, 7), {}, []
    with listen(model, [coefficients(lambda layer, m: seen.update({layer: m.clone()}))]):
        model.backbone(ids)
    handles = [
        model.layer_module(layer, model.architecture.ffn.down).register_forward_hook(lambda *_, n=layer: ran.append(n)) for layer in range(model.n_layers)
    ]
    for layer in range(model.n_layers):
        ran.clear()
        assert torch.equal(read_layer(model, layer, ids), seen[layer])
        assert ran == list(range(layer))
    for handle in handles:
        handle.remove()
    hooks = [m for m in model.hf.modules() if m._forward_pre_hooks or m._forward_hooks]
    assert hooks == []


def test_a_layer_that_is_never_reached_is_an_error(monkeypatch):
    model = tiny_model("gpt2")
    monkeypatch.setattr(type(model), "backbone", lambda *_: None)
    with pytest.raises(AtlasError, match="nothing was recorded for coefficient of layer 1"):
        read_layer(model, 1, token_batch(1, 3))


def test_shared_passes_give_what_each_text_gives_alone(monkeypatch):
    model, passes = tiny_model("llama"), []
    texts = {(5, 6), (5, 6, 7, 8), (5, 6, 7), (6,), (9, 9, 9)}
    real = removal.read_layer
    monkeypatch.setattr(removal, "read_layer", lambda model, layer, ids: (passes.append(tuple(ids.shape)), real(model, layer, ids))[1])
    shares = []
    found = read_ends(model, 1, texts, [4, 2], 100, shares.append)
    assert passes == [(3, 4)] and sum(shares) == pytest.approx(1)
    for text in texts:
        alone = read_layer(model, 1, torch.tensor([text]))[0, -1, [4, 2]].numpy()
        np.testing.assert_allclose(found[text], alone, rtol=1e-4, atol=1e-5)


def test_prefixes_of_one_token_are_left_out():
    model = tiny_model("gpt2")
    triggers = [trigger((0, 5), has_bos=True, rank=1), trigger((0, 5, 6), has_bos=True, rank=2), trigger((5,), rank=3), trigger((0,), has_bos=True, rank=4)]
    rows = removal_rows(model, 0, 0, triggers, 0, 64, lambda _: None).to_pylist()
    assert [(row["neuron"], row["rank"], row["removed"]) for row in rows] == [(3, 2, "first"), (3, 2, "last"), (3, 2, "random")]
    assert removal_rows(model, 0, 0, triggers[:1], 0, 64, lambda _: None).num_rows == 0


def test_what_says_shares_of_itself_comes_to_all_of_its_cost_whatever_it_left_unsaid() -> None:
    reported: list[float] = []
    assert report_shares(lambda say: [say(0.25), say(0.5), "rows"][-1], reported.append, 8.0) == "rows"
    assert reported == [2.0, 4.0, 2.0]
