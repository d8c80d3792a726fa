"""The parts of the state that enters the first block: each token's row and each position's."""

import torch
from torch import Tensor

from ingest.model.models import Model
from ingest.model.modules import find, in_float32, tensor_of


def token_rows(model: Model, token_ids: Tensor) -> Tensor:
    """Compute each token's part of layer 0's resid_pre, [...] to [..., d_model] float32: its row times the multiplier, through the embedding norm if any."""
    stream = model.architecture.stream
    rows = tensor_of(find(model.backbone_module, stream.token_embedding), "weight")
    found = rows[token_ids.to(rows.device)].to(model.device).float() * stream.embedding_multiplier(model.hf.config)
    if stream.embedding_norm is None:
        return found
    normed: Tensor = in_float32(find(model.backbone_module, stream.embedding_norm), model.device)(found)
    return normed


def position_rows(model: Model, n_positions: int) -> Tensor:
    """Read the parts of positions 0, 1, … in layer 0's resid_pre, [n_positions, d_model] float32; zeros if positions act on attention scores alone."""
    stream = model.architecture.stream
    if stream.position_embedding is None:
        return torch.zeros(n_positions, model.d_model, device=model.device)
    rows = tensor_of(find(model.backbone_module, stream.position_embedding), "weight")
    return rows[stream.position_offset : stream.position_offset + n_positions].to(model.device).float()
