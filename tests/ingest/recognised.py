"""Types of models without an entry that are recognised, each with the configuration of a tiny model; as a program, the table of their errors."""

import click
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from ingest.model.checks import check_attention, check_identities
from ingest.model.hooks import RECORDED, record_layers
from ingest.model.models import Model, wrap
from tests.ingest.tiny_models import randomise, tiny_tokenizer, token_batch

# d_model is not heads × d_head, and an odd number of heads shares a key, wherever the family lets them
SIZES = {"vocab_size": 300, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None, "max_position_embeddings": 64}
LIKE_LLAMA = {
    **SIZES,
    "hidden_size": 24,
    "intermediate_size": 44,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "tie_word_embeddings": False,
}
OF_A_TOWER = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "image_size": 8, "patch_size": 4}
LATENT = {
    "num_key_value_heads": 4,
    "num_attention_heads": 4,
    "q_lora_rank": 10,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 5,
    "qk_head_dim": 10,
    "head_dim": 4,
}
WHOLE = {name: size for name, size in LIKE_LLAMA.items() if name != "head_dim"}
PAIRS = {**LIKE_LLAMA, "hidden_size": 20, "num_attention_heads": 4}
RECOGNISED = {
    "cohere2": {**PAIRS, "logit_scale": 0.25, "attention_bias": True, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
    "phi3": {**WHOLE, "sliding_window": 4},
    "mpt": {"vocab_size": 300, "d_model": 16, "n_heads": 4, "n_layers": 2, "max_seq_len": 64, "expansion_ratio": 3},
    "cohere": {**WHOLE, "logit_scale": 0.25, "attention_bias": True},
    "internlm3": {**LIKE_LLAMA, "qkv_bias": True, "bias": True},
    "arcee": {**LIKE_LLAMA, "mlp_bias": True},
    "biogpt": {**SIZES, "hidden_size": 24, "intermediate_size": 44, "num_hidden_layers": 2, "num_attention_heads": 6},
    "glm": {**LIKE_LLAMA, "attention_bias": True},
    "glm4": {**LIKE_LLAMA, "attention_bias": True},
    "cwm": {**LIKE_LLAMA, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
    "ernie4_5": {**LIKE_LLAMA, "use_bias": True},
    "exaone4": {**PAIRS, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
    "fuyu": {"text_config": {"model_type": "persimmon", **SIZES, "hidden_size": 24, "intermediate_size": 44, "num_hidden_layers": 2, "num_attention_heads": 6}},
    "gpt-sw3": {"vocab_size": 300, "n_embd": 24, "n_layer": 2, "n_head": 6, "n_positions": 64, "n_inner": 44},
    "gpt_bigcode": {"vocab_size": 300, "n_embd": 24, "n_layer": 2, "n_head": 6, "n_positions": 64, "n_inner": 44},
    "helium": {**WHOLE, "head_dim": 4, "attention_bias": True, "mlp_bias": True},
    "hyperclovax": {**LIKE_LLAMA, "logits_scaling": 4.0, "embedding_multiplier": 3.0, "attention_multiplier": 0.4, "residual_multiplier": 0.3},
    "iquestcoder": LIKE_LLAMA,
    "jais2": {**LIKE_LLAMA, "attention_bias": True, "mlp_bias": True},
    "ministral": {**LIKE_LLAMA, "sliding_window": 4},
    "ministral3": {**LIKE_LLAMA, "sliding_window": 4},
    "nemotron": {**LIKE_LLAMA, "mlp_bias": True, "partial_rotary_factor": 0.5},
    "olmo": WHOLE,
    "olmo3": {**PAIRS, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
    "persimmon": {**SIZES, "hidden_size": 24, "intermediate_size": 44, "num_hidden_layers": 2, "num_attention_heads": 6},
    "seed_oss": {**LIKE_LLAMA, "attention_out_bias": True, "mlp_bias": True},
    "smollm3": {**LIKE_LLAMA, "no_rope_layers": [1, 0]},
    "stablelm": {**WHOLE, "partial_rotary_factor": 0.5, "use_qkv_bias": True, "use_parallel_residual": True},
    "starcoder2": {**WHOLE, "use_bias": True, "sliding_window": 4},
    "vaultgemma": {**LIKE_LLAMA, "query_pre_attn_scalar": 5, "sliding_window": 4, "final_logit_softcapping": 0.5, "attn_logit_softcapping": 5.0},
    "gemma3": {
        "text_config": {**LIKE_LLAMA, "sliding_window": 4, "query_pre_attn_scalar": 5, "layer_types": ["sliding_attention", "full_attention"]},
        "vision_config": OF_A_TOWER,
        "mm_tokens_per_image": 4,
    },
    "phi4_multimodal": {
        **WHOLE,
        "audio_config": {
            "hidden_size": 8,
            "intermediate_size": 8,
            "num_blocks": 1,
            "num_attention_heads": 1,
            "ext_pw_out_channel": 8,
            "nemo_conv_channels": 8,
            "input_size": 8,
        },
        "vision_config": {**OF_A_TOWER, "num_hidden_layers": 2, "crop_size": 8},
    },
    "codegen": {"vocab_size": 300, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "n_inner": 44, "rotary_dim": 4},
    "diffllama": {**LIKE_LLAMA, "num_attention_heads": 4, "head_dim": 6},
    "gemma4_unified_text": LIKE_LLAMA,
    "granite_swa": {**LIKE_LLAMA, "sliding_window": 4},
    "hunyuan_v1_dense": LIKE_LLAMA,
    "lfm2": {**WHOLE, "layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False},
    "minicpm3": {**WHOLE, **LATENT, "scale_depth": 1.4, "scale_emb": 12.0, "dim_model_base": 16},
    "nanochat": WHOLE,
    "youtu": {**WHOLE, **LATENT},
    "bamba": {
        **WHOLE,
        "attn_layer_indices": [1],
        "mamba_n_heads": 6,
        "mamba_d_head": 8,
        "mamba_n_groups": 1,
        "mamba_d_state": 4,
        "mamba_expand": 2,
        "mamba_chunk_size": 8,
    },
    "lfm3": {**WHOLE, "layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False},
    "qwen3_5_text": {
        **LIKE_LLAMA,
        "layer_types": ["linear_attention", "full_attention"],
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
    },
    "recurrent_gemma": {**WHOLE, "lru_width": 24, "attention_window_size": 4, "block_types": ["recurrent", "attention"]},
}
"""Types that are recognised, with the configuration of a tiny model; the first three in `make test`."""

WITHOUT_HEADS = frozenset(list(RECOGNISED)[list(RECOGNISED).index("codegen") :])
"""Those of which the FFN and the stream are recognised, and not where heads look."""

IN_MEMORY = frozenset(["phi4_multimodal", *list(RECOGNISED)[list(RECOGNISED).index("bamba") :]])
"""Those that are not read from files: parts of them take memory that no weight shows, by numbers of their configuration."""


def build(model_type: str) -> PreTrainedModel:
    """A tiny random model of such a type, with attention that gives its weights."""
    config = AutoConfig.for_model(model_type, **RECOGNISED[model_type])
    return randomise(AutoModelForCausalLM.from_config(config, attn_implementation="eager")).eval()


def outputs(hf: PreTrainedModel, path: str, tokens: Tensor) -> Tensor:
    """What a module gave in a forward pass."""
    seen: list[Tensor] = []
    handle = hf.get_submodule(path).register_forward_hook(lambda _m, _a, output: seen.append(output.detach().clone()))
    with torch.no_grad():
        hf(tokens, use_cache=False)
    handle.remove()
    return seen[0].reshape(*tokens.shape, -1)


def measure_by_brute_force(model: Model) -> tuple[float, int]:
    """The largest error of three neurons a layer, relative to the largest number of each, and the number of neurons.

    A value is set to zero in the weights and the model is run again: what the FFN's last projection loses is the coefficient times the value, and what the
    block writes is what that projection gave, through the norm after it, times the factor.
    """
    tokens, error, n = token_batch(2, 9, 5), 0.0, 0
    with record_layers(model, sites=RECORDED) as records:
        model.backbone(tokens)

    def compare(got: Tensor, expected: Tensor) -> None:
        nonlocal error
        error = max(error, float((got - expected).abs().max() / expected.abs().max()))

    for layer in range(model.n_layers):
        ffn, path = model.ffn(layer), f"{model.architecture.stream.backbone}.{model.layer_path(layer)}"
        down = model.hf.get_submodule(f"{path}.{ffn.down}")
        weight = down.weight.data.T if not isinstance(down, Conv1D) else down.weight.data
        after = None if ffn.after_norm is None else model.hf.get_submodule(f"{path}.{ffn.after_norm}")
        before = outputs(model.hf, f"{path}.{ffn.down}", tokens)
        written = before if after is None else after(before)
        compare(records[layer]["ffn_out"], written * model.residual_multiplier)
        for neuron in records[layer]["coefficient"].abs().amax((0, 1)).topk(3).indices.tolist():
            value = weight[neuron].clone()
            weight[neuron] = 0
            changed = outputs(model.hf, f"{path}.{ffn.down}", tokens)
            weight[neuron] = value
            coefficient = records[layer]["coefficient"][..., neuron, None]
            if float(coefficient.abs().max()) > 0.01:
                compare(before - changed, coefficient * value)
                n += 1
    return error, n


def main() -> None:
    """Print a row of Markdown for each type: what is read of it, and the largest relative errors of its identities, of its heads and of brute force."""
    click.echo("| model type | heads | identities | of heads | brute force |\n|---|---|---|---|---|")
    for name in sorted(RECOGNISED):
        model = wrap(build(name), tiny_tokenizer(), name)
        of_heads = "" if model.unread else f"{max(check_attention(model).values()):.0e}"
        brute = measure_by_brute_force(model)[0]
        click.echo(f"| `{name}` | {'not read' if model.unread else 'read'} | {max(check_identities(model).values()):.0e} | {of_heads} | {brute:.0e} |")


if __name__ == "__main__":
    main()
