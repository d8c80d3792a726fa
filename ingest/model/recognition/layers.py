"""What each block of a traced model is found to be: its FFN, its attention, and the state that both read.

Layers may differ in the paths of their modules, in their rotation and window, and in the norms of q and k; sizes, layouts and formulas are those of all.
"""

from dataclasses import replace
from typing import NamedTuple

from ingest.model.agreement import is_same
from ingest.model.recognition.attention import Attention, find_attention
from ingest.model.recognition.block import Block, Reading, Update, find_affine, find_ffn, find_reads, find_updates, sum_of
from ingest.model.recognition.stream import Chain, Traced
from ingest.model.recognition.trace import Call, Refused

SAME_FACTOR = 1e-5
"""Largest relative difference of two factors that were fitted and are one."""


class Layer(NamedTuple):
    """What was found of one block: its FFN, the state that its keys read and the norm in between, the other part that it adds, and the factor on both.

    attention: None, and `unread` the reason, where the other part does not follow from heads.
    """

    block: Block
    reading: Reading
    state: str
    norm: Call | None
    mixer: Update
    attention: Attention | None
    unread: str
    factor: float

    @property
    def calls(self) -> list[Call]:
        """Calls whose modules have a part in the facts."""
        reading, attention = self.reading, self.attention
        found = [reading.update.calls[0], self.norm, reading.up, reading.gate, reading.down, reading.after_norm, self.mixer.calls[0]]
        if attention is not None:
            pattern = attention.pattern
            found += [attention.o, attention.after_norm, attention.norm, attention.v, pattern.q, pattern.k, pattern.q_norm, pattern.k_norm]
        return [call for call in found if call is not None]

    def path(self, call: Call | None) -> str | None:
        return None if call is None else self.block.relative(call.path)


def find_layers(traced: Traced, chain: Chain) -> list[Layer]:
    """Find the facts of all blocks. Raises Refused if one has none, or differs from the first in what must be the same in all."""
    layers, kinds = list[Layer](), dict[object, Layer]()
    for i, (call, pre, post) in enumerate(zip(chain.calls, chain.pre, chain.post, strict=True)):
        block = Block(traced, call, pre, post, traced.trace.calls_within(call))
        if idle := find_idle_parts(block):
            raise Refused(f"layer {i}: {', '.join(idle)} never ran, so the block does more elsewhere than in this pass")
        # layers of a kind follow each other, or alternate
        layer = next((again for first in kinds.values() if (again := find_again(block, first)) is not None), None)
        try:
            layers.append(layer or find_layer(block))
        except Refused as error:
            raise Refused(f"layer {i}: {error}") from error
        kinds.setdefault(kind_of(layers[-1]), layers[-1])
        first, last = structure(layers[0]), structure(layers[-1])
        if abs(layers[-1].factor - layers[0].factor) > SAME_FACTOR * abs(layers[0].factor):
            raise Refused(f"layer {i} is unlike the first: its parts are added times {layers[-1].factor} and not {layers[0].factor}")
        if differ := [f"{name} is {last[name]} and not {first[name]}" for name in first.keys() & last.keys() if first[name] != last[name]]:
            raise Refused(f"layer {i} is unlike the first: {', '.join(sorted(differ))}")
    return layers


def find_idle_parts(block: Block) -> list[str]:
    """List the parts of a block that hold parameters and were not called."""
    ran = {block.relative(call.path) for call in block.inside}
    parts = [name for name, part in block.call.module.named_children() if any(True for _ in part.parameters())]
    return [name for name in parts if not any(path == name or path.startswith(f"{name}.") for path in ran)]


def find_again(block: Block, first: Layer) -> Layer | None:
    """Find a block's facts among the modules that have a part in the first block's; None if they are not these."""
    used = {first.path(call) for call in first.calls}
    if first.attention is not None:
        # the module that gives the weights of attention has a part too
        used.add(first.block.relative(first.attention.o.path.rpartition(".")[0]))
    inside = [call for call in block.inside if block.relative(call.path) in used]
    try:
        turn = None if first.attention is None else first.attention.pattern.angles
        layer = find_layer(replace(block, inside=inside, turn=turn, activation=first.reading.activation))
    except Refused:
        return None
    if (layer.attention is None) != (first.attention is None):
        return None
    # another module that gives the same is seen by a search of all
    trace, values = block.traced.trace, (layer.mixer.value, layer.reading.update.value)
    for call in block.inside:
        if block.relative(call.path) not in used and not encloses(call, layer):
            y = trace.output_state(call)
            if any(is_same(y, value) for value in values) and not is_same(trace.input_state(call), y):
                return None
    return layer


