"""A tiny Llama in a GGUF file, written as llama.cpp's converter writes one: rotary pairs beside each other, the vocabulary in the header."""

from pathlib import Path

import gguf
import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerFast

NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def gguf_name(name: str) -> str:
    for theirs, ours in NAMES.items():
        name = name.replace(theirs, ours)
    return name.replace("model.layers", "blk")


def paired(weight: np.ndarray, n_heads: int) -> np.ndarray:
    """Rows of each head with the two of a rotary pair beside each other, where transformers has them half a head apart."""
    d_head = len(weight) // n_heads
    return weight.reshape(n_heads, 2, d_head // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(path: Path, hf: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> Path:
    config, writer = hf.config, gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    words = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(words)
    writer.add_token_types([gguf.TokenType.CONTROL if word == tokenizer.bos_token else gguf.TokenType.NORMAL for word in words])
    writer.add_token_merges(["t h", "th e", "Ġ the", "a n", "an d", "Ġ and"])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.bos_token_id)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, weight in hf.state_dict().items():
        part = name.split(".")[-2]
        tensor = weight.float().numpy()
        writer.add_tensor(gguf_name(name), np.ascontiguousarray(paired(tensor, heads[part]) if part in heads else tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
