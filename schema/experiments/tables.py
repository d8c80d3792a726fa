"""All tables of a file of experiments, as metadata and as SQL."""

from functools import partial
from pathlib import Path

from sqlalchemy import Integer, MetaData, String

from schema import terms
from schema.build import table_ddl
from schema.columns import column
from schema.experiments import answers, arms, asked, attributions, continuations, effects, outcomes
from schema.experiments.declaring import declared


def experiment_metadata() -> MetaData:
    """All tables of a file of experiments, under the name they are attached by."""
    m = MetaData(schema=terms.EXPERIMENT_CATALOG)
    declare = partial(declared, m)
    declare(
        "experiment_schema",
        column("version", Integer, "Version of the tables in this file."),
        column("derived_sha256", String, "SHA-256 over the definitions of its views and questions."),
        comment="What wrote this file; one row.",
        grain=(),
    )
    for part in (asked, arms, outcomes, continuations, effects, attributions, answers):
        part.declare_tables(declare)
    return m


def ddl() -> str:
    """SQL that creates them, and their comments."""
    return ";\n".join(statement.strip() for table in experiment_metadata().tables.values() for statement in table_ddl(table)) + "\n"


if __name__ == "__main__":
    Path(__file__).with_suffix(".sql").write_text(ddl(), encoding="utf-8")
