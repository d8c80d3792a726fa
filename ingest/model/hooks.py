"""Hooks that record forward passes for any number of listeners: the five sites, the coefficients, the heads' gathered values and attention patterns.

A hook is registered once per context, only if a listener wants its tensor, and removed when the context ends, however it ends. A forward pass in which a hook
did not fire raises AtlasError: a module that the model's code bypasses (a fused kernel, an early exit) is an error, not an empty record.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor, nn

from ingest.model.eager import use_eager_attention, weights_of
from ingest.model.facts import Attention, Ffn, Mixer
from ingest.model.models import Model
from ingest.model.modules import find
from schema.errors import AtlasError
from schema.terms import SITES

Hook = Callable[..., None]

RECORDED = (*SITES, "coefficient", "ffn_scale")
"""Names that can be recorded in every model, at no cost to the forward pass."""

CONTEXT = "context"

ATTENDED = ("gathered", "attn_scale", CONTEXT)
"""Names that can be recorded if the model's attention works as the family's facts say."""

KEY = "ffn_in"
"""Further name that can be recorded: the input of the up projection. It costs the forward pass nothing."""

PROJECTED: tuple[Literal["q"], Literal["k"], Literal["v"]] = ("q", "k", "v")
"""Further names that can be recorded: the outputs of attention's projections."""

PATTERN = "pattern"
"""Further name that can be recorded: the attention weights. It switches attention to code that returns them; states then differ by rounding."""


@dataclass(frozen=True)
class LayerRecord:
    """Record of one layer in a forward pass, in the model's dtype; a tensor that was not requested is None.

    The five sites are [..., d_model] and the coefficients [..., d_ffn]. ffn_scale, [...] float32, is the frozen 1/rms of the norm after the FFN, or ones if
    there is none, so that `ffn_scale·(coefficient @ values(layer) + ffn_bias(layer))` = ffn_out (DEFINITIONS, section 1). In a parallel block resid_mid is the
    virtual resid_pre + attn_out. gathered, [..., n_heads·d_head], is each head's pattern times its values, the input of the output projection; attn_scale is to
    attention what ffn_scale is to the FFN. context is resid_pre of whole sequences, [sequences, seq, d_model], whichever positions the other tensors have. q, k
    and v are the outputs of the projections for whole sequences, [sequences, seq, rows]; if one module computes all three, each of them is its whole output.
    pattern holds the attention weights, [batch, n_heads, seq, seq], destination before source. ffn_in, [..., d_model], is the input of the up projection: the
    normed state in most families, the state itself if no norm precedes the FFN.

    The tensors may be the states of the forward pass itself and not copies: do not change them.
    """

    resid_pre: Tensor | None = None
    attn_out: Tensor | None = None
    resid_mid: Tensor | None = None
    ffn_out: Tensor | None = None
    resid_post: Tensor | None = None
    coefficient: Tensor | None = None
    ffn_scale: Tensor | None = None
    gathered: Tensor | None = None
    attn_scale: Tensor | None = None
    context: Tensor | None = None
    q: Tensor | None = None
    k: Tensor | None = None
    v: Tensor | None = None
    pattern: Tensor | None = None
    ffn_in: Tensor | None = None

    def __getitem__(self, name: str) -> Tensor:
        """Return the tensor of a name in RECORDED, ATTENDED or PROJECTED, or of KEY or PATTERN. Raises KeyError if it was not requested."""
        found = getattr(self, name)
        if found is None:
            raise KeyError(name)
        return found


def keep_all(x: Tensor) -> Tensor:
    """Return the whole tensor; the default of `Listener.keep`."""
    return x


@dataclass(frozen=True)
class Listener:
    """Consumer of the records of forward passes.

    sites: the wanted names, from RECORDED, ATTENDED, PROJECTED, KEY and PATTERN. take: called with a layer and its record, as soon as the wanted tensors of
    the layer have been computed. keep: selects the part of each state that stays in memory, [batch, seq, width] to [..., width]; it may also move states
    from several devices to one. keep_else: name → function used instead of `keep`, for tensors of whole sequences: CONTEXT and PROJECTED, [batch, seq, …], and
    PATTERN, [batch, n_heads, seq, seq].
    """

    sites: frozenset[str]
    take: Callable[[int, LayerRecord], None]
    keep: Callable[[Tensor], Tensor] = keep_all
    keep_else: Mapping[str, Callable[[Tensor], Tensor]] = field(default_factory=dict)


def coefficients(take: Callable[[int, Tensor], None]) -> Listener:
    """Make a listener of the coefficients alone: the input of each layer's down projection itself, [batch, seq, d_ffn] in the model's dtype."""
    return Listener(frozenset({"coefficient"}), lambda layer, record: take(layer, record["coefficient"]))


def output_state(output: Any) -> Tensor:
    """Take a module's state from its output: attention and some blocks return (state, attention weights, …)."""
    return output[0] if isinstance(output, tuple) else output


