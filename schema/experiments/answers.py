"""Whole traces of live prompts, for whoever wants to ask them again without the model."""

from sqlalchemy import LargeBinary, String

from schema.columns import column
from schema.experiments.declaring import Declare, experiment_id


def declare_tables(declare: Declare) -> None:
    declare(
        "kept_table",
        experiment_id(),
        column("name", String, "The table's name in the atlas; of what no atlas has, in experiments."),
        column("arrow", LargeBinary, "Its rows as an Arrow stream, as the model process gave them: ids are negative."),
        comment="All tables of a live prompt that was kept with its trace: `a.live().kept(experiment)` puts them beside those of the atlas again.",
        grain=("experiment_id", "name"),
    )
