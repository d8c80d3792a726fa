"""Loading of a model's weights and tokenizer with transformers. What transformers only logs, such as missing weights, is an error here."""

import hashlib
import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.utils import logging

from ingest.model.gpus import SPREAD, no_gpu
from ingest.model.sources import Source, Unreadable, find_file, reading
from ingest.text.panics import silence_stderr, translate_panics
from ingest.text.tokenizer_bounds import check_settings, check_tokenizer
from ingest.text.tokenizer_trial import try_tokenizer
from schema.errors import AtlasError

WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
"""Files in which transformers looks for a model's weights, in this order."""

OTHER_VOCABULARIES = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.json", "vocab.txt")
"""Files from which transformers makes a tokenizer if there is no tokenizer.json."""

CAUSAL_MASK = re.compile(r"\.attn(\.attention)?\.(masked_)?bias$")
"""Names of buffers in old GPT-Neo and GPT-J checkpoints: the causal mask and its fill value, which today's code creates itself."""


def silence_transformers() -> None:
    """Switch off transformers' progress bars and warnings; the warnings that matter are raised as errors here."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()


def checked_device(device: str) -> torch.device | None:
    """Find the device of this name; None for SPREAD, which is all GPUs. Raises AtlasError if there is no such device."""
    name, _, number = device.partition(":")
    if device != SPREAD and (name not in ("cpu", "cuda") or not re.fullmatch(r"[0-9]{0,4}", number)):
        raise AtlasError(f"device '{device}' is unknown; give auto, cpu, cuda, cuda:N or {SPREAD}")
    n_gpus = torch.cuda.device_count()
    if name != "cpu" and int(number or 0) >= n_gpus:
        why = "" if n_gpus else f": {no_gpu()}"
        raise AtlasError(f"device '{device}' was asked for, but torch {torch.__version__} sees {n_gpus} GPU{'s' * (n_gpus != 1)}{why}")
    return None if name == SPREAD else torch.device(device)


def describe_report_entry(key: object) -> str:
    """Format an entry of transformers' loading report: a name, or a name with the shape of the weight and the shape that the configuration requires."""
    return f"{key[0]} is {list(key[1])} and should be {list(key[2])}" if isinstance(key, tuple) else str(key)


def misfits(report: dict[str, Iterable[object]]) -> str:
    """List the weights that transformers' loading report names as missing (they would be random), left over or of a wrong shape; '' if it names none."""
    found = {
        kind: sorted(key for key in map(describe_report_entry, report[f"{kind}_keys"]) if not CAUSAL_MASK.search(key))
        for kind in ("missing", "unexpected", "mismatched")
    }
    return "; ".join(f"{kind}: {', '.join(keys[:3])}{f' and {len(keys) - 3} more' if len(keys) > 3 else ''}" for kind, keys in found.items() if keys)


def attention_code(config: PretrainedConfig) -> str:
    """Name the attention code that transformers would choose by itself. It is requested by name, because a config.json may name third-party code.

    A model that caps its scores, as Gemma 2 does, takes the eager code: the other leaves the cap out, and transformers before 5.23 chooses it all the same.
    """
    kind: Any = AutoModelForCausalLM._model_mapping[type(config)]
    is_capped = getattr(config, "attn_logit_softcapping", None) is not None
    return "sdpa" if kind._supports_sdpa and not is_capped else "eager"


def require_plain(source: Source) -> None:
    """Raise AtlasError for weights that are quantised."""
    if quantization := source.config.get("quantization_config"):
        method = quantization.get("quant_method") if isinstance(quantization, dict) else quantization
        raise AtlasError(f"model {source.name}: its weights are quantised ({method}); only GGUF files are dequantised on loading")


def config_of(source: Source) -> PretrainedConfig:
    return AutoConfig.for_model(**{key: value for key, value in source.config.items() if not key.endswith("_implementation")})


def meta_model(source: Source, dtype: torch.dtype) -> PreTrainedModel:
    """Build the model that the configuration describes, without weights, so that it takes no memory."""
    with reading("config.json", source.name), torch.device("meta"):
        hf: PreTrainedModel = AutoModelForCausalLM.from_config(config_of(source), dtype=dtype)
    return hf


