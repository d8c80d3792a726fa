"""Interventions by hand: a float64 model of transformers, its modules by their names, and a hook written for each case. Nothing of `ingest` is used."""

from collections.abc import Callable, Sequence
from hashlib import sha256

import torch
from torch import Tensor
from transformers import PreTrainedModel

LLAMA = ("model.layers", "self_attn", "o_proj", "mlp.up_proj", "mlp.down_proj", "model.embed_tokens", "post_attention_layernorm")
NAMES = {
    "gpt2": ("transformer.h", "attn", "c_proj", "mlp.c_fc", "mlp.c_proj", "transformer.wte", "ln_2"),
    "gpt_neo": ("transformer.h", "attn.attention", "out_proj", "mlp.c_fc", "mlp.c_proj", "transformer.wte", "ln_2"),
    "gptj": ("transformer.h", "attn", "out_proj", "mlp.fc_in", "mlp.fc_out", "transformer.wte", ""),
    "gpt_neox": ("gpt_neox.layers", "attention", "dense", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", "gpt_neox.embed_in", ""),
    "bloom": (
        "transformer.h", "self_attention", "dense", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", "transformer.word_embeddings", "post_attention_layernorm",
    ),
    "opt": ("model.decoder.layers", "self_attn", "out_proj", "fc1", "fc2", "model.decoder.embed_tokens", "final_layer_norm"),
    "phi": ("model.layers", "self_attn", "dense", "mlp.fc1", "mlp.fc2", "model.embed_tokens", ""),
    "gemma2": (*LLAMA[:6], "pre_feedforward_layernorm"),
    "gemma3_text": (*LLAMA[:6], "pre_feedforward_layernorm"),
    "olmo2": (*LLAMA[:6], "mlp"),
}  # fmt: skip
"""Family → list of blocks, attention, its output projection, what coefficients come from and go into, embedding, what reads resid_mid; else as Llama."""

NORMED_AFTER = ("gemma2", "gemma3_text", "olmo2")
UNGATED = ("gpt2", "gpt_neo", "gptj", "gpt_neox", "bloom", "opt", "phi")
PARALLEL = ("gpt_neox", "gptj", "phi")

Hand = tuple[str, str, Callable[[Tensor], Tensor]]
"""Module, 'in' or 'out', and what comes of its state [seq, width]."""


class Names:
    """Where a family keeps what is acted on, by layer."""

    def __init__(self, family: str) -> None:
        self.blocks, attention, o, self.up_, self.down_, self.embedding, self.read_ = NAMES.get(family, LLAMA)
        self.o_, self.is_normed = f"{attention}.{o}", family in NORMED_AFTER

    def block(self, layer: int) -> str:
        return f"{self.blocks}.{layer}"

    def o(self, layer: int) -> str:
        return f"{self.block(layer)}.{self.o_}"

    def up(self, layer: int) -> str:
        return f"{self.block(layer)}.{self.up_}"

    def down(self, layer: int) -> str:
        return f"{self.block(layer)}.{self.down_}"

    def read(self, layer: int) -> str:
        return f"{self.block(layer)}.{self.read_}"

    def attn_out(self, layer: int) -> str:
        return f"{self.block(layer)}.post_attention_layernorm" if self.is_normed else self.o(layer)

    def ffn_out(self, layer: int) -> str:
        return f"{self.block(layer)}.post_feedforward_layernorm" if self.is_normed else self.down(layer)


def by_hand(hf: PreTrainedModel, token_ids: Tensor, hands: Sequence[Hand], **more: object) -> Tensor:
    """Logits [seq, vocabulary] of one sequence [seq], with these changes."""
    handles = []
    for name, side, change in hands:
        module = hf.get_submodule(name)

        def changed(x: Tensor, change: Callable[[Tensor], Tensor] = change) -> Tensor:
            return change(x.reshape(len(token_ids), -1).clone()).reshape(x.shape)

        if side == "in":
            handles.append(module.register_forward_pre_hook(lambda _, args, changed=changed: (changed(args[0]), *args[1:])))
        else:
            handles.append(
                module.register_forward_hook(
                    lambda _m, _a, out, changed=changed: (changed(out[0]), *out[1:]) if isinstance(out, tuple) else changed(out)
                )
            )  # fmt: skip
    with torch.no_grad():
        found = hf(input_ids=token_ids[None], use_cache=False, **more).logits[0]
    for handle in handles:
        handle.remove()
    return found


def seen(hf: PreTrainedModel, token_ids: Tensor, name: str, side: str) -> Tensor:
    """What a module reads or gives, [seq, width]."""
    kept: list[Tensor] = []
    by_hand(hf, token_ids, [(name, side, lambda x: kept.append(x) or x)])
    return kept[0]


def put(positions: Sequence[int], columns: Sequence[int] | slice, new: object) -> Callable[[Tensor], Tensor]:
    """Columns at positions become a number, a tensor, or what a function makes of what is there."""

    def change(x: Tensor) -> Tensor:
        for position in positions:
            there = x[position, columns]
            value = new(there, position) if callable(new) else new
            x[position, columns] = value if isinstance(value, Tensor) else torch.full_like(there, value)
        return x

    return change


def hashed(seed: int, index: int) -> int:
    return int(sha256(f"{seed}:{index}".encode()).hexdigest()[:16], 16) // 2
