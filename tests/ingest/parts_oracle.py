"""A prediction as a sum, by brute force: a float64 copy of a tiny model, plain hooks on modules found by their names, and every part read over the whole
vocabulary. Nothing of `ingest` but the forward pass's model is used."""

import copy
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ingest.model.models import Model
from tests.ingest.attention_oracle import ATTENTION, OUTPUT, child

DOWN = ("down_proj", "c_proj", "fc2", "fc_out", "dense_4h_to_h")
FINAL_NORM = ("ln_f", "final_layer_norm", "final_layernorm", "norm")
POSITIONS = ("wpe", "embed_positions")
NORMED_AFTER = ("gemma2", "gemma3_text", "olmo2")

Key = tuple[str, int | None, int | None]
"""Kind, layer, head."""


@dataclass
class Taken:
    """One sequence, [seq, …] float64.

    parts: what each wrote; befores: the stream that it is added to. weights: [layers, seq, heads, seq]; values: [layers, seq, heads, d_head];
    moved_vectors: [layers, seq (destination), heads, seq (source), d_model]; neurons: [layers, seq, d_ffn, d_model].
    """

    parts: dict[Key, Tensor] = field(default_factory=dict)
    befores: dict[Key, Tensor] = field(default_factory=dict)
    last: Tensor = field(default_factory=lambda: torch.empty(0))
    logits: Tensor = field(default_factory=lambda: torch.empty(0))
    weights: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    moved_vectors: list[Tensor] = field(default_factory=list)
    neurons: list[Tensor] = field(default_factory=list)


