"""Every table of an atlas, as SQLAlchemy metadata: the one source of the DDL, the data dictionary and the generated audits.

`Table.info["grain"]` names the columns that identify a row; `Table.info["sort"]` the order rows are written in at publication
(zone maps replace indexes: no secondary index, ever). `Column.info["references"]` is a foreign key kept by audit.
Both are audits and not constraints on the big tables, where an index costs twenty times the insert and does not exist on a lake.
"""

from sqlalchemy import (
    REAL,
    BigInteger,
    Boolean,
    DateTime,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
)

from schema import terms
from schema.columns import Counts, Json, Levels, Vector, added, column, corpus_id, layer, neuron, one_of, position_id
from schema.map_tables import map_tables
from schema.paper_tables import paper_tables


def model_tables(m: MetaData) -> None:
    Table(
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
        info={"grain": (), "sort": ()},
    )
    Table(
        "token",
        m,
        column("token_id", Integer, "Row of the output embedding; also the id the tokenizer gives."),
        column("text", String, "The token's characters, its leading space included; bytes that are no whole character show as U+FFFD."),
        column("bytes", LargeBinary, "The token's exact bytes (UTF-8); null for embedding rows that no token uses.", null=True),
        column("is_special", Boolean, "A control token (BOS, EOS, padding, chat markers), not text."),
        column("starts_word", Boolean, "Begins with white space and continues with a letter or digit."),
        column("is_stop_word", Boolean, "An English function word (list: ingest/text/words.py), in any case, spaces aside."),
        column("is_punctuation", Boolean, "Only punctuation and symbols, spaces aside."),
        PrimaryKeyConstraint("token_id"),
        comment="The vocabulary, one row per row of the output embedding.",
        info={"grain": ("token_id",), "sort": ("token_id",)},
    )


def corpus_tables(m: MetaData) -> None:
    Table(
        "corpus",
        m,
        column("corpus_id", Integer, "Counted from 0 in the order of ingest."),
        column("name", String, "What the user called for: dataset id, file pattern or package."),
        column("split", String, "Part of the corpus (train, validation, …); 'all' where it has none."),
        column("source", Json, "JSON: where the text is and how sequences were cut from it (context, BOS rule, cut, limits)."),
        column("revision", String, "Commit of a hub dataset, version of a package; null for local files.", null=True),
        column("sha256", String, "SHA-256 over names, metadata and texts of the documents, in order."),
        column("n_documents", BigInteger, "Documents in the corpus, all runs finished."),
        column("n_positions", BigInteger, "Positions in the corpus, all runs finished."),
        PrimaryKeyConstraint("corpus_id"),
        comment="One corpus or split, cut into sequences in one way.",
        info={"grain": ("corpus_id",), "sort": ("corpus_id",)},
    )
    Table(
        "document",
        m,
        column("document_id", BigInteger, "Unique over all corpora; consecutive within one."),
        column("corpus_id", Integer, "The corpus it belongs to.", "corpus.corpus_id"),
        column("name", String, "File name, row number or the like, as the source gives it."),
        column("metadata", Json, "JSON object of what the source says of the document (year, president, …)."),
        column("text", String, "The whole text, stored once; everything else slices it by character offsets."),
        comment="One text of a corpus.",
        info={"grain": ("document_id",), "sort": ("document_id",)},
    )
    Table(
        "sequence",
        m,
        column("sequence_id", BigInteger, "One forward context; unique over all corpora."),
        column("document_id", BigInteger, "The document it was cut from.", "document.document_id"),
        column("first_position_id", BigInteger, "position_id of its position with index 0."),
        column("n_positions", Integer, "Its length in tokens, BOS included."),
        comment="A run of tokens the model read in one context.",
        info={"grain": ("sequence_id",), "sort": ("sequence_id",)},
    )
    Table(
        "position",
        m,
        column("position_id", BigInteger, "Unique over all corpora; consecutive within a sequence."),
        column("sequence_id", BigInteger, "The sequence it lies in.", "sequence.sequence_id"),
        column("index", Integer, "Place in the sequence, from 0. States at index 0 have huge norms in most models: flag or leave out."),
        column("token_id", Integer, "The token read here.", "token.token_id"),
        column("next_token_id", Integer, "The corpus token that follows (also across a cut); null at the end of a document.", "token.token_id", null=True),
        column("char_start", Integer, "Offset of the token's first character in document.text, from 0."),
        column("char_end", Integer, "Offset after its last character; equal to char_start for a token with no text of its own (BOS)."),
        comment="One token occurrence.",
        info={"grain": ("position_id",), "sort": ("position_id",)},
    )


