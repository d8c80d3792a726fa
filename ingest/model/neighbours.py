"""Checks on long texts: the states of a prefix do not depend on what follows or on other texts in the batch, and the identities hold at all positions.

Some models choose settings by the length of the longest sequence in a batch: RoPE of the types longrope and dynamic chooses its frequencies so. In such a
model a state does not follow from its prefix alone. An atlas needs states that do: a trace ends at its last position, and triggers are read again with a
token removed.
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
"""Numbers of positions of long texts at which a layer's identities are checked: N_SPREAD are evenly spaced, N_LOUDEST have the largest coefficients."""


def places(coefficients: Tensor) -> Tensor:
    """Choose positions, [n], by the coefficients [positions, d_ffn]: some evenly spaced, the last included, and those with the largest coefficients.

    If the model bounds its coefficients, the identities fail at the largest.
    """
    n = len(coefficients)
    spread = torch.linspace(0, n - 1, min(N_SPREAD, n), device=coefficients.device).round().long()
    return torch.cat([spread, coefficients.abs().amax(-1).topk(min(N_LOUDEST, n)).indices])


def check_places(model: Model, layer: int, record: LayerRecord) -> None:
    """Raise AtlasError, as `check_identities` does, if an identity of a layer fails at a position that `places` chooses. record: tensors of [positions, …]."""
    at = places(record["coefficient"])
    layer_identities(model, {layer: LayerRecord(**{site: record[site][at][None] for site in (*RECORDED, KEY)})})


def check_texts(model: Model, length: int) -> None:
    """Raise AtlasError if the identities fail at a position of texts of `length` tokens, or if states at a text's beginning depend on the text's length.

    In the latter case reading one text at a time would not help: the states would depend on how much of the text one pass reads.
    """
    if length <= SHORT:
        return
    error = relative_error(check_along(model, length)[:1, :SHORT], last_states(model, probe_tokens(model, length)[:1, :SHORT]))
    if is_small(model, error):
        return
    # no one entry of the configuration says from where on
    n = bisect_left(range(length), True, key=lambda n: not reads_alike(model, n)) - 1
    raise AtlasError(
        f"model {model.name} ({model.model_type}): states at the beginning of a text of {length} tokens differ from those of the beginning read alone "
        f"(relative error {error:.3g}), as with RoPE of the type longrope: numbers of a position would depend on what follows it; use --context {n}"
    )


def check_along(model: Model, length: int) -> Tensor:
    """Compute the last resid_post of two probes of `length` tokens, [2, length, d_model].

    Raises AtlasError, as `check_identities` does, if an identity fails on these probes, or if a state depends on a later token.
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
    """Compute the largest relative error, over positions, between a short text's last resid_post read alone and read as the beginning of a longer text.

    length: tokens of the longer text, which is read in one batch with another text of this length.
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
    """Tell whether a short text has the same states, up to rounding, read alone and read as the beginning of a text of this length."""
    return length <= SHORT or is_small(model, neighbour_error(model, length))


def is_small(model: Model, error: float) -> bool:
    """Tell whether an error is no larger than what rounding causes when the same states are computed in a batch of another shape."""
    return error <= TOLERANCE[model.dtype] * (1 if model.dtype == torch.float32 else SLACK)
