"""A model whose code does something else than its entry says is refused by an identity, before anything is stored; one that is only another model is not."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ingest.model.checks import check_attention, check_identities
from ingest.model.models import Model, wrap
from ingest.model.neighbours import check_texts
from schema.errors import AtlasError
from tests.ingest.tiny_models import tiny_hf, tiny_tokenizer, token_batch

torch.set_num_threads(1)

CONTEXT = 64

Change = Callable[[Any], object]

EMBEDDING, STREAM, RESIDUAL = "token row + position row", "resid_post of the layer before", "resid_pre + attn_out = resid_mid"
NORM, KEYS, FFN = "norm of the state that the FFN reads", "activation(keys @ what they read)", "coefficients @ values + bias"
LINEAR = "projections of larger inputs"
LOGITS, FINAL_NORM, CAUSAL = "lens(last resid_post) = logits", "what the final norm gives", "depends on no later token"
READ, HEADS, PATTERN = "what attention's norms give", "heads + attention bias = attn_out", "pattern @ values"


def around(module: nn.Module, does: Callable[..., Any]) -> None:
    """Let a module do this: called with what it did before and its arguments."""
    before = module.forward
    module.forward = lambda *args, **kwargs: does(before, *args, **kwargs)


def gainless(norm: Any) -> Change:
    return lambda hf: around(norm(hf), lambda _, x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + norm(hf).variance_epsilon))


def output(module: Callable[[Any], nn.Module], change: Callable[[Tensor], Tensor]) -> Change:
    """The module's output changed."""
    return lambda hf: around(module(hf), lambda before, *args, **kwargs: change(before(*args, **kwargs)))


def given(module: Callable[[Any], nn.Module], change: Callable[[Tensor], Tensor]) -> Change:
    """What the module reads changed, behind the hooks that record it."""
    return lambda hf: around(module(hf), lambda before, x: before(change(x)))


def layer(i: int) -> Callable[[Any], Any]:
    return lambda hf: hf.model.layers[i]


def ffn(i: int) -> Callable[[Any], Any]:
    return lambda hf: layer(i)(hf).mlp


def bias_of_no_parameter(hf: Any) -> None:
    bias = torch.linspace(-0.01, 0.01, hf.config.vocab_size)
    output(lambda hf: hf.lm_head, lambda logits: logits + bias)(hf)


def bias_behind_the_ffn(hf: Any) -> None:
    bias, ffn(0)(hf).down_proj.bias = ffn(0)(hf).down_proj.bias, None
    output(layer(0), lambda x: x + bias)(hf)


def linear_path(hf: Any) -> None:
    hidden = torch.randn(hf.config.hidden_size, hf.config.hidden_size, generator=torch.Generator().manual_seed(1)) * 1e-3
    around(ffn(0)(hf), lambda before, x: before(x) + x @ hidden)


def noise(x: Tensor) -> Tensor:
    return x + 3e-4 * x.std() * torch.randn(x.shape, generator=torch.Generator().manual_seed(x.numel()))


def largest(x: Tensor, n: int = 10) -> Tensor:
    return torch.where(x.abs() >= x.abs().topk(n, dim=-1).values[..., -1:], x, 0)


def doubled_attention(hf: Any) -> None:
    """Within the block, where no hook is."""
    block = layer(1)(hf)

    def does(_: Any, x: Tensor, **kwargs: Any) -> Tensor:
        middle = x + 2 * block.self_attn(hidden_states=block.input_layernorm(x), **kwargs)[0]
        return middle + block.mlp(block.post_attention_layernorm(middle))

    around(block, does)


def swapped_gate(hf: Any) -> None:
    mlp = ffn(0)(hf)
    mlp.forward = lambda x: mlp.down_proj(mlp.act_fn(mlp.up_proj(x)) * mlp.gate_proj(x))


