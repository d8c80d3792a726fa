"""What an atlas is of: the model, and its vocabulary."""

from sqlalchemy import Boolean, Integer, LargeBinary, MetaData, PrimaryKeyConstraint, String

from schema.columns import REGISTRATION, column, table

ORDER = 0


def tables(m: MetaData, _: int) -> None:
    table(
        "model",
        m,
        column("name", String, "Hub id, folder or file the weights came from."),
        column("revision", String, "Commit of the hub repository; for local weights the first 12 digits of weights_sha256."),
        column("model_type", String, "Hugging Face model_type, the key of its entry in ingest/model/architectures.py."),
        column("n_layers", Integer, "Number of transformer blocks."),
        column("d_model", Integer, "Width of the residual stream."),
        column("d_ffn", Integer, "Neurons (keys, values) per layer."),
        column("n_heads", Integer, "Attention heads per layer."),
        column("n_kv_heads", Integer, "Heads that have their own attention keys and values; less than n_heads in grouped-query attention."),
        column("d_head", Integer, "Width of one attention head."),
        column("d_vocab", Integer, "Rows of the output embedding."),
        column("activation", String, "Activation function of the FFN, as the model's configuration names it."),
        column("is_gated", Boolean, "Each neuron has a gate key and an up key (SwiGLU, GeGLU); its coefficient is act(gate·x)·(up·x)."),
        column("is_parallel", Boolean, "Attention and FFN both read resid_pre; resid_mid is then the virtual resid_pre + attn_out."),
        column("is_ffn_output_normed", Boolean, "A norm follows the FFN: each sub-update carries its gain and its frozen 1/rms."),
        column("is_tied", Boolean, "The output embedding is the input embedding."),
        column("dtype", String, "Number format of the forward pass; reductions, norms, scores and softmax are float32."),
        column("weights_sha256", String, "SHA-256 over names, shapes and bytes of all parameters as loaded."),
        column("schema_version", Integer, "Version of the tables in this file."),
        comment="The one model of this atlas.",
        grain=(),
        sort=(),
        filled_by=REGISTRATION,
        bytes_a_row=0,
    )
    table(
        "token",
        m,
        column("token_id", Integer, "Row of the output embedding; also the id the tokenizer gives."),
        column("text", String, "The token's characters, its leading space included; bytes that are no whole character show as ⟨F0 9F⟩."),
        column("bytes", LargeBinary, "The token's exact bytes (UTF-8); null for embedding rows that no token uses.", null=True),
        column("is_special", Boolean, "A control token (BOS, EOS, padding, chat markers), not text."),
        column("starts_word", Boolean, "Begins with white space and continues with a letter or digit."),
        column("is_stop_word", Boolean, "An English function word (list: ingest/text/words.py), in any case, spaces aside."),
        column("is_punctuation", Boolean, "Only punctuation and symbols, spaces aside."),
        PrimaryKeyConstraint("token_id"),
        comment="The vocabulary, one row per row of the output embedding.",
        grain=("token_id",),
        sort=("token_id",),
        filled_by=REGISTRATION,
        bytes_a_row=0,
    )
