-- title:  The skip-trigrams that are kept, as texts
-- source: table skip_trigram; Elhage et al. 2021, what copying looks like where words are several tokens
-- grain:  layer, head, destination_tail, out_tail, rank
CREATE OR REPLACE VIEW skip_trigram_text AS
SELECT
    t.*,
    CAST(t.destination_score AS DOUBLE) * t.out_score AS score,
    s.text AS source,
    d.text AS destination,
    o.text AS out,
    CASE
        WHEN trim(o.text) <> '' AND trim(s.text) = trim(o.text) THEN 'copy'
        WHEN ltrim(s.text) = ltrim(d.text) || o.text THEN 'split'
        ELSE 'other'
    END AS kind
FROM skip_trigram AS t
INNER JOIN token AS s ON t.source_token_id = s.token_id
INNER JOIN token AS d ON t.destination_token_id = d.token_id
INNER JOIN token AS o ON t.out_token_id = o.token_id;
COMMENT ON VIEW skip_trigram_text IS 'skip_trigram with its product, its texts, and whether it copies.';
COMMENT ON COLUMN skip_trigram_text.layer IS 'Transformer block, counted from 0.';
COMMENT ON COLUMN skip_trigram_text.head IS 'Attention head of the layer, counted from 0.';
COMMENT ON COLUMN skip_trigram_text.destination_tail IS 'max: destinations that look at the source more than at others; min: less.';
COMMENT ON COLUMN skip_trigram_text.out_tail IS 'max: tokens that it promotes; min: tokens that it suppresses.';
COMMENT ON COLUMN skip_trigram_text.rank IS 'From 1 to 100, by falling modulus of the score.';
COMMENT ON COLUMN skip_trigram_text.source_token_id IS 'The token that is looked at.';
COMMENT ON COLUMN skip_trigram_text.destination_token_id IS 'The token that looks.';
COMMENT ON COLUMN skip_trigram_text.out_token_id IS 'The token that it promotes or suppresses.';
COMMENT ON COLUMN skip_trigram_text.destination_score IS 'Score of the destination for the source, over distances, less its mean over sources.';
COMMENT ON COLUMN skip_trigram_text.out_score IS 'What reading the source adds to the logit of out, less the mean over tokens, before the final norm''s scale.';
COMMENT ON COLUMN skip_trigram_text.score IS 'destination_score times out_score: a pressure and no probability, since sources compete for a destination.';
COMMENT ON COLUMN skip_trigram_text.source IS 'Text of the token that is looked at.';
COMMENT ON COLUMN skip_trigram_text.destination IS 'Text of the token that looks.';
COMMENT ON COLUMN skip_trigram_text.out IS 'Text of the token that it promotes or suppresses.';
COMMENT ON COLUMN skip_trigram_text.kind IS 'copy ([b] … [a] → [b]), split ([ab] … [a] → [b]) or other.';