def clamped_behind(hf: Any) -> None:
    """Where few positions of the longer texts reach, and not within the projection."""
    mlp = ffn(1)(hf)

    def does(before: Any, x: Tensor) -> Tensor:
        coefficients = mlp.act_fn(mlp.gate_proj(x)) * mlp.up_proj(x)
        return before(x) + F.linear(coefficients.clamp(-1.2, 1.2) - coefficients, mlp.down_proj.weight)

    around(mlp, does)


def tied(hf: Any) -> None:
    hf.model.layers[1] = hf.model.layers[0]


def reversed_blocks(hf: Any) -> None:
    first, second = layer(0)(hf), layer(1)(hf)
    first.forward, second.forward = second.forward, first.forward


def state_of_before(hf: Any) -> None:
    """The second FFN reads what entered the first block."""
    seen: list[Tensor] = []

    def first(before: Any, x: Tensor, **kwargs: Any) -> Any:
        seen[:] = [x]
        return before(x, **kwargs)

    around(layer(0)(hf), first)
    around(layer(1)(hf).post_attention_layernorm, lambda before, _: before(seen[0]))


def looking_ahead(hf: Any) -> None:
    for block in hf.model.layers:
        around(block.self_attn, lambda before, **kwargs: before(**{**kwargs, "attention_mask": torch.zeros(1, 1, 1, 1)}))


def later(n: int) -> Callable[[Tensor], Tensor]:
    """Twice as much from a position on, and as it was where texts are shorter."""
    return lambda x: torch.cat([x[:, :n], 2 * x[:, n:]], dim=1)


def heads_reversed(hf: Any) -> None:
    n = hf.config.num_attention_heads
    given(lambda hf: layer(0)(hf).self_attn.o_proj, lambda x: x.unflatten(-1, (n, -1)).flip(2).flatten(2))(hf)


def unrotated(hf: Any) -> None:
    def does(before: Any, position_embeddings: Any, **kwargs: Any) -> Any:
        cosine, sine = position_embeddings
        return before(position_embeddings=(torch.ones_like(cosine), torch.zeros_like(sine)), **kwargs)

    around(layer(1)(hf).self_attn, does)


def centred(hf: Any) -> None:
    for block in hf.model.layers:
        around(block.input_layernorm, lambda before, x: before(x - x.mean(-1, keepdim=True)))


def gpt2_relu(hf: Any) -> None:
    hf.transformer.h[1].mlp.act = nn.ReLU()


def swapped_weights(hf: Any) -> None:
    for block in hf.model.layers:
        block.mlp.gate_proj, block.mlp.up_proj = block.mlp.up_proj, block.mlp.gate_proj


def equal_blocks(hf: Any) -> None:
    layer(1)(hf).load_state_dict(layer(0)(hf).state_dict())