def run_tables(m: MetaData) -> None:
    Table(
        "run",
        m,
        column("run_id", Integer, "Counted from 0 in the order of ingest."),
        column(
            "kind",
            String,
            "weights (from the weights alone), sweep (every position), trace (sampled positions), paper (what figures need beyond them) or map (a layout).",
        ),
        column("corpus_id", Integer, "The corpus it read; null for weights and map, which are of the model or of all traces.", "corpus.corpus_id", null=True),
        column("settings", Json, "JSON: everything needed to repeat the run."),
        column("versions", Json, "JSON: versions of python, torch, transformers, duckdb and this project."),
        column("seed", BigInteger, "Seed of every random choice in the run."),
        column("device", String, "Where the forward pass ran."),
        column("n_shards", Integer, "Shards the run consists of."),
        column("started_at", DateTime(timezone=True), "When the run was first started, UTC."),
        column("finished_at", DateTime(timezone=True), "When its last shard was loaded, UTC; null while running.", null=True),
        column("status", String, "running (resumable) or finished."),
        PrimaryKeyConstraint("run_id"),
        one_of("kind", terms.RUN_KINDS),
        one_of("status", terms.RUN_STATUSES),
        comment="One ingest run.",
        info={"grain": ("run_id",), "sort": ("run_id",)},
    )
    Table(
        "shard",
        m,
        column("run_id", Integer, "The run it belongs to.", "run.run_id"),
        column("shard_id", Integer, "Counted from 0 within the run."),
        column("n_rows", Json, "JSON: rows of each table in the shard as the worker wrote it."),
        column("sha256", String, "SHA-256 over the shard's files."),
        column("worker", String, "Host and process that computed it."),
        column("committed_at", DateTime(timezone=True), "When its transaction was committed, UTC."),
        PrimaryKeyConstraint("run_id", "shard_id"),
        comment="The manifest: one row per shard that is in the atlas, written in the same transaction as its data.",
        info={"grain": ("run_id", "shard_id"), "sort": ("run_id", "shard_id")},
    )


def weight_tables(m: MetaData) -> None:
    Table(
        "neuron",
        m,
        layer(),
        neuron(),
        column("key_norm", REAL, "Length of the key (for gated FFNs of the up key)."),
        column("gate_norm", REAL, "Length of the gate key; null if the FFN is not gated.", null=True),
        column("value_norm", REAL, "Length of the value, the gain of a following norm folded in."),
        column("key_value_cosine", REAL, "Cosine of key (up key) and value, in [-1, 1]; strongly negative: the neuron erases what it reads."),
        column("gate_value_cosine", REAL, "Cosine of gate key and value, in [-1, 1]; null if not gated.", null=True),
        column("value_max_prob", REAL, "Largest probability of softmax(E·value), raw projection, coefficient 1, in [0, 1]."),
        column("value_top_token_id", Integer, "Token of that probability (lowest id on ties).", "token.token_id"),
        comment="One FFN neuron: a key and a value (Geva et al. 2021, section 2).",
        info={"grain": ("layer", "neuron"), "sort": ("layer", "neuron")},
    )
    Table(
        "value_token",
        m,
        layer(),
        neuron(),
        column("direction", String, "promoted (largest scores) or suppressed (smallest), for a positive coefficient."),
        column("rank", SmallInteger, "From 1; ties go to the lowest token_id."),
        column("token_id", Integer, "The token.", "token.token_id"),
        column("score", REAL, "e_token·value, raw projection, coefficient 1 (logit units)."),
        column("prob", REAL, "softmax(E·value) at the token, in [0, 1]."),
        one_of("direction", terms.DIRECTIONS),
        comment="The tokens each value promotes and suppresses most (Geva et al. 2022, section 3).",
        info={"grain": ("layer", "neuron", "direction", "rank"), "sort": ("layer", "neuron", "direction", "rank")},
    )
    Table(
        "value_neighbour",
        m,
        layer(),
        neuron(),
        column("rank", SmallInteger, "From 1 to 20, by cosine; ties go to the lower layer and neuron."),
        column("neighbour_layer", SmallInteger, "Layer of the nearby value."),
        column("neighbour_neuron", Integer, "Neuron of the nearby value."),
        column("cosine", REAL, "Cosine of the two values, in [-1, 1]."),
        comment="The values of the whole model that point most nearly the same way as each value.",
        info={"grain": ("layer", "neuron", "rank"), "sort": ("layer", "neuron", "rank")},
    )


