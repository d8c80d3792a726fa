-- title:  Where a value alone predicts what the layer predicts: stop words and short prefixes
-- source: Geva et al. 2021, section 5.1: 60% of the agreeing cases predict a stop word, 43% have a prefix under 5 tokens
-- grain:  site
-- n:      n_agreeing
-- param:  projection (text, 'raw'): how the layer's output is read: raw (E·z), as the values are and as in the paper, or final_norm (the logit lens)
-- param:  corpus (integer, NULL): one corpus_id; NULL takes the only one that there is, and several are an error that names them
-- column: site: what the values are compared with: ffn_out as in the paper, resid_post as in the authors' code
-- column: projection: how that is read; the values' top tokens are raw under both
-- column: n_cases: cases, each a traced position in a layer
-- column: n_agreeing: of them with an active value whose top token is the top token at the site
-- column: agreeing_stop_word_share: share of the agreeing cases whose top token is a stop word, in [0, 1]; null without any
-- column: agreeing_short_share: share of the agreeing cases whose prefix has fewer than 5 tokens, BOS not counted; null without any
-- column: stop_word_share: share of all cases whose top token is a stop word
-- column: short_share: share of all cases whose prefix has fewer than 5 tokens
-- column: active_means: what active means in this model, and whether it is the paper's
-- chart:  bar(site, agreeing_stop_word_share)
CREATE OR REPLACE MACRO geva2021_fig8_agreeing(projection := 'raw', corpus := NULL) AS TABLE
WITH
place AS (
    SELECT
        t.position_id,
        -- a first token without characters is BOS
        p.index + 1 - if(k.is_special AND f.char_start = f.char_end, 1, 0) < 5 AS is_short
    FROM traced_position AS t
    INNER JOIN position AS p ON t.position_id = p.position_id
    INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
    INNER JOIN position AS f ON s.first_position_id = f.position_id
    INNER JOIN token AS k ON f.token_id = k.token_id
    WHERE t.corpus_id IN (SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT i.corpus_id) FROM traced_position AS i), corpus := corpus) AS o)
),

compared AS (
    SELECT
        l.position_id,
        l.site,
        CASE
            WHEN projection <> 'raw' THEN l.top_token_id
            WHEN l.site = 'ffn_out' THEN a.raw_ffn_token_id
            ELSE a.raw_block_token_id
        END AS token_id,
        CASE
            WHEN projection = 'raw' THEN if(l.site = 'ffn_out', a.n_agreeing_values_raw, a.n_agreeing_values_block_raw)
            ELSE if(l.site = 'ffn_out', a.n_agreeing_values, a.n_agreeing_values_block)
        END > 0 AS agrees
    FROM logit_lens AS l
    INNER JOIN layer_activity AS a ON l.position_id = a.position_id AND l.layer = a.layer
    WHERE l.site IN ('ffn_out', 'resid_post')
),

-- positions whose trace is older than the raw projection have no token there
judged AS (
    SELECT
        c.site,
        o.is_short,
        w.is_stop_word,
        c.agrees
    FROM compared AS c
    INNER JOIN place AS o ON c.position_id = o.position_id
    INNER JOIN token AS w ON c.token_id = w.token_id
)

SELECT
    j.site,
    CAST(projection AS VARCHAR) AS projection,
    count(*) AS n_cases,
    count(*) FILTER (j.agrees) AS n_agreeing,
    avg(CAST(j.is_stop_word AS INTEGER)) FILTER (j.agrees) AS agreeing_stop_word_share,
    avg(CAST(j.is_short AS INTEGER)) FILTER (j.agrees) AS agreeing_short_share,
    avg(CAST(j.is_stop_word AS INTEGER)) AS stop_word_share,
    avg(CAST(j.is_short AS INTEGER)) AS short_share,
    any_value(r.active_means) AS active_means
FROM judged AS j
CROSS JOIN active_rule AS r
GROUP BY j.site
ORDER BY j.site;
