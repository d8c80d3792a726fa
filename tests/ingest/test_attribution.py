"""Logits as sums, and rows of attention, against brute force in float64 with plain hooks, in every family."""

from itertools import product

import numpy as np
import polars as pl
import pytest
import torch

from ingest.model.architectures import ARCHITECTURES
from ingest.model.models import Model
from ingest.model.parts import mean_reader
from ingest.recorders.attribution import N_NEURONS
from ingest.recorders.attribution_recorder import AttributionRecorder
from ingest.recorders.reading import read_batch
from ingest.recorders.sources import N_SOURCES
from ingest.text.sequences import NO_NEXT_TOKEN, Sequence
from tests.ingest.attention_oracle import ATTENTION, OUTPUT, child, eager_model
from tests.ingest.parts_oracle import Oracle, Taken
from tests.ingest.tiny_models import token_batch

torch.set_num_threads(1)

LENGTHS = (11, 1, 13)
SAMPLE = (0, 5, 10, 100, 200, 203, 212)
"""First positions, last ones, those between, and one of a sequence of one token; a sequence begins at each hundred."""

# a cap so low that float32 cannot tell capped logits apart has no single prediction
VARIANTS = [(model_type, {"final_logit_softcapping": 20.0} if model_type == "gemma2" else {}) for model_type in ARCHITECTURES] + [
    ("gpt2", {"n_layer": 1, "n_head": 1}),
    ("llama", {"num_hidden_layers": 1, "num_key_value_heads": 1}),
    ("mistral", {"num_key_value_heads": 4, "sliding_window": 3}),
    ("gpt_neox", {"use_parallel_residual": True, "attention_bias": False}),
    ("opt", {"enable_bias": False, "layer_norm_elementwise_affine": False}),
    ("gemma2", {"final_logit_softcapping": None}),
]
every_variant = pytest.mark.parametrize(("model_type", "changes"), VARIANTS, ids=[f"{m}{'-' + '-'.join(c) if c else ''}" for m, c in VARIANTS])


def sequences() -> tuple[Sequence, ...]:
    found = []
    for i, n in enumerate(LENGTHS):
        tokens = token_batch(1, n + 1, seed=i)[0].numpy().astype(np.int32)
        # the last sequence goes on, the others end with their document
        following = np.append(tokens[1:n], tokens[n] if i == 2 else NO_NEXT_TOKEN).astype(np.int32)
        nowhere = np.zeros(n, np.int32)
        found.append(Sequence(i, 0, 100 * i, tokens[:n], following, nowhere, nowhere))
    return tuple(found)


def recorded(model: Model, sample: tuple[int, ...] = SAMPLE, batch: tuple[Sequence, ...] = sequences()) -> dict[str, pl.DataFrame]:
    recorder = AttributionRecorder(model, 3, mean_reader(model))
    list(read_batch(model, [(recorder, np.array(sample))], batch))
    return {name: pl.DataFrame(pl.from_arrow(table)) for name, table in recorder.tables(lambda _: None).items()}


def close(got: object, want: object, of: float = 1.0, tolerance: float = 3e-5) -> None:
    """of: the size that rounding is measured against."""
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), atol=tolerance * of, rtol=tolerance)


