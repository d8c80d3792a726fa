"""The reference model's card: data, recipe and losses, in Markdown."""

import math
from importlib.metadata import version
from typing import NamedTuple

from torch import Tensor

from ingest.model.reference import recipe
from ingest.model.reference.train import State


class Losses(NamedTuple):
    """Mean negative log-likelihood of a split under each model, nats per token."""

    model: float
    unigram: float
    trigram: float


def card(state: State, splits: dict[str, list[Tensor]], losses: dict[str, Losses], seed: int) -> str:
    """The text of README.md in the model's folder."""
    config = state.model.config
    sizes = "\n".join(f"| {name} | {len(s)} | {sum(map(len, s)):,} | {' | '.join(f'{math.exp(x):.1f}' for x in losses[name])} |" for name, s in splits.items())
    course = "\n".join(f"| {step:,} | {training:.3f} | {validation:.3f} |" for step, training, validation in state.losses)
    return f"""---
license: mit
language: en
pipeline_tag: text-generation
---

# opt-sotu: the reference model of the activation atlas

A small decoder of the OPT type with an ungated ReLU FFN, trained on the Presidents' annual messages. It is made for looking into:
Geva et al. 2021 and 2022 study such a model over the text it was trained on. It is no use for writing speeches.

- {config.num_hidden_layers} layers, d_model {config.hidden_size}, d_ffn {config.ffn_dim}, {config.num_attention_heads} heads, context {recipe.CONTEXT}
- pre-norm, ReLU, tied embeddings, {state.model.num_parameters():,} parameters, saved as float16
- byte-level BPE of {recipe.VOCABULARY:,} tokens, trained on the same training speeches; every sequence begins with `<|endoftext|>`

## Data

The annual messages in the package `sotu` {version("sotu")} (public domain), in the order of their dates:
of every ten the fifth is for validation, the tenth for testing.

| split | speeches | tokens | perplexity | unigram | trigram |
|---|---|---|---|---|---|
{sizes}

Perplexities are per token, each speech read in windows of {recipe.CONTEXT} tokens from its start, every token counted, with the weights as saved.
The unigram has add-one counts, the trigram is an interpolated Kneser-Ney with one discount; both count the training speeches.

## Recipe

`python -m ingest.model.reference FOLDER --seed {seed}`, torch {version("torch")}, transformers {version("transformers")}.
Batches of {recipe.BATCH_SIZE} windows of {recipe.CONTEXT} tokens, each pass cut from other places. Muon for the matrices of the blocks, AdamW for the rest,
learning rate {recipe.LEARNING_RATE} after {recipe.WARMUP_STEPS} steps of warm-up,
weight decay {recipe.WEIGHT_DECAY}, dropout {recipe.DROPOUT}, matrix products in bfloat16.
The rate then stays constant; what is measured and saved is the running mean of the weights (decay {recipe.AVERAGE_DECAY} a step).
Its validation loss is measured {recipe.CHECKS_PER_EPOCH} times a pass, training ends with the first pass that lowers it by less than {recipe.MIN_FALL} nats,
and what is saved is the state where it was lowest.

| step | training loss | validation loss |
|---|---|---|
{course}

Losses are in nats per token; the training loss is the mean since the row above, of the weights as they were then.
"""
