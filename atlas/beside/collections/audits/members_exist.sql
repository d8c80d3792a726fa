-- rule: members that were added from this model are neurons, heads and tokens that it has
SELECT
    m.collection_id,
    m.number,
    m.kind
FROM collections.collection_member AS m
INNER JOIN model AS o ON m.weights_sha256 = o.weights_sha256
WHERE
    coalesce(m.layer >= o.n_layers, FALSE)
    OR coalesce(m.neuron >= o.d_ffn, FALSE)
    OR coalesce(m.head >= o.n_heads, FALSE)
    OR (m.token_id IS NOT NULL AND m.token_id NOT IN (SELECT t.token_id FROM token AS t));
