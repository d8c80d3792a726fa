-- title:  What does the model predict with and without the change?
-- source: this atlas
-- grain:  index, rank
-- param:  experiment (integer): experiment_id; experiment_summary() lists them
-- param:  prompt (integer): prompt_id, from 0
-- param:  arm (integer): arm_id, from 0; arm_effects(experiment) lists them
-- column: index: index of the token that was read last, from 0
-- column: token: that token
-- column: rank: from 1, at most 10
-- column: base_token: the next token of this rank as the model is
-- column: base_prob: its probability, in [0, 1]
-- column: arm_token: the next token of this rank under the arm
-- column: arm_prob: its probability, in [0, 1]
-- column: logprob_change: what the arm adds to the log probability of base_token, in nats; null where the arm has it behind its kept ones
-- column: kl_from_base: KL(base ‖ arm) of the next token, over the whole vocabulary, in nats
-- chart:  tokens
--
-- Both read the same text, so that every position can be compared.
CREATE OR REPLACE MACRO experiments.before_after(experiment, prompt, arm) AS TABLE
WITH
kept AS (
    SELECT
        o.arm_id,
        o.index,
        o.rank,
        o.token_id,
        t.text,
        o.prob
    FROM experiments.outcome_token AS o
    INNER JOIN experiments.token_text AS t ON o.token_id = t.token_id
    WHERE o.experiment_id = experiment AND o.prompt_id = prompt
),

before AS (
    SELECT k.*
    FROM kept AS k
    INNER JOIN experiments.arm AS a ON k.arm_id = a.arm_id
    WHERE a.experiment_id = experiment AND a.role = 'base'
),

after AS (
    SELECT k.*
    FROM kept AS k
    WHERE k.arm_id = arm
)

SELECT
    coalesce(b.index, f.index) AS index,
    t.text AS token,
    coalesce(b.rank, f.rank) AS rank,
    b.text AS base_token,
    b.prob AS base_prob,
    f.text AS arm_token,
    f.prob AS arm_prob,
    ln(nullif(s.prob, 0)) - ln(nullif(b.prob, 0)) AS logprob_change,
    o.kl_from_base
FROM before AS b
FULL JOIN after AS f ON b.index = f.index AND b.rank = f.rank
LEFT JOIN after AS s ON b.index = s.index AND b.token_id = s.token_id
LEFT JOIN experiments.outcome AS o
    ON o.experiment_id = experiment AND o.prompt_id = prompt AND o.arm_id = arm AND coalesce(b.index, f.index) = o.index
LEFT JOIN experiments.prompt_token AS p ON p.experiment_id = experiment AND p.prompt_id = prompt AND coalesce(b.index, f.index) = p.index
LEFT JOIN experiments.token_text AS t ON p.token_id = t.token_id
ORDER BY 1, 3;
