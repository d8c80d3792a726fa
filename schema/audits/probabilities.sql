-- rule: probabilities lie in [0, 1] and entropies are not negative
WITH
-- a softmax in float32 can pass 1 by a rounding
prob AS (
    SELECT
        'value_token.prob' AS place,
        v.prob
    FROM value_token AS v
    UNION ALL
    SELECT
        'neuron.value_max_prob' AS place,
        n.value_max_prob AS prob
    FROM neuron AS n
    UNION ALL
    SELECT
        'trace' AS place,
        unnest([t.final_prob, t.next_token_prob]) AS prob
    FROM trace AS t
    UNION ALL
    SELECT
        'logit_lens' AS place,
        unnest([l.top_prob, l.final_token_prob, l.next_token_prob]) AS prob
    FROM logit_lens AS l
    UNION ALL
    SELECT
        'logit_lens.entropy' AS place,
        if(l.entropy >= -1e-5, 0, -1) AS prob
    FROM logit_lens AS l
    UNION ALL
    SELECT
        'logit_lens_token.prob' AS place,
        c.prob
    FROM logit_lens_token AS c
    UNION ALL
    SELECT
        'next_token_rank.value_prob' AS place,
        n.value_prob AS prob
    FROM next_token_rank AS n
)

SELECT
    p.place,
    p.prob,
    count(*) AS n_rows
FROM prob AS p
WHERE p.prob NOT BETWEEN 0 AND 1 + 1e-5 OR isnan(p.prob)
GROUP BY p.place, p.prob;