class Oracle:
    def __init__(self, model: Model) -> None:
        self.hf: nn.Module = copy.deepcopy(model.hf).double().requires_grad_(False)
        self.kind, self.config = model.model_type, model.hf.config
        self.blocks = next(list(module) for module in self.hf.modules() if isinstance(module, nn.ModuleList))
        self.multiplier = getattr(self.config, "residual_multiplier", 1.0)
        self.divisor = getattr(self.config, "logits_scaling", 1.0)
        outside = [(name, module) for name, module in self.hf.named_modules() if not any(part.isdigit() for part in name.split("."))]
        self.final_norm = [module for name, module in outside if name.rpartition(".")[2] in FINAL_NORM][-1]
        self.positions = next((module for name, module in outside if name.rpartition(".")[2] in POSITIONS), None)
        self.head = self.hf.get_output_embeddings()

    def gain(self, norm: nn.Module) -> Tensor | float:
        if norm.weight is None:
            return 1.0
        return norm.weight + 1.0 if self.kind.startswith("gemma") else norm.weight

    def read(self, z: Tensor, scale: Tensor) -> Tensor:
        """What parts [..., d_model] add to every logit, the final norm's divisor [..., 1] held."""
        z = z - z.mean(-1, keepdim=True) if isinstance(self.final_norm, nn.LayerNorm) else z
        return (z / scale * self.gain(self.final_norm)) @ self.head.weight.T / self.divisor

    def scale(self, last: Tensor) -> Tensor:
        last = last - last.mean(-1, keepdim=True) if isinstance(self.final_norm, nn.LayerNorm) else last
        epsilon = getattr(self.final_norm, "eps", None) or self.final_norm.variance_epsilon
        return (last.square().mean(-1, keepdim=True) + epsilon).sqrt()

    def constant(self) -> Tensor:
        """Of every token, [vocabulary]."""
        found = torch.zeros(len(self.head.weight), dtype=torch.float64)
        if getattr(self.final_norm, "bias", None) is not None:
            found = found + self.head.weight @ self.final_norm.bias
        return (found + (self.head.bias if self.head.bias is not None else 0)) / self.divisor

    def after(self, layer: int, name: str, raw: Tensor) -> Tensor:
        """What multiplies what attention or FFN wrote, [seq, d_model], from all that they wrote, `raw`."""
        if self.kind not in NORMED_AFTER:
            return torch.full_like(raw, self.multiplier)
        norm = self.blocks[layer].get_submodule(name)
        epsilon = getattr(norm, "eps", None) or norm.variance_epsilon
        return self.gain(norm) / (raw.square().mean(-1, keepdim=True) + epsilon).sqrt() * self.multiplier

    def take(self, token_ids: Tensor) -> Taken:
        """One sequence [seq], alone."""
        inputs: dict[object, Tensor] = {}
        outputs: dict[object, Tensor] = {}
        modules: list[tuple[object, nn.Module]] = [("position", self.positions)] if self.positions is not None else []
        for layer, block in enumerate(self.blocks):
            modules += [((layer, "block"), block), ((layer, "o"), self.output(layer)), ((layer, "down"), self.down(layer)), *self.value_modules(layer)]
        handles = []
        for key, module in modules:

            def keep(_: nn.Module, args: tuple, kwargs: dict, result: object, key: object = key) -> None:
                inputs[key] = args[0] if args else next(iter(kwargs.values()))
                outputs[key] = result[0] if isinstance(result, tuple) else result

            handles.append(module.register_forward_hook(keep, with_kwargs=True))
        with torch.no_grad():
            out = self.hf(token_ids[None], use_cache=False, output_attentions=True)
            for handle in handles:
                handle.remove()
            return self.taken(len(token_ids), inputs, outputs, out)

    def output(self, layer: int) -> nn.Module:
        return child(child(self.blocks[layer], ATTENTION), OUTPUT)

    def down(self, layer: int) -> nn.Module:
        return child(getattr(self.blocks[layer], "mlp", self.blocks[layer]), DOWN)

    def value_modules(self, layer: int) -> list[tuple[object, nn.Module]]:
        return [((layer, "v"), child(child(self.blocks[layer], ATTENTION), ("v_proj", "query_key_value", "c_attn")))]

    def values(self, found: Tensor, n_heads: int) -> Tensor:
        """v of every head, [seq, heads, d_head], out of what the projection gave [seq, …]."""
        if self.kind in ("bloom", "gpt_neox"):
            return found.reshape(len(found), n_heads, 3, -1)[:, :, 2]
        if self.kind == "gpt2":
            return found[:, 2 * found.shape[1] // 3 :].reshape(len(found), n_heads, -1)
        n_kv = getattr(self.config, "num_key_value_heads", None) or n_heads
        return torch.stack([found.reshape(len(found), n_kv, -1)[:, h * n_kv // n_heads] for h in range(n_heads)], 1)

    def taken(self, n: int, inputs: dict, outputs: dict, out: object) -> Taken:
        found = Taken(logits=out.logits[0])
        stream = inputs[0, "block"].reshape(n, -1)
        position = outputs["position"].reshape(-1, stream.shape[1])[:n] if self.positions is not None else torch.zeros_like(stream)
        found.parts["token", None, None] = stream - position
        if self.positions is not None:
            found.parts["position", None, None] = position
        for layer in range(len(self.blocks)):
            stream = self.take_layer(found, layer, n, stream, inputs, outputs, out.attentions[layer][0])
        found.last = stream
        return found

    def take_layer(self, found: Taken, layer: int, n: int, before: Tensor, inputs: dict, outputs: dict, attention: Tensor) -> Tensor:
        o, gathered, n_heads = self.output(layer), inputs[layer, "o"].reshape(n, -1), self.config.num_attention_heads
        nothing, width = o(torch.zeros_like(gathered)), gathered.shape[1] // n_heads
        after = self.after(layer, "post_attention_layernorm", o(gathered))

        def alone(head: int, x: Tensor) -> Tensor:
            """What the projection makes of one head's input [..., d_head], without its bias."""
            padded = torch.zeros(*x.shape[:-1], gathered.shape[1], dtype=x.dtype)
            padded[..., head * width : (head + 1) * width] = x
            return o(padded) - nothing[0]

        written = torch.zeros_like(before)
        for head in range(n_heads):
            found.parts["head", layer, head] = alone(head, gathered[:, head * width : (head + 1) * width]) * after
        if o.bias is not None:
            found.parts["attention_bias", layer, None] = nothing * after
        for key in [key for key in found.parts if key[1] == layer]:
            found.befores[key] = before
            written = written + found.parts[key]
        down, m = self.down(layer), inputs[layer, "down"].reshape(n, -1)
        raw = down(m)
        after_ffn = self.after(layer, "post_feedforward_layernorm", raw)
        end = outputs[layer, "block"].reshape(n, -1)
        bias = down(torch.zeros_like(m)) * after_ffn
        found.parts["ffn", layer, None] = end - before - written - bias
        if down.bias is not None:
            found.parts["ffn_bias", layer, None] = bias
        for key in (("ffn", layer, None), ("ffn_bias", layer, None)):
            if key in found.parts:
                found.befores[key] = before + written
        rows = down.weight if type(down).__name__ == "Conv1D" else down.weight.T
        found.neurons.append(m[..., None] * rows * after_ffn[:, None])
        values, weights = self.values(outputs[layer, "v"].reshape(n, -1), n_heads), attention.transpose(0, 1)
        found.values.append(values)
        found.weights.append(weights.double())
        by_source = torch.stack([alone(head, values[:, head]) for head in range(n_heads)])
        found.moved_vectors.append(weights[..., None] * by_source * after[:, None, None])
        return end
