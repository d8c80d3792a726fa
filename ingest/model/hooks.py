"""Read the five sites, the coefficients and the FFN norm's scale out of a forward pass.

A hook is registered once per context and removed when the context ends, however it ends. A forward pass in which a hook stayed
silent raises: a module that a model's code goes round (a fused kernel, an early exit) is an error, not an empty record.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from ingest.model.models import Model
from ingest.model.modules import find
from schema.errors import AtlasError

Key = tuple[int, str] | tuple[str, int]
Recording = dict[Key, Tensor]
Hook = Callable[..., None]


class Forward:
    """What one forward pass has shown so far: the batch's shape, and which hooks have fired."""

    def __init__(self) -> None:
        self.shape: tuple[int, ...] = ()
        self.fired: set[tuple[int, str]] = set()

    def begin(self, _module: nn.Module, args: tuple[Any, ...]) -> None:
        """Take [batch, seq] from the first block's input; OPT flattens both into one dimension further in."""
        self.shape = tuple(args[0].shape[:2])
        self.fired.clear()

    def unflatten(self, x: Tensor) -> Tensor:
        """[batch, seq, width] of a state that may come as [batch·seq, width]; a view."""
        return x.view(*self.shape, x.shape[-1])

    def require(self, keys: Sequence[tuple[int, str]], model: Model) -> None:
        """AtlasError if one of these hooks has not fired since the forward pass began; the marks are cleared for the next."""
        missing = [f"{word} of layer {layer}" for layer, word in keys if (layer, word) not in self.fired]
        if missing:
            raise AtlasError(f"model {model.name}: nothing was recorded for {', '.join(missing[:5])}: its code does not call the module read there")
        self.fired.clear()


def first(output: Any) -> Tensor:
    """A module's state: attention and some blocks return (state, attention weights, …)."""
    return output[0] if isinstance(output, tuple) else output


@contextmanager
def hooked(model: Model, inputs: Sequence[tuple[str, Hook]], outputs: Sequence[tuple[str, Hook]], at_end: Hook) -> Iterator[None]:
    """Hooks on module inputs and outputs (paths from the backbone) and on the backbone's end, for the length of the context."""
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
def capture(model: Model, on_coefficients: Callable[[int, Tensor], None]) -> Iterator[None]:
    """Call `on_coefficients(layer, coefficients)` during every forward pass, layer by layer.

    `coefficients` is [batch, seq, d_ffn] in the model's dtype: the input of the down projection itself, not a copy, so it must not be
    changed. Raises AtlasError after a forward pass in which a layer gave none.
    """
    forward = Forward()
    expected = [(layer, "coefficient") for layer in range(model.n_layers)]

    def reader(layer: int) -> Hook:
        def read(_module: nn.Module, args: tuple[Any, ...]) -> None:
            # a mark only: holding the tensor would keep every layer's alive
            forward.fired.add((layer, "coefficient"))
            on_coefficients(layer, forward.unflatten(args[0]))

        return read

    def end(*_: Any) -> None:
        forward.require(expected, model)

    downs = [(f"{model.layer_path(layer)}.{model.architecture.ffn_down}", reader(layer)) for layer in range(model.n_layers)]
    with hooked(model, [(model.layer_path(0), forward.begin), *downs], [], end):
        yield


class Reached(Exception):
    """Ends a forward pass at the layer that was wanted, with what was wanted of it."""

    def __init__(self, state: Tensor) -> None:
        super().__init__()
        self.state = state


def read_layer(model: Model, layer: int, token_ids: Tensor) -> Tensor:
    """Coefficients of one layer, [batch, seq, d_ffn] in the model's dtype, for token_ids [batch, seq] padded on the right.

    The forward pass ends there: the layers above are not run. Raises AtlasError if it never comes to the layer's down projection.
    """

    def stop(_module: nn.Module, args: tuple[Any, ...]) -> None:
        raise Reached(args[0])

    with hooked(model, [(f"{model.layer_path(layer)}.{model.architecture.ffn_down}", stop)], [], lambda *_: None):
        try:
            model.backbone(token_ids)
        except Reached as reached:
            return reached.state.view(*token_ids.shape, -1)
    raise AtlasError(f"model {model.name}: nothing was recorded for coefficient of layer {layer}: its code does not call the module read there")


