-- title:  How far does each arm move the prediction, beside its controls?
-- source: this atlas
-- grain:  arm
-- n:      n_prompts
-- param:  experiment (integer): experiment_id; experiment_summary() lists them
-- column: arm: arm_id, from 0
-- column: name: what people call it
-- column: role: base, treatment, random_control, positive_control or baseline
-- column: n_changes: units that it changes
-- column: n_prompts: prompts whose predictions were read, each at its last index
-- column: n_clusters: templates of these prompts; prompts of one count as one observation
-- column: n_unmoved: prompts whose prediction is the base's to the bit: the arm did nothing there
-- column: kl_from_base: mean KL(base ‖ arm), in nats
-- column: new_top_token: share of the prompts with another likeliest token than the base's, in [0, 1]
-- column: answer_logprob_change: mean of what it adds to the answer's log probability, in nats, paired by prompt
-- column: logit_difference_change: mean of what it adds to the logit of the answer less that of the foil
-- column: n_controls: random_control arms of the experiment
-- column: n_controls_as_far: of them those whose mean kl_from_base is as large or larger, the arm itself if it is one
-- column: n_continuations: continuations
-- column: over: share of the continuations that a scorer gives 0.5 or more, in [0, 1]; mean over scorers
-- column: perplexity: mean over the texts that it was read on
-- column: distinct_2: share of distinct pairs of neighbouring tokens in the continuations, in [0, 1]
-- chart:  bar(name, kl_from_base)
CREATE OR REPLACE MACRO experiments.arm_effects(experiment) AS TABLE
WITH
predicted AS (
    SELECT
        o.*,
        p.cluster
    FROM experiments.outcome AS o
    INNER JOIN experiments.prompt AS p ON o.experiment_id = p.experiment_id AND o.prompt_id = p.prompt_id
    WHERE o.experiment_id = experiment
    QUALIFY o.index = max(o.index) OVER (PARTITION BY o.prompt_id)
),

base AS (
    SELECT b.*
    FROM predicted AS b
    INNER JOIN experiments.arm AS a ON b.arm_id = a.arm_id
    WHERE a.experiment_id = experiment AND a.role = 'base'
),

moved AS (
    SELECT
        o.arm_id,
        count(*) AS n_prompts,
        count(DISTINCT coalesce(o.cluster, 'prompt ' || o.prompt_id)) AS n_clusters,
        count(*) FILTER (o.kl_from_base = 0 AND o.top_prob = b.top_prob) AS n_unmoved,
        avg(o.kl_from_base) AS kl_from_base,
        avg((o.top_token_id <> b.top_token_id)::INTEGER) AS new_top_token,
        avg(o.answer_logprob - b.answer_logprob) AS answer_logprob_change,
        avg(o.logit_difference - b.logit_difference) AS logit_difference_change
    FROM predicted AS o
    LEFT JOIN base AS b ON o.prompt_id = b.prompt_id AND o.index = b.index
    GROUP BY o.arm_id
),

control AS (
    SELECT m.*
    FROM moved AS m
    INNER JOIN experiments.arm AS a ON m.arm_id = a.arm_id
    WHERE a.experiment_id = experiment AND a.role = 'random_control'
),

held_against AS (
    SELECT
        m.arm_id,
        count(*) AS n_controls,
        count(*) FILTER (c.kl_from_base >= m.kl_from_base) AS n_controls_as_far
    FROM moved AS m
    CROSS JOIN control AS c
    GROUP BY m.arm_id
),

continued AS (
    SELECT
        g.arm_id,
        count(*) AS n_continuations
    FROM experiments.generation AS g
    WHERE g.experiment_id = experiment
    GROUP BY g.arm_id
),

scored AS (
    SELECT
        s.arm_id,
        avg(s.is_over::INTEGER) AS over
    FROM experiments.generation_score AS s
    WHERE s.experiment_id = experiment
    GROUP BY s.arm_id
),

cost AS (
    SELECT
        c.arm_id,
        avg(c.perplexity) AS perplexity,
        avg(c.distinct_2) AS distinct_2
    FROM experiments.arm_cost AS c
    WHERE c.experiment_id = experiment
    GROUP BY c.arm_id
),

changed AS (
    SELECT
        c.arm_id,
        count(*) AS n_changes
    FROM experiments.arm_change AS c
    WHERE c.experiment_id = experiment
    GROUP BY c.arm_id
)

SELECT
    a.arm_id AS arm,
    a.name,
    a.role,
    coalesce(h.n_changes, 0) AS n_changes,
    coalesce(m.n_prompts, 0) AS n_prompts,
    coalesce(m.n_clusters, 0) AS n_clusters,
    coalesce(m.n_unmoved, 0) AS n_unmoved,
    m.kl_from_base,
    m.new_top_token,
    m.answer_logprob_change,
    m.logit_difference_change,
    coalesce(r.n_controls, 0) AS n_controls,
    coalesce(r.n_controls_as_far, 0) AS n_controls_as_far,
    coalesce(g.n_continuations, 0) AS n_continuations,
    s.over,
    t.perplexity,
    t.distinct_2
FROM experiments.arm AS a
LEFT JOIN moved AS m ON a.arm_id = m.arm_id
LEFT JOIN continued AS g ON a.arm_id = g.arm_id
LEFT JOIN scored AS s ON a.arm_id = s.arm_id
LEFT JOIN cost AS t ON a.arm_id = t.arm_id
LEFT JOIN changed AS h ON a.arm_id = h.arm_id
LEFT JOIN held_against AS r ON a.arm_id = r.arm_id
WHERE a.experiment_id = experiment
ORDER BY a.arm_id;
