-- title:  What a perturbation moved at the end of its text
-- source: tables test_divergence, test_item and position_prediction
-- grain:  document_id
CREATE OR REPLACE VIEW perturbation_outcome AS
WITH
last_prediction AS (
    SELECT
        s.document_id,
        arg_max(p.top_token_id, p.position_id) AS top_token_id
    FROM test_item AS t
    INNER JOIN sequence AS s ON t.document_id = s.document_id
    INNER JOIN position AS i ON s.sequence_id = i.sequence_id
    INNER JOIN position_prediction AS p ON i.position_id = p.position_id
    WHERE t.kind = 'inv'
    GROUP BY s.document_id
)

SELECT
    d.corpus_id,
    t.suite,
    t.paradigm,
    t.item,
    t.document_id,
    v.original_document_id,
    t.expectation AS perturbation,
    t.delta,
    v.divergence,
    b.top_token_id = a.top_token_id AS is_top_kept
FROM test_divergence AS v
INNER JOIN test_item AS t ON v.document_id = t.document_id
INNER JOIN document AS d ON t.document_id = d.document_id
LEFT JOIN last_prediction AS b ON v.document_id = b.document_id
LEFT JOIN last_prediction AS a ON v.original_document_id = a.document_id;
COMMENT ON VIEW perturbation_outcome IS 'One row a perturbed text: whether the prediction behind its last token is still that of the text it was made from.';
COMMENT ON COLUMN perturbation_outcome.corpus_id IS 'The suite as a corpus.';
COMMENT ON COLUMN perturbation_outcome.suite IS 'The suite.';
COMMENT ON COLUMN perturbation_outcome.paradigm IS 'What the item tests.';
COMMENT ON COLUMN perturbation_outcome.item IS 'The item.';
COMMENT ON COLUMN perturbation_outcome.document_id IS 'The perturbed text.';
COMMENT ON COLUMN perturbation_outcome.original_document_id IS 'The text it was made from.';
COMMENT ON COLUMN perturbation_outcome.perturbation IS 'The perturbation.';
COMMENT ON COLUMN perturbation_outcome.delta IS 'The largest divergence that passes, in nats.';
COMMENT ON COLUMN perturbation_outcome.divergence IS 'Jensen-Shannon divergence of both predictions, in nats.';
COMMENT ON COLUMN perturbation_outcome.is_top_kept IS 'Whether the same token is the most probable; null where the suite was read without predictions.';
