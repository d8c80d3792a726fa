"""Every number of an atlas by brute force: a plain transformers forward pass, one sequence at a time, and raw weights in float64.

Written from the definitions alone. Nothing of `ingest` is used here, so that a slip there cannot be made here as well.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.rounding import N_DRAWS, wobbling

SITES = ("resid_pre", "attn_out", "resid_mid", "ffn_out", "resid_post")

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)),
    "gelu_new": lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "relu": lambda x: x.clamp(min=0),
}
ACTIVATIONS["gelu_pytorch_tanh"] = ACTIVATIONS["gelu_new"]


@dataclass(frozen=True)
class Family:
    """Where a model type keeps its blocks (from the model) and their parts (from a block), and which norm it has."""

    blocks: str
    final_norm: str
    attention: str
    """Module whose output is added to the stream."""
    ffn_norm: str
    up: str
    down: str
    activation: str
    """Attribute of the configuration that names the activation function."""
    epsilon: str
    norm: str
    """layer: mean and variance, gain and bias; rms: root mean square, gain; rms1: gain 1 + weight."""
    gate: str | None = None
    after_norm: str | None = None
    is_conv1d: bool = False
    is_parallel: bool = False
    residual_multiplier: str | None = None
    logit_divisor: str | None = None


GATED = {"blocks": "model.layers", "final_norm": "model.norm", "up": "mlp.up_proj", "gate": "mlp.gate_proj", "down": "mlp.down_proj", "epsilon": "rms_norm_eps"}
FAMILIES = {
    "gpt2": Family(
        "transformer.h", "transformer.ln_f", "attn", "ln_2", "mlp.c_fc", "mlp.c_proj", "activation_function", "layer_norm_epsilon", "layer", is_conv1d=True
    ),
    "gpt_neox": Family(
        "gpt_neox.layers", "gpt_neox.final_layer_norm", "attention", "post_attention_layernorm", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h",
        "hidden_act", "layer_norm_eps", "layer", is_parallel=True,
    ),
    "opt": Family("model.decoder.layers", "model.decoder.final_layer_norm", "self_attn", "final_layer_norm", "fc1", "fc2", "activation_function", "", "layer"),
    "llama": Family(**GATED, attention="self_attn", ffn_norm="post_attention_layernorm", activation="hidden_act", norm="rms"),
    "granite": Family(
        **GATED, attention="self_attn", ffn_norm="post_attention_layernorm", activation="hidden_act", norm="rms",
        residual_multiplier="residual_multiplier", logit_divisor="logits_scaling",
    ),
    "gemma2": Family(
        **GATED, attention="post_attention_layernorm", ffn_norm="pre_feedforward_layernorm", after_norm="post_feedforward_layernorm",
        activation="hidden_activation", norm="rms1",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Text:
    """A document as the corpus file has it."""

    name: str
    text: str
    metadata: dict[str, object]


@dataclass(frozen=True)
class Cut:
    """A corpus as sequences of tokens; every array has one entry a position, except `lengths` and `document_of`: one a sequence."""

    token_ids: np.ndarray
    next_token_ids: np.ndarray
    char_starts: np.ndarray
    char_ends: np.ndarray
    index: np.ndarray
    sequence: np.ndarray
    lengths: np.ndarray
    document_of: np.ndarray


@dataclass(frozen=True)
class Activations:
    """A corpus's forward pass. coefficients: for each layer [n_positions, d_ffn] float32. Of the positions `kept` only:
    sites: site → [n_layers, n_kept, d_model] float64; logits: the model's own, [n_kept, d_vocab] float64."""

    coefficients: list[np.ndarray]
    kept: np.ndarray
    sites: dict[str, Tensor]
    logits: Tensor


