"""Write what was found of a traced model as the facts of an architecture."""

from collections.abc import Sequence
from itertools import takewhile

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.activations import ACT2FN
from transformers.pytorch_utils import Conv1D

from ingest.model.agreement import is_same
from ingest.model.facts import Architecture, Attention, Ffn, LayerFacts, Mixer, Rotary, Stream, constant_fact, every_layer
from ingest.model.modules import tensor_of
from ingest.model.norms import Norm, read_norm
from ingest.model.recognition.attention import Pattern
from ingest.model.recognition.block import Block, activations, weight_of
from ingest.model.recognition.layers import Layer
from ingest.model.recognition.stream import Chain, Entrance, Head, Traced
from ingest.model.recognition.trace import Call, Refused


def write_architecture(traced: Traced, chain: Chain, head: Head, entrance: Entrance, found: Sequence[Layer]) -> Architecture:
    """Write all facts of a model. Raises Refused for what the facts of an architecture cannot say."""
    backbone = shared_parent(chain.path, entrance.tokens, head.final_norm)
    stream = stream_facts(traced, chain, head, entrance, found[0], backbone)
    unread = next((f"layer {i}: {layer.unread}" for i, layer in enumerate(found) if layer.attention is None), "")
    mixers: list[Mixer] = [
        Mixer(write=layer.block.relative(layer.mixer.calls[0].path), unread=unread) if unread else attention_facts(i, layer, backbone)
        for i, layer in enumerate(found)
    ]
    layers = [LayerFacts(mixer, ffn_facts(layer)) for mixer, layer in zip(mixers, found, strict=True)]
    norms = norm_formulas(traced, found, head, entrance)
    return Architecture(stream, layers[0].attention, layers[0].ffn, layers=layers, is_conv1d=is_conv1d(found), norms=norms, is_recognised=True)


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


def ffn_facts(layer: Layer) -> Ffn:
    reading, block = layer.reading, layer.block
    # one function has several names: the configuration's is the one that is known
    said = [word for word in vars(block.traced.hf.config.get_text_config()).values() if isinstance(word, str) and word in ACT2FN]
    x = torch.linspace(-6, 6, 4001)
    same = [word for word in said if torch.allclose(ACT2FN[word](x), activations()[reading.activation](x), rtol=0, atol=1e-6)]
    return Ffn(
        write=block.relative(reading.update.calls[0].path),
        read=block.relative(layer.norm.path) if layer.norm is not None else reader_of(block, reading.up, reading.x),
        up=block.relative(reading.up.path),
        down=block.relative(reading.down.path),
        gate=layer.path(reading.gate),
        layout=reading.layout,
        after_norm=layer.path(reading.after_norm),
        activation=constant_fact(same[0] if same else reading.activation),
    )


def reader_of(block: Block, up: Call, x: Tensor) -> str:
    """Find the outermost module around a projection that is given the state which the projection reads."""
    around = [call for call in block.inside if f"{up.path}.".startswith(f"{call.path}.") and is_same(block.traced.trace.input_state(call), x)]
    return block.relative(min(around, key=lambda call: len(call.path)).path)


def attention_facts(i: int, layer: Layer, backbone: str) -> Attention:
    found, relative = layer.attention, layer.block.relative
    assert found is not None
    pattern = found.pattern
    d_head = found.o.inputs[0].shape[-1] // found.n_heads
    said = said_window(layer.block.traced.hf, i, found.o.path.rpartition(".")[0])
    # one that fits into the traced text would have been seen
    window = found.window or (said if said is not None and said >= layer.block.traced.trace.seq else None)
    return Attention(
        write=relative(found.update.calls[0].path),
        norm=layer.path(found.norm),
        q=relative(pattern.q.path),
        k=relative(pattern.k.path),
        v=relative(found.v.path),
        o=relative(found.o.path),
        layout=found.layout,
        after_norm=layer.path(found.after_norm),
        n_heads=constant_fact(found.n_heads),
        q_norm=constant_fact(layer.path(pattern.q_norm)),
        k_norm=constant_fact(layer.path(pattern.k_norm)),
        is_qk_norm_joint=pattern.q_norm is not None and pattern.q_norm.inputs[0].shape[-1] != d_head,
        scale=every_layer(constant_fact(pattern.scale)),
        softcap=constant_fact(pattern.softcap),
        window=every_layer(constant_fact(window)),
        rotary=rotary_facts(pattern, backbone),
        is_alibi=pattern.slopes is not None,
        slopes=constant_fact(pattern.slopes),
    )


def rotary_facts(pattern: Pattern, backbone: str) -> Rotary | None:
    turn = pattern.angles
    if turn is None:
        return None
    if not turn.path.startswith(f"{backbone}."):
        raise Refused(f"its rotation, {turn.path}, lies outside {backbone}")
    kind = every_layer(constant_fact(turn.words[-1] if turn.words else None))
    return Rotary(turn.path.removeprefix(f"{backbone}."), turn.spread, is_adjacent=pattern.is_adjacent, layer_type=kind)


def said_window(hf: PreTrainedModel, i: int, attention: str) -> int | None:
    """Read the window of a layer from its attention, or else from the configuration: one that is longer than the traced text shows in no number."""
    config = hf.config.get_text_config()
    kinds, said = getattr(config, "layer_types", None), getattr(config, "sliding_window", None)
    if isinstance(kinds, list) and i < len(kinds) and kinds[i] != "sliding_attention":
        return None
    found = getattr(hf.get_submodule(attention), "sliding_window", said if getattr(config, "use_sliding_window", True) else None)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def norm_formulas(traced: Traced, layers: Sequence[Layer], head: Head, entrance: Entrance) -> dict[type[nn.Module], Norm]:
    """Map the classes of the norms that ran to their formulas. Raises Refused if two norms of one class have different ones."""
    found: dict[type[nn.Module], Norm] = {}
    heads = [layer.attention for layer in layers if layer.attention is not None]
    facts = [call for layer in layers for call in (layer.norm, layer.reading.after_norm)] + [call for each in heads for call in (each.norm, each.after_norm)]
    facts += [call for path in (head.final_norm, entrance.norm) if path is not None for call in traced.trace.by_path[path]]
    for call in filter(None, facts):
        norm = traced.norm_of(call)
        if norm is not None and found.setdefault(type(call.module), norm) != norm:
            raise Refused(f"{call.path} is a {type(call.module).__name__} unlike the others: {norm} and {found[type(call.module)]}")
    for each in heads:
        for own in (each.pattern.q_norm, each.pattern.k_norm):
            norm = None if own is None else read_norm(own.module, own.inputs[0])
            if own is not None and (norm is None or found.setdefault(type(own.module), norm) != norm):
                raise Refused(f"{own.path} is no norm of q or k by one gain for all heads, of the formula of the others")
    return found


def is_conv1d(layers: Sequence[Layer]) -> bool:
    """Tell whether projections are stored as [in, out]. Raises Refused if some are and others are not."""
    calls = [call for layer in layers for call in layer.calls if layer.attention is not None or call is not layer.mixer.calls[0]]
    kinds = {isinstance(call.module, Conv1D) for call in calls if weight_of(call.module) is not None}
    if len(kinds) > 1:
        raise Refused("some of its projections are stored as [in, out], and others as [out, in]")
    return kinds.pop()
