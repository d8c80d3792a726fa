-- title:  How much less toxic are continuations with a few values switched on, and at what cost in perplexity?
-- source: Geva et al. 2022, table 5 (section 6.1), where Perspective scored
-- grain:  arm, scorer, decoding
-- n:      n_continuations
-- param:  experiment (integer, NULL): experiment_id of a suppression; NULL is the last of them; experiment_summary() lists them
-- param:  scorer (text, NULL): what scores; NULL is each by itself
-- param:  decoding (text, NULL): greedy or sample; NULL is each by itself
-- column: arm: arm_id, from 0
-- column: name: what the experiment calls it
-- column: role: base, treatment, positive_control, random_control or baseline (another method)
-- column: scorer: what scored, each continuation alone; a share means nothing without
-- column: decoding: greedy, or sample: tokens were drawn
-- column: n_continuations: continuations
-- column: n_clusters: templates of their prompts, which count as one observation each
-- column: over: share of the continuations that the scorer gives 0.5 or more, in [0, 1]
-- column: over_change: over less that of the base arm, paired by prompt and seed, in [-1, 1]; null of the base
-- column: over_low: lower end of its 95% interval over templates; null where there is none
-- column: over_high: upper end
-- column: over_note: how the interval was made, or why there is none; null of the base
-- column: score: mean score, in [0, 1]
-- column: score_change: score less that of the base arm
-- column: score_low: lower end of its 95% interval over templates; null where there is none
-- column: score_high: upper end
-- column: score_note: how the interval was made, or why there is none; null of the base
-- column: perplexity: of other text under the arm; of a word filter over the tokens that it allows
-- column: distinct_2: mean over continuations of distinct pairs of neighbouring tokens over all pairs, in [0, 1]; small where text repeats itself
-- column: n_controls: random arms of the same lengths as this treatment
-- column: n_controls_as_low: of them those whose over is as low or lower
-- chart:  bar(name, over)
-- needs:  suppression
--
-- Scorers that read a text as a bag of words are nearly a word filter turned round: against them a filter of the words that they know must win.
CREATE OR REPLACE MACRO experiments.geva2022_table5(experiment := NULL, scorer := NULL, decoding := NULL) AS TABLE
WITH
asked AS (
    SELECT e.experiment_id
    FROM experiments.experiment AS e
    WHERE e.kind = 'suppression' AND (experiment IS NULL OR e.experiment_id = experiment)
    ORDER BY e.experiment_id DESC
    LIMIT 1
),

arms AS (
    SELECT
        a.*,
        (
            SELECT sum(c.sub_update_norm::DOUBLE)
            FROM experiments.arm_change AS c
            WHERE c.experiment_id = a.experiment_id AND c.arm_id = a.arm_id
        ) AS written
    FROM experiments.arm AS a
    WHERE a.experiment_id IN (SELECT q.experiment_id FROM asked AS q)
),

scored AS (
    SELECT
        s.arm_id,
        s.scorer,
        g.decoding,
        count(*) AS n_continuations,
        count(DISTINCT coalesce(p.cluster, 'prompt ' || p.prompt_id)) AS n_clusters,
        avg(s.is_over::INTEGER) AS over,
        avg(s.score::DOUBLE) AS score,
        avg(len(list_distinct(list_zip(g.token_ids[:-2], g.token_ids[2:]))) / nullif(len(g.token_ids) - 1, 0)) AS distinct_2
    FROM experiments.generation_score AS s
    INNER JOIN experiments.generation AS g
        ON s.experiment_id = g.experiment_id AND s.arm_id = g.arm_id AND s.prompt_id = g.prompt_id AND s.sample = g.sample
    INNER JOIN experiments.prompt AS p ON s.experiment_id = p.experiment_id AND s.prompt_id = p.prompt_id
    WHERE
        s.experiment_id IN (SELECT q.experiment_id FROM asked AS q)
        AND (scorer IS NULL OR s.scorer = scorer)
        AND (decoding IS NULL OR g.decoding = decoding)
    GROUP BY s.arm_id, s.scorer, g.decoding
),

control AS (
    SELECT
        a.arm_id,
        s.scorer,
        s.decoding,
        count(*) AS n_controls,
        count(*) FILTER (o.over <= s.over) AS n_controls_as_low
    FROM arms AS a
    INNER JOIN scored AS s ON a.arm_id = s.arm_id
    INNER JOIN arms AS r ON r.role = 'random_control' AND abs(r.written - a.written) <= 1e-4 * a.written
    INNER JOIN scored AS o ON r.arm_id = o.arm_id AND s.scorer = o.scorer AND s.decoding = o.decoding
    WHERE a.role = 'treatment'
    GROUP BY a.arm_id, s.scorer, s.decoding
),

moved AS (
    SELECT
        d.arm_id,
        d.scorer,
        d.decoding,
        d.measure,
        d.difference,
        d.low,
        d.high,
        coalesce(d.interval_note, 'percentile bootstrap of an earlier release: too narrow over few clusters') AS note
    FROM experiments.score_difference AS d
    WHERE d.experiment_id IN (SELECT q.experiment_id FROM asked AS q)
),

cost AS (
    SELECT
        c.arm_id,
        avg(c.perplexity) AS perplexity
    FROM experiments.arm_cost AS c
    WHERE c.experiment_id IN (SELECT q.experiment_id FROM asked AS q)
    GROUP BY c.arm_id
)

SELECT
    a.arm_id AS arm,
    a.name,
    a.role,
    s.scorer,
    s.decoding,
    s.n_continuations,
    s.n_clusters,
    s.over,
    o.difference AS over_change,
    o.low AS over_low,
    o.high AS over_high,
    o.note AS over_note,
    s.score,
    m.difference AS score_change,
    m.low AS score_low,
    m.high AS score_high,
    m.note AS score_note,
    c.perplexity,
    s.distinct_2,
    r.n_controls,
    r.n_controls_as_low
FROM arms AS a
INNER JOIN scored AS s ON a.arm_id = s.arm_id
LEFT JOIN moved AS o ON s.arm_id = o.arm_id AND s.scorer = o.scorer AND s.decoding = o.decoding AND o.measure = 'over'
LEFT JOIN moved AS m ON s.arm_id = m.arm_id AND s.scorer = m.scorer AND s.decoding = m.decoding AND m.measure = 'score'
LEFT JOIN cost AS c ON s.arm_id = c.arm_id
LEFT JOIN control AS r ON s.arm_id = r.arm_id AND s.scorer = r.scorer AND s.decoding = r.decoding
ORDER BY s.scorer, s.decoding DESC, a.arm_id;
