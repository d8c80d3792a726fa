-- title:  Patterns and concepts that annotators found
-- source: Geva et al. 2021, section 3 and table 1; Geva et al. 2022, section 4
-- grain:  pattern_id
-- param:  subject (text, NULL): key, value, random_vector or ffn_update; NULL takes all
-- param:  layer (integer, NULL): only this layer; NULL takes every layer
-- param:  item (bigint, NULL): one neuron, random vector or update (column item); NULL takes all
-- param:  corpus (integer, NULL): one corpus_id, for keys and FFN updates; NULL takes all corpora
-- param:  annotator (text, NULL): one annotator; NULL takes all, proposals too
-- column: subject: what was looked at
-- column: layer: transformer block, from 0
-- column: item: neuron, number of the random vector, or position_id of the update
-- column: corpus_id: the corpus whose texts were read; null for values and random vectors
-- column: annotator: who found it
-- column: annotator_kind: person, or proposed by the program
-- column: kind: shallow, semantic, syntactic or names
-- column: description: in the annotator's words
-- column: n_matches: texts or tokens it explains
-- column: n_items: texts or tokens that were shown
-- column: tokens: the tokens it explains, or those that its texts end with, by rank
-- column: pattern_id: the pattern
-- chart:  tokens(tokens, n_matches)
CREATE OR REPLACE MACRO annotations.annotated_patterns(subject := NULL, layer := NULL, item := NULL, corpus := NULL, annotator := NULL) AS TABLE
SELECT
    a.subject,
    a.layer,
    a.item,
    a.corpus_id,
    a.annotator,
    if(a.is_proposed, 'proposed', 'person') AS annotator_kind,
    p.kind,
    p.description,
    count(*) AS n_matches,
    a.n_items,
    list(i.token ORDER BY i.rank) AS tokens,
    p.pattern_id
FROM annotations.pattern AS p
INNER JOIN annotations.annotation AS a ON p.annotation_id = a.annotation_id
INNER JOIN annotations.pattern_match AS m ON p.pattern_id = m.pattern_id
INNER JOIN annotations.annotation_item AS i ON p.annotation_id = i.annotation_id AND m.rank = i.rank
WHERE
    (subject IS NULL OR a.subject = subject)
    AND (layer IS NULL OR a.layer = layer)
    AND (item IS NULL OR a.item = item)
    AND (corpus IS NULL OR a.corpus_id IS NULL OR a.corpus_id = corpus)
    AND (annotator IS NULL OR lower(a.annotator) = lower(annotator))
GROUP BY a.subject, a.layer, a.item, a.corpus_id, a.annotator, a.is_proposed, p.kind, p.description, a.n_items, p.pattern_id
ORDER BY a.subject, a.layer, a.item, a.is_proposed, a.annotator, p.pattern_id;
