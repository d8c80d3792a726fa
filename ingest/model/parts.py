"""The parts that sum to the last state of a position, and how each is read as logits (Elhage et al. 2021; DEFINITIONS, section 4).

token + position + Σ over layers of (heads + attention bias + FFN + FFN bias) = last resid_post. All parts are float32, whatever dtype the forward pass ran in.
A head's part is its slice of the output projection's input, times its columns of that projection, times the factors that follow.
"""

import torch
from torch import Tensor

from ingest.model.embedding import position_rows, token_rows
from ingest.model.heads import layer_heads
from ingest.model.hooks import LayerRecord
from ingest.model.models import Model


def head_parts(model: Model, layer: int, gathered: Tensor, attn_scale: Tensor) -> Tensor:
    """Compute what each head adds to the stream, including W_O·b_V (the bias of its values): [..., n_heads·d_head] to [..., n_heads, d_model].

    attn_scale: [...], as recorded.
    """
    outputs = torch.einsum("...hd,hmd->...hm", gathered.float().unflatten(-1, (model.n_heads, -1)), writers(model, layer))
    return outputs * attn_scale[..., None, None]


def layer_parts(model: Model, layer: int, record: LayerRecord) -> dict[str, Tensor]:
    """Compute the parts that a layer adds to the stream, by the kinds of schema/terms.py: [..., n_heads, d_model] for heads, else [..., 1, d_model].

    Kinds that the layer lacks are left out. record: must have gathered, attn_scale, ffn_out and ffn_scale. The FFN's bias is subtracted from ffn_out.
    """
    of_attention, of_ffn = record["attn_scale"][..., None, None], record["ffn_scale"][..., None, None]
    found = {"head": head_parts(model, layer, record["gathered"], record["attn_scale"]), "ffn": record["ffn_out"].float().unsqueeze(-2)}
    if (bias := attention_bias(model, layer)) is not None:
        found["attention_bias"] = bias * of_attention
    if (bias := model.ffn_bias(layer)) is not None:
        found["ffn_bias"] = bias * of_ffn
        found["ffn"] = found["ffn"] - found["ffn_bias"]
    return found


def embedding_parts(model: Model, token_ids: Tensor, indices: Tensor) -> dict[str, Tensor]:
    """Compute the parts that enter the first block, token and position, each [n, 1, d_model]; no position part if positions act in the scores alone."""
    found = {"token": token_rows(model, token_ids)[:, None]}
    if model.architecture.stream.position_embedding is not None:
        found["position"] = position_rows(model, int(indices.max()) + 1)[indices][:, None]
    return found


def writers(model: Model, layer: int) -> Tensor:
    """Compute each head's W_O, times the gain of a norm that follows (without its 1/rms) and the residual multiplier: [n_heads, d_model, d_head]."""
    w_o, gain = layer_heads(model, layer).w_o, model.gain(layer, model.attention(layer).after_norm)
    return w_o * (gain[:, None] if isinstance(gain, Tensor) else gain)


def attention_bias(model: Model, layer: int) -> Tensor | None:
    """Compute the output bias of attention, times the same factors as in `writers`: [d_model]; None if attention has no output bias."""
    bias = layer_heads(model, layer).b_o
    return None if bias is None else bias * model.gain(layer, model.attention(layer).after_norm)


def logits(model: Model, z: Tensor, token_ids: Tensor) -> Tensor:
    """Compute the model's own logits of some tokens at the state z, before a soft-cap: [n, d_model] and [n, k] to [n, k]."""
    found = torch.einsum("nd,nkd->nk", model.final_norm(z.float()), model.unembedding[token_ids])
    if model.head.bias is not None:
        found = found + model.head.bias.float()[token_ids]
    return found / model.logit_divisor


def constants(model: Model, token_ids: Tensor) -> Tensor:
    """Compute the part of a token's logit that does not depend on the state: (e_w·β + b_w) / logit divisor, with β the final norm's bias; [...] to [...]."""
    return constant(model, model.unembedding[token_ids], None if model.head.bias is None else model.head.bias.float()[token_ids])


def constant(model: Model, rows: Tensor, bias: Tensor | None) -> Tensor:
    """Compute `constants` for rows of the output embedding [..., d_model] and of its bias [...], or for their means."""
    beta = getattr(model.final_norm, "bias", None)
    found = rows.new_zeros(rows.shape[:-1]) if beta is None else rows @ beta
    return (found if bias is None else found + bias) / model.logit_divisor


def mean_reader(model: Model) -> tuple[Tensor, Tensor]:
    """Average û of `Model.logit_readers` and the constant of a logit over the vocabulary: [d_model] and [].

    What a part adds to the mean logit changes no probability.
    """
    bias = model.head.bias
    row = model.unembedding.mean(0)
    return model.logit_reader(row), constant(model, row, None if bias is None else bias.float().mean())
