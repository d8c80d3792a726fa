-- title:  How narrow the cone of states is in each layer
-- source: Ethayarajh 2019, "How Contextual are Contextualized Word Representations?": anisotropy and self-similarity
-- grain:  corpus_id, layer, site
-- n:      n_states
-- param:  corpus (integer, NULL): one corpus_id; NULL gives the rows of each corpus
-- column: corpus_id: the corpus whose states were sampled
-- column: layer: transformer block, from 0
-- column: site: resid_pre of layer 0, resid_post of every layer
-- column: mean_cosine: mean cosine of two states of different tokens, in [-1, 1]: 1 where all states point one way
-- column: self_similarity: mean cosine of two states of one token in different places, mean over frequent tokens, in [-1, 1]
-- column: above_chance: self_similarity less mean_cosine: how much more alike a token is to itself than to any other, cosine
-- column: mean_norm: mean length of the sampled states, in residual-stream units
-- column: top_dimension_share: largest share of one dimension in their squared length, in [0, 1]
-- column: first_component_share: share of their variance along its first principal component, in [0, 1]
-- column: n_states: sampled states, none at index 0
-- column: n_tokens: tokens that self_similarity is over
-- chart:  line(layer, mean_cosine)
CREATE OR REPLACE MACRO geometry(corpus := NULL) AS TABLE
SELECT
    g.corpus_id,
    g.layer,
    g.site,
    g.mean_cosine,
    g.self_similarity,
    g.self_similarity - g.mean_cosine AS above_chance,
    g.mean_norm,
    g.top_dimension_share,
    g.first_component_share,
    g.n_states,
    g.n_tokens
FROM layer_geometry AS g
WHERE corpus IS NULL OR g.corpus_id = corpus
ORDER BY g.corpus_id, g.layer, g.site DESC;
