"""Rows of items that show experiments: of the one requested, or of the last finished one of its kind."""

from typing import TYPE_CHECKING

import polars as pl

from atlas.answers import read_answer
from schema.errors import AtlasError

if TYPE_CHECKING:
    from atlas.api import Atlas

SITES = ("resid_post", "attn_out", "ffn_out")

LAST = "SELECT max(e.experiment_id) AS last FROM experiments.experiment AS e WHERE e.kind = '{kind}' AND e.status = 'finished'"
WIDEST = """
SELECT f.prompt_id
FROM experiments.effect AS f
WHERE f.experiment_id = {experiment:d}
GROUP BY f.prompt_id
ORDER BY max(f.total_effect) DESC, f.prompt_id
LIMIT 1
"""
ASKED = """
SELECT p.text, coalesce(e.settings ->> '$.prompts[{prompt:d}].answer', k.text) AS answer
FROM experiments.prompt AS p
INNER JOIN experiments.experiment AS e ON p.experiment_id = e.experiment_id
LEFT JOIN experiments.token_text AS k ON p.answer_token_id = k.token_id
WHERE p.experiment_id = {experiment:d} AND p.prompt_id = {prompt:d}
"""


def choose_experiment(a: "Atlas", kind: str, experiment: int | None) -> int:
    """Choose the experiment requested, or the last finished one of the kind. Raises AtlasError if there is none."""
    found = a.sql(LAST.format(kind=kind)).item() if experiment is None else experiment
    if found is None:
        raise AtlasError(f"no experiment of kind {kind} is finished: `atlas experiment {kind}` makes one")
    return int(found)


def trace_of(a: "Atlas", experiment: int | None = None, prompt: int | None = None) -> pl.DataFrame:
    """Read causal_trace of one prompt at all sites, with columns site, experiment, prompt, text and answer.

    The default prompt is that with the largest total effect."""
    experiment = choose_experiment(a, "tracing", experiment)
    if prompt is None:
        widest = a.sql(WIDEST.format(experiment=experiment))
        if widest.is_empty():
            raise AtlasError(f"experiment {experiment} has no effects")
        prompt = int(widest.item())
    parts = [read_answer(a.con, "causal_trace", experiment=experiment, prompt=prompt, site=site).with_columns(pl.lit(site).alias("site")) for site in SITES]
    asked = a.sql(ASKED.format(experiment=experiment, prompt=prompt))
    return pl.concat(parts).with_columns(
        pl.lit(experiment).alias("experiment"),
        pl.lit(prompt).alias("prompt"),
        pl.lit(asked["text"][0]).alias("text"),
        pl.lit(asked["answer"][0]).alias("answer"),
    )


def averages(a: "Atlas", experiment: int | None = None) -> pl.DataFrame:
    """Read the rows of `indirect_effects`, with a column `experiment` that holds the experiment's id."""
    experiment = choose_experiment(a, "tracing", experiment)
    return read_answer(a.con, "indirect_effects", experiment=experiment).with_columns(pl.lit(experiment).alias("experiment"))


def knockouts(a: "Atlas", experiment: int | None = None) -> pl.DataFrame:
    """Read knockout, with a column experiment."""
    experiment = choose_experiment(a, "knockout", experiment)
    return read_answer(a.con, "knockout", experiment=experiment).with_columns(pl.lit(experiment).alias("experiment"))
