-- annotations that the atlas is not asked about: of another model's weights, or of texts, updates or random vectors that it does not hold
-- anti joins alone: a table of the atlas's that has a key a million times costs no more than one that has it once
WITH
item_not_there AS (
    SELECT i.annotation_id
    FROM annotations.annotation_item AS i
    ANTI JOIN position AS p ON i.position_id = p.position_id AND i.token_id = p.token_id
    WHERE i.position_id IS NOT NULL
),

-- the last of 30 tokens may differ by rounding; another vector shares few
vector_not_there AS (
    SELECT a.annotation_id
    FROM annotations.annotation AS a
    INNER JOIN annotations.annotation_item AS i ON a.annotation_id = i.annotation_id
    ANTI JOIN control_token AS c ON a.subject = c.control AND a.layer = c.layer AND a.item = c.item AND i.token_id = c.token_id
    WHERE a.subject IN ('random_vector', 'ffn_update') AND i.rank <= 20
),

judged AS (
    SELECT
        a.annotation_id,
        exists(
            SELECT 1
            FROM model AS m
            WHERE m.weights_sha256 = a.weights_sha256
        ) AS is_of_model,
        a.annotation_id NOT IN (
            SELECT t.annotation_id FROM item_not_there AS t
            UNION ALL
            SELECT v.annotation_id FROM vector_not_there AS v
        ) AS is_of_text
    FROM annotations.annotation AS a
)

SELECT
    j.annotation_id,
    if(NOT j.is_of_model, 'model', 'text') AS reason
FROM judged AS j
WHERE NOT j.is_of_model OR NOT j.is_of_text
ORDER BY j.annotation_id;
