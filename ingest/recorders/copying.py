"""Whether heads raise the logit of the token that they look at, read straight off what they write (Olsson et al. 2022, copying).

Logits here are those of the tokens of a sequence less the vocabulary's mean, the final norm's scale held and before a soft-cap.
"""

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.hooks import PATTERN, LayerRecord
from ingest.model.models import Model
from ingest.model.parts import mean_reader, writers
from ingest.recorders.base import Batch
from ingest.recorders.reading import n_tokens
from ingest.text.sequences import Sequence


class CopyingRecorder:
    """Sums over the destinations of sequences without padding. found: sequence_id → the sums of `raised_logits`, [3, n_layers, n_heads] float64."""

    sites = frozenset({PATTERN, "gathered", "attn_scale", "resid_post"})

    def __init__(self, model: Model) -> None:
        self.model, self.mean = model, mean_reader(model)[0]
        self.found: dict[int, np.ndarray] = {}
        self.sequences: tuple[Sequence, ...] = ()
        self.layers: list[Tensor] = []

    def begin(self, batch: Batch) -> None:
        self.sequences, self.layers = batch.sequences, []

    def take(self, layer: int, record: LayerRecord) -> None:
        device, n = self.model.device, len(self.sequences)
        pattern, gathered, scale = (record[name].to(device).float() for name in (PATTERN, "gathered", "attn_scale"))
        by_head, w_o = gathered.unflatten(0, (n, -1)).unflatten(-1, (self.model.n_heads, -1)), writers(self.model, layer)
        self.layers.append(
            torch.stack([self.of_sequence(*each, w_o) for each in zip(self.sequences, pattern, by_head, scale.unflatten(0, (n, -1)), strict=True)])
        )
        if layer == self.model.n_layers - 1:
            final = self.model.final_scale(record["resid_post"].to(device).float()).unflatten(0, (n, -1))
            # ReLU knows no scale, so what every destination is divided by may come last
            sums = (torch.stack(self.layers, 2) / final[:, None, None, None])[..., 1:].sum(-1, dtype=torch.float64)
            self.found |= {s.sequence_id: each for s, each in zip(self.sequences, sums.cpu().numpy(), strict=True)}

    def of_sequence(self, s: Sequence, weights: Tensor, gathered: Tensor, scale: Tensor, w_o: Tensor) -> Tensor:
        """Compute `raised_logits` of one sequence, the final scale aside. gathered: [seq, n_heads, d_head]; scale: [seq]; w_o: [n_heads, d_model, d_head]."""
        ids = torch.from_numpy(s.token_ids.astype(np.int64)).to(weights.device)
        by_token = torch.einsum("jm,hmd->hjd", self.model.logit_readers(ids) - self.mean, w_o)
        logits = torch.einsum("ihd,hjd->hij", gathered, by_token) * scale[:, None]
        first = np.zeros(n_tokens(s), bool)
        first[np.unique(s.token_ids, return_index=True)[1]] = True
        return raised_logits(weights, logits, torch.from_numpy(first).to(weights.device))

    def columns(self, n_destinations: int) -> dict[str, pa.Array]:
        """Columns of a row of `head_probe` for each layer and head, in their order.

        copying: own/(own + all), which lies in [0, ½], drawn out to [-1, 1]; null where nothing is raised.
        """
        attended, own, every = np.sum(list(self.found.values()), 0).reshape(3, -1)
        whole = own + every
        copying = pa.array(4 * own / np.where(whole == 0, 1, whole) - 1, mask=whole == 0)
        return {"attended_logit": pa.array(attended / n_destinations), "copying": copying}


def raised_logits(weights: Tensor, logits: Tensor, is_first: Tensor) -> Tensor:
    """Compute what a head adds to the logits of the tokens it looks at, how much of it raises them, and how much it raises all tokens: [3, n_heads, seq].

    weights, logits: [n_heads, seq (destination), seq (source)]; is_first: [seq], one place of each token, so that a token that repeats counts once.
    """
    up = logits.clamp_min(0)
    return torch.stack([(weights * logits).sum(-1), (weights * up).sum(-1), up[..., is_first].sum(-1)])