def sweep_tables(m: MetaData) -> None:
    edges = f"{terms.HISTOGRAM_BINS} fixed bins, two an octave from 2^{terms.HISTOGRAM_MIN_EXPONENT} to 2^{terms.HISTOGRAM_MAX_EXPONENT} for each sign"
    Table(
        "neuron_statistics",
        m,
        corpus_id(),
        layer(),
        neuron(),
        column("n_positions", BigInteger, "Positions summed over: every one of the corpus, index 0 too, where the coefficients of many models are huge."),
        column(
            "n_active", BigInteger, "Positions with coefficient > 0. For ReLU that is 'active' as the papers mean it; for other activations it is the sign."
        ),
        column("mean", Double, "Mean coefficient, index 0 too."),
        column("std", Double, "Standard deviation of the coefficient over the positions (divided by n), index 0 too."),
        column("min", REAL, "Smallest coefficient, index 0 too."),
        column("max", REAL, "Largest coefficient, index 0 too."),
        column("histogram", Counts, f"Counts of coefficients in {edges}; view histogram_bin has the edges."),
        comment="Coefficients of each neuron over a whole corpus, the first position of each sequence (index 0) included.",
        info={"grain": ("corpus_id", "layer", "neuron"), "sort": ("corpus_id", "layer", "neuron")},
    )
    Table(
        "trigger",
        m,
        corpus_id(),
        layer(),
        neuron(),
        column("tail", String, "max: largest coefficients, rank 1 the largest; min: smallest, rank 1 the smallest."),
        column("rank", SmallInteger, "From 1 to k; ties go to the smaller position_id."),
        column("position_id", BigInteger, "Where the coefficient was read: the prefix ends here.", "position.position_id"),
        column("coefficient", REAL, "m_i, signed: what multiplies the value."),
        column(
            "preceding",
            Levels,
            f"m_i at up to {terms.PRECEDING} tokens before, the farthest first, in units of preceding_scale; null after rank {terms.PRECEDING_RANKS}.",
            null=True,
        ),
        column("preceding_scale", REAL, "The largest |m_i| among them, divided by 127; null after that rank.", null=True),
        one_of("tail", terms.TAILS),
        comment="The exact top-k positions of every key over a corpus, both tails (Geva et al. 2021, section 3).",
        info={"grain": ("corpus_id", "layer", "neuron", "tail", "rank"), "sort": ("corpus_id", "layer", "neuron", "tail", "rank")},
    )


def trace_tables(m: MetaData, d_model: int) -> None:
    next_token = "; null where the document ends"
    Table(
        "trace",
        m,
        column("run_id", Integer, "The trace run.", "run.run_id"),
        position_id(),
        column("final_token_id", Integer, "The model's prediction: rank 1 of its own logits.", "token.token_id"),
        column("final_prob", REAL, "Its probability, in [0, 1]."),
        column("next_token_prob", REAL, f"Probability of the corpus token that follows, in [0, 1]{next_token}.", null=True),
        column("next_token_rank", Integer, f"Its rank, from 1; ties count lower ids first{next_token}.", null=True),
        comment="One traced position: everything about it is stored.",
        info={"grain": ("position_id",), "sort": ("position_id",)},
    )
    at_site = (("position_id", "layer", "site"), one_of("site", terms.SITES))
    Table(
        "residual_state",
        m,
        position_id(),
        layer(),
        column("site", String, "resid_pre (layer 0 only: later ones are the resid_post before), resid_mid, resid_post; attn_out and ffn_out on request."),
        column("vector", Vector(d_model), "The state or update, [d_model], in the units of the residual stream."),
        PrimaryKeyConstraint("position_id", "layer", "site"),
        at_site[1],
        comment="Vectors of traced positions, each stored once.",
        info={"grain": at_site[0], "sort": at_site[0]},
    )
    Table(
        "logit_lens",
        m,
        position_id(),
        layer(),
        column("site", String, "Where the vector was read."),
        column("projection", String, "Always final_norm here: E·final_norm(vector), the norm's statistics from the vector itself, soft-capping included."),
        column(
            "top_token_id",
            Integer,
            "Rank-1 token (lowest id on ties). At resid_mid the candidate, at resid_post of the last layer the final prediction.",
            "token.token_id",
        ),
        column("top_prob", REAL, "Its probability, in [0, 1]."),
        column("final_token_prob", REAL, "Probability of the model's final prediction, in [0, 1]."),
        column("final_token_rank", Integer, "Rank of the final prediction, from 1."),
        column("next_token_prob", REAL, f"Probability of the corpus token that follows, in [0, 1]{next_token}.", null=True),
        column("next_token_rank", Integer, f"Rank of that token, from 1{next_token}.", null=True),
        column("entropy", REAL, "Entropy of the whole distribution, in nats."),
        one_of("site", terms.SITES),
        one_of("projection", terms.PROJECTIONS),
        comment="The logit lens at all five sites of every layer.",
        info={"grain": at_site[0], "sort": at_site[0]},
    )
    Table(
        "logit_lens_token",
        m,
        position_id(),
        layer(),
        column("site", String, "Where the vector was read."),
        column("rank", SmallInteger, "From 1 to 10."),
        column("token_id", Integer, "The token.", "token.token_id"),
        column("prob", REAL, "Its probability over the whole vocabulary, in [0, 1]."),
        one_of("site", terms.SITES),
        comment="The leading candidates of the logit lens; what the ten leave out is 1 minus their sum.",
        info={"grain": (*at_site[0], "rank"), "sort": (*at_site[0], "rank")},
    )


