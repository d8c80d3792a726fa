-- title:  Whether the formulas of an item hold
-- source: tables test_term and test_item, view region_surprisal (Gauthier et al. 2020)
-- grain:  corpus_id, suite, paradigm, item
CREATE OR REPLACE VIEW formula_item AS
WITH
tested AS (
    SELECT
        d.corpus_id,
        t.suite,
        t.paradigm,
        t.item,
        map_from_entries(list((t.role, t.document_id))) AS document_of
    FROM test_item AS t
    INNER JOIN document AS d ON t.document_id = d.document_id
    WHERE t.kind = 'region'
    GROUP BY d.corpus_id, t.suite, t.paradigm, t.item
),

compared AS (
    SELECT
        i.*,
        t.formula,
        t.clause,
        t.comparison,
        any_value(t.operator) AS operator,
        -- a region without a surprisal leaves the sum open
        CASE WHEN bool_and(t.role = '' OR r.surprisal IS NOT NULL) THEN sum(t.weight * if(t.role = '', 1, r.surprisal)) END AS total
    FROM tested AS i
    INNER JOIN test_term AS t ON i.corpus_id = t.corpus_id AND i.suite = t.suite AND i.paradigm = t.paradigm
    LEFT JOIN region_surprisal AS r ON i.document_of[t.role] = r.document_id AND t.region = r.region
    GROUP BY ALL
),

of_clause AS (
    SELECT
        c.corpus_id,
        c.suite,
        c.paradigm,
        c.item,
        c.formula,
        c.clause,
        max(if(c.operator = 'equal', CAST(0.001 AS DOUBLE) - abs(c.total), c.total)) AS margin,
        bool_or(c.total IS NULL) AS is_open
    FROM compared AS c
    GROUP BY c.corpus_id, c.suite, c.paradigm, c.item, c.formula, c.clause
)

SELECT
    c.corpus_id,
    c.suite,
    c.paradigm,
    c.item,
    if(bool_or(c.is_open), NULL, min(c.margin)) AS margin
FROM of_clause AS c
GROUP BY c.corpus_id, c.suite, c.paradigm, c.item;
COMMENT ON VIEW formula_item IS 'One row an item of kind region.';
COMMENT ON COLUMN formula_item.corpus_id IS 'The suite as a corpus.';
COMMENT ON COLUMN formula_item.suite IS 'The suite.';
COMMENT ON COLUMN formula_item.paradigm IS 'What the item tests.';
COMMENT ON COLUMN formula_item.item IS 'The item.';
COMMENT ON COLUMN formula_item.margin IS 'By how much the formulas hold, in nats: of the clause that holds least, its best comparison; above 0 if all hold.';
