-- Means of the whole from the means of its parts, for the rows of `part`; what one part alone brings is left as it is.
-- Sums go in an order that the parts alone decide, so the result is the same to the bit whatever order they were loaded in.
SELECT
    p.corpus_id,
    p.layer,
    p.head,
    sum(p.n_destinations)::BIGINT AS n_destinations,
    sum(p.n_repeated)::BIGINT AS n_repeated,
    CASE count(*) WHEN 1 THEN any_value(p.previous) ELSE list_sum(list_sort(list(p.n_destinations * p.previous))) / sum(p.n_destinations) END AS previous,
    CASE count(*) WHEN 1 THEN any_value(p.previous_uniform) ELSE list_sum(list_sort(list(p.n_destinations * p.previous_uniform))) / sum(p.n_destinations) END AS previous_uniform,
    CASE count(*) WHEN 1 THEN any_value(p.self) ELSE list_sum(list_sort(list(p.n_destinations * p.self))) / sum(p.n_destinations) END AS self,
    CASE count(*) WHEN 1 THEN any_value(p.self_uniform) ELSE list_sum(list_sort(list(p.n_destinations * p.self_uniform))) / sum(p.n_destinations) END AS self_uniform,
    CASE count(*) WHEN 1 THEN any_value(p.first) ELSE list_sum(list_sort(list(p.n_destinations * p.first))) / sum(p.n_destinations) END AS first,
    CASE count(*) WHEN 1 THEN any_value(p.first_uniform) ELSE list_sum(list_sort(list(p.n_destinations * p.first_uniform))) / sum(p.n_destinations) END AS first_uniform,
    CASE count(*) WHEN 1 THEN any_value(p.duplicate) ELSE list_sum(list_sort(list(p.n_repeated * p.duplicate))) / sum(p.n_repeated) END AS duplicate,
    CASE count(*) WHEN 1 THEN any_value(p.duplicate_uniform) ELSE list_sum(list_sort(list(p.n_repeated * p.duplicate_uniform))) / sum(p.n_repeated) END AS duplicate_uniform,
    CASE count(*) WHEN 1 THEN any_value(p.induction) ELSE list_sum(list_sort(list(p.n_repeated * p.induction))) / sum(p.n_repeated) END AS induction,
    CASE count(*) WHEN 1 THEN any_value(p.induction_uniform) ELSE list_sum(list_sort(list(p.n_repeated * p.induction_uniform))) / sum(p.n_repeated) END AS induction_uniform,
    CASE count(*) WHEN 1 THEN any_value(p.entropy) ELSE list_sum(list_sort(list(p.n_destinations * p.entropy))) / sum(p.n_destinations) END AS entropy,
    CASE count(*) WHEN 1 THEN any_value(p.entropy_uniform) ELSE list_sum(list_sort(list(p.n_destinations * p.entropy_uniform))) / sum(p.n_destinations) END AS entropy_uniform
FROM part AS p
GROUP BY p.corpus_id, p.layer, p.head