def encloses(call: Call, layer: Layer) -> bool:
    """Tell whether a call contains one of those that give a layer's updates, or lies within one."""
    of_updates = (layer.mixer.calls[0], layer.reading.update.calls[0])
    return any((call.start < own.start and own.end < call.end) or (own.start < call.start and call.end < own.end) for own in of_updates)


def find_layer(block: Block) -> Layer:
    """Find the facts of one block. Raises Refused with the first step that fails."""
    updates, affine = find_updates(block), find_affine(block)
    factors = sorted(update.factor for update in updates)
    if factors[-1] - factors[0] > SAME_FACTOR * abs(factors[0]):
        raise Refused(f"its parts are added with several factors: {', '.join(map(str, factors))}")
    reading = find_ffn(block, updates, affine)
    others = [update for update in updates if update is not reading.update]
    if len(others) != 1:
        raise Refused(f"{len(others)} parts beside the FFN write to the stream; one is read")
    reads = find_reads(block, reading.x, {"resid_pre": block.pre, "resid_mid": sum_of(block.pre, others)})
    if len(reads) != 1:
        raise Refused(f"the keys of its FFN read {len(reads)} of resid_pre and resid_mid, themselves or through a norm")
    if reads[0][0] == "resid_pre" and not reads_beside(block, others[0], reading):
        raise Refused(f"{others[0].calls[0].path} may read what its FFN adds: it runs after it, and is given another state than the block")
    attention, unread = None, ""
    try:
        attention = find_attention(block, others[0], affine)
    except Refused as error:
        unread = str(error)
    layer = Layer(block, reading, *reads[0], others[0], attention, unread, factors[0])
    if outside := [call.path for call in layer.calls if not call.path.startswith(f"{block.call.path}.")]:
        raise Refused(f"{outside[0]} has a part in it, and lies in another block")
    return layer


def reads_beside(block: Block, mixer: Update, reading: Reading) -> bool:
    """Tell whether a block's mixer does without the FFN's output: it ran before the FFN, or it reads the state before the block."""
    first = mixer.calls[0]
    given = block.traced.trace.input_state(first)
    return first.end < reading.up.start or (given is not None and bool(find_reads(block, given, {"resid_pre": block.pre})))


def kind_of(layer: Layer) -> tuple[object, ...]:
    """Name what may differ between layers: the paths of modules, and the rotation."""
    turn = layer.attention and layer.attention.pattern.angles
    return (layer.attention is None, *map(layer.path, layer.calls), turn and (turn.path, turn.words))


def structure(layer: Layer) -> dict[str, object]:
    """Name what must be the same in all layers, since the atlas knows it of the model."""
    reading = layer.reading
    of_ffn: dict[str, object] = {
        "the state that its keys read": layer.state,
        "norm before its keys": layer.norm and layer.block.traced.norm_of(layer.norm),
        "activation": reading.activation,
        "number of neurons": reading.down.inputs[0].shape[-1],
        "gate": reading.gate is not None,
        "order of gate and up": reading.layout,
        "norm after the FFN": reading.after_norm is not None,
    }
    if layer.attention is None:
        return of_ffn
    attention, pattern = layer.attention, layer.attention.pattern
    return of_ffn | {
        "norm before its heads": attention.norm and layer.block.traced.norm_of(attention.norm),
        "norm after attention": attention.after_norm is not None,
        "number of heads": attention.n_heads,
        "what its heads gather": attention.o.inputs[0].shape[-1],
        "what gives its values": attention.v.outputs[0].shape[-1],
        "layout": attention.layout,
        "softcap": pattern.softcap,
        "slopes": pattern.slopes and tuple(round(slope, 4) for slope in pattern.slopes),
    }
