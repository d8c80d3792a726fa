-- title:  Whether all perturbations of an item left the prediction as it was
-- source: view perturbation_outcome
-- grain:  corpus_id, suite, paradigm, item
CREATE OR REPLACE VIEW perturbation_item AS
SELECT
    p.corpus_id,
    p.suite,
    p.paradigm,
    p.item,
    CAST(min(p.delta) - max(p.divergence) AS DOUBLE) AS margin,
    bool_and(p.is_top_kept) AS are_tops_kept
FROM perturbation_outcome AS p
GROUP BY p.corpus_id, p.suite, p.paradigm, p.item;
COMMENT ON VIEW perturbation_item IS 'One row an item of kind inv.';
COMMENT ON COLUMN perturbation_item.corpus_id IS 'The suite as a corpus.';
COMMENT ON COLUMN perturbation_item.suite IS 'The suite.';
COMMENT ON COLUMN perturbation_item.paradigm IS 'What the item tests.';
COMMENT ON COLUMN perturbation_item.item IS 'The item.';
COMMENT ON COLUMN perturbation_item.margin IS 'The largest divergence that passes less the largest there is, in nats.';
COMMENT ON COLUMN perturbation_item.are_tops_kept IS 'Whether the most probable token is the same behind all its texts.';
