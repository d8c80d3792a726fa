"""The input of one reader of the stream at one position, as a sum over the parts written before (Elhage et al. 2021: paths into a head or a neuron).

A reader is the q, k or v of a head, or the key (up) or gate key (gate) of a neuron. Its pre-activation is k·N(x) + b, before a norm of q or k, a rotation and
an activation function. It equals Σ over parts z of x of k̂·z/s + constant, exactly if the scale s of the norm N is held fixed.

The share of the stream that a head's output z erases is such a sum too: -z·x/‖x‖² = Σ over parts z_c of x of -z·z_c/‖x‖². Its terms tell how much
of each part is deleted (memory management).
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
"""Replacement for the squared length of a stream of zeros, from which nothing is erased."""


class Reader(NamedTuple):
    """Address of a reader. unit: the number of the head or the neuron. part: one of OF_HEADS or OF_NEURONS, or ERASED or LOGIT for a head."""

    layer: int
    unit: int
    part: str


class Part(NamedTuple):
    """A part of the stream and the amount that it contributes. kind: as in schema/terms.py. layer, head: None if the part has none.

    amount: for a neuron's key, what the part adds to the pre-activation; for a head's q, k or v, which are vectors, what it adds along the direction of the
    whole vector; for ERASED, the share of the stream that the head deletes of this part, negative if the head adds to it; for LOGIT, what the part adds to the
    logit through the head.
    """

    kind: str
    layer: int | None
    head: int | None
    amount: float


@dataclass(frozen=True)
class Decomposition:
    """Parts that add up to a total. parts: in the order of the forward pass, then the constant, if there is one. residual: total - sum of the parts.

    total: for a neuron the pre-activation; for q, k or v its length; for ERASED the share of the stream that is erased; for LOGIT what the head adds to the
    logit.
    """

    parts: list[Part]
    total: float
    residual: float


def parse_reader(text: str, model: Model) -> Reader:
    """Parse 'L18H6.q' or 'L12N345.gate', in either case. Raises AtlasError for any other form, and for a layer, head, neuron or gate that the model lacks."""
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
    """Find a reader's rows [n, d_model] (n = 1 for a neuron), their bias [n], and the norm before them, if there is one."""
    layer = reader.layer
    if reader.part in OF_NEURONS:
        rows = model.keys(layer) if reader.part == "up" else model.gate_keys(layer)
        assert rows is not None
        bias = model.key_bias(layer, cast(Literal["up", "gate"], reader.part))
        return rows[[reader.unit]], rows.new_zeros(1) if bias is None else bias[[reader.unit]], ffn_norm(model, layer)
    path = getattr(model.attention(layer), reader.part)
    rows, bias = model.rows(layer, path), model.bias(layer, path)
    bias = rows.new_zeros(len(rows)) if bias is None else bias
    own = reader.unit if reader.part == "q" else reader.unit * model.n_kv_heads // model.n_heads
    part = cast(Literal["q", "k", "v"], reader.part)
    return rows_of(model, rows, part)[own], rows_of(model, bias, part)[own], layer_norm(model, layer, model.attention(layer).norm)


def split_reader_input(model: Model, reader: Reader, token_ids: Tensor) -> Decomposition:
    """Split a reader's input at the last position of a sequence into parts. token_ids: [seq] int64, from the sequence's first position on."""
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
    """Compute the vector whose product with a part is the part's amount, [d_model], the constant, and the total of `Decomposition`.

    x: the stream that the reader reads, [1, d_model].
    """
    rows, bias, norm = reader_weights(model, reader)
    whole = (x if norm is None else in_float32(norm, model.device)(x)) @ rows.T + bias
    direction = torch.ones_like(whole) if reader.part in OF_NEURONS else whole / whole.norm().clamp_min(torch.finfo(whole.dtype).tiny)
    by_part = direction @ fold_norm(model, rows, norm) / (1.0 if norm is None else norm_scale(model, x, norm))
    beta = None if norm is None else bias_of(norm)
    constant = bias if beta is None else bias + rows @ beta.to(model.device).float()
    return by_part[0], float(direction[0] @ constant), float(direction[0] @ whole[0])


def erasure_terms(model: Model, reader: Reader, record: LayerRecord, x: Tensor) -> tuple[Tensor, None, float]:
    """Compute what `pre_activation_terms` does, for erasure by the head's output z: the vector is -z/‖x‖², the total the share of x that is erased.

    There is no constant: x is the sum of its parts.
    """
    z = layer_parts(model, reader.layer, record)["head"][0, reader.unit]
    by_part = -z / x.square().sum().clamp_min(TINY)
    return by_part, None, float(by_part @ x[0])


def comes_before(model: Model, reader: Reader, kind: str) -> bool:
    """Tell whether a part of the reader's own layer is in the stream that it reads: attention is, if the reader is a neuron of an FFN that comes after it."""
    return reader.part in OF_NEURONS and not model.is_parallel and kind in ("head", "attention_bias")


def reader_stream(model: Model, reader: Reader, record: LayerRecord) -> Tensor:
    """Select the stream that enters the reader's norm, [1, d_model] float32."""
    return record["resid_mid" if comes_before(model, reader, "head") else "resid_pre"].float()
