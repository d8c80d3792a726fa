"""Rows of items that show a retrieval: of the one requested, or of the last."""

from typing import TYPE_CHECKING

import polars as pl

from atlas.answers import read_answer
from atlas.ranges import check_arguments
from schema.errors import AtlasError

if TYPE_CHECKING:
    from atlas.api import Atlas

LAST = "SELECT max(r.retrieval_id) AS last FROM retrievals.retrieval AS r"

MIXTURES = """
WITH
asked AS (
    SELECT
        s.part,
        exp(-s.surprisal) AS model_prob,
        ['3-gram', '5-gram', 'neighbours'] AS mixtures,
        [exp(-CAST(t.surprisal AS DOUBLE)), exp(-CAST(f.surprisal AS DOUBLE)), s.knn_prob] AS probs
    FROM retrievals.scored_query AS s
    INNER JOIN ngram_prediction AS t ON s.position_id = t.position_id AND t.ngram_order = 3
    INNER JOIN ngram_prediction AS f ON s.position_id = f.position_id AND f.ngram_order = 5
    WHERE s.retrieval_id = {retrieval:d}
),

each AS (
    SELECT
        a.part,
        a.model_prob,
        unnest(a.mixtures) AS mixture,
        unnest(a.probs) AS prob
    FROM asked AS a
),

mixed AS (
    SELECT
        e.part,
        e.mixture,
        CAST(w.range AS DOUBLE) / 20 AS weight,
        (1 - weight) * e.model_prob + weight * e.prob AS mixed_prob
    FROM each AS e
    CROSS JOIN range(21) AS w
),

scored AS (
    SELECT
        m.part,
        m.mixture,
        m.weight,
        count(*) AS n,
        -- DuckDB raises for a logarithm of 0
        exp(avg(if(m.mixed_prob > 0, -ln(m.mixed_prob), CAST('infinity' AS DOUBLE)))) AS perplexity
    FROM mixed AS m
    GROUP BY m.part, m.mixture, m.weight
)

SELECT
    u.mixture,
    u.weight,
    u.perplexity,
    row_number() OVER (PARTITION BY u.mixture ORDER BY u.perplexity, u.weight) = 1 AS is_chosen,
    if(is_chosen, t.perplexity, NULL) AS test_perplexity,
    u.n AS n_queries,
    t.n AS n_test
FROM scored AS u
INNER JOIN scored AS t ON u.mixture = t.mixture AND u.weight = t.weight
WHERE u.part = 'tune' AND t.part = 'test'
ORDER BY is_chosen DESC, u.mixture, u.weight
"""
"""Perplexity of each mixture over queries that n-grams predict too: tune queries at every weight, test queries at the weight that is best for tune queries."""


def choose_retrieval(a: "Atlas", retrieval: int | None) -> int:
    """Choose the retrieval requested, or the last. Raises AtlasError if the atlas has the keys of no retrieval."""
    found = a.sql(LAST).item() if retrieval is None else retrieval
    if found is None:
        raise AtlasError("no retrieval of keys that this atlas has: `atlas retrieve` makes one")
    return int(found)


def read_retrieval_rows(a: "Atlas", question: str, retrieval: int | None = None) -> pl.DataFrame:
    """Read a question's rows for one retrieval, with a column retrieval."""
    retrieval = choose_retrieval(a, retrieval)
    return read_answer(a.con, question, retrieval=retrieval).with_columns(pl.lit(retrieval).alias("retrieval"))


def mixtures(a: "Atlas", retrieval: int | None = None) -> pl.DataFrame:
    """Read the rows of the model mixed with 3-grams, 5-grams and neighbours (MIXTURES), with a column retrieval."""
    retrieval = choose_retrieval(a, retrieval)
    check_arguments(a.con, {"retrieval": retrieval})
    return a.sql(MIXTURES.format(retrieval=retrieval)).with_columns(pl.lit(retrieval).alias("retrieval"))