def n_weight_bytes(source: Source, dtype: torch.dtype) -> int:
    """Count the bytes of a model's weights in memory, from its configuration alone."""
    return sum(p.numel() * p.element_size() for p in meta_model(source, dtype).parameters())


def load_hf(source: Source, dtype: torch.dtype, device_map: str | None) -> PreTrainedModel:
    """Load the weights. Raises AtlasError if some are missing or left over, which transformers would only log, or if the devices of device_map lack room."""
    with reading("weights", source.name):
        config = config_of(source)
        # with `output_loading_info` it returns a pair, which its type does not say
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            source.location,
            # given, it is not parsed again: seconds for the vocabulary in a GGUF file's header
            config=config,
            attn_implementation=attention_code(config),
            revision=source.commit,
            gguf_file=source.gguf_file,
            dtype=dtype,
            device_map=device_map,
            output_loading_info=True,
            # they are named below; transformers would only say that there are some
            ignore_mismatched_sizes=True,
            trust_remote_code=False,
        )
    hf, report = loaded
    wrong = misfits(report)
    if wrong:
        raise Unreadable(f"model {source.name}: its weights do not fit model_type '{source.config['model_type']}': {wrong}")
    require_room(hf, source.name)
    return hf


def require_room(hf: nn.Module, name: str) -> None:
    """Raise AtlasError if a device_map has left weights in main memory or on disk, from where they would be fetched whenever a layer is computed."""
    left = sum(p.numel() for p in hf.parameters() if p.device.type == "meta")
    if left:
        share = left / sum(p.numel() for p in hf.parameters())
        raise AtlasError(f"model {name}: the GPUs have no room for {share:.0%} of its weights; use more GPUs, --dtype bfloat16 or --device cpu")


def load_tokenizer(source: Source) -> PreTrainedTokenizerFast:
    """Load the tokenizer. Raises AtlasError if it exceeds the bounds of `require_bounded`, has no vocabulary or gives no character offsets."""
    require_bounded(source)
    with silence_stderr(), translate_panics(f"model {source.name}: cannot read its tokenizer"), reading("tokenizer", source.name):
        tokenizer: Any = AutoTokenizer.from_pretrained(source.location, revision=source.commit, gguf_file=source.gguf_file, trust_remote_code=False)
    if tokenizer.is_fast and not tokenizer.vocab_size:
        raise AtlasError(f"model {source.name}: its tokenizer has no vocabulary; {source.location} needs a tokenizer.json")
    if not tokenizer.is_fast:
        kind = type(tokenizer).__name__
        raise AtlasError(f"model {source.name}: its tokenizer ({kind}) gives no character offsets; a fast tokenizer (tokenizer.json) is needed")
    return tokenizer


def require_bounded(source: Source) -> None:
    """Raise AtlasError for a tokenizer whose files exceed the limits of `tokenizer_bounds.py`, or that fails on a trial.

    The tokenizer of a GGUF file, or of a model converted from one, is not checked: it is a list of tokens.
    """
    if source.gguf_file is not None or source.is_kept:
        return
    if (settings := find_file(source, "tokenizer_config.json")) is not None:
        with reading("tokenizer_config.json", source.name):
            check_settings(settings)
    if (file := find_file(source, "tokenizer.json")) is not None:
        with reading("tokenizer.json", source.name):
            check_tokenizer(file)
    elif any(find_file(source, name) for name in OTHER_VOCABULARIES):
        # they are converted, and too little is known of them before
        try_tokenizer(
            f"model {source.name}: cannot read its tokenizer", {"pretrained": {"pretrained_model_name_or_path": source.location, "revision": source.commit}}
        )


def hash_weights(hf: nn.Module) -> str:
    """Compute the SHA-256, in hexadecimal, over names, shapes and bytes of all parameters, in order of name; a tied parameter counts once."""
    digest = hashlib.sha256()
    for name, parameter in sorted(hf.named_parameters()):
        digest.update(f"{name} {tuple(parameter.shape)}\n".encode())
        digest.update(parameter.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
