"""Facts of a causal language model that has no entry, found from one traced forward pass; the identities of `ingest/model/checks.py` prove them on other text.

No name decides: a fact is a module's path, or a number, for which an equation holds at every position. One solution is taken; none or several are refused.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.activations import ACT2FN
from transformers.pytorch_utils import Conv1D

from ingest.model.agreement import is_same
from ingest.model.facts import Architecture, Attention, Ffn, Rotary, Stream, constant_fact
from ingest.model.modules import ModuleMissing, tensor_of
from ingest.model.norms import Norm, read_norm
from ingest.model.recognition.attention import Attention as FoundAttention
from ingest.model.recognition.attention import find_attention
from ingest.model.recognition.block import Block, Reading, activations, find_affine, find_ffn, find_reads, find_updates, sum_of, weight_of
from ingest.model.recognition.stream import Chain, Entrance, Head, Traced, find_chain, find_entrance, find_head
from ingest.model.recognition.trace import Call, Refused, Trace
from schema.errors import AtlasError

LENGTH = 16
"""Tokens of each of the two sequences that are traced: longer than the probe texts of the identities."""


class Layer(NamedTuple):
    """What was found of one block: its FFN, the state that its keys read and the norm in between, its attention, and the factor on what it adds."""

    block: Block
    reading: Reading
    state: str
    norm: Call | None
    attention: FoundAttention
    factor: float

    @property
    def calls(self) -> list[Call]:
        """Calls whose modules have a part in the facts."""
        reading, attention, pattern = self.reading, self.attention, self.attention.pattern
        of_ffn = (reading.update.calls[0], self.norm, reading.up, reading.gate, reading.down, reading.after_norm)
        of_values = (attention.update.calls[0], attention.o, attention.after_norm, attention.norm, attention.v)
        of_pattern = (pattern.q, pattern.k, pattern.q_norm, pattern.k_norm)
        return [call for call in (*of_ffn, *of_values, *of_pattern) if call is not None]

    def path(self, call: Call | None) -> str | None:
        return None if call is None else self.block.relative(call.path)


def recognise(hf: PreTrainedModel, name: str) -> Architecture:
    """Find the facts of a model from a traced pass.

    Raises AtlasError, with the layer, the step and the nearest candidate, for a model that is not of this form. Attention computes its weights by eager code,
    and parameters are float32, for the length of the pass.
    """
    try:
        with torch.no_grad(), in_plain_arithmetic(hf):
            tokens = recognition_tokens(hf)
            return find_architecture(Traced(hf, tokens, trace_pass(hf, tokens)))
    except Refused as error:
        raise AtlasError(
            f"model {name}: model_type '{hf.config.model_type}' has no entry, and what its numbers show is not a model that can be recorded: {error}. "
            "docs/reference/adding.md says how to add an entry"
        ) from error


def trace_pass(hf: PreTrainedModel, tokens: Tensor) -> Trace:
    """Trace a forward pass. Raises Refused for an error of transformers or of torch."""
    try:
        return Trace(hf, tokens)
    except torch.OutOfMemoryError:
        raise
    except (ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise Refused(f"a forward pass over text fails ({(str(error).splitlines() or [type(error).__name__])[0]})") from error


def recognition_tokens(hf: PreTrainedModel) -> Tensor:
    """Build two sequences spread over the vocabulary, [2, LENGTH], unlike those of the probe text."""
    try:
        rows = tensor_of(hf.get_input_embeddings(), "weight")
    except (AttributeError, ModuleMissing, NotImplementedError) as error:
        raise Refused("it names no input embedding") from error
    return (torch.arange(2 * LENGTH) * 104_729 + 17).remainder(len(rows)).view(2, LENGTH).to(rows.device)


@contextmanager
def in_plain_arithmetic(hf: PreTrainedModel) -> Iterator[None]:
    """Let a model compute in float32, with eager attention, within the context."""
    model: Any = hf
    attention, dtypes = hf.config._attn_implementation, {parameter: parameter.dtype for parameter in hf.parameters()}
    try:
        model.set_attn_implementation("eager")
    except ValueError as error:
        raise Refused(f"it has no eager attention, which gives its weights ({error})") from error
    try:
        for parameter in dtypes:
            parameter.data = parameter.data.float()  # the same tensor where it is float32 already
        yield
    finally:
        for parameter, dtype in dtypes.items():
            parameter.data = parameter.data.to(dtype)
        model.set_attn_implementation(attention)


def find_architecture(traced: Traced) -> Architecture:
    bounds = [name for name in traced.numbers if "clip" in name or "clamp" in name]
    if bounds:
        raise Refused(f"{', '.join(bounds)} of its configuration bounds numbers that a short text does not show")
    chain = find_chain(traced)
    head = find_head(traced, chain.post[-1])
    entrance = find_entrance(traced, chain.pre[0], [call for call in traced.trace.calls if call.end < chain.calls[0].start])
    layers = find_layers(traced, chain)
    backbone = shared_parent(chain.path, entrance.tokens, head.final_norm)
    stream = stream_facts(traced, chain, head, entrance, layers[0], backbone)
    attention, ffn = attention_facts(traced, layers, backbone), ffn_facts(traced, layers[0])
    norms = norm_formulas(traced, layers, head, entrance)
    return Architecture(stream, attention, ffn, is_conv1d=is_conv1d(layers[0]), norms=norms, is_recognised=True)


def find_layers(traced: Traced, chain: Chain) -> list[Layer]:
    """Find the facts of all blocks, which must have the same modules. Raises Refused if one has none, or other ones than the first."""
    layers: list[Layer] = []
    for i, (call, pre, post) in enumerate(zip(chain.calls, chain.pre, chain.post, strict=True)):
        block = Block(traced, call, pre, post, traced.trace.calls_within(call))
        if idle := find_idle_parts(block):
            raise Refused(f"layer {i}: {', '.join(idle)} never ran, so the block does more elsewhere than in this pass")
        layer = find_again(block, layers[0]) if layers else None
        try:
            layers.append(layer or find_layer(block))
        except Refused as error:
            raise Refused(f"layer {i}: {error}") from error
        first, last = structure(layers[0]), structure(layers[-1])
        if first != last:
            differ = [f"{name} is {b} and not {a}" for (name, a), (_, b) in zip(first.items(), last.items(), strict=True) if a != b]
            raise Refused(f"layer {i} is unlike the first: {', '.join(differ)}")
    return layers


def find_idle_parts(block: Block) -> list[str]:
    """List the parts of a block that hold parameters and were not called."""
    ran = {block.relative(call.path) for call in block.inside}
    parts = [name for name, part in block.call.module.named_children() if any(True for _ in part.parameters())]
    return [name for name in parts if not any(path == name or path.startswith(f"{name}.") for path in ran)]


def find_again(block: Block, first: Layer) -> Layer | None:
    """Find a block's facts among the modules that have a part in the first block's; None if they are not these."""
    used = {first.path(call) for call in first.calls}
    try:
        # the module that gives the weights of attention has a part too
        around = first.block.relative(first.attention.o.path.rpartition(".")[0])
        inside = [call for call in block.inside if block.relative(call.path) in {*used, around}]
        return find_layer(replace(block, inside=inside, turn=first.attention.pattern.angles))
    except Refused:
        return None


def find_layer(block: Block) -> Layer:
    """Find the facts of one block. Raises Refused with the first step that fails."""
    updates, affine = find_updates(block), find_affine(block)
    factors = {update.factor for update in updates}
    if len(factors) > 1:
        raise Refused(f"its parts are added with several factors: {', '.join(map(str, sorted(factors)))}")
    reading = find_ffn(block, updates, affine)
    others = [update for update in updates if update is not reading.update]
    if len(others) != 1:
        raise Refused(f"{len(others)} parts beside the FFN write to the stream; one is read")
    reads = find_reads(block, reading.x, {"resid_pre": block.pre, "resid_mid": sum_of(block.pre, others)})
    if len(reads) != 1:
        raise Refused(f"the keys of its FFN read {len(reads)} of resid_pre and resid_mid, themselves or through a norm")
    return Layer(block, reading, *reads[0], find_attention(block, others[0], affine), factors.pop())


def structure(layer: Layer) -> dict[str, object]:
    """Name what must be the same in all layers."""
    attention, pattern, reading = layer.attention, layer.attention.pattern, layer.reading
    named = {name: layer.path(getattr(reading, name)) for name in ("up", "gate", "down", "after_norm")}
    of_heads = {name: layer.path(getattr(attention, name)) for name in ("o", "v", "norm")} | {
        f"attention's {name}": layer.path(getattr(pattern, name)) for name in ("q", "k", "q_norm", "k_norm")
    }
    return {
        **named,
        **of_heads,
        "attention's after_norm": layer.path(attention.after_norm),
        "the FFN's norm": layer.path(layer.norm),
        "the state that its keys read": layer.state,
        "activation": reading.activation,
        "factor": layer.factor,
        "number of heads": attention.n_heads,
        "layout": attention.layout,
        "softcap": pattern.softcap,
        "slopes": pattern.slopes and tuple(round(slope, 4) for slope in pattern.slopes),
        "rotation": pattern.angles and (pattern.angles.path, pattern.angles.spread, pattern.is_adjacent),
    }


def shared_parent(*paths: str) -> str:
    """Find the module that contains all of some modules, by their paths from the model."""
    names = [path.split(".")[:-1] for path in paths]
    shared = [parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, zip(*names, strict=False))]
    if not shared:
        raise Refused(f"no module contains {', '.join(paths)}")
    return ".".join(shared)


def stream_facts(traced: Traced, chain: Chain, head: Head, entrance: Entrance, first: Layer, backbone: str) -> Stream:
    def inner(path: str | None) -> str | None:
        return None if path is None else path.removeprefix(f"{backbone}.")

    module = None if entrance.positions is None else traced.hf.get_submodule(entrance.positions)
    rows = None if module is None else len(tensor_of(module, "weight")) - entrance.offset
    config = traced.hf.config.get_text_config()
    said = getattr(config, "max_position_embeddings", None)
    turned = getattr(config, "rope_parameters", None)
    # Ministral 3 scales queries from this position on
    scaled = turned.get("original_max_position_embeddings") if isinstance(turned, dict) and turned.get("llama_4_scaling_beta") else None
    bounds = [bound for bound in (rows, said, scaled) if isinstance(bound, int)]
    return Stream(
        backbone=backbone,
        layers=chain.path.removeprefix(f"{backbone}."),
        final_norm=head.final_norm.removeprefix(f"{backbone}."),
        token_embedding=entrance.tokens.removeprefix(f"{backbone}."),
        embedding_multiplier=constant_fact(entrance.factor),
        embedding_norm=inner(entrance.norm),
        position_embedding=inner(entrance.positions),
        position_offset=entrance.offset,
        max_context=constant_fact(min(bounds, default=None)),
        is_parallel=constant_fact(first.state == "resid_pre"),
        residual_multiplier=constant_fact(first.factor),
        logit_divisor=constant_fact(head.divisor),
        logit_softcap=constant_fact(head.softcap),
    )


def ffn_facts(traced: Traced, layer: Layer) -> Ffn:
    reading, module = layer.reading, layer.block
    # one function has several names: the configuration's is the one that is known
    said = [word for word in vars(traced.hf.config.get_text_config()).values() if isinstance(word, str) and word in ACT2FN]
    x = torch.linspace(-6, 6, 4001)
    same = [word for word in said if torch.allclose(ACT2FN[word](x), activations()[reading.activation](x), rtol=0, atol=1e-6)]
    return Ffn(
        write=module.relative(reading.update.calls[0].path),
        read=module.relative(layer.norm.path) if layer.norm is not None else reader_of(block=module, up=reading.up, x=reading.x),
        up=module.relative(reading.up.path),
        down=module.relative(reading.down.path),
        gate=layer.path(reading.gate),
        after_norm=layer.path(reading.after_norm),
        activation=constant_fact(same[0] if same else reading.activation),
    )


def reader_of(block: Block, up: Call, x: Tensor) -> str:
    """Find the outermost module around a projection that is given the state which the projection reads."""
    around = [call for call in block.inside if f"{up.path}.".startswith(f"{call.path}.") and is_same(block.traced.trace.input_state(call), x)]
    return block.relative(min(around, key=lambda call: len(call.path)).path)


def attention_facts(traced: Traced, layers: Sequence[Layer], backbone: str) -> Attention:
    first, found = layers[0], layers[0].attention
    pattern, relative = found.pattern, first.block.relative
    d_head = found.o.inputs[0].shape[-1] // found.n_heads
    angles = [layer.attention.pattern.angles for layer in layers]
    kinds = [turn.words[-1] if turn is not None and turn.words else None for turn in angles]
    scales = [layer.attention.pattern.scale for layer in layers]
    windows = [layer.attention.window or said_window(traced.hf.config.get_text_config(), i, layer) for i, layer in enumerate(layers)]
    rotary = None
    if pattern.angles is not None:
        path = pattern.angles.path
        if not path.startswith(f"{backbone}."):
            raise Refused(f"its rotation, {path}, lies outside {backbone}")
        rotary = Rotary(path.removeprefix(f"{backbone}."), pattern.angles.spread, is_adjacent=pattern.is_adjacent, layer_type=lambda _, layer: kinds[layer])
    return Attention(
        write=relative(found.update.calls[0].path),
        norm=first.path(found.norm),
        q=relative(pattern.q.path),
        k=relative(pattern.k.path),
        v=relative(found.v.path),
        o=relative(found.o.path),
        layout=found.layout,
        after_norm=first.path(found.after_norm),
        n_heads=constant_fact(found.n_heads),
        q_norm=constant_fact(first.path(pattern.q_norm)),
        k_norm=constant_fact(first.path(pattern.k_norm)),
        is_qk_norm_joint=pattern.q_norm is not None and pattern.q_norm.inputs[0].shape[-1] != d_head,
        scale=lambda _, layer: scales[layer],
        softcap=constant_fact(pattern.softcap),
        window=lambda _, layer: windows[layer],
        rotary=rotary,
        is_alibi=pattern.slopes is not None,
        slopes=constant_fact(pattern.slopes),
    )


def said_window(config: PretrainedConfig, i: int, layer: Layer) -> int | None:
    """Read the window of a layer from its attention, or else from the configuration: one that is longer than the traced text shows in no number."""
    kinds, said = getattr(config, "layer_types", None), getattr(config, "sliding_window", None)
    if isinstance(kinds, list) and i < len(kinds) and kinds[i] != "sliding_attention":
        return None
    module = layer.block.traced.hf.get_submodule(layer.attention.o.path.rpartition(".")[0])
    found = getattr(module, "sliding_window", said if getattr(config, "use_sliding_window", True) else None)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def norm_formulas(traced: Traced, layers: Sequence[Layer], head: Head, entrance: Entrance) -> dict[type[nn.Module], Norm]:
    """Map the classes of the norms that ran to their formulas. Raises Refused if two norms of one class have different ones."""
    found: dict[type[nn.Module], Norm] = {}
    facts = [call for layer in layers for call in (layer.norm, layer.reading.after_norm, layer.attention.norm, layer.attention.after_norm) if call is not None]
    facts += [call for path in (head.final_norm, entrance.norm) if path is not None for call in traced.trace.by_path[path]]
    for call in facts:
        norm = traced.norm_of(call)
        if norm is not None and found.setdefault(type(call.module), norm) != norm:
            raise Refused(f"{call.path} is a {type(call.module).__name__} unlike the others: {norm} and {found[type(call.module)]}")
    for layer in layers:
        for own in (layer.attention.pattern.q_norm, layer.attention.pattern.k_norm):
            norm = None if own is None else read_norm(own.module, own.inputs[0])
            if own is not None and (norm is None or found.setdefault(type(own.module), norm) != norm):
                raise Refused(f"{own.path} is no norm of q or k by one gain for all heads, of the formula of the others")
    return found


def is_conv1d(layer: Layer) -> bool:
    """Tell whether projections are stored as [in, out]. Raises Refused if some are and others are not."""
    kinds = {isinstance(call.module, Conv1D) for call in layer.calls if weight_of(call.module) is not None}
    if len(kinds) > 1:
        raise Refused("some of its projections are stored as [in, out], and others as [out, in]")
    return kinds.pop()
