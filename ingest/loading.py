"""Read a model's weights and tokenizer from its files with transformers, checking what transformers only logs."""

import hashlib
import re
from collections.abc import Iterable

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast
from transformers.utils import logging

from ingest.sources import Source, reading
from schema.errors import AtlasError

CAUSAL_MASK = re.compile(r"\.attn(\.attention)?\.(masked_)?bias$")
"""Buffers of old GPT-Neo and GPT-J checkpoints: the causal mask and its filling, which the code makes anew today."""


def silence_transformers() -> None:
    """No progress bars and no warnings; what matters in them is raised as an error here."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()


def checked_device(device: str) -> torch.device:
    name, _, number = device.partition(":")
    if name not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise AtlasError(f"device '{device}' is unknown; give cpu, cuda, cuda:N or auto")
    if name == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise AtlasError(f"device '{device}' was asked for, but torch {torch.__version__} sees {torch.cuda.device_count()} GPUs")
    return torch.device(device)


def misfits(report: dict[str, Iterable[object]]) -> str:
    """What transformers' loading report says is missing (and would be random), left over or of another shape; empty if nothing."""
    found = {kind: sorted(key for key in map(str, report[f"{kind}_keys"]) if not CAUSAL_MASK.search(key)) for kind in ("missing", "unexpected", "mismatched")}
    return "; ".join(f"{kind}: {', '.join(keys[:3])}{f' and {len(keys) - 3} more' if len(keys) > 3 else ''}" for kind, keys in found.items() if keys)


def load_hf(source: Source, dtype: torch.dtype, device_map: str | None) -> PreTrainedModel:
    """The weights; AtlasError if some are quantised, missing or left over, which transformers would only log, or do not fit where device_map says."""
    if "quantization_config" in source.config:
        method = source.config["quantization_config"].get("quant_method")
        raise AtlasError(f"model {source.name}: its weights are quantised ({method}); only GGUF files are dequantised on loading")
    with reading("weights", source.name):
        hf, report = AutoModelForCausalLM.from_pretrained(
            source.location,
            # given, it is not parsed again: seconds for the vocabulary in a GGUF file's header
            config=AutoConfig.for_model(**source.config),
            revision=source.commit,
            gguf_file=source.gguf_file,
            dtype=dtype,
            device_map=device_map,
            output_loading_info=True,
            trust_remote_code=False,
        )
    wrong = misfits(report)
    if wrong:
        raise AtlasError(f"model {source.name}: its weights do not fit model_type '{source.config['model_type']}': {wrong}")
    require_room(hf, source.name)
    return hf


def require_room(hf: nn.Module, name: str) -> None:
    """AtlasError if a device_map has left weights on the processor or the disk, to be fetched whenever a layer is computed."""
    left = sum(p.numel() for p in hf.parameters() if p.device.type == "meta")
    if left:
        share = left / sum(p.numel() for p in hf.parameters())
        raise AtlasError(f"model {name}: the GPUs have no room for {share:.0%} of its weights; use more of them, --dtype bfloat16 or --device cpu")


def load_tokenizer(source: Source) -> PreTrainedTokenizerFast:
    with reading("tokenizer", source.name):
        tokenizer = AutoTokenizer.from_pretrained(source.location, revision=source.commit, gguf_file=source.gguf_file, trust_remote_code=False)
    if not tokenizer.is_fast:
        kind = type(tokenizer).__name__
        raise AtlasError(f"model {source.name}: its tokenizer ({kind}) gives no character offsets; a fast tokenizer (tokenizer.json) is needed")
    return tokenizer


def hash_weights(hf: nn.Module) -> str:
    """SHA-256, in hexadecimal, over names, shapes and bytes of all parameters, in order of name; a tied one counts once."""
    digest = hashlib.sha256()
    for name, parameter in sorted(hf.named_parameters()):
        digest.update(f"{name} {tuple(parameter.shape)}\n".encode())
        digest.update(parameter.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
