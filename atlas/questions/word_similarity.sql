-- title:  How far a model's word vectors rank likeness as people do
-- source: Finkelstein et al. 2002, WordSim-353; Hill et al. 2015, SimLex-999; table similarity_score
-- grain:  space, suite
-- n:      n_pairs
-- param:  space (text, NULL): input or output; NULL gives both, where a model has two matrices
-- column: space: input for what tokens bring to the stream, output for what predicts them
-- column: suite: wordsim353 rates relatedness too, simlex999 likeness alone
-- column: spearman: rank correlation of centred cosines with what people said, in [-1, 1]
-- column: spearman_raw: the same of cosines of vectors as they are
-- column: n_pairs: pairs whose two words are single tokens
-- column: n_left_out: pairs with a word of several tokens
-- chart:  bar(suite, spearman)
CREATE OR REPLACE MACRO word_similarity(space := NULL) AS TABLE
SELECT
    s.space,
    s.suite,
    s.spearman,
    s.spearman_raw,
    s.n_pairs,
    s.n_left_out
FROM similarity_score AS s
WHERE space IS NULL OR s.space = space
ORDER BY s.space, s.suite;
