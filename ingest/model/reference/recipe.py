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
"""Decay per step of the running mean of the weights."""
PATIENCE = 2
"""Checks within which the validation loss has to fall by `min_fall`."""


@dataclass(frozen=True)
class Recipe:
    """One reference model. All reference models share the kind of tokenizer, the optimizers and the constants of this module."""

    name: str
    """Name of the model's folder, and of the model on the command line."""
    title: str
    about: str
    """What the model is and what it is for, as text of its card."""
    new_model: Callable[[int], PreTrainedModel]
    """Function that builds an untrained model from the id of BOS; its weights follow torch's seed. Parameters that require no gradient are not trained."""
    vocabulary: int
    batch_size: int
    """Number of windows of text in a step."""
    n_repeated: int
    """Number of tokens in the step on repeated blocks of random tokens that follows each step on text; 0 if there is no such step."""
    learning_rate: float
    check_steps: int
    """Number of steps between two checks."""
    check_every: int
    """Stride over the validation speeches: a check reads every check_every-th."""
    max_steps: int
    min_fall: float | None
    """Training ends when PATIENCE checks lower the validation loss by less than this, in nats; None: it ends at max_steps."""
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
