"""The facts that describe a model family: the module paths of its stream, attention and FFN, and how these compute.

An architecture is a row of facts, not a subclass. Module paths are dotted: `backbone` starts from the causal language model, the other paths of
`Stream` from the backbone, and those of `Attention` and `Ffn` from one layer. Facts that depend on a checkpoint's configuration are functions of it; facts
that also depend on the layer are functions of both. Biases, the sizes of heads and the epsilons of norms are read from the modules themselves.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from torch import Tensor, nn
from transformers import PretrainedConfig

from ingest.model.norms import Norm

T = TypeVar("T")

Spread = Literal["halves", "neighbours", "once"]
HeadOrder = Literal["apart", "blocks", "heads", "groups"]
RowOrder = Literal["apart", "gate first", "up first", "interleaved"]
"""Words of `Rotary.spread`, `Attention.layout` and `Ffn.layout`."""

ConfigFact = Callable[[PretrainedConfig], T]
LayerFact = Callable[[PretrainedConfig, int], T]


def config_attribute(attribute: str) -> ConfigFact[Any]:
    """Build a fact that is read from this attribute of the model's configuration."""
    return lambda config: getattr(config, attribute)


def constant_fact(fact: T) -> ConfigFact[T]:
    """Build a fact that is the same for every model of the family."""
    return lambda config: fact


of, always = config_attribute, constant_fact
"""Former names of `config_attribute` and `constant_fact`, kept until the next version for families of other distributions."""


def every_layer(fact: ConfigFact[T]) -> LayerFact[T]:
    """Build a layer fact that is the same in every layer."""
    return lambda config, layer: fact(config)


def in_local_layers(attribute: str) -> LayerFact[Any]:
    """Build a layer fact from this attribute of the configuration; it is None in layers whose entry in `layer_types` is not sliding_attention."""
    return lambda config, layer: getattr(config, attribute) if config.layer_types[layer] == "sliding_attention" else None


NO, NONE, ONE, NONE_IN_ALL = constant_fact(False), constant_fact(None), constant_fact(1.0), every_layer(constant_fact(None))
HIDDEN_ACT, HEADS, POSITIONS = config_attribute("hidden_act"), config_attribute("num_attention_heads"), config_attribute("max_position_embeddings")


@dataclass(frozen=True)
class Stream:
    """The residual stream from the token ids to the logits (site names: DEFINITIONS, section 1)."""

    backbone: str
    """The decoder without its output head; its input is token ids."""
    layers: str
    """The list of blocks. A block's input is resid_pre and its output is resid_post."""
    final_norm: str
    token_embedding: str
    embedding_multiplier: ConfigFact[float] = ONE
    """Factor on the token rows."""
    embedding_norm: str | None = None
    """Norm between the token rows and the first block."""
    position_embedding: str | None = None
    """Learned position rows that are added to the token rows; None if positions act on attention scores alone."""
    position_offset: int = 0
    """Row of the first position."""
    max_context: ConfigFact[int | None] = POSITIONS
    """Longest sequence the model was made for; None if positions have no bound."""
    is_parallel: ConfigFact[bool] = NO
    """Whether attention and FFN both read resid_pre."""
    residual_multiplier: ConfigFact[float] = ONE
    """Factor on the outputs of attention and FFN before they are added to the stream."""
    logit_divisor: ConfigFact[float] = ONE
    logit_softcap: ConfigFact[float | None] = NONE


@dataclass(frozen=True)
class Rotary:
    """RoPE: pairs among the leading dimensions of q and k are rotated with the position, by angles that the model itself provides."""

    angles: str = "rotary_emb"
    """Module of the backbone that returns the cosines and sines of positions."""
    spread: Spread = "halves"
    """Where the module gives the value of a pair of dimensions: twice, in its first and second half; twice, side by side; or once."""
    is_table: bool = False
    """Whether `angles` is a buffer of each layer instead: [positions, sines then cosines]."""
    is_adjacent: bool = False
    """Whether the pairs are dimensions (2n, 2n + 1); if not, they are (n, n + half the number of rotated dimensions)."""
    layer_type: LayerFact[str | None] = NONE_IN_ALL
    """Layer type by which the module chooses one of its bases; None if it has only one."""


@dataclass(frozen=True, kw_only=True)
class Mixer:
    """What one layer adds to the stream beside its FFN: attention, or another mixer of positions."""

    write: str
    """Module whose output, times the residual multiplier, is added to the stream (after a norm, if one follows)."""
    after_norm: str | None = None
    """RMS norm between the mixer's last projection and the residual add."""
    unread: str = ""
    """Reason why the heads of the model cannot be read, for a mixer that is no `Attention`: heads are those of all layers, or of none."""


