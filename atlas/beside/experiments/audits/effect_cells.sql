-- rule: a knockout says what could not be read, any other effect at which index; both say over how many layers
SELECT f.*
FROM experiments.effect AS f
WHERE (f.sources IS NULL) <> (f.index IS NOT NULL) OR (f.sources IS NOT NULL AND f.site <> 'attention') OR f.window < 1 OR f.n_draws < 1;
