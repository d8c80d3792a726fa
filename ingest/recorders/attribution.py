"""Logits of sampled positions, as sums over what each part of the model wrote (Elhage et al. 2021: direct logit attribution).

The logit of w is a constant plus Σ û_w·z/s over the parts z. This is exact if the final norm's scale s and the attention patterns are held fixed. All
arithmetic here is in float32 or float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.hooks import LayerRecord
from ingest.model.models import Model
from ingest.model.parts import constants, embedding_parts, layer_parts, logits, writers
from ingest.model.ranking import top_k
from ingest.recorders.lens import constant_column, floats, ints
from ingest.recorders.sources import N_SOURCES, Sources
from ingest.recorders.traces import Rows
from schema.terms import TARGETS

N_NEURONS = 50
"""Neurons stored for each position: those that add most to the final prediction's logit or take most from it."""

TINY = 1e-30
"""Lower limit of the squared length of the stream, by which erased shares are divided: nothing is erased from a stream of zeros."""


@dataclass(frozen=True)
class Places:
    """The n sampled positions of one forward pass; all fields are [n] int64. next_token_ids: -1 where the document ends."""

    position_ids: np.ndarray
    indices: np.ndarray
    token_ids: np.ndarray
    next_token_ids: np.ndarray


@dataclass(frozen=True)
class Readers:
    """Vectors that turn parts of the stream into contributions to logits, at n positions.

    token_ids: [n, targets]; by_part: û/s of the targets, then of the vocabulary's mean, [n, targets + 1, d_model]; constant: [n, targets + 1]; scale: s, [n].
    """

    token_ids: Tensor
    by_part: Tensor
    constant: Tensor
    scale: Tensor


def readers(model: Model, last: Tensor, following: Tensor, mean: tuple[Tensor, Tensor]) -> Readers:
    """Build the readers of two targets for each position: the model's prediction from the last state [n, d_model], and the token that follows, [n].

    mean: reader and constant of the vocabulary's mean.
    """
    words, scale = torch.stack([model.lens(last).argmax(-1), following], 1), model.final_scale(last)
    by_part = torch.cat([model.logit_readers(words), mean[0].expand(len(words), 1, -1)], 1)
    constant = torch.cat([constants(model, words), mean[1].expand(len(words), 1)], 1)
    return Readers(words, by_part / scale[:, None, None], constant, scale)


def attribution_tables(
    model: Model, layers: Sequence[LayerRecord], sources: Sequence[Sources], places: Places, run_id: int, mean: tuple[Tensor, Tensor]
) -> dict[str, pa.Table]:
    """Build all rows of n positions from the forward pass's record and the sources of every layer. mean: as in `readers`."""
    rows, last = Rows(), layers[-1]["resid_post"]
    following, indices, token_ids = (torch.from_numpy(x).to(last.device) for x in (np.maximum(places.next_token_ids, 0), places.indices, places.token_ids))
    read = readers(model, last, following, mean)
    total = read.constant.double()
    for kind, vectors in embedding_parts(model, token_ids, indices).items():
        total += add_parts(rows, places, kind, None, vectors, None, read)
    best: list[tuple[Tensor, Tensor]] = []
    up, down = (torch.zeros_like(total[:, :-1]) for _ in range(2))
    for layer, record in enumerate(layers):
        for kind, vectors in layer_parts(model, layer, record).items():
            # in a parallel block too an FFN adds to resid_mid, virtual there, as everywhere else in the atlas
            before = record["resid_pre" if kind in ("head", "attention_bias") else "resid_mid"]
            total += add_parts(rows, places, kind, layer, vectors, before, read)
        scores = neuron_scores(model, layer, record, read)
        up += scores.clamp_min(0).double().sum(-1)
        down += scores.clamp_max(0).double().sum(-1)
        best.append(select_neurons(scores, layer))
        add_sources(rows, model, layer, sources[layer], places, read, record["attn_scale"])
    add_contributions(rows, places, "constant", None, read.constant.T[..., None], None, None)
    add_neurons(rows, places, best)
    add_attribution(rows, model, places, read, last, total, up, down, run_id)
    return rows.tables()


def add_parts(rows: Rows, places: Places, kind: str, layer: int | None, vectors: Tensor, before: Tensor | None, read: Readers) -> Tensor:
    """Add rows for m parts of one kind, and return what these parts together add to each logit, [n, targets + 1] float64.

    vectors: what the parts write, [n, m, d_model]. before: the stream that they are added to, [n, d_model]; None for embeddings.
    """
    found = torch.einsum("nmd,nwd->wnm", vectors, read.by_part)
    erased = None if before is None else -torch.einsum("nmd,nd->nm", vectors, before) / before.square().sum(-1, keepdim=True).clamp_min(TINY)
    add_contributions(rows, places, kind, layer, found, vectors.norm(dim=-1), erased)
    return found.double().sum(-1).T


def add_contributions(
    rows: Rows, places: Places, kind: str, layer: int | None, found: Tensor, norm: Tensor | None, erased: Tensor | None
) -> None:  # fmt: skip
    """Add rows of `contribution`. found: what m parts of n positions add to each logit, [targets + 1, n, m]; norm, erased: [n, m]."""
    _, n, m = found.shape

    def column(x: Tensor | None) -> object:
        return pa.nulls(n * m, pa.float32()) if x is None else floats(x).ravel()

    rows.add(
        "contribution",
        position_id=np.repeat(places.position_ids, m),
        kind=constant_column(kind, n * m),
        layer=pa.nulls(n * m, pa.int16()) if layer is None else np.full(n * m, layer, np.int16),
        head=np.tile(np.arange(m, dtype=np.int16), n) if kind == "head" else pa.nulls(n * m, pa.int16()),
        final_logit=floats(found[0]).ravel(),
        next_logit=pa.array(floats(found[1]).ravel(), mask=np.repeat(places.next_token_ids < 0, m)),
        mean_logit=floats(found[2]).ravel(),
        norm=column(norm),
        erased=column(erased),
    )


