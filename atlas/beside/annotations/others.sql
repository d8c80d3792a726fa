-- annotations that the atlas is not asked about: of another model's weights, or of texts, updates or random vectors that it does not hold
WITH
item_there AS (
    SELECT
        i.annotation_id,
        bool_and(p.token_id IS NOT DISTINCT FROM i.token_id) AS is_there
    FROM annotations.annotation_item AS i
    LEFT JOIN position AS p ON i.position_id = p.position_id
    WHERE i.position_id IS NOT NULL
    GROUP BY i.annotation_id
),

-- the last of 30 tokens may differ by rounding; another vector shares few
vector_there AS (
    SELECT
        a.annotation_id,
        bool_and(c.token_id IS NOT NULL) AS is_there
    FROM annotations.annotation AS a
    INNER JOIN annotations.annotation_item AS i ON a.annotation_id = i.annotation_id
    LEFT JOIN control_token AS c ON a.subject = c.control AND a.layer = c.layer AND a.item = c.item AND i.token_id = c.token_id
    WHERE a.subject IN ('random_vector', 'ffn_update') AND i.rank <= 20
    GROUP BY a.annotation_id
)

SELECT
    a.annotation_id,
    if(m.weights_sha256 IS NULL, 'model', 'text') AS reason
FROM annotations.annotation AS a
LEFT JOIN model AS m ON a.weights_sha256 = m.weights_sha256
LEFT JOIN item_there AS t ON a.annotation_id = t.annotation_id
LEFT JOIN vector_there AS v ON a.annotation_id = v.annotation_id
WHERE m.weights_sha256 IS NULL OR NOT t.is_there OR NOT v.is_there
ORDER BY a.annotation_id;
