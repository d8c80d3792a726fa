"""What was done: arms, and their interventions one by one."""

from sqlalchemy import Boolean, Integer, SmallInteger, String

from schema import terms
from schema.columns import Json, column, one_of
from schema.experiments.declaring import Declare, arm_id, experiment_id, maybe
from schema.interventions.intervention import STRENGTHS
from schema.interventions.sites import OPS


def declare_tables(declare: Declare) -> None:
    declare(
        "arm",
        experiment_id(),
        arm_id(),
        column("name", String, "What people call it."),
        column("role", String, "base, treatment, random_control, positive_control, or baseline (another method to compare with)."),
        column("interventions", Json(), "The resolved interventions, as canonical JSON: one unit each, strengths as values, keys sorted."),
        column("sha256", String, "SHA-256 of interventions, by which arms of all experiments are told apart."),
        maybe("draw", "Which draw, of arms that are drawn at random.", Integer),
        one_of("role", terms.ARM_ROLES),
        comment="What was done to the forward pass. The base arm of an experiment is the model as it is.",
        grain=("experiment_id", "arm_id"),
    )
    declare(
        "arm_change",
        experiment_id(),
        arm_id(),
        column("rank", Integer, "Place of the intervention in its arm, from 1."),
        column("site", String, "Where the forward pass was changed."),
        maybe("layer", "Transformer block, counted from 0; null for the embedding.", SmallInteger),
        maybe("unit", "Neuron or head of the layer, from 0; null where the site was changed as a whole.", Integer),
        column("op", String, "What was done there."),
        maybe("value", "The number put in, added or multiplied by, in the units of the site, as it was used in the experiment's dtype."),
        maybe("strength_kind", "How the value was asked for: times_max, times_min or norm; null where the value itself was.", String),
        maybe("strength", "Times the neuron's largest, or smallest, coefficient; of norm the signed length that the change writes."),
        maybe("sub_update_norm", "‖value · v‖, the length of what the neuron then writes, in residual-stream units."),
        maybe("positions", "At which indices: a name, or a list of indices and half-open ranges; null of edges.", Json()),
        column("is_first_skipped", Boolean, "Index 0 was left as it was."),
        one_of("site", tuple(OPS)),
        one_of("op", tuple(sorted({op for ops in OPS.values() for op in ops}))),
        one_of("strength_kind", STRENGTHS),
        comment="The interventions of an arm, one a row. States, vectors and edges that go with them are in arm.interventions.",
        grain=("experiment_id", "arm_id", "rank"),
    )
