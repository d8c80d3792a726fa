"""What arms predict."""

from sqlalchemy import Double, Integer, SmallInteger

from schema.columns import column, nonnegative, probability
from schema.experiments.declaring import Declare, arm_id, experiment_id, index, maybe, prompt_id

ANSWER = "the answer: the prompt's, or at this index the base arm's likeliest token where the prompt names none"


def declare_tables(declare: Declare) -> None:
    declare(
        "outcome",
        experiment_id(),
        arm_id(),
        prompt_id(),
        index("Index of the token that was read last; the prediction is of the next one."),
        column("top_token_id", Integer, "The likeliest next token."),
        probability("top_prob", "Its probability, in [0, 1]."),
        maybe("answer_logit", f"Logit of {ANSWER}."),
        maybe("answer_logprob", f"Log probability of {ANSWER}, in nats."),
        maybe("answer_rank", f"Rank of {ANSWER} among all, from 1.", Integer),
        maybe("logit_difference", "Logit of the answer less that of the foil: the prompt's, or the base arm's second likeliest."),
        maybe("score", "What the sub-updates that the arm changes added to the answer's logit in the base arm: Σ m_i·(e_w·v_i), raw projection, logits."),
        maybe("frozen_score", "The same by E·(gain ⊙ v) over what the final norm divided by in the base arm, logits."),
        nonnegative("kl_from_base", "KL(base ‖ arm) of the next token over the whole vocabulary, in nats; 0 of the base arm.", kind=Double),
        nonnegative("entropy", "Of the next token over the whole vocabulary, in nats."),
        comment="What an arm predicts at a position of a prompt; all arms read the same text.",
        grain=("experiment_id", "arm_id", "prompt_id", "index"),
    )
    declare(
        "outcome_token",
        experiment_id(),
        arm_id(),
        prompt_id(),
        index("Index of the token that was read last."),
        column("rank", SmallInteger, "From 1, at most 10; ties go to the lowest token_id."),
        column("token_id", Integer, "A likely next token."),
        probability("prob", "Its probability, in [0, 1]."),
        comment="The likeliest next tokens of an outcome.",
        grain=("experiment_id", "arm_id", "prompt_id", "index", "rank"),
    )
