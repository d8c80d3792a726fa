"""Recipes: what a reference model is and how it is trained, as numbers."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

CONTEXT = 256
WARMUP_STEPS = 300
WEIGHT_DECAY = 0.1
DROPOUT = 0.0
AVERAGE_DECAY = 0.999
"""Decay of the running mean of the weights, per step."""
PATIENCE = 2
"""Checks within which the validation loss has to fall by `min_fall`."""


@dataclass(frozen=True)
class Recipe:
    """One reference model. All share the kind of tokenizer, the optimizers and what stands above."""

    name: str
    """Name of the model's folder, and of the model on the command line."""
    title: str
    about: str
    """What it is and why, for the card."""
    new_model: Callable[[int], PreTrainedModel]
    """An untrained model, whose weights follow torch's seed, given the one special token, which also pads. What does not ask for gradients stays as it is."""
    vocabulary: int
    batch_size: int
    """Windows of text in a step."""
    n_repeated: int
    """Tokens of the step that follows each step of text, in rows of blocks of random tokens that repeat; 0: there is no such step."""
    learning_rate: float
    check_steps: int
    """Steps between two checks."""
    check_every: int
    """Stride over the validation speeches: a check reads every check_every-th."""
    max_steps: int
    min_fall: float | None
    """Nats by which PATIENCE checks have to lower the validation loss, or training ends; None: it ends at max_steps."""
    is_probed: bool
    """Whether each check also looks for induction in random tokens that repeat."""


def new_optimizers(model: PreTrainedModel, learning_rate: float) -> list[torch.optim.Optimizer]:
    """Make the optimizers: Muon for the matrices of the blocks, AdamW for embeddings, norms and biases."""
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    inner = {name for name, p in trained.items() if ".layers." in name and p.ndim == 2}
    return [
        torch.optim.Muon([trained[name] for name in trained if name in inner], lr=learning_rate, weight_decay=WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW([p for name, p in trained.items() if name not in inner], lr=learning_rate, weight_decay=0.0, betas=(0.9, 0.95)),
    ]
