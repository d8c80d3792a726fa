-- rule: a member is one thing: a neuron or head of a layer, a position or a token, as its kind says
SELECT
    m.collection_id,
    m.number,
    m.kind
FROM collections.collection_member AS m
WHERE
    m.kind <> CASE
        WHEN m.position_id IS NOT NULL AND coalesce(m.layer, m.neuron, m.head, m.token_id) IS NULL THEN 'position'
        WHEN m.token_id IS NOT NULL AND coalesce(m.layer, m.neuron, m.head, m.position_id) IS NULL THEN 'token'
        WHEN m.layer >= 0 AND m.neuron >= 0 AND coalesce(m.head, m.position_id, m.token_id) IS NULL THEN 'neuron'
        WHEN m.layer >= 0 AND m.head >= 0 AND coalesce(m.neuron, m.position_id, m.token_id) IS NULL THEN 'head'
        ELSE 'nothing'
    END;
