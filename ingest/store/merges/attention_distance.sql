-- Sums of the whole from the sums of its parts, for the rows of `part`; in an order that the parts alone decide.
SELECT
    p.corpus_id,
    p.layer,
    p.head,
    p.bin,
    list_sum(list(p.weight ORDER BY p.weight)) AS weight,
    list_sum(list(p.uniform ORDER BY p.uniform)) AS uniform,
    sum(p.n)::BIGINT AS n
FROM part AS p
GROUP BY p.corpus_id, p.layer, p.head, p.bin
