-- title:  How many analogies a model's word vectors answer
-- source: Mikolov et al. 2013, questions-words; Levy and Goldberg 2014, 3CosAdd and 3CosMul; table analogy_score
-- grain:  section, method
-- n:      n_asked
-- param:  space (text, 'input'): input for what tokens bring to the stream, output for what predicts them; a model with one matrix has input alone
-- column: section: of the questions; all: every question, each counted once
-- column: method: add: vectors as they are; add_centred: less their mean; multiply: 3CosMul
-- column: accuracy: share of the questions asked whose fourth word is nearest, in any spelling, in [0, 1]; null where none was
-- column: accuracy_of_all: the same where the three words given are answers too
-- column: n_asked: questions whose four words are single tokens
-- column: n_left_out: questions with a word of several tokens; earlier runs left out sections with no other
-- chart:  bar(section, accuracy)
CREATE OR REPLACE MACRO analogy_accuracy(space := 'input') AS TABLE
SELECT
    coalesce(s.section, 'all') AS section,
    s.method,
    sum(s.n_right) / nullif(sum(s.n_asked), 0) AS accuracy,
    sum(s.n_right_of_all) / nullif(sum(s.n_asked), 0) AS accuracy_of_all,
    CAST(sum(s.n_asked) AS BIGINT) AS n_asked,
    CAST(sum(s.n_left_out) AS BIGINT) AS n_left_out
FROM analogy_score AS s
WHERE s.space = space
GROUP BY GROUPING SETS ((s.section, s.method), (s.method))
ORDER BY s.section NULLS FIRST, s.method;
