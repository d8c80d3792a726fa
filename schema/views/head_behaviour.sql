-- title:  What every head looks at, one row a behaviour
-- source: tables head_statistics and head_probe
-- grain:  corpus_id, probe, layer, head, behaviour
CREATE OR REPLACE VIEW head_behaviour AS
WITH heads AS (
    SELECT
        NULL AS probe,
        s.*
    FROM head_statistics AS s
    UNION ALL BY NAME
    SELECT
        NULL AS corpus_id,
        p.*
    FROM head_probe AS p
)

SELECT
    h.corpus_id,
    h.probe,
    h.layer,
    h.head,
    unnest(['previous', 'self', 'first', 'duplicate', 'induction', 'first_moved']) AS behaviour,
    unnest([h.previous, h.self, h.first, h.duplicate, h.induction, h.first_moved]) AS weight,
    unnest(
        [h.previous_uniform, h.self_uniform, h.first_uniform, h.duplicate_uniform, h.induction_uniform, h.first_moved_uniform]
    ) AS uniform,
    unnest([h.n_destinations, h.n_destinations, h.n_destinations, h.n_repeated, h.n_repeated, if(h.first_moved IS NULL, 0, h.n_destinations)]) AS n
FROM heads AS h;
COMMENT ON VIEW head_behaviour IS 'head_statistics and head_probe unfolded: how much weight each head puts where a behaviour has it.';
COMMENT ON COLUMN head_behaviour.corpus_id IS 'The corpus the mean is over; null for a probe.';
COMMENT ON COLUMN head_behaviour.probe IS 'The probe the mean is over, repeat or olsson2022; null for a corpus.';
COMMENT ON COLUMN head_behaviour.layer IS 'Transformer block, counted from 0.';
COMMENT ON COLUMN head_behaviour.head IS 'Attention head of the layer, counted from 0.';
COMMENT ON COLUMN head_behaviour.behaviour IS 'previous, self, first, duplicate, induction or first_moved: columns of both tables, which say what each is.';
COMMENT ON COLUMN head_behaviour.weight IS 'Mean attention weight there, of first_moved mean share of what all sources move, in [0, 1]; null if n is 0.';
COMMENT ON COLUMN head_behaviour.uniform IS 'The same for weights that are equal on all that a destination sees, at the same positions.';
COMMENT ON COLUMN head_behaviour.n IS 'Destinations the mean is over: all but index 0, for duplicate and induction those seen before; 0 in older runs.';
