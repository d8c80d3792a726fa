-- title:  Where does putting a state back bring the answer back?
-- source: Meng et al. 2022, section 2 (causal tracing)
-- grain:  window_layers, layer, index
-- param:  experiment (integer): experiment_id of a tracing; experiment_summary() lists them
-- param:  prompt (integer): prompt_id, from 0
-- param:  site (text, 'resid_post'): which states were put back: resid_post, attn_out or ffn_out
-- column: window_layers: layers put back together, half-open around the layer and cut at the ends
-- column: layer: transformer block, from 0
-- column: index: index of the token whose state was put back, from 0
-- column: token: that token
-- column: role: what it is to the prompt: part of its subject, behind it, the last, or other
-- column: prob: probability of the answer with the state put back, mean over the draws, in [0, 1]
-- column: prob_se: its standard error over the draws; null for one draw
-- column: n_draws: draws of noise
-- column: corrupted_prob: probability of the answer with nothing put back, in [0, 1]
-- column: effect: prob - corrupted_prob, the indirect effect
-- column: total_effect: probability of the answer as the model is less corrupted_prob
-- column: logprob: log probability of the answer, mean over the draws, in nats
-- column: logit_difference: logit of the answer less that of the foil
-- chart:  line(layer, effect)
-- needs:  tracing
--
-- It says where information is carried. It does not say where editing the model would change it (Hase et al. 2023).
CREATE OR REPLACE MACRO experiments.causal_trace(experiment, prompt, site := 'resid_post') AS TABLE
SELECT
    f.window AS window_layers,
    f.layer,
    f.index,
    k.text AS token,
    t.role,
    f.prob,
    f.prob_se,
    f.n_draws,
    f.prob - f.effect AS corrupted_prob,
    f.effect,
    f.total_effect,
    f.logprob,
    f.logit_difference
FROM experiments.effect AS f
INNER JOIN experiments.experiment AS e ON f.experiment_id = e.experiment_id
INNER JOIN experiments.prompt_token AS t ON f.experiment_id = t.experiment_id AND f.prompt_id = t.prompt_id AND f.index = t.index
INNER JOIN experiments.token_text AS k ON t.token_id = k.token_id
WHERE
    f.experiment_id = experiment
    AND e.kind = 'tracing'
    AND f.prompt_id = prompt
    AND f.site = site
ORDER BY f.window, f.layer, f.index;