class Reference:
    """A model's weights and forward pass, straight from transformers."""

    def __init__(self, hf: nn.Module) -> None:
        self.hf, self.config = hf.eval(), hf.config
        self.family = FAMILIES[hf.config.model_type]
        self.weights = dict(hf.named_parameters(remove_duplicate=False))
        self.blocks = hf.get_submodule(self.family.blocks)
        self.n_layers = len(self.blocks)
        self.activation = ACTIVATIONS[getattr(self.config, self.family.activation)]
        self.epsilon = getattr(self.config, self.family.epsilon, 1e-5)
        self.multiplier = getattr(self.config, self.family.residual_multiplier) if self.family.residual_multiplier else 1.0

    def weight(self, layer: int, part: str) -> Tensor:
        """A projection as [out, in]."""
        w = self.weights[f"{self.family.blocks}.{layer}.{part}.weight"].detach().double()
        return w.T if self.family.is_conv1d else w

    def bias(self, layer: int, part: str) -> Tensor | float:
        found = self.weights.get(f"{self.family.blocks}.{layer}.{part}.bias")
        return 0.0 if found is None else found.detach().double()

    @cached_property
    def embedding(self) -> Tensor:
        """E, [d_vocab, d_model]."""
        return self.hf.get_output_embeddings().weight.detach().double()

    def keys(self, layer: int) -> Tensor:
        return self.weight(layer, self.family.up)

    def gates(self, layer: int) -> Tensor | None:
        return self.weight(layer, self.family.gate) if self.family.gate else None

    def values(self, layer: int) -> Tensor:
        """v_i, [d_ffn, d_model]: the gain of a norm behind the FFN and a residual multiplier included."""
        values = self.weight(layer, self.family.down).T * self.multiplier
        return values * self.after_gain(layer) if self.family.after_norm else values

    def after_gain(self, layer: int) -> Tensor:
        return self.gain(f"{self.family.blocks}.{layer}.{self.family.after_norm}")

    def gain(self, norm: str) -> Tensor:
        return self.weights[f"{norm}.weight"].detach().double() + (1.0 if self.family.norm == "rms1" else 0.0)

    def normed(self, norm: str, x: Tensor) -> Tensor:
        """The norm of that name, its statistics from x itself."""
        if self.family.norm == "layer":
            centred = x - x.mean(-1, keepdim=True)
            scale = (centred.square().mean(-1, keepdim=True) + self.epsilon).sqrt()
            return centred / scale * self.gain(norm) + self.weights[f"{norm}.bias"].detach().double()
        return x / (x.square().mean(-1, keepdim=True) + self.epsilon).sqrt() * self.gain(norm)

    def coefficients(self, layer: int, resid_pre: Tensor, resid_mid: Tensor) -> Tensor:
        """m, recomputed from the weights: [n, d_model] → [n, d_ffn]."""
        seen = resid_pre if self.family.is_parallel else resid_mid
        x = self.normed(f"{self.family.blocks}.{layer}.{self.family.ffn_norm}", seen)
        up = x @ self.keys(layer).T + self.bias(layer, self.family.up)
        if not self.family.gate:
            return self.activation(up)
        return self.activation(x @ self.gates(layer).T + self.bias(layer, self.family.gate)) * up

    def ffn_scale(self, layer: int, m: Tensor) -> Tensor:
        """The frozen 1/rms of a norm behind the FFN at each position, [n, 1]; ones where there is none."""
        if not self.family.after_norm:
            return torch.ones(len(m), 1, dtype=torch.float64)
        raw = m @ self.weight(layer, self.family.down).T
        return (raw.square().mean(-1, keepdim=True) + self.epsilon).rsqrt()

    def ffn_out(self, layer: int, m: Tensor) -> Tensor:
        """sum_i m_i v_i + b_out."""
        return (m @ self.values(layer)) * self.ffn_scale(layer, m) + self.ffn_bias(layer)

    def ffn_bias(self, layer: int) -> Tensor | float:
        return self.bias(layer, self.family.down) * self.multiplier

    def lens(self, z: Tensor) -> Tensor:
        """Logits of a state: final norm, embedding, head bias, scaling and soft-cap: [..., d_model] → [..., d_vocab]."""
        logits = self.normed(self.family.final_norm, z) @ self.embedding.T
        logits = logits if self.hf.get_output_embeddings().bias is None else logits + self.hf.get_output_embeddings().bias.detach().double()
        logits = logits / getattr(self.config, self.family.logit_divisor) if self.family.logit_divisor else logits
        cap = getattr(self.config, "final_logit_softcapping", None)
        return cap * torch.tanh(logits / cap) if cap else logits

    def adds_to_logit(self, part: Tensor, token: int, last: Tensor) -> float:
        """What a part [d_model] of the last resid_post `last` adds to the logit of a token before a soft-cap, the final norm's divisor held."""
        if self.family.norm == "layer":
            part, last = part - part.mean(), last - last.mean()
        kept = part / (last.square().mean() + self.epsilon).sqrt() * self.gain(self.family.final_norm)
        return float(kept @ self.embedding[token]) / (getattr(self.config, self.family.logit_divisor) if self.family.logit_divisor else 1.0)

    def read(self, cut: Cut, keep: np.ndarray) -> Activations:
        """Forward every sequence alone, without padding. keep: numbers of the positions whose states are wanted, ascending."""
        coefficients: list[list[np.ndarray]] = [[] for _ in range(self.n_layers)]
        sites: dict[str, list[Tensor]] = {site: [] for site in SITES}
        logits = []
        ends = np.cumsum(cut.lengths)
        for start, end in zip(ends - cut.lengths, ends, strict=True):
            rows = torch.from_numpy(keep[(keep >= start) & (keep < end)] - start)
            with hooked(self) as seen, torch.no_grad():
                out = self.hf(torch.from_numpy(cut.token_ids[start:end].astype(np.int64))[None], use_cache=False).logits[0]
            logits.append(out[rows].double())
            for layer in range(self.n_layers):
                coefficients[layer].append(seen["coefficient", layer].numpy())
            if len(rows):
                for site, states in self.states(seen, rows).items():
                    sites[site].append(states)
        return Activations([np.concatenate(m) for m in coefficients], keep, {site: torch.cat(z, 1) for site, z in sites.items()}, torch.cat(logits))

    def lens_rounding(self, token_ids: np.ndarray) -> float:
        """Find how far apart two computations of a lens of one sequence [seq] may be, as a share of the row's largest logit, over all layers and sites.

        The states are the model's, of its own type (tests/rounding.py); what the lens makes of them is in float64 here.
        """
        ids, n = torch.from_numpy(token_ids.astype(np.int64)), N_DRAWS * len(token_ids)
        with hooked(self) as seen, wobbling(self.hf):
            self.hf(input_ids=ids.expand(N_DRAWS, -1), use_cache=False)
        found = [self.lens(z).unflatten(1, (N_DRAWS, -1)) for z in self.states(seen, torch.arange(n)).values()]
        return max(float(((logits.amax(1) - logits.amin(1)).amax(-1) / logits.abs().amax((1, 3))).max()) for logits in found)

    def states(self, seen: dict[tuple[str, int], Tensor], rows: Tensor) -> dict[str, Tensor]:
        """The five sites at some rows of one forward pass, each [n_layers, n_rows, d_model]."""
        layers = range(self.n_layers)

        def of(name: str) -> Tensor:
            return torch.stack([seen[name, layer][rows] for layer in layers]).double()

        pre, attention, m = of("resid_pre"), of("attn_out") * self.multiplier, of("coefficient")
        ffn = torch.stack([self.ffn_out(layer, m[layer]) for layer in layers])
        mid, post = pre + attention, of("resid_post")
        for layer in layers:
            # the reference must agree with itself first: coefficients with the weights, and the parts with the whole
            assert_near(self.coefficients(layer, pre[layer], mid[layer]), m[layer], 1e-4)
            assert_near(mid[layer] + ffn[layer], post[layer], 1e-4)
        return dict(zip(SITES, (pre, attention, mid, ffn, post), strict=True))


