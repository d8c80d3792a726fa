-- rule: a prompt has as many tokens as it says, one after the other
WITH
following AS (
    SELECT
        t.*,
        lag(t.char_end, 1, 0) OVER (PARTITION BY t.experiment_id, t.prompt_id ORDER BY t.index) AS former_end
    FROM experiments.prompt_token AS t
)

SELECT
    p.experiment_id,
    p.prompt_id,
    p.n_tokens,
    count(f.index) AS n_found
FROM experiments.prompt AS p
LEFT JOIN following AS f ON p.experiment_id = f.experiment_id AND p.prompt_id = f.prompt_id
GROUP BY p.experiment_id, p.prompt_id, p.n_tokens, p.text
-- bytes of one character may be several tokens, which all have it
HAVING count(f.index) <> p.n_tokens OR bool_or(f.char_end < greatest(f.char_start, f.former_end) OR f.char_end > length(p.text));
