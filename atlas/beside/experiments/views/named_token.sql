-- title: Tokens that experiments name anywhere
-- grain: experiment_id, token_id
CREATE OR REPLACE VIEW experiments.named_token AS
SELECT
    t.experiment_id,
    t.token_id
FROM experiments.prompt_token AS t
UNION
SELECT
    p.experiment_id,
    unnest([p.answer_token_id, p.foil_token_id]) AS token_id
FROM experiments.prompt AS p
UNION
SELECT
    o.experiment_id,
    o.top_token_id AS token_id
FROM experiments.outcome AS o
UNION
SELECT
    t.experiment_id,
    t.token_id
FROM experiments.outcome_token AS t
UNION
SELECT
    g.experiment_id,
    unnest(g.token_ids) AS token_id
FROM experiments.generation AS g;
COMMENT ON VIEW experiments.named_token IS 'One row per experiment and token that it names anywhere; null stands for none.';
COMMENT ON COLUMN experiments.named_token.experiment_id IS 'The experiment.';
COMMENT ON COLUMN experiments.named_token.token_id IS 'Row of the output embedding.';
