"""What heads and neurons read, as sums over what was written before, against float64 parts and weights that are found by their names."""

import numpy as np
import pytest
import torch
from torch import nn

from ingest.model.models import Model
from ingest.model.readers import ERASED, Reader, parse_reader, split_reader_input
from schema.errors import AtlasError
from tests.exact.heads_reference import FFN_KEYS, FFN_NORMS, Heads
from tests.ingest.attention_oracle import eager_model
from tests.ingest.parts_oracle import Oracle, Taken
from tests.ingest.tiny_models import FAMILIES, token_batch

torch.set_num_threads(1)

PARALLEL = ("gpt_neox", "gptj", "phi")

TOKENS = token_batch(1, 9, seed=2)[0]


def read(model: Model, reader: Reader) -> tuple[np.ndarray, np.ndarray]:
    """Rows by the letter [n, d_model], gain and centring of the norm in them, and β and bias read by them [n]; both in float64."""
    heads = Heads(model.hf)
    if reader.part in "qkv":
        i = "qkv".index(reader.part)
        weight, bias = heads.qkv(reader.layer)[i]
        own, norm = reader.unit * len(weight) // heads.n_heads, heads.before(reader.layer)
        rows, bias = weight[own], bias[own]
    else:
        weight, bias = heads.linear(heads.child(reader.layer, FFN_KEYS["gate" if reader.part == "gate" else "key"], ""))
        rows, bias = weight[[reader.unit]], bias[[reader.unit]]
        norm = None if heads.type == "olmo2" else heads.norm(heads.child(reader.layer, FFN_NORMS[heads.type], ""))
    return (rows, bias) if norm is None else (rows @ norm.folded, bias + rows @ norm.bias)


def scale(model: Model, reader: Reader, x: np.ndarray) -> float:
    heads = Heads(model.hf)
    of_neuron = heads.norm(heads.child(reader.layer, FFN_NORMS.get(heads.type, ()), ""))
    norm = heads.before(reader.layer) if reader.part in "qkv" else of_neuron
    return 1.0 if norm is None or heads.type == "olmo2" else float(norm.scale(x)[0])


def before(kind: str, taken: Taken, reader: Reader) -> dict:
    """The parts that the reader finds."""

    def is_there(key: tuple) -> bool:
        own = reader.part not in "qkv" and kind not in PARALLEL and key[0] in ("head", "attention_bias")
        return key[1] is None or key[1] < reader.layer or (key[1] == reader.layer and own)

    return {key: z[-1].numpy() for key, z in taken.parts.items() if is_there(key)}


@pytest.mark.parametrize("model_type", FAMILIES)
def test_what_is_read_is_the_sum_of_what_was_written_before(model_type: str) -> None:
    model = eager_model(model_type)
    taken = Oracle(model).take(TOKENS)
    heads = [Reader(layer, head, part) for layer in (0, 1) for head in (model.n_heads // 2, model.n_heads - 1) for part in "qkv"]
    neurons = [Reader(layer, 5, part) for layer in (0, 1) for part in (("up", "gate") if model.is_gated else ("up",))]
    for reader in heads + neurons:
        parts, (rows, constant) = before(model_type, taken, reader), read(model, reader)
        x = sum(parts.values())
        whole = rows @ x / scale(model, reader, x) + constant
        direction = whole / np.linalg.norm(whole) if reader.part in "qkv" else np.ones(1)
        wanted = {key: direction @ rows @ z / scale(model, reader, x) for key, z in parts.items()} | {("constant", None, None): direction @ constant}
        seen = split_reader_input(model, reader, TOKENS)
        found = {(part.kind, part.layer, part.head): part.amount for part in seen.parts}
        assert len(found) == len(seen.parts)
        size = max(map(abs, wanted.values()))
        assert found == {key: pytest.approx(amount, rel=3e-5, abs=3e-5 * size) for key, amount in wanted.items()}, reader
        assert seen.total == pytest.approx(direction @ whole, rel=3e-5, abs=3e-5 * size)
        assert abs(seen.residual) < 3e-5 * size


@pytest.mark.parametrize("model_type", FAMILIES)
def test_what_a_head_erases_is_the_sum_of_what_it_deletes_of_each_that_wrote_before(model_type: str) -> None:
    model = eager_model(model_type)
    taken = Oracle(model).take(TOKENS)
    for layer, head in ((layer, head) for layer in (0, 1) for head in range(model.n_heads)):
        reader = Reader(layer, head, ERASED)
        key = ("head", layer, head)
        z, x = taken.parts[key][-1].numpy(), taken.befores[key][-1].numpy()
        wanted = {other: -(z @ earlier[-1].numpy()) / (x @ x) for other, earlier in taken.parts.items() if other[1] is None or other[1] < layer}
        seen = split_reader_input(model, reader, TOKENS)
        found = {(part.kind, part.layer, part.head): part.amount for part in seen.parts}
        assert len(found) == len(seen.parts)
        size = max(map(abs, wanted.values()))
        assert found == {other: pytest.approx(amount, rel=3e-5, abs=3e-5 * size) for other, amount in wanted.items()}, reader
        assert seen.total == pytest.approx(-(z @ x) / (x @ x), rel=3e-5, abs=3e-5 * size)
        assert abs(seen.residual) < 3e-5 * size


@pytest.mark.parametrize(("reader", "path"), [(Reader(1, 3, "k"), "self_attn.k_proj"), (Reader(1, 2, "gate"), "mlp.gate_proj")])
def test_the_whole_is_what_the_projection_gives(reader: Reader, path: str) -> None:
    model, found = eager_model("llama"), []
    module: nn.Module = model.layer_module(1, path)
    handle = module.register_forward_hook(lambda _, args, output: found.append(output[0, -1]))
    model.backbone(TOKENS[None])
    handle.remove()
    # two heads share the second key
    wanted = found[0].unflatten(0, (2, -1))[1].norm() if reader.part == "k" else found[0][2]
    assert split_reader_input(model, reader, TOKENS).total == pytest.approx(float(wanted), rel=1e-5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("L1H0", "'L1H0' is no reader: write L18H6.q"),
        ("L2H0.q", "no L2H0.q: tiny-llama has layers 0 to 1 and heads 0 to 3"),
        ("L0H4.v", "heads 0 to 3"),
        ("L0N24.up", "neurons 0 to 23"),
    ],
)
def test_a_reader_that_is_none_is_refused(text: str, said: str) -> None:
    with pytest.raises(AtlasError, match=said):
        parse_reader(text, eager_model("llama"))


def test_readers_are_written_in_either_case_and_a_gate_needs_one() -> None:
    assert parse_reader(" l1n23.GATE", eager_model("llama")) == Reader(1, 23, "gate")
    assert parse_reader("L0H1.k", eager_model("gpt2")) == Reader(0, 1, "k")
    assert parse_reader("L0H1.Erased", eager_model("gpt2")) == Reader(0, 1, ERASED)
    with pytest.raises(AtlasError, match="have no gate; their keys are .up"):
        parse_reader("L0N1.gate", eager_model("gpt2"))
