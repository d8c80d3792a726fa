-- Means of the whole from the means of its parts, for the rows of `part`; what one part alone brings is left as it is.
-- Sums go in an order that the parts alone decide, so the result is the same to the bit whatever order they were loaded in.
WITH counted AS (
    SELECT
        p.*,
        p.n_destinations AS n,
        p.n_repeated AS m
    FROM part AS p
)

SELECT
    p.corpus_id,
    p.layer,
    p.head,
    sum(p.n_destinations)::BIGINT AS n_destinations,
    sum(p.n_repeated)::BIGINT AS n_repeated,
    CASE count(*) WHEN 1 THEN any_value(p.previous) ELSE list_sum(list_sort(list(p.n * p.previous))) / sum(p.n) END AS previous,
    CASE count(*) WHEN 1 THEN any_value(p.previous_uniform) ELSE list_sum(list_sort(list(p.n * p.previous_uniform))) / sum(p.n) END AS previous_uniform,
    CASE count(*) WHEN 1 THEN any_value(p.self) ELSE list_sum(list_sort(list(p.n * p.self))) / sum(p.n) END AS self,
    CASE count(*) WHEN 1 THEN any_value(p.self_uniform) ELSE list_sum(list_sort(list(p.n * p.self_uniform))) / sum(p.n) END AS self_uniform,
    CASE count(*) WHEN 1 THEN any_value(p.first) ELSE list_sum(list_sort(list(p.n * p.first))) / sum(p.n) END AS first,
    CASE count(*) WHEN 1 THEN any_value(p.first_uniform) ELSE list_sum(list_sort(list(p.n * p.first_uniform))) / sum(p.n) END AS first_uniform,
    CASE count(*) WHEN 1 THEN any_value(p.duplicate) ELSE list_sum(list_sort(list(p.m * p.duplicate))) / sum(p.m) END AS duplicate,
    CASE count(*) WHEN 1 THEN any_value(p.duplicate_uniform) ELSE list_sum(list_sort(list(p.m * p.duplicate_uniform))) / sum(p.m) END AS duplicate_uniform,
    CASE count(*) WHEN 1 THEN any_value(p.induction) ELSE list_sum(list_sort(list(p.m * p.induction))) / sum(p.m) END AS induction,
    CASE count(*) WHEN 1 THEN any_value(p.induction_uniform) ELSE list_sum(list_sort(list(p.m * p.induction_uniform))) / sum(p.m) END AS induction_uniform,
    CASE count(*) WHEN 1 THEN any_value(p.entropy) ELSE list_sum(list_sort(list(p.n * p.entropy))) / sum(p.n) END AS entropy,
    CASE count(*) WHEN 1 THEN any_value(p.entropy_uniform) ELSE list_sum(list_sort(list(p.n * p.entropy_uniform))) / sum(p.n) END AS entropy_uniform,
    -- a run that an older release began has parts without these
    CASE
        WHEN bool_or(p.n > 0 AND p.first_moved IS NULL) THEN NULL
        WHEN count(*) = 1 THEN any_value(p.first_moved)
        ELSE list_sum(list_sort(list(p.n * p.first_moved))) / sum(p.n)
    END AS first_moved,
    CASE
        WHEN bool_or(p.n > 0 AND p.first_moved_uniform IS NULL) THEN NULL
        WHEN count(*) = 1 THEN any_value(p.first_moved_uniform)
        ELSE list_sum(list_sort(list(p.n * p.first_moved_uniform))) / sum(p.n)
    END AS first_moved_uniform
FROM counted AS p
GROUP BY p.corpus_id, p.layer, p.head