def input_modules(model: Model, layer: int) -> dict[str, str]:
    """Map the name of each tensor that a hook takes from a module's input to that module (its path from a layer, '' for the block)."""
    mixer, ffn = model.mixer(layer), model.ffn(layer)
    modules = {"resid_pre": "", CONTEXT: "", "coefficient": ffn.down, KEY: ffn.up}
    if isinstance(mixer, Attention):
        modules["gathered"] = mixer.o
    if not model.is_parallel:
        modules["resid_mid"] = ffn.read
    if ffn.after_norm is not None:
        modules["ffn_raw"] = ffn.after_norm
    if mixer.after_norm is not None:
        modules["attn_raw"] = mixer.after_norm
    return modules


def output_modules(model: Model, layer: int) -> dict[str, str]:
    """Map the name of each tensor that a hook takes from a module's output to that module (its path from a layer, '' for the block)."""
    mixer = model.mixer(layer)
    projections: dict[str, str] = {part: getattr(mixer, part) for part in PROJECTED if isinstance(mixer, Attention)}
    return {"attn_out": mixer.write, "ffn_out": model.ffn(layer).write, "resid_post": "", **projections}


def pattern_modules(model: Model, layer: int) -> dict[str, str]:
    mixer = model.mixer(layer)
    return {PATTERN: mixer.module} if isinstance(mixer, Attention) else {}


def required_sources(model: Model, sites: frozenset[str]) -> frozenset[str]:
    """List the hooked tensors from which the entries of a record with these names are computed."""
    made = {"ffn_scale": {scale_source(model.ffn(0))}, "attn_scale": {scale_source(model.mixer(0))}}
    if model.is_parallel:
        made["resid_mid"] = {"resid_pre", "attn_out"}
    return frozenset(word for site in sites for word in made.get(site, {site}))


def scale_source(part: Mixer | Ffn) -> str:
    """Name the hooked tensor that gives the scale of the norm after a part: the norm's input or, if no norm follows, any tensor at the same positions."""
    if isinstance(part, Ffn):
        return "coefficient" if part.after_norm is None else "ffn_raw"
    return "gathered" if part.after_norm is None else "attn_raw"


def layer_record(model: Model, layer: int, seen: Mapping[str, Tensor], sites: frozenset[str]) -> LayerRecord:
    """Build a layer's record from its hooked tensors."""
    multiplier, mixer, ffn = model.residual_multiplier, model.mixer(layer), model.ffn(layer)

    def scaled_update(site: str) -> Tensor:
        return seen[site] * multiplier if multiplier != 1.0 else seen[site]

    made: dict[str, Callable[[], Tensor]] = {
        "attn_out": lambda: scaled_update("attn_out"),
        "ffn_out": lambda: scaled_update("ffn_out"),
        "resid_mid": lambda: seen["resid_pre"] + scaled_update("attn_out") if model.is_parallel else seen["resid_mid"],
        "ffn_scale": lambda: model.after_scale(layer, seen[scale_source(ffn)], ffn.after_norm),
        "attn_scale": lambda: model.after_scale(layer, seen[scale_source(mixer)], mixer.after_norm),
    }
    return LayerRecord(**{site: made[site]() if site in made else seen[site] for site in sites})


class ListenerState:
    """Tensors that one forward pass has shown to one listener so far."""

    def __init__(self, model: Model, listener: Listener) -> None:
        self.model, self.listener, self.wanted = model, listener, required_sources(model, listener.sites)
        self.seen: dict[int, dict[str, Tensor]] = {}

    def show(self, layer: int, word: str, x: Tensor) -> None:
        """Store a hooked tensor. Once the layer is complete, hand its record to the listener and drop the stored tensors."""
        seen = self.seen.setdefault(layer, {})
        seen[word] = self.listener.keep_else.get(word, self.listener.keep)(x)
        if self.wanted <= seen.keys():
            del self.seen[layer]
            self.listener.take(layer, layer_record(self.model, layer, seen, self.listener.sites))


