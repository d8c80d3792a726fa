"""What one reader of the stream sees at one position, as a sum over what was written before it (Elhage et al. 2021: paths into a head or a neuron).

A reader is the q, k or v of a head, or the key (up) or gate key (gate) of a neuron. Its pre-activation is k·N(x) + b, before a norm of q or k, a
rotation and an activation function: Σ over parts z of x of k̂·z/s + constant, exact with the scale s of the norm N held.
What a head z erases is such a sum too, -z·x/‖x‖² = Σ over parts z_c of x of -z·z_c/‖x‖²: it names whose writing is deleted (memory management).
"""

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from ingest.model.folding import ffn_norm, fold_norm, layer_norm, norm_scale
from ingest.model.heads import rows_of
from ingest.model.hooks import LayerRecord, record_layers
from ingest.model.models import Model
from ingest.model.modules import bias_of, in_float32
from ingest.model.parts import embedding_parts, layer_parts
from schema.errors import AtlasError

SITES = ("resid_pre", "resid_mid", "ffn_out", "ffn_scale", "gathered", "attn_scale")
OF_HEADS, OF_NEURONS, ERASED, LOGIT = ("q", "k", "v"), ("up", "gate"), "erased", "logit"

TINY = 1e-30
"""Stands for the squared length of a stream of zeros, of which nothing is erased."""


class Reader(NamedTuple):
    """unit: the head or the neuron. part: one of OF_HEADS or OF_NEURONS, or ERASED or LOGIT of a head."""

    layer: int
    unit: int
    part: str


class Part(NamedTuple):
    """What a part of the stream brings. kind: of schema/terms.py; layer, head: None where it has none.

    amount: of a neuron's key what it adds to the pre-activation; of a head's q, k or v, which are vectors, what it adds along the whole of it; of what is
    erased the share of the stream that is deleted of it, below 0 where it is added to; of a logit what it adds to it through the head.
    """

    kind: str
    layer: int | None
    head: int | None
    amount: float


@dataclass(frozen=True)
class Decomposition:
    """parts: with the constant, as the stream takes them up. total: the pre-activation, of a vector its length; the share of the stream that is erased; or what
    the head adds to the logit. residual: total - sum of the parts."""

    parts: list[Part]
    total: float
    residual: float


def parse_reader(text: str, model: Model) -> Reader:
    """Parse 'L18H6.q' or 'L12N345.gate', in either case. Raises AtlasError for anything else, and for what the model does not have."""
    match = re.fullmatch(r"l(\d+)(?:h(\d+)\.([qkv]|erased|logit)|n(\d+)\.(up|gate))", text.strip().lower())
    if match is None:
        raise AtlasError(
            f"'{text}' is no reader: write L18H6.q, .k, .v, .erased or .logit of a head, or L12N345.up or .gate of a neuron; "
            "layers, heads and neurons count from 0"
        )
    layer, head, of_head, neuron, of_neuron = match.groups()
    reader = Reader(int(layer), int(head or neuron), of_head or of_neuron)
    what, n = ("heads", model.n_heads) if of_head else ("neurons", model.d_ffn)
    if reader.layer >= model.n_layers or reader.unit >= n:
        raise AtlasError(f"no {text}: {model.name} has layers 0 to {model.n_layers - 1} and {what} 0 to {n - 1}")
    if reader.part == "gate" and not model.is_gated:
        raise AtlasError(f"no {text}: the FFNs of {model.name} have no gate; their keys are .up")
    return reader


def reader_weights(model: Model, reader: Reader) -> tuple[Tensor, Tensor, nn.Module | None]:
    """Find the rows [n, d_model] that read, n = 1 of a neuron, their bias [n], and the norm before them."""
    facts = model.architecture.attention if reader.part in OF_HEADS else model.architecture.ffn
    path = getattr(facts, reader.part)
    rows, bias = model.rows(reader.layer, path), model.bias(reader.layer, path)
    bias = rows.new_zeros(len(rows)) if bias is None else bias
    if reader.part in OF_NEURONS:
        return rows[[reader.unit]], bias[[reader.unit]], ffn_norm(model, reader.layer)
    own = reader.unit if reader.part == "q" else reader.unit * model.n_kv_heads // model.n_heads
    part = cast(Literal["q", "k", "v"], reader.part)
    return rows_of(model, rows, part)[own], rows_of(model, bias, part)[own], layer_norm(model, reader.layer, model.architecture.attention.norm)


def split_reader_input(model: Model, reader: Reader, token_ids: Tensor) -> Decomposition:
    """Split what a reader sees at the last of a sequence's positions into parts. token_ids: [seq] int64, from the sequence's first."""
    with record_layers(model, lambda x: x[:, -1].to(model.device), SITES) as records:
        model.backbone(token_ids[None])
    last = torch.tensor([len(token_ids) - 1], device=model.device)
    written: list[tuple[str, int | None, Tensor]] = [(kind, None, z[0]) for kind, z in embedding_parts(model, token_ids[-1:].to(model.device), last).items()]
    for layer, record in enumerate(records[: reader.layer + 1]):
        written += [(kind, layer, z[0]) for kind, z in layer_parts(model, layer, record).items() if layer < reader.layer or comes_before(model, reader, kind)]
    x = reader_stream(model, reader, records[reader.layer])
    by_part, constant, total = erasure_terms(model, reader, records[reader.layer], x) if reader.part == ERASED else pre_activation_terms(model, reader, x)
    parts = [
        Part(kind, layer, i if kind == "head" else None, amount)
        for kind, layer, z in written
        for i, amount in enumerate((z @ by_part).double().tolist())
    ]  # fmt: skip
    if constant is not None:
        parts.append(Part("constant", None, None, constant))
    return Decomposition(parts, total, total - sum(part.amount for part in parts))


def pre_activation_terms(model: Model, reader: Reader, x: Tensor) -> tuple[Tensor, float, float]:
    """Compute what reads parts, [d_model], the constant and the pre-activation, where the reader finds the stream x, [1, d_model]."""
    rows, bias, norm = reader_weights(model, reader)
    whole = (x if norm is None else in_float32(norm, model.device)(x)) @ rows.T + bias
    direction = torch.ones_like(whole) if reader.part in OF_NEURONS else whole / whole.norm().clamp_min(torch.finfo(whole.dtype).tiny)
    by_part = direction @ fold_norm(model, rows, norm) / (1.0 if norm is None else norm_scale(x, norm))
    beta = None if norm is None else bias_of(norm)
    constant = bias if beta is None else bias + rows @ beta.to(model.device).float()
    return by_part[0], float(direction[0] @ constant), float(direction[0] @ whole[0])


def erasure_terms(model: Model, reader: Reader, record: LayerRecord, x: Tensor) -> tuple[Tensor, None, float]:
    """Compute what `pre_activation_terms` does for what the head writes there, -z/‖x‖²; whatever it deletes somebody wrote, so there is no constant."""
    z = layer_parts(model, reader.layer, record)["head"][0, reader.unit]
    by_part = -z / x.square().sum().clamp_min(TINY)
    return by_part, None, float(by_part @ x[0])


def comes_before(model: Model, reader: Reader, kind: str) -> bool:
    """Tell whether a part of the reader's own layer is in the stream that it reads: attention, where the FFN comes after it."""
    return reader.part in OF_NEURONS and not model.is_parallel and kind in ("head", "attention_bias")


def reader_stream(model: Model, reader: Reader, record: LayerRecord) -> Tensor:
    """Select the stream that the reader's norm finds, [1, d_model] float32."""
    return record["resid_mid" if comes_before(model, reader, "head") else "resid_pre"].float()
