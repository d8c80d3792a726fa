"""What single states do for an answer."""

from sqlalchemy import Integer, SmallInteger, String

from schema import terms
from schema.columns import column, layer, one_of, probability
from schema.experiments.declaring import Declare, experiment_id, index, maybe, prompt_id
from schema.interventions.sites import OPS


def declare_tables(declare: Declare) -> None:
    declare(
        "effect",
        experiment_id(),
        prompt_id(),
        maybe("from_prompt_id", "The prompt whose states were put in, of patching; null where they are of the prompt's own clean run.", Integer),
        column("site", String, "Where states were put back or put in; attention where reading was blocked."),
        column("window", SmallInteger, "Layers changed together: half-open around the layer, cut at the ends; 1 for it alone."),
        layer(),
        index("Index of the state; null of knockouts, whose last position is changed.", null=True),
        maybe("sources", "What the last position could not read, of knockouts: subject, non_subject or last.", String),
        column("n_draws", Integer, "Draws of noise that are averaged; 1 where nothing is drawn."),
        probability("prob", "Probability of the answer with the change, in [0, 1]."),
        maybe("prob_se", "Its standard error over the draws; null for one draw."),
        maybe("logprob", "Log probability of the answer, in nats."),
        maybe("logit_difference", "Logit of the answer less that of the foil."),
        maybe(
            "effect",
            "Tracing: prob less that of the corrupted run. Patching: (D - D of the run as it is) / total_effect, D being logit_difference; "
            "null where total_effect is under 0.5 in size. Knockout: (prob - clean prob) / clean prob.",
        ),
        maybe(
            "total_effect",
            "Tracing: clean prob less corrupted prob. Patching: D of the run whose states are put in less D of the run as it is. Null of knockouts.",
        ),
        one_of("site", tuple(OPS)),
        one_of("sources", terms.BLOCKED_SOURCES),
        comment="What a state does for an answer, cell by cell: causal tracing, patching and attention knockout.",
        grain=("experiment_id", "prompt_id", "from_prompt_id", "site", "window", "layer", "index", "sources"),
    )
