-- rule: the largest skip-trigrams have ranks without a gap, signs of their tails and products that do not grow; no source as frequent has a larger one
WITH
scored AS (
    SELECT
        t.*,
        abs(CAST(t.destination_score AS DOUBLE) * t.out_score) AS product
    FROM skip_trigram AS t
),

following AS (
    SELECT
        s.*,
        row_number() OVER by_rank AS expected_rank,
        lead(s.product) OVER by_rank AS next_product
    FROM scored AS s
    WINDOW by_rank AS (PARTITION BY s.layer, s.head, s.destination_tail, s.out_tail ORDER BY s.rank)
),

-- of every source as frequent as the rarest of theirs the first of circuit_token
first_one AS (
    SELECT
        q.layer,
        q.head,
        max(CAST(q.score AS DOUBLE) * o.score) AS product
    FROM circuit_token AS q
    INNER JOIN circuit_token AS o ON q.layer = o.layer AND q.head = o.head AND q.source_token_id = o.source_token_id
    INNER JOIN circuit_source AS w ON q.layer = w.layer AND q.head = w.head AND q.circuit = w.circuit AND q.source_token_id = w.source_token_id
    WHERE
        q.circuit = 'qk' AND q.rank = 1 AND q.score > 0 AND o.circuit = 'ov' AND o.rank = 1 AND o.score > 0
        AND coalesce(w.n_source, 0) >= (
            SELECT min(coalesce(r.n_source, 0))
            FROM skip_trigram AS t
            INNER JOIN circuit_source AS r ON t.layer = r.layer AND t.head = r.head AND t.source_token_id = r.source_token_id
            WHERE t.layer = q.layer AND t.head = q.head
        )
    GROUP BY q.layer, q.head
)

SELECT
    f.layer,
    f.head,
    f.destination_tail,
    f.out_tail,
    f.rank
FROM following AS f
LEFT JOIN first_one AS t ON f.layer = t.layer AND f.head = t.head
WHERE
    f.rank <> f.expected_rank
    OR f.next_product > f.product
    OR sign(f.destination_score) <> CASE f.destination_tail WHEN 'max' THEN 1 ELSE -1 END
    OR sign(f.out_score) <> CASE f.out_tail WHEN 'max' THEN 1 ELSE -1 END
    OR (f.destination_tail = 'max' AND f.out_tail = 'max' AND f.rank = 1 AND f.product <> t.product);
