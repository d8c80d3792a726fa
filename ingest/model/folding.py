"""Weights with the adjacent norms folded in, so that products of readers and writers of the residual stream are meaningful.

A norm is N(x) = g ⊙ (x - c·mean x)/s + β, with gain g, bias β, scale s of x, and c = 1 if the norm centres, else 0. For a row k of a weight that reads N(x),
k·N(x) = k̂·x/s + k·β, where k̂ = g ⊙ k, centred if the norm centres. Weights that write are multiplied by the residual multiplier and by the gain of a norm
that follows; that norm's 1/s remains a factor of each position.
Source: Elhage et al. 2021, "handling layer normalization".
"""

from dataclasses import dataclass

from torch import Tensor, nn

from ingest.model.facts import Attention
from ingest.model.heads import for_each_head, layer_heads
from ingest.model.models import Model
from ingest.model.modules import ModuleMissing, bias_of, tensor_of


@dataclass(frozen=True, eq=False)
class FoldedHeads:
    """One layer's folded heads, float32; shared keys and values are repeated for each head that uses them. Score scale, rotation and biases are left out."""

    w_q: Tensor
    """[n_heads, d_head, d_model], the shape of w_k and w_v too."""
    w_k: Tensor
    w_v: Tensor
    w_o: Tensor
    """[n_heads, d_model, d_head]"""
    constant: Tensor
    """Vector that each head writes whatever it attends to, since a pattern's rows sum to 1: [n_heads, d_model]."""


def gain_of(model: Model, norm: nn.Module) -> Tensor | float:
    """Read the gain of a norm, [width]; 1 if the norm has no weight, as in some models of OPT."""
    weight = getattr(norm, "weight", None)
    return 1.0 if weight is None else tensor_of(norm, "weight").to(model.device).float() + model.norm_formula(norm).gain_offset


def fold_norm(model: Model, rows: Tensor, norm: nn.Module | None) -> Tensor:
    """Compute k̂ for rows [..., d_model] that read a norm's output; return the rows unchanged if no norm precedes them."""
    if norm is None:
        return rows
    found = rows * gain_of(model, norm)
    return found - found.mean(-1, keepdim=True) if model.norm_formula(norm).is_centred else found


def layer_norm(model: Model, layer: int, path: str | None) -> nn.Module | None:
    return None if path is None else model.layer_module(layer, path)


def norm_scale(model: Model, x: Tensor, norm: nn.Module) -> Tensor:
    """Compute the scale s by which a norm divides states [..., d_model]: [..., 1]."""
    formula = model.norm_formula(norm)
    centred = x - x.mean(-1, keepdim=True) if formula.is_centred else x
    return (centred.square().mean(-1, keepdim=True) + formula.epsilon).sqrt()


def over_scale(model: Model, x: Tensor, norm: nn.Module | None) -> Tensor:
    """Compute x̂: states [..., d_model] divided by the norm's scale, or unchanged if there is no norm.

    The mean that a centring norm subtracts is not subtracted here: the product with a folded reader does not depend on it.
    """
    return x if norm is None else x / norm_scale(model, x, norm)


def by_formula(model: Model, norm: nn.Module | None, x: Tensor) -> Tensor:
    """Compute N(x) from the norm's gain, bias and epsilon, without the module's code: [..., width] float32; x itself if there is no norm."""
    if norm is None:
        return x
    weight, bias = (None if getattr(norm, name, None) is None else tensor_of(norm, name).to(model.device).float() for name in ("weight", "bias"))
    return model.norm_formula(norm).apply(x, weight, bias)


def write_gain(model: Model, layer: int) -> Tensor | float:
    """Compute the factor on an attention's output on its way to the stream, without the following norm's 1/s: [d_model], or one number."""
    after = layer_norm(model, layer, model.attention(layer).after_norm)
    return model.residual_multiplier * (1.0 if after is None else gain_of(model, after))


def ffn_norm(model: Model, layer: int) -> nn.Module | None:
    """Find the norm between the stream and the FFN's keys; None if the FFN reads the stream itself."""
    ffn = model.ffn(layer)
    if f"{ffn.up}.".startswith(f"{ffn.read}."):
        return None
    try:
        return model.layer_module(layer, ffn.read)
    except ModuleMissing:
        # a family whose blocks have two norms where they run one after the other may have one for both where they run side by side
        mixer = model.mixer(layer)
        if not model.is_parallel or not isinstance(mixer, Attention) or mixer.norm is None:
            raise
        return model.layer_module(layer, mixer.norm)


def folded_heads(model: Model, layer: int) -> FoldedHeads:
    heads, attention, config = layer_heads(model, layer), model.attention(layer), model.hf.config
    norm, written = layer_norm(model, layer, attention.norm), write_gain(model, layer)

    def fold_head_norm(rows: Tensor, path: str | None) -> Tensor:
        """Fold the norm of q or k into its rows [heads, d_head, d_model]: the norm's gain, and its centring if the norm centres each head."""
        own = layer_norm(model, layer, path)
        if own is None:
            return rows
        gain = gain_of(model, own)
        if model.norm_formula(own).is_centred:
            rows = rows - rows.mean(-2, keepdim=True)
        per_row = gain if isinstance(gain, float) else gain.view(-1, heads.w_q.shape[1], 1)
        return rows * per_row

    w_q = fold_head_norm(fold_norm(model, heads.w_q, norm), attention.q_norm(config))
    w_k = fold_head_norm(fold_norm(model, heads.w_k, norm), attention.k_norm(config))
    w_o = heads.w_o * (written if isinstance(written, float) else written[:, None])
    values = heads.w_v @ zeros_or_bias(model, norm) + (0 if heads.b_v is None else heads.b_v)
    constant = (w_o @ for_each_head(model, values)[..., None])[..., 0]
    return FoldedHeads(w_q, for_each_head(model, w_k), for_each_head(model, fold_norm(model, heads.w_v, norm)), w_o, constant)


def zeros_or_bias(model: Model, norm: nn.Module | None) -> Tensor:
    """Read the bias β of a norm, [d_model]; zeros if the norm has no bias, or there is no norm."""
    bias = None if norm is None else bias_of(norm)
    return model.unembedding.new_zeros(model.d_model) if bias is None else bias.to(model.device).float()


def folded_keys(model: Model, layer: int) -> Tensor:
    """Compute the keys (the up keys of a gated FFN) with the norm before them folded in, [d_ffn, d_model]."""
    return fold_norm(model, model.keys(layer), ffn_norm(model, layer))


def folded_gate_keys(model: Model, layer: int) -> Tensor | None:
    gate = model.gate_keys(layer)
    return None if gate is None else fold_norm(model, gate, ffn_norm(model, layer))
