"""What transformers' own attention does in a tiny model, read by plain hooks on modules found by their names and not by the entry under test."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from ingest.model.architectures import tiny_config
from ingest.model.models import Model, wrap
from tests.ingest.tiny_models import randomise, tiny_tokenizer

ATTENTION = ("self_attn", "attn", "self_attention", "attention")
OUTPUT = ("o_proj", "out_proj", "dense", "c_proj")


def eager_model(model_type: str, **changes: object) -> Model:
    """A tiny random model that gives its attention weights; parameters large enough for patterns far from uniform."""
    hf = AutoModelForCausalLM.from_config(tiny_config(model_type, attn_implementation="eager", **changes))
    return wrap(randomise(hf, std=0.6), tiny_tokenizer(), f"tiny-{model_type}")


def blocks(model: Model) -> list[nn.Module]:
    """The model's layers: the only list of modules with two entries."""
    return next(list(module) for module in model.hf.modules() if isinstance(module, nn.ModuleList) and len(module) == 2)


def child(module: nn.Module, names: tuple[str, ...]) -> nn.Module:
    """The first descendant with one of these names."""
    return next(found for name, found in module.named_modules() if name.rpartition(".")[2] in names)


@dataclass
class Seen:
    """By layer: the state that enters the block, and what attention adds to the stream before a norm and a multiplier."""

    resid_pre: dict[int, Tensor] = field(default_factory=dict)
    written: dict[int, Tensor] = field(default_factory=dict)
    patterns: tuple[Tensor, ...] = ()


def run(model: Model, token_ids: Tensor) -> Seen:
    seen, handles = Seen(), []
    for layer, block in enumerate(blocks(model)):

        def enter(_: nn.Module, args: tuple, layer: int = layer) -> None:
            seen.resid_pre[layer] = args[0]

        def leave(_: nn.Module, args: tuple, output: tuple, layer: int = layer) -> None:
            # BLOOM's adds the residual, its second argument, within the module
            seen.written[layer] = output[0] - args[1] if model.model_type == "bloom" else output[0]

        handles += [block.register_forward_pre_hook(enter), child(block, ATTENTION).register_forward_hook(leave)]
    with torch.inference_mode():
        seen.patterns = model.hf(token_ids, use_cache=False, output_attentions=True).attentions
    for handle in handles:
        handle.remove()
    return seen


def written_by_one_head(model: Model, token_ids: Tensor, layer: int, head: int) -> Tensor:
    """What the output projection gives, without its bias, where its input holds this head's part alone."""
    output, found = child(child(blocks(model)[layer], ATTENTION), OUTPUT), []

    def keep(_: nn.Module, args: tuple) -> tuple[Tensor]:
        parts = args[0].unflatten(-1, (model.hf.config.num_attention_heads, -1))
        alone = torch.zeros_like(parts)
        alone[..., head, :] = parts[..., head, :]
        return (alone.flatten(-2),)

    handles = [output.register_forward_pre_hook(keep), output.register_forward_hook(lambda _, args, result: found.append(result))]
    with torch.inference_mode():
        model.hf(token_ids, use_cache=False)
    for handle in handles:
        handle.remove()
    return found[0] - (0 if output.bias is None else output.bias)
