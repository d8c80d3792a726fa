"""The recipes of the reference models, by name."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, OPTConfig, OPTForCausalLM

from ingest.model.reference.recipe import CONTEXT, DROPOUT, Recipe

OPT_VOCABULARY = 8192
ATTENTION_VOCABULARY = 768
ATTENTION_SCALE = 0.06
"""Standard deviation of weights before training."""


def new_opt(bos: int) -> OPTForCausalLM:
    return OPTForCausalLM(
        OPTConfig(
            vocab_size=OPT_VOCABULARY,
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


def new_attention_only(bos: int, n_layers: int) -> LlamaForCausalLM:
    """Build a Llama whose FFNs have one neuron each, with weights that are zero and stay zero: its blocks are attention alone, and the usual code reads it.

    At the start all token rows share a random vector. Without biases, a head can look by position alone, such as at the token before, only through a vector
    that all tokens share; training would find such a vector by itself, but take several times as long.
    """
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=ATTENTION_VOCABULARY,
            hidden_size=128,
            intermediate_size=1,
            num_hidden_layers=n_layers,
            num_attention_heads=4,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=False,
            initializer_range=ATTENTION_SCALE,
            bos_token_id=bos,
            eos_token_id=bos,
            pad_token_id=None,
        )
    )
    with torch.no_grad():
        model.model.embed_tokens.weight += torch.randn(model.config.hidden_size) * ATTENTION_SCALE
    for block in model.model.layers:
        block.post_attention_layernorm.requires_grad_(False)
        for parameter in block.mlp.requires_grad_(False).parameters():
            parameter.zero_()
    return model


OPT = Recipe(
    name="opt-sotu",
    title="the reference model of the activation atlas",
    about="""A small decoder of the OPT type with an ungated ReLU FFN, trained on the Presidents' annual messages. It is made for looking into:
Geva et al. 2021 and 2022 study such a model over the text it was trained on. It is no use for writing speeches.""",
    new_model=new_opt,
    vocabulary=OPT_VOCABULARY,
    batch_size=8,
    n_repeated=0,
    learning_rate=2e-3,
    # half a pass
    check_steps=504,
    check_every=1,
    # forty passes, far beyond where training ends
    max_steps=40_320,
    # a tenth of a percent of perplexity; what a pass that brings less could add is not worth its time
    min_fall=1e-3,
    is_probed=False,
)


def attention_only(n_layers: int) -> Recipe:
    """Build the recipe of a model of attention alone: Elhage et al. 2021 study such models of one and of two layers; induction needs two layers."""
    return Recipe(
        name=f"attention-{n_layers}l-sotu",
        title=f"an attention-only reference model of {n_layers} layer{'s' if n_layers > 1 else ''}",
        about="""A small decoder of the Llama type whose FFNs are zero and were never trained, so that attention is all it has. It is made for looking into:
Elhage et al. 2021 study such models of one and two layers, and two layers are what induction takes. It is no use for writing speeches.""",
        new_model=lambda bos: new_attention_only(bos, n_layers),
        vocabulary=ATTENTION_VOCABULARY,
        batch_size=2,
        n_repeated=512,
        learning_rate=4e-3,
        check_steps=100,
        check_every=8,
        max_steps=6_000,
        min_fall=None,
        is_probed=True,
    )


RECIPES = {recipe.name: recipe for recipe in (OPT, attention_only(1), attention_only(2))}
