"""Checks on long texts: that a text's numbers do not depend on the texts beside it or on what follows, and that the identities hold over its whole length.

A model may choose something by the longest sequence of a batch, as RoPE of the types longrope and dynamic does. In such a model no state belongs to a prefix
alone. An atlas stores states of prefixes: a trace stops at its last position, and triggers are read again without a token.
"""

from bisect import bisect_left

import torch
from torch import Tensor

from ingest.model.checks import (
    CAUSAL,
    SHORT,
    SLACK,
    TOLERANCE,
    layer_identities,
    look_ahead_error,
    probe_tokens,
    relative_error,
    require_small,
    translate_forward_errors,
)
from ingest.model.hooks import KEY, RECORDED, LayerRecord, Listener, listen
from ingest.model.models import Model
from schema.errors import AtlasError

N_SPREAD, N_LOUDEST = 32, 8
"""Number of positions in long texts at which a layer's identities are computed: N_SPREAD across the texts, and the N_LOUDEST with its largest coefficients."""


def places(coefficients: Tensor) -> Tensor:
    """Choose rows of the coefficients [positions, d_ffn]: some spread over them, up to the last, and those with the largest, which show a bound on
    coefficients.
    """
    n = len(coefficients)
    spread = torch.linspace(0, n - 1, min(N_SPREAD, n), device=coefficients.device).round().long()
    return torch.cat([spread, coefficients.abs().amax(-1).topk(min(N_LOUDEST, n)).indices])


def check_places(model: Model, layer: int, record: LayerRecord) -> None:
    """Raise AtlasError, as `check_identities` does, if an identity of a layer fails at one of the `places` in a record whose tensors are [positions, …]."""
    at = places(record["coefficient"])
    layer_identities(model, {layer: LayerRecord(**{site: record[site][at][None] for site in (*RECORDED, KEY)})})


def check_texts(model: Model, length: int) -> None:
    """Raise AtlasError if the identities fail further on in texts of `length` tokens, or if a text's numbers depend on the texts beside it.

    In the latter case the model is not read text by text: its numbers would depend on how much of a text a pass reads.
    """
    if length <= SHORT:
        return
    error = relative_error(check_along(model, length)[:1, :SHORT], last_states(model, probe_tokens(model, length)[:1, :SHORT]))
    if is_small(model, error):
        return
    # no one entry of the configuration says from where on
    n = bisect_left(range(length), True, key=lambda n: not reads_alike(model, n)) - 1
    raise AtlasError(
        f"model {model.name} ({model.model_type}): it reads a short text otherwise beside one of {length} tokens, as with RoPE of the type longrope: "
        f"relative error {error:.3g}, and numbers of a position would depend on what follows it; use --context {n}"
    )


def check_along(model: Model, length: int) -> Tensor:
    """Compute the last resid_post of two probes of `length` tokens, [2, length, d_model].

    Raises AtlasError, as `check_identities` does, if the identities fail there, or if a state depends on a later token.
    """
    last: list[Tensor] = []

    def take(layer: int, record: LayerRecord) -> None:
        check_places(model, layer, LayerRecord(**{site: record[site].flatten(0, 1) for site in (*RECORDED, KEY)}))
        require_small(model, CAUSAL, {layer: look_ahead_error(record["resid_post"][:, : length // 2])})
        # what is kept of a layer is let go when the next one comes
        last[:] = [record["resid_post"].float()]

    with translate_forward_errors(model), listen(model, [Listener(frozenset({*RECORDED, KEY}), take, lambda x: x.to(model.device))]):
        model.backbone(probe_tokens(model, length))
    return last[0]


def neighbour_error(model: Model, length: int) -> float:
    """Compute the relative error between a short text's last resid_post read alone, and read at the beginning of one of two texts of this length.

    It is the largest over positions.
    """
    tokens = probe_tokens(model, length)
    return relative_error(last_states(model, tokens)[:1, :SHORT], last_states(model, tokens[:1, :SHORT]))


def last_states(model: Model, tokens: Tensor) -> Tensor:
    """Compute resid_post of the last layer, [batch, seq, d_model]."""
    found: list[Tensor] = []

    def take(layer: int, record: LayerRecord) -> None:
        if layer == model.n_layers - 1:
            found.append(record["resid_post"].float())

    with translate_forward_errors(model), listen(model, [Listener(frozenset({"resid_post"}), take)]):
        model.backbone(tokens)
    return found[0]


def reads_alike(model: Model, length: int) -> bool:
    """Tell whether a short text has the same states beside texts of this length as alone, up to rounding."""
    return length <= SHORT or is_small(model, neighbour_error(model, length))


def is_small(model: Model, error: float) -> bool:
    """Tell whether an error is within the rounding that comes from computing in other shapes."""
    return error <= TOLERANCE[model.dtype] * (1 if model.dtype == torch.float32 else SLACK)
