"""What the reference model is and how it is trained, as numbers."""

import torch
from transformers import OPTConfig, OPTForCausalLM

VOCABULARY = 8192
CONTEXT = 256
BATCH_SIZE = 8
LEARNING_RATE = 2e-3
WARMUP_STEPS = 300
WEIGHT_DECAY = 0.1
DROPOUT = 0.0
CHECKS_PER_EPOCH = 2
AVERAGE_DECAY = 0.999
"""Of the running mean of the weights, a step: about a pass long."""
MIN_FALL = 1e-3
"""Nats by which a pass lowers the validation loss, a tenth of a percent of perplexity; what a pass that brings less could add is not worth its time."""
MAX_EPOCHS = 40
"""A bound for the loop, far beyond where training ends."""


def new_model(bos: int) -> OPTForCausalLM:
    """An untrained model; its weights follow torch's seed. bos: the one special token, which also pads."""
    return OPTForCausalLM(
        OPTConfig(
            vocab_size=VOCABULARY,
            hidden_size=192,
            word_embed_proj_dim=192,
            ffn_dim=768,
            num_hidden_layers=5,
            num_attention_heads=6,
            max_position_embeddings=CONTEXT,
            activation_function="relu",
            do_layer_norm_before=True,
            dropout=DROPOUT,
            attention_dropout=0.0,
            layerdrop=0.0,
            tie_word_embeddings=True,
            bos_token_id=bos,
            eos_token_id=bos,
            pad_token_id=bos,
        )
    )


def new_optimizers(model: OPTForCausalLM) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the blocks, AdamW for embeddings, norms and biases."""
    inner = {id(p) for p in model.model.decoder.layers.parameters() if p.ndim == 2}
    matrices = [p for p in model.parameters() if id(p) in inner]
    others = [p for p in model.parameters() if id(p) not in inner]
    return [
        torch.optim.Muon(matrices, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=LEARNING_RATE, weight_decay=0.0, betas=(0.9, 0.95)),
    ]
