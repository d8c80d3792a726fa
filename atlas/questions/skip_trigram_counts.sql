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
    FROM (SELECT unnest(sources) AS source_token_id, unnest(destinations) AS destination_token_id, unnest(outs) AS out_token_id) AS u
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
    SEMI JOIN asked AS a ON p.token_id = a.source_token_id
    GROUP BY p.sequence_id, p.token_id
),

-- what follows each destination, wherever it stands, and of that where the source stands before it
following AS (
    SELECT
        a.source_token_id,
        a.destination_token_id,
        p.next_token_id,
        count(*) AS n,
        count(*) FILTER (WHERE f.index < p.index) AS n_after
    FROM (SELECT DISTINCT a.source_token_id, a.destination_token_id FROM asked AS a) AS a
    INNER JOIN text AS p ON a.destination_token_id = p.token_id AND p.next_token_id IS NOT NULL
    LEFT JOIN first_place AS f ON a.source_token_id = f.token_id AND p.sequence_id = f.sequence_id
    GROUP BY a.source_token_id, a.destination_token_id, p.next_token_id
),

counted AS (
    SELECT
        a.*,
        coalesce(CAST(sum(f.n_after) FILTER (WHERE f.next_token_id = a.out_token_id) AS BIGINT), 0) AS n,
        coalesce(CAST(sum(f.n_after) AS BIGINT), 0) AS n_after,
        coalesce(CAST(sum(f.n) FILTER (WHERE f.next_token_id = a.out_token_id) AS BIGINT), 0) AS n_bigram,
        coalesce(CAST(sum(f.n) AS BIGINT), 0) AS n_destination
    FROM asked AS a
    LEFT JOIN following AS f ON a.source_token_id = f.source_token_id AND a.destination_token_id = f.destination_token_id
    GROUP BY ALL
)

SELECT
    c.*,
    c.n / nullif(c.n_after, 0) AS share,
    c.n / nullif(c.n_after, 0) * c.n_destination / nullif(c.n_bigram, 0) AS lift
FROM counted AS c
ORDER BY c.source_token_id, c.destination_token_id, c.out_token_id;
