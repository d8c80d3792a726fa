-- rule: singular values do not rise and make up no more than the norm, and each end of a direction has ranks without a gap and scores that fall away
WITH
following AS (
    SELECT
        d.*,
        lead(d.sigma) OVER (PARTITION BY d.layer, d.head, d.circuit ORDER BY d.direction_rank) AS next_sigma,
        sum(d.sigma * d.sigma::DOUBLE) OVER (PARTITION BY d.layer, d.head, d.circuit) AS squares
    FROM head_direction AS d
),

scored AS (
    SELECT
        t.*,
        row_number() OVER by_rank AS expected_rank,
        lead(t.score) OVER by_rank AS next_score
    FROM head_direction_token AS t
    WINDOW by_rank AS (PARTITION BY t.layer, t.head, t.circuit, t.direction_rank, t.side, t.tail ORDER BY t.rank)
)

SELECT
    f.layer,
    f.head,
    f.circuit,
    f.direction_rank
FROM following AS f
INNER JOIN head AS h ON f.layer = h.layer AND f.head = h.head
WHERE f.next_sigma > f.sigma OR f.squares > pow(CASE f.circuit WHEN 'ov' THEN h.ov_norm ELSE h.qk_norm END, 2) * (1 + 1e-4)
UNION ALL
SELECT
    s.layer,
    s.head,
    s.circuit,
    s.direction_rank
FROM scored AS s
WHERE
    s.rank <> s.expected_rank
    OR CASE s.tail WHEN 'max' THEN s.next_score > s.score ELSE s.next_score < s.score END
    OR (s.side IN ('read', 'write')) <> (s.circuit = 'ov');