def assert_near(got: Tensor, want: Tensor, tolerance: float) -> None:
    error = (got - want).norm(dim=-1) / want.norm(dim=-1).clamp(min=1e-12)
    assert float(error.max()) < tolerance, f"the reference disagrees with itself: {float(error.max()):.2g}"


@contextmanager
def hooked(reference: Reference) -> Iterator[dict[tuple[str, int], Tensor]]:
    """Block inputs and outputs, what attention adds, and the input of the down projection: (name, layer) → [n, width]."""
    seen: dict[tuple[str, int], Tensor] = {}

    def reader(name: str, layer: int, *, is_input: bool) -> Callable[..., None]:
        def read(_module: nn.Module, args: tuple, kwargs: dict, *output: object) -> None:
            state = (args[0] if args else kwargs["hidden_states"]) if is_input else output[0]
            state = state[0] if isinstance(state, tuple) else state
            seen[name, layer] = state.detach().reshape(-1, state.shape[-1])

        return read

    handles = []
    for layer, block in enumerate(reference.blocks):
        for name, path in (("resid_pre", ""), ("coefficient", reference.family.down)):
            handles.append(block.get_submodule(path).register_forward_pre_hook(reader(name, layer, is_input=True), with_kwargs=True))
        for name, path in (("resid_post", ""), ("attn_out", reference.family.attention)):
            handles.append(block.get_submodule(path).register_forward_hook(reader(name, layer, is_input=False), with_kwargs=True))
    yield seen
    for handle in handles:
        handle.remove()