def sub_update_tables(m: MetaData) -> None:
    Table(
        "coefficient",
        m,
        position_id(),
        layer(),
        neuron(),
        column("coefficient", REAL, "m_i, signed."),
        column("sub_update_norm", REAL, "|m_i|·‖v_i‖, the length of what the neuron adds to the residual stream here."),
        comment="The largest coefficients by sub_update_norm at each traced position and layer; layer_activity holds the totals over all.",
        info={"grain": ("position_id", "layer", "neuron"), "sort": ("position_id", "layer", "neuron")},
    )
    agreeing = "Active neurons (coefficient > 0) whose value_top_token_id, raw, is the top token of"
    Table(
        "layer_activity",
        m,
        position_id(),
        layer(),
        column("n_active", Integer, "Neurons with coefficient > 0."),
        column("sub_update_norm_total", REAL, "Sum of |m_i|·‖v_i‖ over all neurons of the layer."),
        column("sub_update_norm_dominant", REAL, "The same sum over the 10 dominant."),
        added("trace", "raw_ffn_token_id", Integer, "Rank-1 token of E·ffn_out, raw (lowest id on ties)", "token.token_id"),
        added("trace", "raw_block_token_id", Integer, "Rank-1 token of E·resid_post, raw", "token.token_id"),
        added("trace", "n_agreeing_values_raw", Integer, f"{agreeing} ffn_out, raw too (Geva et al. 2021, figure 8)"),
        added("trace", "n_agreeing_values_block_raw", Integer, f"{agreeing} resid_post, raw too (the variant in the authors' code)"),
        column("n_agreeing_values", Integer, f"{agreeing} ffn_out by the logit lens (final_norm): two projections, which the paper's model does not have."),
        column("n_agreeing_values_block", Integer, f"{agreeing} resid_post by the logit lens (final_norm)."),
        column("candidate_rank_after", Integer, "Rank at resid_post, from 1, of the top token of resid_mid; more than 1: the FFN eliminated its candidate."),
        comment="Totals over all neurons of a layer at a traced position, so that nobody takes a truncated sum for the whole.",
        info={"grain": ("position_id", "layer"), "sort": ("position_id", "layer")},
    )
    Table(
        "sub_update",
        m,
        position_id(),
        layer(),
        column("selection", String, "dominant: the 10 largest by sub_update_norm; random: 10 others of the layer, drawn by seed."),
        column("rank", SmallInteger, "From 1, by sub_update_norm within the selection."),
        neuron(),
        column("coefficient", REAL, "m_i, signed."),
        column("sub_update_norm", REAL, "|m_i|·‖v_i‖."),
        column(
            "candidate_score",
            REAL,
            "m_i·(e_w·v_i), raw, for w = top token at resid_mid: its sign says whether w is promoted, its size is not in logits where a final norm follows.",
        ),
        column("final_score", REAL, "The same for the model's final prediction."),
        column("next_score", REAL, "The same for the corpus token that follows; null where the document ends.", null=True),
        added(
            "trace",
            "candidate_frozen_score",
            REAL,
            "What m_i·v_i adds to the logit of the same w: e_w·(gain ⊙ m_i·v_i), centred for LayerNorm, over the final norm's scale at the position's last "
            "resid_post and the logits' divisor (logits, before a soft-cap)",
        ),
        added("trace", "final_frozen_score", REAL, "The same for the model's final prediction"),
        added("trace", "next_frozen_score", REAL, "The same for the corpus token that follows; null where the document ends"),
        one_of("selection", terms.SELECTIONS),
        comment="Sub-updates m_i·v_i with their scores (Geva et al. 2022, sections 3 and 5).",
        info={"grain": ("position_id", "layer", "selection", "rank"), "sort": ("position_id", "layer", "selection", "rank")},
    )


def metadata(d_model: int) -> MetaData:
    """All tables of an atlas whose residual stream is `d_model` wide."""
    m = MetaData()
    model_tables(m)
    corpus_tables(m)
    run_tables(m)
    weight_tables(m)
    sweep_tables(m)
    trace_tables(m, d_model)
    sub_update_tables(m)
    paper_tables(m)
    map_tables(m)
    return m
