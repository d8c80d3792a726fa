"""What the atlas knows of a model family: where its stream, its attention and its FFN lie, and how they compute.

An architecture is a row of facts, not a subclass. Module paths are dotted: `backbone` from the causal language model, those of `Stream`
from the backbone, those of `Attention` and `Ffn` from one layer. Facts that depend on a checkpoint's configuration, or on the layer too, are
functions of them. Biases, the sizes of heads and the epsilons of norms are read from the modules themselves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from transformers import PretrainedConfig

T = TypeVar("T")

ConfigFact = Callable[[PretrainedConfig], T]
LayerFact = Callable[[PretrainedConfig, int], T]


def config_attribute(attribute: str) -> ConfigFact[Any]:
    """Read the fact from this attribute of the model's configuration."""
    return lambda config: getattr(config, attribute)


def constant_fact(fact: T) -> ConfigFact[T]:
    """Give the same fact for every model of the family."""
    return lambda config: fact


def every_layer(fact: ConfigFact[T]) -> LayerFact[T]:
    """Give the same fact in every layer."""
    return lambda config, layer: fact(config)


def in_local_layers(attribute: str) -> LayerFact[Any]:
    """Read the fact from this attribute of the configuration in the layers that its `layer_types` call sliding; None in the others."""
    return lambda config, layer: getattr(config, attribute) if config.layer_types[layer] == "sliding_attention" else None


NO, NONE, ONE, NONE_IN_ALL = constant_fact(False), constant_fact(None), constant_fact(1.0), every_layer(constant_fact(None))
HIDDEN_ACT, HEADS, POSITIONS = config_attribute("hidden_act"), config_attribute("num_attention_heads"), config_attribute("max_position_embeddings")


@dataclass(frozen=True)
class Stream:
    """The residual stream from the token ids to the logits (site names: DEFINITIONS, section 1)."""

    backbone: str
    """The decoder without its output head; its input is token ids."""
    layers: str
    """List of blocks. A block's input is resid_pre and its output resid_post."""
    final_norm: str
    token_embedding: str
    embedding_multiplier: ConfigFact[float] = ONE
    """What token rows are multiplied by."""
    embedding_norm: str | None = None
    """Norm between the token rows and the first block."""
    position_embedding: str | None = None
    """Learned rows that are added to the token rows; None where positions act in the scores alone."""
    position_offset: int = 0
    """Row of the first position."""
    max_context: ConfigFact[int | None] = POSITIONS
    """Longest sequence the model was made for; None where positions have no bound."""
    is_parallel: ConfigFact[bool] = NO
    """Attention and FFN both read resid_pre."""
    residual_multiplier: ConfigFact[float] = ONE
    """What attention and FFN outputs are multiplied by before they are added."""
    logit_divisor: ConfigFact[float] = ONE
    logit_softcap: ConfigFact[float | None] = NONE


@dataclass(frozen=True)
class Rotary:
    """RoPE: pairs of q's and of k's leading dimensions turn with the position, by angles that the model itself gives."""

    angles: str = "rotary_emb"
    """Module of the backbone that gives the cosines and the sines of positions, each pair's twice."""
    is_table: bool = False
    """`angles` is a buffer of each layer instead, [positions, sines then cosines]."""
    is_adjacent: bool = False
    """Pairs are dimensions (2n, 2n + 1); elsewhere (n, n + half of those that turn)."""
    layer_type: LayerFact[str | None] = NONE_IN_ALL
    """Which of its bases the module is to take; None where it has one."""


@dataclass(frozen=True)
class Attention:
    """One layer's attention: out = Σ over heads of W_O·(pattern·(W_V·x + b_V)) + b_O, x the normed state."""

    write: str
    """Module whose output, times the residual multiplier, is added to the stream (after a norm, if one follows)."""
    norm: str | None
    """Norm between resid_pre and q, k and v; None where none precedes."""
    q: str
    k: str
    v: str
    o: str
    """Projections; q, k and v name one module where they are fused."""
    layout: Literal["apart", "blocks", "heads"] = "apart"
    """How rows of a fused projection lie: blocks, all of q, then all of k, then all of v; heads, for each head its q, k and v."""
    after_norm: str | None = None
    """RMS norm between `o` and the residual add."""
    n_heads: ConfigFact[int] = HEADS
    q_norm: ConfigFact[str | None] = NONE
    k_norm: ConfigFact[str | None] = NONE
    """Norms of q and k before they turn."""
    is_qk_norm_joint: bool = False
    """One norm over the q (the k) of all heads together; elsewhere each head is normed by itself."""
    scale: LayerFact[float | None] = NONE_IN_ALL
    """What scores q·k are multiplied by; None for 1/√d_head."""
    softcap: ConfigFact[float | None] = NONE
    """Scaled scores become softcap·tanh(score/softcap)."""
    window: LayerFact[int | None] = NONE_IN_ALL
    """A position sees so many, itself included; None for all before it."""
    rotary: Rotary | None = None
    is_alibi: bool = False
    """Scores fall linearly with the distance, by a slope a head."""

    @property
    def module(self) -> str:
        """Name the module in which `o` lies: its output is the state and, where its code gives them, the attention weights."""
        return self.o.rpartition(".")[0]


@dataclass(frozen=True)
class Ffn:
    """One layer's FFN: coefficients from the keys, and the values that they multiply."""

    write: str
    """Module whose output, times the residual multiplier, is added to the stream (after a norm, if one follows)."""
    read: str
    """Module whose input is the sub-layer's residual input: its norm, or the FFN itself where none precedes.
    In a sequential block that is resid_mid; in a parallel one resid_pre, and resid_mid is the virtual resid_pre + attn_out."""
    up: str
    """Projection whose rows are the keys (the up keys of a gated FFN)."""
    down: str
    """Projection whose input is the coefficients."""
    gate: str | None = None
    after_norm: str | None = None
    """RMS norm between `down` and the residual add."""
    activation: ConfigFact[str] = HIDDEN_ACT


@dataclass(frozen=True)
class Architecture:
    """Where a decoder block of one model family keeps what the atlas records, and how it computes it."""

    stream: Stream
    attention: Attention
    ffn: Ffn
    norm_gain_offset: float = 0.0
    """Gemma's norms multiply by 1 + weight."""
    is_conv1d: bool = False
    """GPT-2 stores projections as [in, out], every other family as [out, in]."""
    objection: ConfigFact[str | None] = NONE
    """Why a variant within the family cannot be recorded; None if it can."""
    tiny: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of a configuration small enough for tests: 2 layers, d_model at most 32, vocabulary 300."""


VOCABULARY: Mapping[str, Any] = {"vocab_size": 300, "bos_token_id": 0, "eos_token_id": 0}
SMALL: Mapping[str, Any] = {**VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2, "max_position_embeddings": 64}
"""Parts of `tiny` that families share."""
