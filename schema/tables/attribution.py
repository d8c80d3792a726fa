"""Predictions at traced positions as sums of what each part of the model wrote, and where its heads looked there (Elhage et al. 2021).

Logits are in units of the output head before a soft-cap, with the final norm's scale held; norms are in units of the residual stream.
"""

from sqlalchemy import REAL, Column, Integer, MetaData, SmallInteger, String

from schema import terms
from schema.columns import FilledBy, column, layer, neuron, nonnegative, one_of, position_id, probability, table

ORDER = 55
ATTRIBUTION = FilledBy(
    "attribution",
    "--model … --corpus … --trace 4000 --attribution",
    unit="positions",
    counted="SELECT count(DISTINCT a.position_id) FROM attribution AS a WHERE a.run_id = r.run_id",
)

NO_NEXT = "; null where the document ends"


def tables(m: MetaData, d_model: int) -> None:
    part_tables(m)
    row_tables(m)


def head() -> Column:
    return column("head", SmallInteger, "Attention head of the layer, counted from 0; its address is L<layer>H<head>.")


def part_tables(m: MetaData) -> None:
    table(
        "attribution",
        m,
        column("run_id", Integer, "The run that took the prediction apart.", "run.run_id"),
        position_id(),
        column("target", String, "final: the logit of the model's prediction; next: that of the corpus token that follows, no row where the document ends."),
        column("token_id", Integer, "Whose logit it is.", "token.token_id"),
        column("logit", REAL, "The model's own logit, before a soft-cap."),
        column("capped_logit", REAL, "The logit after the soft-cap; the same where the model has none."),
        column("slope", REAL, "How much the capped logit moves for a small change of the logit: 1 - (capped_logit/cap)², 1 without a cap."),
        column("parts_sum", REAL, "Sum of all parts (contribution) and of the constant, logits."),
        column(
            "residual", REAL, "logit - parts_sum: what rounding, and nothing else, leaves over; more in half precision, where the stream itself is rounded."
        ),
        nonnegative("scale", "What the final norm divides the position's last resid_post by; held for every part."),
        column("mean_logit", REAL, "Mean logit of the whole vocabulary. Probabilities depend on logit - mean_logit alone."),
        column("neurons_up", REAL, "Sum over all neurons of all layers that raise the logit, logits."),
        column("neurons_down", REAL, "The same over those that lower it; with neurons_up all FFNs without their biases."),
        one_of("target", terms.TARGETS),
        comment="A logit at a traced position, and what its parts sum to.",
        grain=("position_id", "target"),
        sort=("position_id", "target"),
        filled_by=ATTRIBUTION,
        bytes_a_row=52,
    )
    table(
        "contribution",
        m,
        position_id(),
        column("kind", String, "What wrote it: token, position, head, attention_bias, ffn (without its bias), ffn_bias; constant: no part of the stream."),
        column("layer", SmallInteger, "Transformer block, counted from 0; null for token, position and constant.", null=True),
        column("head", SmallInteger, "Attention head of the layer, counted from 0; null where the part is no head.", null=True),
        column("final_logit", REAL, "What it adds to the logit of the model's prediction."),
        column("next_logit", REAL, f"What it adds to that of the corpus token that follows{NO_NEXT}.", null=True),
        column("mean_logit", REAL, "What it adds to every logit on average over the vocabulary: final_logit - mean_logit is what the softmax sees."),
        nonnegative("norm", "Its length; null for the constant.", null=True),
        column(
            "erased",
            REAL,
            "Share of the stream that it deletes, -z·x/‖x‖², x the stream that it is added to, resid_pre of heads and resid_mid of FFNs; negative where "
            "it adds to what is there. Of FFNs in parallel blocks earlier releases took resid_pre. Null for token, position and constant.",
            null=True,
        ),
        one_of("kind", terms.PARTS),
        comment="The parts that sum to the last state of a traced position, and what each adds to logits. A head has W_O·b_V of its values in it.",
        grain=("position_id", "kind", "layer", "head"),
        sort=("position_id", "kind", "layer", "head"),
        filled_by=ATTRIBUTION,
        bytes_a_row=22,
    )
    table(
        "neuron_contribution",
        m,
        position_id(),
        column("rank", SmallInteger, "From 1 to 50, by falling modulus of final_logit."),
        layer(),
        neuron(),
        column("final_logit", REAL, "What its sub-update m_i·v_i adds to the logit of the model's prediction."),
        column("next_logit", REAL, f"The same for the corpus token that follows{NO_NEXT}.", null=True),
        comment="The neurons that move a prediction most: a small part of the whole, whose sums are neurons_up and neurons_down of attribution.",
        grain=("position_id", "rank"),
        sort=("position_id", "rank"),
        filled_by=ATTRIBUTION,
        bytes_a_row=12,
    )


def row_tables(m: MetaData) -> None:
    table(
        "attention",
        m,
        position_id(),
        layer(),
        head(),
        column("rank", SmallInteger, "From 1 to 8, by falling moved; fewer where the head sees fewer positions."),
        column("source_index", Integer, "Place in the sequence of the position that is looked at, from 0."),
        probability("weight", "Attention weight, in [0, 1]."),
        nonnegative("value_norm", "‖v‖ of the source, its bias included, before W_O: weight·value_norm is the value-weighted attention of Elhage et al. 2021."),
        nonnegative("moved", "Length of what the source adds to the stream, weight·‖W_O·v‖ with whatever norm or multiplier follows."),
        column("final_logit", REAL, "What the source adds through this head to the logit of the model's prediction."),
        comment="Where a head looks from a traced position: the 8 sources that move most. head_activity holds the totals over all sources.",
        grain=("position_id", "layer", "head", "rank"),
        sort=("position_id", "layer", "head", "rank"),
        filled_by=ATTRIBUTION,
        bytes_a_row=17.7,
    )
    table(
        "head_activity",
        m,
        position_id(),
        layer(),
        head(),
        nonnegative("entropy", "Entropy of the weights, in nats."),
        probability("first_weight", "Weight on index 0, in [0, 1]; many heads rest there, on small values."),
        probability("self_weight", "Weight on the position itself, in [0, 1]."),
        probability("previous_weight", "Weight on the position before it, in [0, 1]; 0 at index 0."),
        probability("kept_weight", "Weight on the sources that attention lists, in [0, 1]."),
        nonnegative("moved", "Sum of moved over all sources."),
        nonnegative("kept_moved", "Sum of moved over the sources that attention lists."),
        column(
            "final_logit",
            REAL,
            "What all sources add to the logit of the model's prediction, rebuilt in float32; contribution has the same from the forward pass.",
        ),
        comment="Totals over the whole attention row of a head at a traced position, so that nobody takes 8 sources for all.",
        grain=("position_id", "layer", "head"),
        sort=("position_id", "layer", "head"),
        filled_by=ATTRIBUTION,
        bytes_a_row=34,
    )
