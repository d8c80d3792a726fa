-- title:  Which states carry what two prompts differ in?
-- source: Zhang and Nanda 2023, section 2 (activation patching)
-- grain:  prompt, from_prompt, site, window_layers, layer, index
-- param:  experiment (integer): experiment_id of a patching; experiment_summary() lists them
-- column: prompt: prompt_id of the one that was run
-- column: from_prompt: prompt_id of the one whose states were put in
-- column: site: which states were put in
-- column: window_layers: layers put in together, half-open around the layer and cut at the ends
-- column: layer: transformer block, from 0
-- column: index: index of the token whose state was put in, from 0
-- column: token: that token in the prompt that was run
-- column: from_token: that token in the other
-- column: role: what the token is to the prompt that was run
-- column: logit_difference: D, logit of the answer less that of the foil, with the state put in
-- column: effect: (D - D of the prompt as it is) / total_effect: 0 changes nothing, 1 makes it the other; null where total_effect is under 0.5
-- column: total_effect: D of the other prompt less D of this one
-- chart:  line(layer, effect)
-- needs:  patching
--
-- Clean states put into a corrupted run show what is enough, corrupted ones put into a clean run what is needed; the two do not mirror each other.
CREATE OR REPLACE MACRO experiments.patching(experiment) AS TABLE
SELECT
    f.prompt_id AS prompt,
    f.from_prompt_id AS from_prompt,
    f.site,
    f.window AS window_layers,
    f.layer,
    f.index,
    k.text AS token,
    o.text AS from_token,
    t.role,
    f.logit_difference,
    f.effect,
    f.total_effect
FROM experiments.effect AS f
INNER JOIN experiments.prompt_token AS t ON f.experiment_id = t.experiment_id AND f.prompt_id = t.prompt_id AND f.index = t.index
INNER JOIN experiments.token_text AS k ON t.token_id = k.token_id
LEFT JOIN experiments.prompt_token AS u ON f.experiment_id = u.experiment_id AND f.from_prompt_id = u.prompt_id AND f.index = u.index
LEFT JOIN experiments.token_text AS o ON u.token_id = o.token_id
WHERE f.experiment_id = experiment AND f.from_prompt_id IS NOT NULL
ORDER BY f.prompt_id, f.from_prompt_id, f.site, f.window, f.layer, f.index;
