"""BLOOM: ALiBi, a norm after the embedding, and q, k and v of each head side by side."""

from transformers import PretrainedConfig

from ingest.model.facts import NONE, VOCABULARY, Architecture, Attention, Ffn, Stream, constant_fact


def objection(config: PretrainedConfig) -> str | None:
    if config.apply_residual_connection_post_layernorm:
        return "apply_residual_connection_post_layernorm adds to the normed state, so the residual stream is not the sum of its updates"
    return None


FAMILY = Architecture(
    stream=Stream(
        backbone="transformer",
        layers="h",
        final_norm="ln_f",
        token_embedding="word_embeddings",
        embedding_norm="word_embeddings_layernorm",
        max_context=NONE,
    ),
    # the attention and FFN modules return their output plus the residual; the dense layers return the update alone
    attention=Attention(
        write="self_attention.dense",
        norm="input_layernorm",
        q="self_attention.query_key_value",
        k="self_attention.query_key_value",
        v="self_attention.query_key_value",
        o="self_attention.dense",
        layout="heads",
        is_alibi=True,
    ),
    ffn=Ffn(
        write="mlp.dense_4h_to_h",
        read="post_attention_layernorm",
        up="mlp.dense_h_to_4h",
        down="mlp.dense_4h_to_h",
        activation=constant_fact("gelu_pytorch_tanh"),
    ),
    objection=objection,
    tiny={**VOCABULARY, "hidden_size": 16, "n_layer": 2, "n_head": 2},
)
