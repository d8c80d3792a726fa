-- title:  Does a sub-update's score foretell what taking it away does?
-- source: Geva et al. 2022, section 3, whose reading of scores this tests
-- grain:  layer
-- n:      n
-- param:  experiment (integer): experiment_id, of arms that each set one coefficient to zero; experiment_summary() lists them
-- column: layer: transformer block, from 0
-- column: n: sub-updates taken away, one an arm and prompt
-- column: n_clusters: templates of the prompts; prompts of one count as one observation
-- column: correlation: of score and effect (Pearson), in [-1, 1]; null where either is the same everywhere
-- column: frozen_correlation: of frozen_score and effect
-- column: same_sign: share of the sub-updates whose frozen_score has the sign of the effect, in [0, 1]
-- column: score: mean of m_i·(e_w·v_i) of the answer, raw projection, logits
-- column: frozen_score: mean of the same over what the final norm divided by in the base arm, logits
-- column: effect: mean of what the answer's logit loses without the sub-update, by every path, logits
-- chart:  line(layer, frozen_correlation)
--
-- A score is the direct path alone. In lower layers what later ones make of a sub-update outweighs it.
CREATE OR REPLACE MACRO experiments.score_and_effect(experiment) AS TABLE
WITH
single AS (
    SELECT
        c.arm_id,
        any_value(c.layer) AS layer
    FROM experiments.arm_change AS c
    WHERE c.experiment_id = experiment
    GROUP BY c.arm_id
    HAVING count(*) = 1 AND bool_and(c.site = 'coefficient' AND (c.op = 'zero' OR (c.op IN ('set', 'scale') AND c.value = 0)))
),

base AS (
    SELECT o.*
    FROM experiments.outcome AS o
    INNER JOIN experiments.arm AS a ON o.experiment_id = a.experiment_id AND o.arm_id = a.arm_id
    WHERE o.experiment_id = experiment AND a.role = 'base'
),

taken AS (
    SELECT
        s.layer,
        o.score::DOUBLE AS score,
        o.frozen_score::DOUBLE AS frozen_score,
        b.answer_logit::DOUBLE - o.answer_logit AS effect,
        coalesce(p.cluster, 'prompt ' || p.prompt_id) AS cluster
    FROM single AS s
    INNER JOIN experiments.outcome AS o ON o.experiment_id = experiment AND s.arm_id = o.arm_id
    INNER JOIN base AS b ON o.prompt_id = b.prompt_id AND o.index = b.index
    INNER JOIN experiments.prompt AS p ON p.experiment_id = experiment AND o.prompt_id = p.prompt_id
    WHERE o.score IS NOT NULL AND o.answer_logit IS NOT NULL AND b.answer_logit IS NOT NULL
),

compared AS (
    SELECT
        t.layer,
        count(*) AS n,
        count(DISTINCT t.cluster) AS n_clusters,
        -- of what is the same everywhere DuckDB's correlation is NaN
        corr(t.effect, t.score) AS correlation,
        corr(t.effect, t.frozen_score) AS frozen_correlation,
        avg((sign(t.frozen_score) = sign(t.effect))::INTEGER) AS same_sign,
        avg(t.score) AS score,
        avg(t.frozen_score) AS frozen_score,
        avg(t.effect) AS effect
    FROM taken AS t
    GROUP BY t.layer
)

SELECT
    c.layer,
    c.n,
    c.n_clusters,
    if(isfinite(c.correlation), c.correlation, NULL) AS correlation,
    if(isfinite(c.frozen_correlation), c.frozen_correlation, NULL) AS frozen_correlation,
    c.same_sign,
    c.score,
    c.frozen_score,
    c.effect
FROM compared AS c
ORDER BY c.layer;
