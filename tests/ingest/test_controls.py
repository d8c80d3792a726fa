"""What is set beside the values: random vectors with their mean and spread, and tokens ranked as the values' are."""

import numpy as np
import torch

from ingest.recorders.controls import control_rows, next_token_rows, random_vectors
from tests.ingest.tiny_models import tiny_model

VALUES = torch.tensor([[1.0, -40.0, 7.0], [3.0, -40.0, 5.0], [1.0, -44.0, 7.0], [3.0, -44.0, 5.0]])


def test_random_vectors_have_the_mean_and_deviation_of_the_values_in_every_dimension():
    drawn = random_vectors(VALUES, 0, 0, 40_000).double()
    # by hand, divided by 4: means 2, -42, 6 and deviations 1, 2, 1; of 40,000 draws their errors are 0.5% and 0.35% of the deviation
    deviation = torch.tensor([1.0, 2.0, 1.0])
    assert ((drawn.mean(0) - torch.tensor([2.0, -42.0, 6.0])).abs() < 0.025 * deviation).all()
    assert ((drawn.std(0) / deviation - 1).abs() < 0.02).all()
    assert (torch.corrcoef(drawn.T) - torch.eye(3)).abs().max() < 0.025


def test_random_vectors_are_repeatable_and_differ_by_layer_and_seed():
    drawn = {(layer, seed): random_vectors(VALUES, layer, seed, 2) for layer in (0, 1) for seed in (-1, 0, 1)}
    assert torch.equal(drawn[1, -1], random_vectors(VALUES, 1, -1, 2))
    assert len({tuple(v.flatten().tolist()) for v in drawn.values()}) == 6


def test_control_tokens_are_the_largest_raw_scores_by_lowest_id():
    model = tiny_model("llama")
    with torch.no_grad():
        model.head.weight[50] = model.head.weight[20]
    vectors = model.head.weight[[20, 7]].clone()
    rows = control_rows(model, 1, "ffn_update", np.array([70, 71]), vectors).to_pylist()
    scores = (vectors.double() @ model.head.weight.double().T).numpy()
    for i, item in enumerate((70, 71)):
        expected = sorted(range(scores.shape[1]), key=lambda t: (-round(float(scores[i, t]), 4), t))[:30]
        assert [row["token_id"] for row in rows if row["item"] == item] == expected
    assert [row["token_id"] for row in rows[:2]] == [20, 50]
    assert rows[0]["score"] == rows[1]["score"]


def test_the_token_of_every_neuron_has_its_rank_among_all_scores_of_the_value(monkeypatch):
    model = tiny_model("gpt2")
    monkeypatch.setattr("ingest.recorders.controls.CHUNK", 3)
    neurons, tokens = np.array([0, 2, 3, 7, 9, 11, 30]), np.array([5, 5, 250, 0, 1, 2, 3])
    rows = next_token_rows(model, 1, 4, neurons, tokens).to_pylist()
    probs = (model.values(1).double() @ model.head.weight.double().T).softmax(1)
    assert [(row["corpus_id"], row["layer"], row["neuron"], row["token_id"]) for row in rows] == [(4, 1, n, t) for n, t in zip(neurons, tokens, strict=True)]
    for row in rows:
        own = probs[row["neuron"]]
        assert row["value_rank"] == 1 + int((own > own[row["token_id"]]).sum())
        assert abs(row["value_prob"] - float(own[row["token_id"]])) < 1e-6
    assert next_token_rows(model, 1, 4, neurons[:0], tokens[:0]).num_rows == 0
