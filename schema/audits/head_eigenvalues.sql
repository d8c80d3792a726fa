-- rule: every head has d_head eigenvalues of each spectrum, moduli that do not rise, and ratios that follow from them
WITH
ratio AS (
    UNPIVOT (SELECT h.layer, h.head, h.copying_token, h.copying_effective, h.stream_ratio, h.matching FROM head AS h)
    ON copying_token AS ov_token, copying_effective AS ov_effective, stream_ratio AS stream, matching INTO NAME spectrum VALUE ratio
),

following AS (
    SELECT
        e.*,
        lead(e.modulus) OVER (PARTITION BY e.layer, e.head, e.spectrum ORDER BY e.rank) AS next_modulus
    FROM (SELECT v.*, sqrt(v.real * v.real + v.imaginary * v.imaginary) AS modulus FROM head_eigenvalue AS v) AS e
),

summed AS (
    SELECT
        f.layer,
        f.head,
        f.spectrum,
        count(*) AS n,
        max(f.rank) AS last_rank,
        coalesce(sum(f.real) / nullif(sum(f.modulus), 0), 0) AS ratio,
        bool_or(f.next_modulus > f.modulus * (1 + 1e-9)) AS is_rising
    FROM following AS f
    GROUP BY f.layer, f.head, f.spectrum
)

SELECT
    r.layer,
    r.head,
    r.spectrum,
    r.ratio,
    s.ratio AS ratio_of_eigenvalues
FROM ratio AS r
LEFT JOIN summed AS s ON r.layer = s.layer AND r.head = s.head AND r.spectrum = s.spectrum
CROSS JOIN model AS m
WHERE
    s.n IS DISTINCT FROM m.d_head
    OR s.last_rank <> m.d_head
    OR s.is_rising
    OR abs(s.ratio - r.ratio) > 1e-5;
