-- title:  How often skip-trigrams stand in the text
-- source: tables position and sequence; Elhage et al. 2021, skip-trigrams: source … destination → out
-- grain:  source_token_id, destination_token_id, out_token_id
-- n:      n_after
-- param:  sources (bigint[]): token_ids of the tokens that stand before, such as [12, 15]
-- param:  destinations (bigint[]): token_ids of the tokens after which one is predicted, as many
-- param:  outs (bigint[]): token_ids of the tokens that are predicted, as many
-- param:  corpus (integer, NULL): one corpus_id; NULL counts over all corpora
-- column: source_token_id: a token of a sequence
-- column: destination_token_id: a later token of it
-- column: out_token_id: the token that follows that one
-- column: n: how often out follows the destination where the source stands before it in its sequence, however far
-- column: n_after: how often any token does
-- column: n_bigram: how often out follows the destination, whatever stands before
-- column: n_destination: how often any token follows the destination
-- column: share: n / n_after, in [0, 1]; null where the source never stands before the destination
-- column: lift: share over n_bigram / n_destination; null where out never follows the destination
-- chart:  bar(n, lift)
--
-- The other questions about skip-trigrams take their counts from here: those that are looked at are few, and one look at the positions counts them all.
CREATE OR REPLACE MACRO skip_trigram_counts(sources, destinations, outs, corpus := NULL) AS TABLE
WITH
asked AS MATERIALIZED (
    SELECT DISTINCT u.*
    FROM (
        SELECT
            unnest(sources) AS source_token_id,
            unnest(destinations) AS destination_token_id,
            unnest(outs) AS out_token_id
    ) AS u
),

text AS (
    SELECT p.*
    FROM position AS p
    INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
    INNER JOIN document AS d ON s.document_id = d.document_id
    WHERE corpus IS NULL OR d.corpus_id = corpus
),

first_place AS (
    SELECT
        p.sequence_id,
        p.token_id,
        min(p.index) AS index
    FROM text AS p
    WHERE p.token_id IN (SELECT a.source_token_id FROM asked AS a)
    GROUP BY p.sequence_id, p.token_id
),

destination AS (
    SELECT
        p.sequence_id,
        p.index,
        p.token_id,
        p.next_token_id
    FROM text AS p
    WHERE p.token_id IN (SELECT a.destination_token_id FROM asked AS a) AND p.next_token_id IS NOT NULL
),

pair AS (
    SELECT DISTINCT
        a.source_token_id,
        a.destination_token_id
    FROM asked AS a
),

after_source AS (
    SELECT
        i.source_token_id,
        i.destination_token_id,
        d.next_token_id,
        count(*) AS n
    FROM pair AS i
    INNER JOIN destination AS d ON i.destination_token_id = d.token_id
    INNER JOIN first_place AS f ON i.source_token_id = f.token_id AND d.sequence_id = f.sequence_id AND d.index > f.index
    GROUP BY i.source_token_id, i.destination_token_id, d.next_token_id
),

after_any AS (
    SELECT
        d.token_id,
        d.next_token_id,
        count(*) AS n
    FROM destination AS d
    GROUP BY d.token_id, d.next_token_id
),

counted AS (
    SELECT
        a.*,
        (
            SELECT coalesce(CAST(sum(s.n) AS BIGINT), 0)
            FROM after_source AS s
            WHERE
                a.source_token_id = s.source_token_id
                AND a.destination_token_id = s.destination_token_id
                AND a.out_token_id = s.next_token_id
        ) AS n,
        (
            SELECT coalesce(CAST(sum(s.n) AS BIGINT), 0)
            FROM after_source AS s
            WHERE a.source_token_id = s.source_token_id AND a.destination_token_id = s.destination_token_id
        ) AS n_after,
        (
            SELECT coalesce(CAST(sum(d.n) AS BIGINT), 0)
            FROM after_any AS d
            WHERE a.destination_token_id = d.token_id AND a.out_token_id = d.next_token_id
        ) AS n_bigram,
        (
            SELECT coalesce(CAST(sum(d.n) AS BIGINT), 0)
            FROM after_any AS d
            WHERE a.destination_token_id = d.token_id
        ) AS n_destination
    FROM asked AS a
)

SELECT
    c.source_token_id,
    c.destination_token_id,
    c.out_token_id,
    c.n,
    c.n_after,
    c.n_bigram,
    c.n_destination,
    c.n / nullif(c.n_after, 0) AS share,
    c.n / nullif(c.n_after, 0) * c.n_destination / nullif(c.n_bigram, 0) AS lift
FROM counted AS c
ORDER BY c.source_token_id, c.destination_token_id, c.out_token_id;
