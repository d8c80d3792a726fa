-- title:  Collections, and what is in each
-- source: the file beside the atlas; nothing of a paper
-- grain:  name
-- column: name: its name
-- column: n_members: how many things are in it
-- column: n_neurons: neurons among them
-- column: n_heads: attention heads among them
-- column: n_positions: positions among them
-- column: n_tokens: tokens among them
-- column: note: what it is of, in the words of who made it
-- column: made_by: who made it
-- column: created_at: when it was made, UTC, to the minute
-- column: changed_at: when a member was last added, UTC; when it was made, if it has none
-- chart:  bar(name, n_members)
CREATE OR REPLACE MACRO collections.collections() AS TABLE
SELECT
    c.name,
    count(m.kind) AS n_members,
    count(*) FILTER (m.kind = 'neuron') AS n_neurons,
    count(*) FILTER (m.kind = 'head') AS n_heads,
    count(*) FILTER (m.kind = 'position') AS n_positions,
    count(*) FILTER (m.kind = 'token') AS n_tokens,
    c.note,
    c.made_by,
    substr(make_timestamp(epoch_us(c.created_at))::TEXT, 1, 16) AS created_at,
    substr(make_timestamp(epoch_us(coalesce(max(m.added_at), c.created_at)))::TEXT, 1, 16) AS changed_at
FROM collections.collection AS c
LEFT JOIN collections.collection_member AS m ON c.collection_id = m.collection_id
GROUP BY c.name, c.note, c.made_by, c.created_at
ORDER BY c.name;