REFUSED: list[tuple[str, Change, str]] = [
    ("gain lost before the FFN", gainless(lambda hf: layer(1)(hf).post_attention_layernorm), NORM),
    ("gain lost before the head", gainless(lambda hf: hf.model.norm), FINAL_NORM),
    ("bias of down twice", lambda hf: output(lambda hf: ffn(0)(hf).down_proj, lambda x: x + ffn(0)(hf).down_proj.bias)(hf), FFN),
    ("bias behind the FFN", bias_behind_the_ffn, RESIDUAL),
    ("block added twice", lambda hf: around(layer(0)(hf), lambda before, x, **kwargs: before(x, **kwargs) + x), RESIDUAL),
    ("attention's update doubled", doubled_attention, RESIDUAL),
    ("gate and up swapped in code", swapped_gate, KEYS),
    ("no norm before the FFN", lambda hf: around(layer(0)(hf).post_attention_layernorm, lambda _, x: x), NORM),
    ("two blocks tied", tied, EMBEDDING),
    ("blocks in reverse", reversed_blocks, RESIDUAL),
    ("a scale between two blocks", lambda hf: layer(1)(hf).register_forward_pre_hook(lambda _, args: (1.01 * args[0],)), STREAM),
    ("factor of the position", output(ffn(0), lambda x: x * (1 + 0.01 * torch.arange(x.shape[1])[:, None])), FFN),
    ("hidden linear path", linear_path, FFN),
    ("noise", output(ffn(0), noise), FFN),
    ("logits scaled by token", output(lambda hf: hf.lm_head, lambda x: x * torch.linspace(0.99, 1.01, x.shape[-1])), LOGITS),
    ("bias of the head that is no parameter", bias_of_no_parameter, LOGITS),
    ("constant added to the embedding", output(lambda hf: hf.model.embed_tokens, lambda x: x + 1), EMBEDDING),
    ("it looks ahead", looking_ahead, CAUSAL),
    ("coefficients clamped behind their projection", clamped_behind, FFN),
    ("coefficients clamped where no text reaches", given(lambda hf: ffn(1)(hf).down_proj, lambda x: x.clamp(-8, 8)), LINEAR),
    ("keys clamped where no text reaches", output(lambda hf: ffn(1)(hf).up_proj, lambda x: x.clamp(-20, 20)), LINEAR),
    ("gates clamped where no text reaches", output(lambda hf: ffn(1)(hf).gate_proj, lambda x: x.clamp(-20, 20)), LINEAR),
    ("the largest coefficients alone", given(lambda hf: ffn(0)(hf).down_proj, largest), FFN),
    ("FFN reads the state before the block before", state_of_before, NORM),
    ("otherwise in texts of more than 40 tokens", output(ffn(0), lambda x: x * (2 if x.shape[1] > 40 else 1)), FFN),
    ("otherwise from position 40 on", output(ffn(0), later(40)), FFN),
    ("last block left out", lambda hf: around(layer(1)(hf), lambda _, x, **__: x), "nothing was recorded for attn_out of layer 1"),
]

OF_HEADS: list[tuple[str, Change, str]] = [
    ("heads reversed before the output projection", heads_reversed, HEADS),
    ("no rotation", unrotated, PATTERN),
    ("a norm that centres and should not", centred, READ),
]

OTHERS: list[tuple[str, Change]] = [("gate and up swapped in weights", swapped_weights), ("two blocks of equal weights", equal_blocks)]


def sabotaged(change: Change, model_type: str = "llama") -> Model:
    hf = tiny_hf(model_type, attn_implementation="eager")
    change(hf)
    return wrap(hf, tiny_tokenizer(), f"tiny-{model_type}")


def checked(model: Model) -> None:
    check_identities(model)
    check_texts(model, CONTEXT)


@pytest.mark.parametrize(("change", "identity"), [pytest.param(*rest, id=name) for name, *rest in REFUSED])
def test_another_code_is_refused_by_the_identity_that_it_breaks(change: Change, identity: str) -> None:
    with pytest.raises(AtlasError) as raised:
        checked(sabotaged(change))
    assert identity in str(raised.value)


def test_another_activation_of_one_layer_is_refused() -> None:
    with pytest.raises(AtlasError) as raised:
        checked(sabotaged(gpt2_relu, "gpt2"))
    assert KEYS in str(raised.value) and "fails at layer 1" in str(raised.value)


@pytest.mark.parametrize(("change", "identity"), [pytest.param(*rest, id=name) for name, *rest in OF_HEADS])
def test_another_attention_is_refused_where_heads_are_read_and_no_fact_of_its_ffns_is_wrong(change: Change, identity: str) -> None:
    model = sabotaged(change)
    checked(model)
    with pytest.raises(AtlasError) as raised:
        check_attention(model)
    assert identity in str(raised.value)


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in OTHERS])
def test_other_weights_are_another_model(change: Change) -> None:
    model = sabotaged(change)
    checked(model)
    check_attention(model)


def test_dropout_is_switched_off_before_anything_is_read() -> None:
    hf = tiny_hf("gpt2", resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5)
    tokens = token_batch(1, 5)
    expected = hf(input_ids=tokens).logits
    model = wrap(hf.train(), tiny_tokenizer(), "tiny-gpt2")
    assert torch.equal(model.hf(input_ids=tokens).logits, expected)
    checked(model)