@dataclass(frozen=True, kw_only=True)
class Attention(Mixer):
    """One layer's attention: out = Σ over heads of W_O·(pattern·(W_V·x + b_V)) + b_O, x the normed state."""

    norm: str | None
    """Norm between resid_pre and q, k and v; None if there is none."""
    q: str
    k: str
    v: str
    o: str
    """Path of the output projection. q, k and v are the paths of their projections; all three name the same module if they are fused."""
    layout: HeadOrder = "apart"
    """Order of the rows of q, k and v. apart: three projections. blocks: fused, all of q, then all of k, then all of v. heads: fused, q, k and v by head.
    groups: fused, the q of all heads that share a k and a v, then these two."""
    n_heads: ConfigFact[int] = HEADS
    q_norm: ConfigFact[str | None] = NONE
    k_norm: ConfigFact[str | None] = NONE
    """Norms of q (`q_norm`) and k (`k_norm`) before RoPE rotates them."""
    is_qk_norm_joint: bool = False
    """Whether one norm covers the q (or the k) of all heads together; if not, each head is normed separately."""
    scale: LayerFact[float | None] = NONE_IN_ALL
    """Factor on the scores q·k; None for 1/√d_head."""
    softcap: ConfigFact[float | None] = NONE
    """Scaled scores become softcap·tanh(score/softcap)."""
    window: LayerFact[int | None] = NONE_IN_ALL
    """Number of positions that a position attends to, itself included; None for all up to it."""
    rotary: Rotary | None = None
    is_alibi: bool = False
    """Whether scores fall linearly with the distance, with one slope per head (ALiBi)."""
    slopes: ConfigFact[tuple[float, ...] | None] = NONE
    """Slopes of ALiBi, one per head; None for those of Press et al. 2022."""

    @property
    def module(self) -> str:
        """Path of the module that contains `o`. Its output is the state and, if its code returns them, the attention weights."""
        return self.o.rpartition(".")[0]


@dataclass(frozen=True)
class Ffn:
    """One layer's FFN: coefficients from the keys, and the values that they multiply."""

    write: str
    """Module whose output, times the residual multiplier, is added to the stream (after a norm, if one follows)."""
    read: str
    """Module whose input is the state that the FFN reads from the stream: its norm, or the FFN itself if no norm precedes it.
    In a sequential block this state is resid_mid; in a parallel one it is resid_pre, and resid_mid is the virtual sum resid_pre + attn_out."""
    up: str
    """Projection whose rows are the keys (the up keys of a gated FFN)."""
    down: str
    """Projection whose input is the vector of coefficients."""
    gate: str | None = None
    """Projection whose rows are the gate keys; None if the FFN is not gated. It is that of `up` if both are fused."""
    layout: RowOrder = "apart"
    """Order of the rows of gate and up. apart: two projections. gate first, up first: fused, all rows of one, then all of the other. interleaved: fused,
    a row of the gate, then one of up."""
    after_norm: str | None = None
    """RMS norm between `down` and the residual add."""
    activation: ConfigFact[str] = HIDDEN_ACT

    def select_rows(self, fused: Tensor, part: Literal["up", "gate"]) -> Tensor:
        """Select the rows of up or gate from the weight or bias of the projection that computes it, [rows, …]."""
        if self.layout == "apart":
            return fused
        if self.layout == "interleaved":
            return fused[part == "up" :: 2]
        return fused.chunk(2)[(part == "up") == (self.layout == "gate first")]


@dataclass(frozen=True)
class LayerFacts:
    """Facts of one layer."""

    attention: Mixer
    ffn: Ffn


@dataclass(frozen=True)
class Architecture:
    """All facts of one model family: the modules from which the atlas records, and how they compute."""

    stream: Stream
    attention: Mixer
    ffn: Ffn
    norm_gain_offset: float = 0.0
    """Number added to the weight of a norm to give its gain: 1 for Gemma."""
    norms: Mapping[type[nn.Module], Norm] = field(default_factory=dict)
    """Formulas of norms by their class, for those of which class, attributes and `norm_gain_offset` do not tell it."""
    is_conv1d: bool = False
    """Whether projections are stored as [in, out], as in GPT-2; every other family stores them as [out, in]."""
    is_recognised: bool = False
    """Whether these facts were found from a model's numbers, and are proven on texts of more lengths."""
    objection: ConfigFact[str | None] = NONE
    """Reason why a variant within the family cannot be recorded; None if it can."""
    tiny: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of a configuration that is small enough for tests: 2 layers, d_model at most 32, vocabulary 300."""
    layers: Sequence[LayerFacts] = ()
    """Facts of each layer, where they differ; empty where `attention` and `ffn` hold of all layers."""


VOCABULARY: Mapping[str, Any] = {"vocab_size": 300, "bos_token_id": 0, "eos_token_id": 0}
SMALL: Mapping[str, Any] = {**VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2, "max_position_embeddings": 64}
"""Parts of `tiny` that families share."""