def raw_sites(model: Model) -> tuple[dict[str, str], dict[str, str]]:
    """Record's name → module (path from a layer, '' for the block) whose input, or output, it is."""
    a = model.architecture
    inputs = {"resid_pre": "", "coefficient": a.ffn_down}
    if not model.is_parallel:
        inputs["resid_mid"] = a.ffn_read
    if a.ffn_after_norm is not None:
        inputs["ffn_raw"] = a.ffn_after_norm
    return inputs, {"attn_out": a.attn_write, "ffn_out": a.ffn_write, "resid_post": ""}


def completed(model: Model, layer: int, seen: dict[tuple[int, str], Tensor]) -> Iterator[tuple[Key, Tensor]]:
    """The records of one layer, from what its hooks saw."""
    multiplier = model.residual_multiplier
    attn_out, ffn_out = (seen[layer, site] * multiplier if multiplier != 1.0 else seen[layer, site] for site in ("attn_out", "ffn_out"))
    resid_pre = seen[layer, "resid_pre"]
    yield (layer, "resid_pre"), resid_pre
    yield (layer, "attn_out"), attn_out
    yield (layer, "resid_mid"), resid_pre + attn_out if model.is_parallel else seen[layer, "resid_mid"]
    yield (layer, "ffn_out"), ffn_out
    yield (layer, "resid_post"), seen[layer, "resid_post"]
    yield ("coefficient", layer), seen[layer, "coefficient"]
    yield ("ffn_scale", layer), model.ffn_scale(seen[layer, "ffn_raw"] if model.is_ffn_output_normed else ffn_out)


def whole(x: Tensor) -> Tensor:
    """Keep all of a state."""
    return x


@contextmanager
def record_sites(model: Model, keep: Callable[[Tensor], Tensor] = whole) -> Iterator[Recording]:
    """A dict that every forward pass fills anew with everything the trace needs, of all layers.

    `(layer, site)` → [batch, seq, d_model] for the five sites, `("coefficient", layer)` → [batch, seq, d_ffn], both in the model's dtype,
    and `("ffn_scale", layer)` → [batch, seq] float32: the frozen 1/rms of the norm after the FFN, ones where there is none, so that
    `ffn_scale·(coefficients @ values(layer) + ffn_bias(layer))` = ffn_out (DEFINITIONS, section 1). In a parallel block resid_mid is the
    virtual resid_pre + attn_out. `keep` picks positions, [batch, seq, width] to [..., width], from each state as it is computed, so that
    only what it keeps stays in memory, and brings states of several devices to one; by default these are the states of the forward pass
    itself and not copies: do not change them.
    Raises AtlasError after a forward pass in which a site gave nothing.
    """
    forward = Forward()
    recording: Recording = {}
    seen: dict[tuple[int, str], Tensor] = {}
    input_sites, output_sites = raw_sites(model)
    layers = range(model.n_layers)
    expected = [(layer, word) for layer in layers for word in (*input_sites, *output_sites)]

    def path(layer: int, module: str) -> str:
        return f"{model.layer_path(layer)}.{module}" if module else model.layer_path(layer)

    def input_reader(key: tuple[int, str]) -> Hook:
        def read(_module: nn.Module, args: tuple[Any, ...]) -> None:
            forward.fired.add(key)
            seen[key] = keep(forward.unflatten(args[0]))

        return read

    def output_reader(key: tuple[int, str]) -> Hook:
        def read(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
            forward.fired.add(key)
            seen[key] = keep(forward.unflatten(first(output)))

        return read

    def begin(_module: nn.Module, args: tuple[Any, ...]) -> None:
        recording.clear()
        seen.clear()
        forward.begin(_module, args)

    def end(*_: Any) -> None:
        forward.require(expected, model)
        for layer in layers:
            recording.update(completed(model, layer, seen))
        seen.clear()

    inputs = [(path(layer, module), input_reader((layer, word))) for layer in layers for word, module in input_sites.items()]
    outputs = [(path(layer, module), output_reader((layer, word))) for layer in layers for word, module in output_sites.items()]
    with hooked(model, [(path(0, ""), begin), *inputs], outputs, end):
        yield recording
