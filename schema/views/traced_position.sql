-- title:  Traced positions with the corpus they lie in
-- source: tables trace and run
-- grain:  position_id
CREATE OR REPLACE VIEW traced_position AS
SELECT
    t.position_id,
    r.corpus_id,
    t.final_token_id,
    p.index = 0 AS is_first
FROM trace AS t
INNER JOIN run AS r ON t.run_id = r.run_id
INNER JOIN position AS p ON t.position_id = p.position_id;
COMMENT ON VIEW traced_position IS 'One row per traced position, with its corpus: what every figure over traced positions starts from.';
COMMENT ON COLUMN traced_position.position_id IS 'The traced token occurrence.';
COMMENT ON COLUMN traced_position.corpus_id IS 'The corpus it lies in.';
COMMENT ON COLUMN traced_position.final_token_id IS 'The model''s prediction there: rank 1 of its own logits.';
COMMENT ON COLUMN traced_position.is_first IS 'It is the first of its sequence (index 0), where the states of most models are huge.';