class Forward:
    """State of one forward pass: the hooks that have fired so far, and the tensors shown to each listener."""

    def __init__(self, model: Model, listeners: Sequence[Listener]) -> None:
        self.model = model
        self.heard = [ListenerState(model, listener) for listener in listeners]
        self.wanted = frozenset[str]().union(*(heard.wanted for heard in self.heard))
        self.shape: tuple[int, ...] = ()
        self.fired: set[tuple[int, str]] = set()

    def begin(self, _module: nn.Module, args: tuple[Any, ...]) -> None:
        """Take [batch, seq] from the first block's input (inside the block, OPT flattens both into one dimension), and clear the state of the previous pass."""
        self.shape = tuple(args[0].shape[:2])
        self.fired.clear()
        for heard in self.heard:
            heard.seen.clear()

    def show(self, layer: int, word: str, x: Tensor) -> None:
        """Show a hooked tensor to the listeners that want it, only the first time that the hook fires in a pass."""
        if (layer, word) in self.fired:
            return
        self.fired.add((layer, word))
        for heard in self.heard:
            if word in heard.wanted:
                heard.show(layer, word, x)

    def end(self, *_: Any) -> None:
        """Raise AtlasError if one of the hooks has not fired since the forward pass began."""
        expected = ((layer, word) for layer in range(self.model.n_layers) for word in sorted(self.wanted))
        missing = [f"{word} of layer {layer}" for layer, word in expected if (layer, word) not in self.fired]
        if missing:
            raise silent_hook_error(self.model, ", ".join(missing[:5]))
        self.fired.clear()

    def input_hook(self, layer: int, word: str) -> Hook:
        return lambda _module, args: self.show(layer, word, self.state(args[0]))

    def output_hook(self, layer: int, word: str) -> Hook:
        return lambda _module, _args, output: self.show(layer, word, self.state(output_state(output)))

    def pattern_hook(self, layer: int, word: str) -> Hook:
        return lambda _module, _args, output: self.show(layer, word, weights_of(self.model, layer, output, self.shape))

    def state(self, x: Tensor) -> Tensor:
        """Reshape a state to [batch, seq, width]."""
        return x.view(*self.shape, x.shape[-1])


def silent_hook_error(model: Model, what: str) -> AtlasError:
    return AtlasError(f"model {model.name}: nothing was recorded for {what}: the model's code does not call the hooked module")


@contextmanager
def register_hooks(model: Model, inputs: Sequence[tuple[str, Hook]], outputs: Sequence[tuple[str, Hook]], at_end: Hook) -> Iterator[None]:
    """Register hooks on the inputs and outputs of modules (paths from the backbone) and on the end of the backbone, for the duration of the context."""
    # every path is looked up before the first hook is registered
    before = [(find(model.backbone_module, path), hook) for path, hook in inputs]
    after = [(find(model.backbone_module, path), hook) for path, hook in outputs]
    with ExitStack() as stack:
        for module, hook in before:
            stack.callback(module.register_forward_pre_hook(hook).remove)
        for module, hook in after:
            stack.callback(module.register_forward_hook(hook).remove)
        stack.callback(model.backbone_module.register_forward_hook(at_end).remove)
        yield


@contextmanager
def listen(model: Model, listeners: Sequence[Listener]) -> Iterator[None]:
    """Hand the record of every layer of each forward pass within the context to every listener.

    Raises AtlasError for tensors of heads of a model whose heads cannot be read, and at the end of a pass in which a hook did not fire.
    """
    forward = Forward(model, listeners)
    if forward.wanted & {"gathered", PATTERN, *PROJECTED}:
        model.attention(0)

    def path(layer: int, module: str) -> str:
        return f"{model.layer_path(layer)}.{module}" if module else model.layer_path(layer)

    def hooks(modules: Callable[[Model, int], dict[str, str]], hook: Callable[[int, str], Hook]) -> list[tuple[str, Hook]]:
        layers = range(model.n_layers)
        return [(path(layer, module), hook(layer, word)) for layer in layers for word, module in modules(model, layer).items() if word in forward.wanted]

    inputs, outputs = hooks(input_modules, forward.input_hook), hooks(output_modules, forward.output_hook)
    patterns = hooks(pattern_modules, forward.pattern_hook)
    with (
        use_eager_attention(model) if PATTERN in forward.wanted else nullcontext(),
        register_hooks(model, [(path(0, ""), forward.begin), *inputs], [*outputs, *patterns], forward.end),
    ):
        yield


@contextmanager
def record_layers(model: Model, keep: Callable[[Tensor], Tensor] = keep_all, sites: Sequence[str] = RECORDED) -> Iterator[list[LayerRecord]]:
    """Yield a list with one record per layer; every forward pass replaces the records with new ones, which hold `sites`. keep: as in `Listener`."""
    layers = [LayerRecord()] * model.n_layers
    with listen(model, [Listener(frozenset(sites), layers.__setitem__, keep)]):
        yield layers


class LayerReached(Exception):
    """Exception that ends a forward pass at the requested layer, and carries the requested tensor."""

    def __init__(self, state: Tensor) -> None:
        super().__init__()
        self.state = state


def read_layer(model: Model, layer: int, token_ids: Tensor) -> Tensor:
    """Read the coefficients of one layer, [batch, seq, d_ffn] in the model's dtype, for token_ids [batch, seq] padded on the right.

    The forward pass ends at this layer: later layers are not run. Raises AtlasError if the pass never reaches the layer's down projection.
    """

    def stop(_module: nn.Module, args: tuple[Any, ...]) -> None:
        raise LayerReached(args[0])

    with register_hooks(model, [(f"{model.layer_path(layer)}.{model.ffn(layer).down}", stop)], [], lambda *_: None):
        try:
            model.backbone(token_ids)
        except LayerReached as reached:
            return reached.state.view(*token_ids.shape, -1)
    raise silent_hook_error(model, f"coefficient of layer {layer}")
