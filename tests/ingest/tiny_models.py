"""Tiny seeded random models of every supported architecture, and a tokenizer that fits them."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from ingest.model.architectures import ARCHITECTURES, architectures, tiny_config
from ingest.model.models import Model, wrap

BOS = "<|begin|>"

USUAL = ("gpt2", "llama", "gemma2")
"""Families that `make test` holds every rule against: biases and learned positions; grouped keys and a gate; norms after each part, windows and caps."""


def marked(variants: Iterable, *, is_one: bool = False) -> list:
    """Families, or tuples that begin with one, as parameters: those of other families than `USUAL` are thorough. is_one: a tuple is one parameter."""
    found = (variant if isinstance(variant, tuple) else (variant,) for variant in variants)
    return [pytest.param(*([values] if is_one else values), marks=() if values[0] in USUAL else pytest.mark.thorough) for values in found]


FAMILIES = marked(ARCHITECTURES)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte, a few words, and BOS = 0; at most 300 tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("a", "n"), ("an", "d"), ("Ġ", "and")]
    words = [BOS, *alphabet, *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BOS, eos_token=BOS)


def randomise(hf: PreTrainedModel, seed: int = 0, std: float = 0.3) -> PreTrainedModel:
    """Every parameter normal: no bias is zero and no gain is one, so that nothing left out goes unnoticed."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, parameter in sorted(hf.named_parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * std)
    return hf


def tiny_hf(model_type: str, *, seed: int = 0, dtype: torch.dtype = torch.float32, **changes: object) -> PreTrainedModel:
    """A random transformers model; `changes` go into its configuration (tie_word_embeddings=False, …)."""
    config = tiny_config(model_type, **changes)
    return randomise(AutoModelForCausalLM.from_config(config, attn_implementation=code(model_type, config)), seed).to(dtype).eval()


def code(model_type: str, config: PretrainedConfig) -> str | None:
    """Which of transformers' attention code a model must be asked to take: of some versions not all that they take by themselves has the soft-cap."""
    return None if architectures()[model_type].attention.softcap(config) is None else "eager"


def tiny_model(model_type: str, *, seed: int = 0, dtype: torch.dtype = torch.float32, **changes: object) -> Model:
    return wrap(tiny_hf(model_type, seed=seed, dtype=dtype, **changes), tiny_tokenizer(), f"tiny-{model_type}")


def with_facts(model: Model, **changes: object) -> Model:
    """The same model read through a changed entry; `attention__write="attn"` changes the fact write of attention."""
    entry = model.architecture
    for path, fact in changes.items():
        part, _, name = path.rpartition("__")
        entry = replace(entry, **{part: replace(getattr(entry, part), **{name: fact})} if part else {name: fact})
    return replace(model, architecture=entry)


def token_batch(n_sequences: int, n_positions: int, seed: int = 0) -> torch.Tensor:
    """Random token ids, [n_sequences, n_positions]."""
    return torch.randint(0, 250, (n_sequences, n_positions), generator=torch.Generator().manual_seed(seed))
