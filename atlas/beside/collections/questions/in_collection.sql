-- title:  What is in a collection: FROM neuron SEMI JOIN collections.in_collection('mine') USING (layer, neuron)
-- source: the file beside the atlas; nothing of a paper
-- grain:  number
-- param:  collection (text): its name, in either case
-- param:  kind (text, NULL): neuron, head, position or token; NULL takes all
-- column: number: order in which members were added, from 0; one that was removed leaves a gap
-- column: kind: neuron, head, position or token
-- column: layer: transformer block of a neuron or head, from 0; null for others
-- column: neuron: FFN hidden unit of the layer, from 0; null for others
-- column: head: attention head of the layer, from 0; null for others
-- column: position_id: the position; null for others
-- column: token_id: the token of the vocabulary; null for others
-- column: text: what the atlas showed of it when it was added
-- column: note: what was said of this member
-- column: added_by: who added it
-- column: added_at: when, UTC, to the minute
-- column: weights_sha256: weights of the model it was added from: of another model the same address is another neuron
-- chart:  tokens(text, number)
CREATE OR REPLACE MACRO collections.in_collection(collection, kind := NULL) AS TABLE
SELECT
    m.number,
    m.kind,
    m.layer,
    m.neuron,
    m.head,
    m.position_id,
    m.token_id,
    m.text,
    m.note,
    m.added_by,
    substr(make_timestamp(epoch_us(m.added_at))::TEXT, 1, 16) AS added_at,
    m.weights_sha256
FROM collections.collection_member AS m
INNER JOIN collections.collection AS c ON m.collection_id = c.collection_id
WHERE lower(c.name) = lower(collection) AND (kind IS NULL OR m.kind = kind)
ORDER BY m.number;
