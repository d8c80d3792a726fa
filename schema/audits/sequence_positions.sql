-- rule: a sequence's positions are n_positions in number, consecutive, indexed from 0, and begin at first_position_id
SELECT
    s.sequence_id,
    s.first_position_id,
    s.n_positions,
    count(p.position_id) AS n_found
FROM sequence AS s
LEFT JOIN position AS p ON s.sequence_id = p.sequence_id
GROUP BY s.sequence_id, s.first_position_id, s.n_positions
HAVING count(p.position_id) <> s.n_positions OR NOT bool_and(p.position_id = s.first_position_id + p.index AND p.index < s.n_positions);