def byte_alphabet() -> dict[str, int]:
    """Character → byte of a byte-level vocabulary (GPT-2's): printable ones stand for themselves, the others follow from U+0100."""
    own = [b for b in range(256) if chr(b) in "!\"#$%&'()*+,-./" or ord("0") <= b <= ord("~") or 161 <= b <= 172 or 174 <= b <= 255]
    others = [b for b in range(256) if b not in own]
    return {chr(b): b for b in own} | {chr(256 + i): b for i, b in enumerate(others)}


def token_bytes(tokenizer: object, token_id: int) -> bytes:
    """The bytes that a token of a byte-level vocabulary adds to a text."""
    alphabet = byte_alphabet()
    return bytes(alphabet[c] for c in tokenizer.convert_ids_to_tokens(token_id))


def cut_texts(texts: list[Text], tokenizer: object, context: int, bos: int | None, document_tokens: int | None = None) -> Cut:
    """Tokens in stretches of `context`, BOS included; characters counted byte by byte. document_tokens: how many of each document are read."""
    columns: dict[str, list] = {name: [] for name in ("token", "next", "start", "end", "index", "sequence")}
    lengths, document_of = [], []
    for number, document in enumerate(texts):
        if not document.text.strip():
            continue
        ids = tokenizer(document.text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        char_of_byte = [i for i, c in enumerate(document.text) for _ in c.encode()]
        ends = np.cumsum([len(token_bytes(tokenizer, i)) for i in ids])
        assert ends[-1] == len(char_of_byte)
        starts = np.concatenate([[0], ends[:-1]])
        room, n_read = context - (bos is not None), min(document_tokens or len(ids), len(ids))
        for first in range(0, n_read, room):
            places = range(first, min(first + room, n_read))
            rows = [(ids[i], ids[i + 1] if i + 1 < len(ids) else -1, char_of_byte[starts[i]], char_of_byte[ends[i] - 1] + 1) for i in places]
            if bos is not None:
                rows.insert(0, (bos, rows[0][0], rows[0][2], rows[0][2]))
            for index, row in enumerate(rows):
                for name, value in zip(columns, (*row, index, len(lengths)), strict=True):
                    columns[name].append(value)
            lengths.append(len(rows))
            document_of.append(number)
    return Cut(*(np.array(c, np.int64) for c in columns.values()), np.array(lengths), np.array(document_of))


def entropy(logits: Tensor) -> Tensor:
    """In nats."""
    log_p = F.log_softmax(logits, -1)
    return -(log_p.exp() * log_p).sum(-1)
