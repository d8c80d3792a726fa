"""Heads by brute force, in numpy and float64, from parameters found by their names: matrices of the size of the stream and of the vocabulary.

Written from the definitions alone; nothing of `ingest` is used here.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import nn

GEMMAS = ("gemma", "gemma2", "gemma3_text")
NORMS = ("ln_1", "self_attn_layer_norm", "input_layernorm")
OUTPUTS = ("o_proj", "out_proj", "dense", "c_proj")
FFN_KEYS = {"key": ("up_proj", "c_fc", "fc_in", "dense_h_to_4h", "fc1"), "gate": ("gate_proj",)}
FFN_VALUES = ("down_proj", "c_proj", "fc_out", "dense_4h_to_h", "fc2")
FFN_NORMS = {
    **dict.fromkeys(("gpt2", "gpt_neo"), ("ln_2",)),
    **dict.fromkeys(("bloom", "gpt_neox", "gemma", "granite", "llama", "mistral", "qwen2", "qwen3"), ("post_attention_layernorm",)),
    **dict.fromkeys(("gemma2", "gemma3_text"), ("pre_feedforward_layernorm",)),
    **{"gptj": ("ln_1",), "phi": ("input_layernorm",), "opt": ("final_layer_norm",)},
}
POSITIONS = ("wpe", "embed_positions")


def array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().double().numpy()


@dataclass(frozen=True)
class Norm:
    """gain, and bias or zeros, [width]; is_centred: LayerNorm."""

    gain: np.ndarray
    bias: np.ndarray
    is_centred: bool
    epsilon: float

    def scale(self, x: np.ndarray) -> np.ndarray:
        y = x - x.mean(-1, keepdims=True) if self.is_centred else x
        return np.sqrt((y**2).mean(-1, keepdims=True) + self.epsilon)

    @property
    def folded(self) -> np.ndarray:
        """F with N(x) = F·x/scale + bias."""
        d = len(self.gain)
        return np.diag(self.gain) @ (np.eye(d) - self.is_centred / d)


class Heads:
    """A causal language model of transformers, of two layers or more."""

    def __init__(self, hf: nn.Module) -> None:
        self.hf, self.config = hf, hf.config
        self.type = hf.config.model_type
        self.blocks = next(list(m) for m in hf.modules() if isinstance(m, nn.ModuleList) and len(m) == hf.config.num_hidden_layers)
        self.n_heads, self.d_model = hf.config.num_attention_heads, hf.config.hidden_size
        self.n_kv = getattr(hf.config, "num_key_value_heads", None) or self.n_heads

    def child(self, layer: int, names: tuple[str, ...], inside: str = "att") -> nn.Module | None:
        """The module of a layer with one of these names whose path holds `inside`."""
        found = [m for name, m in self.blocks[layer].named_modules() if name.rpartition(".")[2] in names and inside in name]
        return found[0] if found else None

    def norm(self, module: nn.Module | None) -> Norm | None:
        if module is None:
            return None
        weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
        width = self.d_model if weight is None else len(weight)
        gain = np.ones(width) if weight is None else array(weight) + (self.type in GEMMAS)
        epsilon = next(getattr(module, name) for name in ("eps", "variance_epsilon") if hasattr(module, name))
        return Norm(gain, np.zeros(width) if bias is None else array(bias), isinstance(module, nn.LayerNorm), epsilon)

    def before(self, layer: int) -> Norm | None:
        return self.norm(None if self.type == "olmo2" else self.child(layer, NORMS, ""))

    def after(self, layer: int) -> Norm | None:
        return self.norm(self.child(layer, ("post_attention_layernorm",), "")) if self.type in ("gemma2", "gemma3_text", "olmo2") else None

    def linear(self, module: nn.Module) -> tuple[np.ndarray, np.ndarray]:
        """[out, in] and [out]."""
        weight = array(module.weight).T if self.type == "gpt2" else array(module.weight)
        return weight, np.zeros(len(weight)) if module.bias is None else array(module.bias)

    def qkv(self, layer: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """q, k and v: [heads, d_head, d_model] and [heads, d_head], the heads of k and v as many as there are."""
        fused = self.child(layer, ("c_attn", "query_key_value"))
        if fused is None:
            parts = [self.linear(self.child(layer, (f"{p}_proj",))) for p in "qkv"]
            counts = (self.n_heads, self.n_kv, self.n_kv)
            return [(w.reshape(n, -1, self.d_model), b.reshape(n, -1)) for (w, b), n in zip(parts, counts, strict=True)]
        weight, bias = self.linear(fused)
        shape = (3, self.n_heads, -1) if self.type == "gpt2" else (self.n_heads, 3, -1)
        weight, bias = weight.reshape(*shape, self.d_model), bias.reshape(shape)
        return [(weight[i], bias[i]) if self.type == "gpt2" else (weight[:, i], bias[:, i]) for i in range(3)]

    def output(self, layer: int, head: int) -> np.ndarray:
        """γ·W_O, [d_model, d_head]."""
        weight = self.linear(self.child(layer, OUTPUTS))[0].reshape(self.d_model, self.n_heads, -1)[:, head]
        after = self.after(layer)
        return weight * getattr(self.config, "residual_multiplier", 1.0) * (1 if after is None else after.gain[:, None])

    def reader(self, layer: int, head: int, part: int) -> np.ndarray:
        """Folded rows of a head's q, k or v (0, 1, 2), [d_head, d_model]."""
        own = head if part == 0 else head * self.n_kv // self.n_heads
        rows, norm = self.qkv(layer)[part][0][own], self.before(layer)
        rows = rows if norm is None else rows @ norm.folded
        inner = self.norm(self.child(layer, ("q_norm", "q_layernorm") if part == 0 else ("k_norm", "k_layernorm"))) if part < 2 else None
        if inner is None:
            return rows
        d_head = len(rows)
        if len(inner.gain) > d_head:  # over all heads jointly
            return rows * inner.gain.reshape(-1, d_head)[own][:, None]
        return inner.folded @ rows

    def ov(self, layer: int, head: int) -> np.ndarray:
        return self.output(layer, head) @ self.reader(layer, head, 2)

    def qk(self, layer: int, head: int, turn: np.ndarray | None = None) -> np.ndarray:
        """W_Qᵀ·turn·W_K, query before key."""
        q, k = self.reader(layer, head, 0), self.reader(layer, head, 1)
        return q.T @ (k if turn is None else turn @ k)

    def constant(self, layer: int, head: int) -> np.ndarray:
        (weight, bias), own = self.qkv(layer)[2], head * self.n_kv // self.n_heads
        norm = self.before(layer)
        return self.output(layer, head) @ (bias[own] + (0 if norm is None else weight[own] @ norm.bias))

    def ffn_readers(self, layer: int) -> dict[str, np.ndarray]:
        """Folded keys, and gate keys where there are any, [d_ffn, d_model]."""
        norm = None if self.type == "olmo2" else self.norm(self.child(layer, FFN_NORMS[self.type], ""))
        found = {side: self.linear(module)[0] for side, names in FFN_KEYS.items() if (module := self.child(layer, names, "")) is not None}
        return {side: rows if norm is None else rows @ norm.folded for side, rows in found.items()}

    def ffn_values(self, layer: int) -> np.ndarray:
        """[d_ffn, d_model], with the gain of a norm behind them and the residual multiplier."""
        # the attention's output may have the same name, and comes first
        module = [m for name, m in self.blocks[layer].named_modules() if name.rpartition(".")[2] in FFN_VALUES and "att" not in name][-1]
        after = self.norm(self.child(layer, ("post_feedforward_layernorm",), ""))
        values = self.linear(module)[0].T * getattr(self.config, "residual_multiplier", 1.0)
        return values if after is None else values * after.gain

    def window(self, layer: int) -> int | None:
        if self.type == "gpt_neo":
            return self.config.window_size if self.config.attention_layers[layer] == "local" else None
        kinds = getattr(self.config, "layer_types", None)
        if self.type == "mistral" or (kinds and kinds[layer] == "sliding_attention"):
            return self.config.sliding_window
        return None

    def pairs(self, layer: int, context: int) -> np.ndarray:
        """How many pairs of a position and an earlier one that the layer sees lie 0, 1, … apart in a sequence, [context]; counted one by one."""
        found, window = np.zeros(context), self.window(layer) or context
        for i in range(context):
            for j in range(i):
                found[i - j] += i - j < window
        return found

    def mean_turn(self, layer: int, weights: np.ndarray) -> np.ndarray | None:
        """R(Δ) averaged with these weights of the distances 0, 1, …, [d_head, d_head]; None without RoPE."""
        d_head = self.output(layer, 0).shape[1]
        rope = getattr(self.config, "rope_parameters", None)
        if self.type == "gptj":
            width, base = self.config.rotary_dim, 10000.0
        elif rope is None:
            return None
        else:
            rope = rope[self.config.layer_types[layer]] if "rope_theta" not in rope else rope
            width, base = int(d_head * rope.get("partial_rotary_factor", 1.0)), rope["rope_theta"]
        turns = []
        for distance in range(len(weights)):
            turn = np.eye(d_head)
            # an odd width turns its last dimension with the one behind it
            n_pairs = -(-width // 2)
            for n in range(n_pairs):
                one, other = (2 * n, 2 * n + 1) if self.type == "gptj" else (n, n + n_pairs)
                angle = distance * base ** (-2 * n / width)
                # q at i and k at j turn by iθ and jθ, so that their product turns k back by the distance
                turn[np.ix_([one, other], [one, other])] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
            turns.append(turn)
        return np.average(turns, axis=0, weights=weights)

    @cached_property
    def tokens(self) -> np.ndarray:
        """What tokens bring to the first block, and what it makes of each that looks at itself alone: [2, tokens, d_model], positions left out."""
        n, found = self.hf.get_output_embeddings().weight.shape[0], {}

        def enter(_: nn.Module, args: tuple, kwargs: dict) -> None:
            found[0] = (args[0] if args else kwargs["hidden_states"])[:, 0]

        def leave(_: nn.Module, args: tuple, output: object) -> None:
            found[1] = (output[0] if isinstance(output, tuple) else output).reshape(n, -1)

        handles = [self.blocks[0].register_forward_pre_hook(enter, with_kwargs=True), self.blocks[0].register_forward_hook(leave)]
        with torch.inference_mode(), without_positions(self.hf):
            self.hf(torch.arange(n)[:, None], use_cache=False)
        for handle in handles:
            handle.remove()
        return np.stack([array(found[0]), array(found[1])])

    def sources(self, layer: int) -> np.ndarray:
        """X̂ as a layer finds it, [tokens, d_model]; layer 0: the tokens' own."""
        x, norm = self.tokens[min(layer, 1)], self.before(0)
        return x if norm is None else x / norm.scale(x)

    @cached_property
    def readers(self) -> np.ndarray:
        """Û, [tokens, d_model]."""
        name, module = next((n, m) for n, m in self.hf.named_modules() if n.rpartition(".")[2] in ("ln_f", "final_layer_norm", "final_layernorm", "norm"))
        assert "layers" not in name
        return array(self.hf.get_output_embeddings().weight) @ self.norm(module).folded / getattr(self.config, "logits_scaling", 1.0)


@contextmanager
def without_positions(hf: nn.Module):
    """Learned positions are zero."""
    tables = [m.weight for name, m in hf.named_modules() if name.rpartition(".")[2] in POSITIONS and hasattr(m, "weight")]
    kept = [t.detach().clone() for t in tables]
    for t in tables:
        t.data.zero_()
    yield
    for t, was in zip(tables, kept, strict=True):
        t.data.copy_(was)


def centred(x: np.ndarray) -> np.ndarray:
    return x - x.mean(0)


def eigenvalues(matrix: np.ndarray, n: int) -> np.ndarray:
    """The n of largest modulus, then of largest real part."""
    found = np.linalg.eigvals(matrix)
    return found[np.lexsort((-found.imag, -found.real.round(9), -np.abs(found).round(9)))][:n]


def ratio(found: np.ndarray) -> float:
    return found.sum().real / np.abs(found).sum()
