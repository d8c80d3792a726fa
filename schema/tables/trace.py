"""What is kept of sampled positions: states, the logit lens at every site, and the sub-updates of every layer."""

from sqlalchemy import REAL, Integer, MetaData, PrimaryKeyConstraint, SmallInteger, String

from schema import terms
from schema.columns import FilledBy, Vector, added, column, layer, neuron, nonnegative, one_of, position_id, probability, table

ORDER = 50
TRACE = FilledBy("trace", "--model … --corpus … --trace 4000", unit="positions", counted="SELECT count(*) FROM trace AS t WHERE t.run_id = r.run_id")


def tables(m: MetaData, d_model: int) -> None:
    state_tables(m, d_model)
    sub_update_tables(m)


def state_tables(m: MetaData, d_model: int) -> None:
    next_token = "; null where the document ends"
    table(
        "trace",
        m,
        column("run_id", Integer, "The trace run.", "run.run_id"),
        position_id(),
        column("final_token_id", Integer, "The model's prediction: rank 1 of its own logits.", "token.token_id"),
        probability("final_prob", "Its probability, in [0, 1]."),
        probability("next_token_prob", f"Probability of the corpus token that follows, in [0, 1]{next_token}.", null=True),
        column("next_token_rank", Integer, f"Its rank, from 1; ties count lower ids first{next_token}.", null=True),
        comment="One traced position: everything about it is stored.",
        grain=("position_id",),
        sort=("position_id",),
        filled_by=TRACE,
        bytes_a_row=40,
    )
    at_site = (("position_id", "layer", "site"), one_of("site", terms.SITES))
    table(
        "residual_state",
        m,
        position_id(),
        layer(),
        column("site", String, "resid_pre (layer 0 only: later ones are the resid_post before), resid_mid, resid_post; attn_out and ffn_out on request."),
        column("vector", Vector(d_model), "The state or update, [d_model], in the units of the residual stream."),
        PrimaryKeyConstraint("position_id", "layer", "site"),
        at_site[1],
        comment="Vectors of traced positions, each stored once.",
        grain=at_site[0],
        sort=at_site[0],
        filled_by=TRACE,
        bytes_a_row=4 * d_model,
    )
    table(
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
        probability("top_prob", "Its probability, in [0, 1]."),
        probability("final_token_prob", "Probability of the model's final prediction, in [0, 1]."),
        column("final_token_rank", Integer, "Rank of the final prediction, from 1."),
        probability("next_token_prob", f"Probability of the corpus token that follows, in [0, 1]{next_token}.", null=True),
        column("next_token_rank", Integer, f"Rank of that token, from 1{next_token}.", null=True),
        nonnegative("entropy", "Entropy of the whole distribution, in nats."),
        one_of("site", terms.SITES),
        one_of("projection", terms.PROJECTIONS),
        comment="The logit lens at all five sites of every layer.",
        grain=at_site[0],
        sort=at_site[0],
        filled_by=TRACE,
        bytes_a_row=40,
    )
    table(
        "logit_lens_token",
        m,
        position_id(),
        layer(),
        column("site", String, "Where the vector was read."),
        column("rank", SmallInteger, "From 1 to 10."),
        column("token_id", Integer, "The token.", "token.token_id"),
        probability("prob", "Its probability over the whole vocabulary, in [0, 1]."),
        one_of("site", terms.SITES),
        comment="The leading candidates of the logit lens; what the ten leave out is 1 minus their sum.",
        grain=(*at_site[0], "rank"),
        sort=(*at_site[0], "rank"),
        filled_by=TRACE,
        bytes_a_row=11,
    )


def sub_update_tables(m: MetaData) -> None:
    table(
        "coefficient",
        m,
        position_id(),
        layer(),
        neuron(),
        column("coefficient", REAL, "m_i, signed."),
        column("sub_update_norm", REAL, "|m_i|·‖v_i‖, the length of what the neuron adds to the residual stream here."),
        comment="The largest coefficients by sub_update_norm at each traced position and layer; layer_activity holds the totals over all.",
        grain=("position_id", "layer", "neuron"),
        sort=("position_id", "layer", "neuron"),
        filled_by=TRACE,
        bytes_a_row=12,
    )
    agreeing = "Active neurons (coefficient > 0) whose value_top_token_id, raw, is the top token of"
    table(
        "layer_activity",
        m,
        position_id(),
        layer(),
        column("n_active", Integer, "Neurons with coefficient > 0."),
        column("sub_update_norm_total", REAL, "Sum of |m_i|·‖v_i‖ over all neurons of the layer."),
        column("sub_update_norm_dominant", REAL, "The same sum over the 10 dominant."),
        added(TRACE, "raw_ffn_token_id", Integer, "Rank-1 token of E·ffn_out, raw (lowest id on ties)", "token.token_id"),
        added(TRACE, "raw_block_token_id", Integer, "Rank-1 token of E·resid_post, raw", "token.token_id"),
        added(TRACE, "n_agreeing_values_raw", Integer, f"{agreeing} ffn_out, raw too (Geva et al. 2021, figure 8)"),
        added(TRACE, "n_agreeing_values_block_raw", Integer, f"{agreeing} resid_post, raw too (the variant in the authors' code)"),
        column("n_agreeing_values", Integer, f"{agreeing} ffn_out by the logit lens (final_norm): two projections, which the paper's model does not have."),
        column("n_agreeing_values_block", Integer, f"{agreeing} resid_post by the logit lens (final_norm)."),
        column("candidate_rank_after", Integer, "Rank at resid_post, from 1, of the top token of resid_mid; more than 1: the FFN eliminated its candidate."),
        comment="Totals over all neurons of a layer at a traced position, so that nobody takes a truncated sum for the whole.",
        grain=("position_id", "layer"),
        sort=("position_id", "layer"),
        filled_by=TRACE,
        bytes_a_row=24,
    )
    table(
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
            TRACE,
            "candidate_frozen_score",
            REAL,
            "What m_i·v_i adds to the logit of the same w: e_w·(gain ⊙ m_i·v_i), centred for LayerNorm, over the final norm's scale at the position's last "
            "resid_post and the logits' divisor (logits, before a soft-cap)",
        ),
        added(TRACE, "final_frozen_score", REAL, "The same for the model's final prediction"),
        added(TRACE, "next_frozen_score", REAL, "The same for the corpus token that follows; null where the document ends"),
        one_of("selection", terms.SELECTIONS),
        comment="Sub-updates m_i·v_i with their scores (Geva et al. 2022, sections 3 and 5).",
        grain=("position_id", "layer", "selection", "rank"),
        sort=("position_id", "layer", "selection", "rank"),
        filled_by=TRACE,
        bytes_a_row=28,
    )
