-- title: Texts and tokens that were shown, with the kinds of patterns that explain them
-- grain: annotation_id, rank
CREATE OR REPLACE VIEW annotations.annotated_item AS
WITH
explained AS (
    SELECT
        p.annotation_id,
        m.rank,
        count(*) AS n_patterns,
        bool_or(p.kind = 'shallow') AS is_shallow,
        bool_or(p.kind = 'semantic') AS is_semantic,
        bool_or(p.kind = 'syntactic') AS is_syntactic,
        bool_or(p.kind = 'names') AS is_names
    FROM annotations.pattern AS p
    INNER JOIN annotations.pattern_match AS m ON p.pattern_id = m.pattern_id
    GROUP BY p.annotation_id, m.rank
),

annotated_by_people AS (
    SELECT DISTINCT a.subject
    FROM annotations.annotation AS a
    WHERE NOT a.is_proposed
)

SELECT
    a.annotation_id,
    a.subject,
    a.corpus_id,
    a.layer,
    a.item,
    a.annotator,
    if(a.is_proposed, 'proposed', 'person') AS annotator_kind,
    NOT a.is_proposed OR h.subject IS NULL AS is_counted,
    i.rank,
    i.position_id,
    i.token_id,
    i.is_stop_word,
    i.text_before,
    i.token,
    coalesce(e.n_patterns, 0) AS n_patterns,
    coalesce(e.is_shallow, FALSE) AS is_shallow,
    coalesce(e.is_semantic, FALSE) AS is_semantic,
    coalesce(e.is_syntactic, FALSE) AS is_syntactic,
    coalesce(e.is_names, FALSE) AS is_names
FROM annotations.annotation AS a
INNER JOIN annotations.annotation_item AS i ON a.annotation_id = i.annotation_id
LEFT JOIN explained AS e ON i.annotation_id = e.annotation_id AND i.rank = e.rank
LEFT JOIN annotated_by_people AS h ON a.subject = h.subject;
COMMENT ON VIEW annotations.annotated_item IS 'One row per text or token shown to an annotator, with the kinds of patterns that explain it.';
COMMENT ON COLUMN annotations.annotated_item.annotation_id IS 'The look at which it was shown.';
COMMENT ON COLUMN annotations.annotated_item.subject IS 'key, value, random_vector or ffn_update.';
COMMENT ON COLUMN annotations.annotated_item.corpus_id IS 'The corpus whose texts were read; null for values and random vectors.';
COMMENT ON COLUMN annotations.annotated_item.layer IS 'Transformer block, counted from 0.';
COMMENT ON COLUMN annotations.annotated_item.item IS 'Neuron, number of the random vector, or position_id of the update.';
COMMENT ON COLUMN annotations.annotated_item.annotator IS 'Who annotated; miner for proposals.';
COMMENT ON COLUMN annotations.annotated_item.annotator_kind IS 'person, or proposed by the program.';
COMMENT ON COLUMN annotations.annotated_item.is_counted IS
'Counted in the figures: a person''s, or a proposal where no person has annotated anything of this subject, so that the two never mix.';
COMMENT ON COLUMN annotations.annotated_item.rank IS 'From 1: rank of the trigger or of the token when it was shown.';
COMMENT ON COLUMN annotations.annotated_item.position_id IS 'Where the text of a key ends; null for tokens.';
COMMENT ON COLUMN annotations.annotated_item.token_id IS 'The token; of a text the token it ends with.';
COMMENT ON COLUMN annotations.annotated_item.is_stop_word IS 'token.is_stop_word when it was shown.';
COMMENT ON COLUMN annotations.annotated_item.text_before IS 'Characters shown before the token; null for tokens.';
COMMENT ON COLUMN annotations.annotated_item.token IS 'Characters of the token.';
COMMENT ON COLUMN annotations.annotated_item.n_patterns IS 'Patterns that explain it; 0: uncovered.';
COMMENT ON COLUMN annotations.annotated_item.is_shallow IS 'A shallow pattern explains it.';
COMMENT ON COLUMN annotations.annotated_item.is_semantic IS 'A semantic pattern explains it.';
COMMENT ON COLUMN annotations.annotated_item.is_syntactic IS 'A syntactic concept explains it.';
COMMENT ON COLUMN annotations.annotated_item.is_names IS 'A concept of names explains it.';
