"""What each token adds to a prediction."""

from sqlalchemy import REAL, CheckConstraint, Column, Integer, String

from schema import terms
from schema.columns import column, one_of
from schema.experiments.declaring import Declare, experiment_id, index, maybe, prompt_id


def declare_tables(declare: Declare) -> None:
    declare(
        "attribution",
        experiment_id(),
        prompt_id(),
        *how(),
        index(),
        column("attribution", REAL, "What the token adds to the score, in the score's units; null where the method leaves it out.", null=True),
        *words(),
        comment="What each token of a prompt adds to the prediction of its answer.",
        grain=("experiment_id", "prompt_id", "method", "score", "baseline", "index"),
    )
    declare(
        "attribution_total",
        experiment_id(),
        prompt_id(),
        *how(),
        maybe("n_steps", "Points of the path at which gradients were taken; null where there is none.", Integer),
        column("at_input", REAL, "The score of the prompt as it is."),
        maybe("at_baseline", "The score with the baseline in the place of every token that is not held."),
        column("sum", REAL, "Sum of the attributions."),
        maybe("completeness_error", "|sum - (at_input - at_baseline)| / max(|at_input - at_baseline|, 0.1); null where the method promises no sum."),
        *words(),
        comment="Whether attributions sum to what they are to explain.",
        grain=("experiment_id", "prompt_id", "method", "score", "baseline"),
    )


def how() -> list[Column]:
    return [
        column("method", String, "gradient_input, integrated_gradients or occlusion."),
        column("score", String, "What is attributed: logit_difference, logprob (nats) or prob."),
        column("baseline", String, "What stands in for a token: the name of an embedding or of a token; none where the method needs nothing."),
    ]


def words() -> list[CheckConstraint]:
    return [one_of("method", terms.ATTRIBUTION_METHODS), one_of("score", terms.ATTRIBUTION_SCORES)]
