"""One experiment on one page: how it was made, its prompts, its arms, and how many rows it brought."""

from dataclasses import dataclass
from typing import Any

import duckdb
import polars as pl

from atlas.frames import fetch
from atlas.ranges import check_arguments

FACTS = "FROM experiments.experiment WHERE experiment_id = $id"
PROMPTS = """
SELECT p.prompt_id AS prompt, p.cluster, p.n_tokens, a.text AS answer, f.text AS foil, p.text
FROM experiments.prompt AS p
LEFT JOIN experiments.token_text AS a ON p.answer_token_id = a.token_id
LEFT JOIN experiments.token_text AS f ON p.foil_token_id = f.token_id
WHERE p.experiment_id = $id
ORDER BY p.prompt_id
"""
ARMS = """
SELECT a.arm_id AS arm, a.name, a.role, a.draw, left(a.sha256, 12) AS sha256, a.interventions::TEXT AS interventions
FROM experiments.arm AS a
WHERE a.experiment_id = $id
ORDER BY a.arm_id
"""
NOTES = "SELECT p.name AS part, p.note FROM experiments.part AS p WHERE p.experiment_id = $id AND p.note IS NOT NULL ORDER BY p.part"
PARTS = ("outcome", "outcome_token", "generation", "generation_score", "arm_cost", "effect", "attribution")


@dataclass(frozen=True)
class Experiment:
    """One experiment. facts: its row, by column. prompts, arms: one row each. rows: its number of rows in each table. notes: the notes of its parts."""

    facts: dict[str, Any]
    prompts: pl.DataFrame
    arms: pl.DataFrame
    rows: pl.DataFrame
    notes: pl.DataFrame


def read_experiment(con: duckdb.DuckDBPyConnection, experiment_id: int) -> Experiment:
    """Read an experiment with its parts. Raises AtlasError, with the existing experiments, if there is none with this id."""
    check_arguments(con, {"experiment": experiment_id})
    asked = {"id": experiment_id}
    counts = " UNION ALL ".join(f"SELECT '{name}' AS \"table\", count(*) AS n_rows FROM experiments.{name} WHERE experiment_id = $id" for name in PARTS)
    return Experiment(
        facts=fetch(con, FACTS, asked).row(0, named=True),
        prompts=fetch(con, PROMPTS, asked),
        arms=fetch(con, ARMS, asked),
        rows=fetch(con, f"SELECT c.* FROM ({counts}) AS c WHERE c.n_rows > 0", asked),
        notes=fetch(con, NOTES, asked),
    )
