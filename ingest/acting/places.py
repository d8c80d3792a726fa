"""Places in a model's code at which a site is changed, and at which it is read."""

from dataclasses import dataclass

from torch import Tensor, nn

from ingest.model.models import Model
from ingest.model.modules import find
from schema.interventions.resolve import Shape

Site = tuple[str, int | None]
"""Name and layer of a site; the layer is None for the embedding."""


@dataclass(frozen=True)
class Place:
    """The input or the output of a module. path: dotted name of the module within the backbone."""

    path: str
    is_output: bool


def shape_of(model: Model) -> Shape:
    return Shape(model.name, model.n_layers, model.d_ffn, model.n_heads, model.is_gated, model.is_parallel)


def acting_place(model: Model, site: Site) -> Place:
    """Find the place at which a site is changed. No module outputs resid_mid alone: it is set by changing attention's output."""
    name, layer = site
    if layer is None:
        return Place(model.architecture.stream.token_embedding, True)
    if name in ("head", "attention"):
        attention = model.attention(layer)
        return Place(f"{model.layer_path(layer)}.{attention.o if name == 'head' else attention.module}", False)
    mixer, ffn = model.mixer(layer), model.ffn(layer)
    inputs = {"resid_pre": "", "coefficient": ffn.down}
    outputs = {"attn_out": mixer.write, "resid_mid": mixer.write, "pre_activation": ffn.up, "ffn_out": ffn.write, "resid_post": ""}
    module = inputs[name] if name in inputs else outputs[name]
    return Place(f"{model.layer_path(layer)}.{module}".rstrip("."), name in outputs)


def reading_place(model: Model, site: Site) -> Place:
    """Find the place at which a site is read, in the same units in which it is changed."""
    if site[0] == "resid_mid" and site[1] is not None:
        return Place(f"{model.layer_path(site[1])}.{model.ffn(site[1]).read}", False)
    return acting_place(model, site)


def module_at(model: Model, place: Place) -> nn.Module:
    return find(model.backbone_module, place.path)


def stream_units(model: Model, site: str) -> float:
    """Return by how much the stream changes if a site changes by 1: Granite multiplies the outputs of attention and FFN by a constant."""
    return model.residual_multiplier if site in ("attn_out", "resid_mid", "ffn_out") else 1.0


def columns_of(model: Model, site: str, units: tuple[int, ...]) -> list[int]:
    """List the columns of a site's tensor that belong to units: one for each neuron; for a head, its d_head columns of the output projection's input."""
    if site != "head":
        return list(units)
    return [column for head in units for column in range(head * model.d_head, (head + 1) * model.d_head)]


def state(x: Tensor, shape: tuple[int, int]) -> Tensor:
    """View x as [batch, seq, width]; OPT's FFN has batch and seq in one dimension."""
    return x.view(*shape, x.shape[-1])