def neuron_scores(model: Model, layer: int, record: LayerRecord, read: Readers) -> Tensor:
    """Compute what each sub-update m_i·v_i adds to the logits of the targets: [n, targets, d_ffn]."""
    by_value = torch.einsum("nwd,vd->nwv", read.by_part[:, : len(TARGETS)], model.values(layer))
    return by_value * (record["coefficient"].float() * record["ffn_scale"][:, None])[:, None]


def select_neurons(scores: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    """Select the N_NEURONS of a layer with the largest |score| for the prediction: (layer, neuron), [n, k, 2], and their scores, [n, k, targets]."""
    _, chosen = top_k(scores[:, 0].abs(), N_NEURONS)
    return torch.stack([torch.full_like(chosen, layer), chosen], -1), scores.movedim(1, 2).gather(1, chosen[..., None].expand(-1, -1, len(TARGETS)))


def add_neurons(rows: Rows, places: Places, best: list[tuple[Tensor, Tensor]]) -> None:
    """Add rows of `neuron_contribution`. best: the neurons of each layer, as from `select_neurons`; ties go to the lowest layer and neuron."""
    address, scores = (torch.cat(part, 1) for part in zip(*best, strict=True))
    _, chosen = top_k(scores[..., 0].abs(), N_NEURONS)
    n, k = chosen.shape
    address, scores = (x.gather(1, chosen[..., None].expand(-1, -1, 2)) for x in (address, scores))
    rows.add(
        "neuron_contribution",
        position_id=np.repeat(places.position_ids, k),
        rank=np.tile(np.arange(1, k + 1, dtype=np.int16), n),
        layer=address[..., 0].cpu().numpy().astype(np.int16).ravel(),
        neuron=ints(address[..., 1]).ravel(),
        final_logit=floats(scores[..., 0]).ravel(),
        next_logit=pa.array(floats(scores[..., 1]).ravel(), mask=np.repeat(places.next_token_ids < 0, k)),
    )


def add_attribution(
    rows: Rows, model: Model, places: Places, read: Readers, last: Tensor, total: Tensor, up: Tensor, down: Tensor, run_id: int
) -> None:  # fmt: skip
    """Add rows of `attribution`: one per position and target, but none for the next token where the document ends."""
    own, cap = logits(model, last, read.token_ids), model.logit_softcap
    capped = own if cap is None else cap * torch.tanh(own / cap)
    slope = torch.ones_like(own) if cap is None else 1 - (capped / cap).square()
    residual = own.double() - total[:, :-1]
    for i, target in enumerate(TARGETS):
        there = np.ones(len(own), bool) if target == "final" else places.next_token_ids >= 0
        columns = {
            "logit": own[:, i], "capped_logit": capped[:, i], "slope": slope[:, i], "parts_sum": total[:, i], "residual": residual[:, i],
            "scale": read.scale, "mean_logit": total[:, -1], "neurons_up": up[:, i], "neurons_down": down[:, i],
        }  # fmt: skip
        rows.add(
            "attribution",
            run_id=np.full(there.sum(), run_id, np.int32),
            position_id=places.position_ids[there],
            target=constant_column(target, int(there.sum())),
            token_id=ints(read.token_ids[:, i])[there],
            **{name: floats(column)[there] for name, column in columns.items()},
        )


def add_sources(rows: Rows, model: Model, layer: int, found: Sources, places: Places, read: Readers, attn_scale: Tensor) -> None:
    """Add rows of `attention`, for the stored sources of one layer's heads, and of `head_activity`, for totals over all sources."""
    by_head = torch.einsum("nd,hde->nhe", read.by_part[:, 0], writers(model, layer)) * attn_scale[:, None, None]
    n, n_heads, _ = by_head.shape
    heads = np.tile(np.arange(n_heads, dtype=np.int16), n)
    position_ids, there = np.repeat(places.position_ids, n_heads), (found.index >= 0).flatten().cpu().numpy()
    kept = {
        "weight": found.weight, "value_norm": found.value_norm, "moved": found.moved,
        "final_logit": torch.einsum("nhke,nhe->nhk", found.weighted, by_head),
    }  # fmt: skip
    rows.add(
        "attention",
        position_id=np.repeat(position_ids, N_SOURCES)[there],
        layer=np.full(there.sum(), layer, np.int16),
        head=np.repeat(heads, N_SOURCES)[there],
        rank=np.tile(np.arange(1, N_SOURCES + 1, dtype=np.int16), n * n_heads)[there],
        source_index=ints(found.index).ravel()[there],
        **{name: floats(column).ravel()[there] for name, column in kept.items()},
    )
    totals = {
        "entropy": found.entropy, "first_weight": found.first, "self_weight": found.itself, "previous_weight": found.previous,
        "kept_weight": found.weight.sum(-1), "moved": found.moved_total, "kept_moved": found.moved.sum(-1),
        "final_logit": torch.einsum("nhe,nhe->nh", found.gathered, by_head),
    }  # fmt: skip
    rows.add(
        "head_activity",
        position_id=position_ids,
        layer=np.full(n * n_heads, layer, np.int16),
        head=heads,
        **{name: floats(column).ravel() for name, column in totals.items()},
    )
