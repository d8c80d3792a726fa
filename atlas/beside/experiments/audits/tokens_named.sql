-- rule: every token that is named has its text
SELECT n.*
FROM experiments.named_token AS n
ANTI JOIN experiments.token_text AS t ON n.token_id = t.token_id
WHERE n.token_id IS NOT NULL;