class Checked:
    """What was recorded of a model beside its oracle."""

    def __init__(self, model: Model) -> None:
        self.oracle, self.tables = Oracle(model), recorded(model)
        self.taken: list[Taken] = [self.oracle.take(torch.from_numpy(s.token_ids).long()) for s in sequences()]

    def at(self, position: int) -> tuple[Taken, int, int, int]:
        """Its sequence, its index, the predicted and the following token (-1 for none)."""
        taken, index = self.taken[position // 100], position % 100
        return taken, index, int(taken.logits[index].argmax()), int(sequences()[position // 100].next_token_ids[index])

    def rows(self, table: str, position: int) -> pl.DataFrame:
        return self.tables[table].filter(pl.col("position_id") == position)

    def scale(self, position: int) -> torch.Tensor:
        taken, index, *_ = self.at(position)
        return self.oracle.scale(taken.last[index])


def check_parts(c: Checked) -> None:
    for position in SAMPLE:
        taken, index, final, following = c.at(position)
        found = {(kind, layer, head): rest for _, kind, layer, head, *rest in c.rows("contribution", position).iter_rows()}
        assert found.keys() == {*taken.parts, ("constant", None, None)}
        size = float(taken.logits[index].abs().max())
        for key, z in taken.parts.items():
            got, logits = found[key], c.oracle.read(z[index], c.scale(position))
            close(got[:1] + got[2:3], [float(logits[final]), float(logits.mean())], size)
            assert (got[1] is None) == (following < 0)
            if following >= 0:
                close(got[1], float(logits[following]), size)
            close(got[3], float(z[index].norm()), float(z[index].norm()))
            if key in taken.befores:
                x = taken.befores[key][index]
                close(got[4], float(-(z[index] @ x) / (x @ x)), float(z[index].norm() / x.norm()) + 1e-3)
            else:
                assert got[4] is None
        constant = c.oracle.constant()
        close([found["constant", None, None][i] for i in (0, 2)], [float(constant[final]), float(constant.mean())])
        assert found["constant", None, None][3:] == [None, None]


def check_totals(c: Checked) -> None:
    cap = getattr(c.oracle.config, "final_logit_softcapping", None)
    for position in SAMPLE:
        taken, index, final, following = c.at(position)
        rows = {row["target"]: row for row in c.rows("attribution", position).iter_rows(named=True)}
        assert rows.keys() == ({"final", "next"} if following >= 0 else {"final"})
        assert rows["final"]["run_id"] == 3
        parts = c.rows("contribution", position)
        neurons = torch.cat([c.oracle.read(of_layer[index], c.scale(position)) for of_layer in taken.neurons])
        for target, token in (("final", final), ("next", following)):
            if token < 0:
                continue
            row, capped = rows[target], float(taken.logits[index, token])
            own = cap * np.arctanh(capped / cap) if cap else capped
            assert row["token_id"] == token
            close([row["logit"], row["parts_sum"]], [own, own], max(1.0, abs(own)), 1e-4 if cap else 3e-5)
            assert abs(row["residual"]) <= 1e-5 * max(1, abs(own))
            close(row["residual"], row["logit"] - row["parts_sum"], tolerance=1e-5)
            close([row["capped_logit"], row["slope"]], [capped, 1 - (capped / cap) ** 2 if cap else 1.0], max(1.0, abs(own)), 1e-4)
            close(row["scale"], float(c.scale(position)))
            close(parts[f"{target}_logit"].cast(pl.Float64).sum(), row["parts_sum"], max(1.0, abs(own)), 1e-5)
            close(parts["mean_logit"].cast(pl.Float64).sum(), row["mean_logit"], max(1.0, abs(own)), 1e-5)
            of_token = neurons[:, token]
            close(
                [row["neurons_up"], row["neurons_down"]], [float(of_token.clamp(min=0).sum()), float(of_token.clamp(max=0).sum())], float(of_token.abs().sum())
            )


def check_neurons(c: Checked) -> None:
    for position in SAMPLE:
        taken, index, final, following = c.at(position)
        scores = torch.stack([c.oracle.read(of_layer[index], c.scale(position)) for of_layer in taken.neurons])
        rows, k = c.rows("neuron_contribution", position), min(N_NEURONS, scores[..., 0].numel())
        assert rows["rank"].to_list() == list(range(1, k + 1))
        size = float(scores[..., final].abs().max())
        places = rows["layer"].to_list(), rows["neuron"].to_list()
        assert len(set(zip(*places, strict=True))) == k
        close(rows["final_logit"], scores[..., final][places], size)
        close(rows["final_logit"].abs(), scores[..., final].abs().flatten().sort(descending=True).values[:k], size)
        if following >= 0:
            close(rows["next_logit"], scores[..., following][places], float(scores.abs().max()))
        else:
            assert rows["next_logit"].null_count() == k


def check_sources(c: Checked) -> None:
    n_layers, n_heads = len(c.oracle.blocks), c.oracle.config.num_attention_heads
    for position, layer, head in product(SAMPLE, range(n_layers), range(n_heads)):
        taken, index, final, _ = c.at(position)
        row = c.rows("attention", position).filter((pl.col("layer") == layer) & (pl.col("head") == head))
        total = c.rows("head_activity", position).filter((pl.col("layer") == layer) & (pl.col("head") == head)).to_dicts()[0]
        weights, vectors = taken.weights[layer][index, head], taken.moved_vectors[layer][index, head]
        moved, logits = vectors.norm(dim=-1), c.oracle.read(vectors, c.scale(position))[:, final]
        seen = int((weights > 0).sum())
        size = float(moved.sum())
        order = row["source_index"].to_numpy()
        assert row["rank"].to_list() == list(range(1, min(N_SOURCES, seen) + 1))
        assert len(set(order)) == len(order)
        assert bool((weights[order] > 0).all())
        close(row["weight"], weights[order])
        close(row["moved"], moved[order], size)
        close(row["moved"], moved.sort(descending=True).values[: len(row)], size)
        close(row["value_norm"], taken.values[layer][:, head].norm(dim=-1)[order], float(taken.values[layer].norm(dim=-1).max()))
        close(row["final_logit"], logits[order], max(1.0, float(logits.abs().sum())))
        of_head = float(c.oracle.read(taken.parts["head", layer, head][index], c.scale(position))[final])
        previous = float(weights[index - 1]) if index else 0.0
        want = {
            "entropy": float(torch.special.entr(weights).sum()), "first_weight": float(weights[0]), "self_weight": float(weights[index]),
            "previous_weight": previous, "kept_weight": float(weights[order].sum()),
        }  # fmt: skip
        close([total[name] for name in want], list(want.values()))
        close([total["moved"], total["kept_moved"]], [size, float(moved[order].sum())], size)
        close(total["final_logit"], of_head, max(1.0, float(logits.abs().sum())))


@every_variant
def test_parts_neurons_and_sources_are_those_of_a_brute_force_in_float64(model_type: str, changes: dict) -> None:
    c = Checked(eager_model(model_type, **changes))
    check_parts(c)
    check_totals(c)
    check_neurons(c)
    check_sources(c)


def test_what_is_recorded_of_a_position_does_not_depend_on_the_others_of_its_batch() -> None:
    model = eager_model("mistral")
    whole, alone = recorded(model), recorded(model, (205,), sequences()[2:])
    assert recorded(model, (205,))["attention"]["source_index"].equals(alone["attention"]["source_index"])
    with_others = recorded(model, (203, 205))["contribution"].filter(pl.col("position_id") == 205)
    close(with_others["final_logit"], alone["contribution"]["final_logit"], 10.0)
    assert set(whole["attribution"]["position_id"]) == set(SAMPLE)


@pytest.mark.parametrize("model_type", ["gpt2", "gpt_neox", "gemma2"])
def test_an_ffn_of_zeros_adds_and_erases_nothing(model_type: str) -> None:
    model = eager_model(model_type)
    down = model.architecture.ffn.down
    for layer in range(model.n_layers):
        for parameter in model.layer_module(layer, down).parameters():
            parameter.zero_()
    found = recorded(model)
    ffns = found["contribution"].filter(pl.col("kind").is_in(["ffn", "ffn_bias"]))
    assert len(ffns) >= len(SAMPLE) * model.n_layers
    for column in ("final_logit", "mean_logit", "norm", "erased"):
        assert ffns[column].abs().max() == 0
    assert found["attribution"].select(pl.col("neurons_up", "neurons_down").abs().max()).row(0) == (0, 0)
    assert found["attribution"]["residual"].abs().max() < 1e-4


def test_a_stream_of_zeros_is_not_erased() -> None:
    model = eager_model("llama", num_hidden_layers=1)
    model.input_embedding.zero_()
    erased = recorded(model)["contribution"].filter(pl.col("kind") == "head")["erased"]
    assert erased.is_finite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("model_type", ["llama", "gemma2", "olmo2"])
def test_heads_of_a_model_in_half_precision_are_multiplied_in_float32(model_type: str, dtype: torch.dtype) -> None:
    """Against float64 products of what the projection was given; in half precision they would be a hundred times further off."""
    model, batch, gathered = eager_model(model_type), sequences()[2:], {}
    model.hf.to(dtype)
    oracle = Oracle(model)
    blocks = next(module for module in model.hf.modules() if isinstance(module, torch.nn.ModuleList))
    hooks = [
        child(child(block, ATTENTION), OUTPUT).register_forward_pre_hook(lambda _, args, layer=layer: gathered.__setitem__(layer, args[0][0, 12].double()))
        for layer, block in enumerate(blocks)
    ]
    found = recorded(model, (212,), batch)["contribution"].filter(pl.col("kind") == "head")
    for hook in hooks:
        hook.remove()
    for layer, x in gathered.items():
        o = oracle.output(layer)
        after = oracle.after(layer, "post_attention_layernorm", model.layer_module(layer, model.architecture.attention.o)(x.to(dtype)).double())
        parts = torch.block_diag(*x.unflatten(0, (model.n_heads, -1))) @ o.weight.T * after
        close(found.filter(pl.col("layer") == layer)["norm"], parts.norm(dim=-1), tolerance=1e-5)


def test_what_half_precision_leaves_over_is_stored_and_is_not_hidden_in_a_part() -> None:
    model = eager_model("llama")
    model.hf.to(torch.bfloat16)
    found = recorded(model)
    row = found["attribution"].row(0, named=True)
    parts = found["contribution"].filter(pl.col("position_id") == row["position_id"])["final_logit"].cast(pl.Float64).sum()
    assert abs(row["residual"]) > 1e-4
    close(row["logit"] - row["residual"], parts, 10.0)
