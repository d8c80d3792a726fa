"""A head's contribution to a prediction's logit, split by the parts that wrote what the head moves (Elhage et al. 2021, virtual attention heads).

A head adds Σ over sources j of a_j·û·W_O(W_V N(x_j) + b_V)/s, with the attention weights a_j and the final norm's scale s. x_j is itself a sum over parts z_j,
so the amount of a part is û·W_O Ŵ_V/s · Σ_j a_j z_j/s_j, exact with patterns and norms held fixed. If the part is an earlier head, the amount is the share of
the virtual head that the two heads form.
"""

import torch
from torch import Tensor

from ingest.model.folding import fold_norm, layer_norm, norm_scale, zeros_or_bias
from ingest.model.heads import layer_heads, pattern_rows
from ingest.model.hooks import LayerRecord, record_layers
from ingest.model.models import Model
from ingest.model.parts import embedding_parts, layer_parts, writers
from ingest.model.readers import Decomposition, Part, Reader

SITES = ("resid_pre", "resid_post", "ffn_out", "ffn_scale", "gathered", "attn_scale")

AT_ONCE = 256
"""Number of sources whose parts are in memory at once: for each source, one vector of d_model numbers per head."""


def logit_by_writer(model: Model, reader: Reader, token_ids: Tensor) -> Decomposition:
    """Split what a head adds to the logit of the model's prediction, at the last position of a sequence, by the parts that wrote what the head moves.

    token_ids: [seq] int64, from the sequence's first position on. The logit is taken before a soft-cap.
    """
    with record_layers(model, lambda x: x[0].to(model.device), SITES) as records:
        model.backbone(token_ids[None])
    own, unit = records[reader.layer], reader.unit
    last = torch.tensor([len(token_ids) - 1], device=model.device)
    pattern = pattern_rows(model, reader.layer, own["resid_pre"], last)[0][0, unit]
    by_value = logit_by_gathered(model, reader, records[-1]["resid_post"][-1:]) * own["attn_scale"][-1]
    norm, heads = layer_norm(model, reader.layer, model.attention(reader.layer).norm), layer_heads(model, reader.layer)
    kv = unit * model.n_kv_heads // model.n_heads
    by_part = by_value @ fold_norm(model, heads.w_v[kv], norm)
    per_source = pattern if norm is None else pattern / norm_scale(model, own["resid_pre"].float(), norm)[:, 0]
    found = by_writer(model, records[: reader.layer], token_ids.to(model.device), by_part, per_source)
    parts = [Part(kind, layer, i if kind == "head" else None, x) for (kind, layer), amounts in found.items() for i, x in enumerate(amounts.tolist())]
    constant = heads.w_v[kv] @ zeros_or_bias(model, norm) + (0 if heads.b_v is None else heads.b_v[kv])
    parts.append(Part("constant", None, None, float(by_value @ constant)))
    total = float(by_value @ own["gathered"][-1].float().unflatten(-1, (model.n_heads, -1))[unit])
    return Decomposition(parts, total, total - sum(part.amount for part in parts))


def logit_by_gathered(model: Model, reader: Reader, last: Tensor) -> Tensor:
    """Compute how much the prediction's logit grows with each of the d_head numbers that a head gathered, [d_head]; attn_scale is left out.

    last: the last state, [1, d_model].
    """
    by_stream = model.logit_readers(model.lens(last).argmax(-1))[0] / model.final_scale(last)
    return by_stream @ writers(model, reader.layer)[reader.unit]


def by_writer(
    model: Model, records: list[LayerRecord], token_ids: Tensor, by_part: Tensor, per_source: Tensor
) -> dict[tuple[str, int | None], Tensor]:  # fmt: skip
    """Map kind and layer to the amounts of their parts, [m] float64, in the order of the forward pass.

    by_part: û·W_O Ŵ_V/s, [d_model]. per_source: a_j/s_j, [seq].
    """
    found: dict[tuple[str, int | None], Tensor] = {}
    indices = torch.arange(len(token_ids), device=token_ids.device)

    def add(layer: int | None, parts: dict[str, Tensor], there: Tensor) -> None:
        for kind, z in parts.items():
            amounts = torch.einsum("smd,d,s->m", z, by_part, per_source[there]).double()
            found[kind, layer] = found.get((kind, layer), 0) + amounts

    for there in indices.split(AT_ONCE):
        add(None, embedding_parts(model, token_ids[there], there), there)
        for layer, record in enumerate(records):
            kept = LayerRecord(**{site: record[site][there] for site in ("ffn_out", "ffn_scale", "gathered", "attn_scale")})
            add(layer, layer_parts(model, layer, kept), there)
    return found
