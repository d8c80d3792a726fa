-- What a model did when its forward passes were changed, or asked why. An experiment is of one model, or the file is refused.

-- What wrote this file; one row.
-- grain:
CREATE TABLE experiments.experiment_schema (
    -- Version of the tables in this file.
    version INTEGER NOT NULL,
    -- SHA-256 over the definitions of its views and questions.
    derived_sha256 VARCHAR NOT NULL
);

-- Forward passes that belong together: prompts, arms and what came of them.
-- grain: experiment_id
CREATE TABLE experiments.experiment (
    -- Counted from 0.
    experiment_id INTEGER NOT NULL,
    -- What was done: live, generation, tracing, patching, knockout, saliency, suppression, or a kind that another distribution adds.
    kind VARCHAR NOT NULL,
    -- What whoever made it calls it.
    title VARCHAR NOT NULL,
    -- Everything beside prompts and arms that is needed to repeat it.
    settings JSON NOT NULL,
    -- Package → version of what computed it.
    versions JSON NOT NULL,
    -- What its draws are hashed from.
    seed BIGINT NOT NULL,
    -- Where it was computed.
    device VARCHAR NOT NULL,
    -- Number format of the forward pass; softmax and sums are float32 at least.
    dtype VARCHAR NOT NULL,
    -- Code that computed attention: eager or sdpa.
    attention VARCHAR NOT NULL,
    -- model.weights_sha256 of the atlas that it is of.
    weights_sha256 VARCHAR NOT NULL,
    -- Who made it, as they call themselves.
    author VARCHAR,
    -- UTC.
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    -- UTC; null while arms are missing.
    finished_at TIMESTAMP WITH TIME ZONE,
    -- running while arms may be added, then finished.
    status VARCHAR NOT NULL,
    CHECK (status IN ('running', 'finished'))
);

-- Texts that the model read.
-- grain: experiment_id, prompt_id
-- references: experiment_id in experiment.experiment_id
CREATE TABLE experiments.prompt (
    -- The experiment.
    experiment_id INTEGER NOT NULL,
    -- The prompt, counted from 0 in its experiment.
    prompt_id INTEGER NOT NULL,
    -- What the model read.
    text VARCHAR NOT NULL,
    -- Prompts of one template, which count as one observation.
    cluster VARCHAR,
    -- Tokens of the prompt, BOS included.
    n_tokens INTEGER NOT NULL,
    -- Its first token is BOS.
    has_bos BOOLEAN NOT NULL,
    -- Position of the atlas where the prompt ends; null for a text of its own.
    position_id BIGINT,
    -- The token whose prediction is measured; null where it is, at each index, the one that the base arm has likeliest.
    answer_token_id INTEGER,
    -- The token that the answer is held against in logit_difference; null where it is the base arm's second likeliest.
    foil_token_id INTEGER
);

-- Tokens of the prompts.
-- grain: experiment_id, prompt_id, index
-- references: experiment_id in experiment.experiment_id
CREATE TABLE experiments.prompt_token (
    -- The experiment.
    experiment_id INTEGER NOT NULL,
    -- The prompt, counted from 0 in its experiment.
    prompt_id INTEGER NOT NULL,
    -- Place of the token in the prompt, from 0; BOS is one.
    index INTEGER NOT NULL,
    -- The token.
    token_id INTEGER NOT NULL,
    -- Characters of the prompt's text before it.
    char_start INTEGER NOT NULL,
    -- Where it ends, so that text[char_start:char_end] is its own; BOS has none.
    char_end INTEGER NOT NULL,
    -- What it is to the prompt: part of its subject, behind it, the last, or other.
    role VARCHAR NOT NULL,
    CHECK (role IN ('subject_first', 'subject_middle', 'subject_last', 'after_subject', 'last', 'other'))
);

-- Parts of an experiment that are done; one that was interrupted goes on with the others.
-- grain: experiment_id, part
-- references: experiment_id in experiment.experiment_id
CREATE TABLE experiments.part (
    -- The experiment.
    experiment_id INTEGER NOT NULL,
    -- Counted from 0, in the order in which parts are computed.
    part INTEGER NOT NULL,
    -- What it is of: a prompt or an arm.
    name VARCHAR NOT NULL,
    -- Why it brought no rows, as a prompt that the model answers otherwise, or what is to be known of them; null where there is nothing.
    note VARCHAR
);

-- Texts of all tokens that experiments name, so that this file is read without the atlas.
-- grain: token_id
CREATE TABLE experiments.token_text (
    -- Row of the output embedding.
    token_id INTEGER NOT NULL,
    -- token.text of the atlas.
    text VARCHAR NOT NULL
);

-- What was done to the forward pass. The base arm of an experiment is the model as it is.
-- grain: experiment_id, arm_id
-- references: experiment_id in experiment.experiment_id
CREATE TABLE experiments.arm (
    -- The experiment.
    experiment_id INTEGER NOT NULL,
    -- The arm, counted from 0 in its experiment.
    arm_id INTEGER NOT NULL,
    -- What people call it.
    name VARCHAR NOT NULL,
    -- base, treatment, random_control, positive_control, or baseline (another method to compare with).
    role VARCHAR NOT NULL,
    -- The resolved interventions, as canonical JSON: one unit each, strengths as values, keys sorted.
    interventions JSON NOT NULL,
    -- SHA-256 of interventions, by which arms of all experiments are told apart.
    sha256 VARCHAR NOT NULL,
    -- Which draw, of arms that are drawn at random.
    draw INTEGER,
    CHECK (role IN ('base', 'treatment', 'random_control', 'positive_control', 'baseline'))
);

-- The interventions of an arm, one a row. States, vectors and edges that go with them are in arm.interventions.
-- grain: experiment_id, arm_id, rank
-- references: experiment_id in experiment.experiment_id
CREATE TABLE experiments.arm_change (
    -- The experiment.
    experiment_id INTEGER NOT NULL,
    -- The arm, counted from 0 in its experiment.
    arm_id INTEGER NOT NULL,
    -- Place of the intervention in its arm, from 1.
    rank INTEGER NOT NULL,
    -- Where the forward pass was changed.
    site VARCHAR NOT NULL,
    -- Transformer block, counted from 0; null for the embedding.
    layer SMALLINT,
    -- Neuron or head of the layer, from 0; null where the site was changed as a whole.
    unit INTEGER,
    -- What was done there.
    op VARCHAR NOT NULL,
    -- The number put in, added or multiplied by, in the units of the site, as it was used in the experiment's dtype.
    value REAL,
    -- How the value was asked for: times_max, times_min or norm; null where the value itself was.
    strength_kind VARCHAR,
    -- Times the neuron's largest, or smallest, coefficient; of norm the signed length that the change writes.
    strength REAL,
    -- ‖value · v‖, the length of what the neuron then writes, in residual-stream units.
    sub_update_norm REAL,
    -- At which indices: a name, or a list of indices and half-open ranges; null of edges.
    positions JSON,
    -- Index 0 was left as it was.
    is_first_skipped BOOLEAN NOT NULL,
    CHECK (site IN ('embedding', 'resid_pre', 'attention', 'head', 'attn_out', 'resid_mid', 'pre_activation', 'coefficient', 'ffn_out', 'resid_post')),
    CHECK (op IN ('add', 'add_value', 'add_vector', 'block', 'mean', 'noise', 'patch', 'resample', 'scale', 'set', 'zero')),
    CHECK (strength_kind IN ('times_max', 'times_min', 'norm'))
);

-- What an arm predicts at a position of a prompt; all arms read the same text.
-- grain: experiment_id, arm_id, prompt_id, index
-- references: experiment_id in experiment.experiment_id
-- bounds: top_prob in [0, 1]; kl_from_base >= 0; entropy >= 0
CREATE TABLE experiments.outcome (
    -- The experiment.
    experiment_id INTEGER NOT NULL,
    -- The arm, counted from 0 in its experiment.
    arm_id INTEGER NOT NULL,
    -- The prompt, counted from 0 in its experiment.
    prompt_id INTEGER NOT NULL,
    -- Index of the token that was read last; the prediction is of the next one.
    index INTEGER NOT NULL,
    -- The likeliest next token.
    top_token_id INTEGER NOT NULL,
    -- Its probability, in [0, 1].
    top_prob REAL NOT NULL,
    -- Logit of the answer: the prompt's, or at this index the base arm's likeliest token where the prompt names none.
    answer_logit REAL,
    -- Log probability of the answer: the prompt's, or at this index the base arm's likeliest token where the prompt names none, in nats.
    answer_logprob REAL,
    -- Rank of the answer: the prompt's, or at this index the base arm's likeliest token where the prompt names none among all, from 1.
    answer_rank INTEGER,
    -- Logit of the answer less that of the foil: the prompt's, or the base arm's second likeliest.
    logit_difference REAL,
    -- What the sub-updates that the arm changes added to the answer's logit in the base arm: Σ m_i·(e_w·v_i), raw projection, logits.
    score REAL,
    -- The same by E·(gain ⊙ v) over what the final norm divided by in the base arm, logits.
    frozen_score REAL,
    -- KL(base ‖ arm) of the next token over the whole vocabulary, in nats; 0 of the base arm.
    kl_from_base DOUBLE PRECISION NOT NULL,
    -- Of the next token over the whole vocabulary, in nats.
    entropy REAL NOT NULL
);

-- The likeliest next tokens of an outcome.
-- grain: experiment_id, arm_id, prompt_id, index, rank
-- references: experiment_id in experiment.experiment_id
-- bounds: prob in [0, 1]
CREATE TABLE experiments.outcome_token (
    -- The experiment.
    experiment_id INTEGER NOT NULL,
    -- The arm, counted from 0 in its experiment.
    arm_id INTEGER NOT NULL,
    -- The prompt, counted from 0 in its experiment.
    prompt_id INTEGER NOT NULL,
    -- Index of the token that was read last.
    index INTEGER NOT NULL,
    -- From 1, at most 10; ties go to the lowest token_id.
    rank SMALLINT NOT NULL,
    -- A likely next token.
    token_id INTEGER NOT NULL,
    -- Its probability, in [0, 1].
    prob REAL NOT NULL
);

-- Continuations of prompts.
-- grain: experiment_id, arm_id, prompt_id, sample
-- references: experiment_id in experiment.experiment_id
CREATE TABLE experiments.generation (
    -- The experiment.
    experiment_id INTEGER NOT NULL,
    -- The arm, counted from 0 in its experiment.
    arm_id INTEGER NOT NULL,
    -- The prompt, counted from 0 in its experiment.
    prompt_id INTEGER NOT NULL,
    -- Counted from 0 in its arm and prompt.
    sample INTEGER NOT NULL,
    -- Of the draws; null where nothing is drawn.
    seed BIGINT,
    -- What the model wrote after the prompt.
    text VARCHAR NOT NULL,
    -- Its tokens.
    token_ids INTEGER[] NOT NULL,
    -- How tokens were chosen: greedy, sample or beam.
    decoding VARCHAR NOT NULL,
    -- Why it ends: length, eos or cancelled.
    finish VARCHAR NOT NULL,
    CHECK (decoding IN ('greedy', 'sample', 'beam')),
    CHECK (finish IN ('length', 'eos', 'cancelled'))
);

-- What classifiers say of continuations.
-- grain: experiment_id, arm_id, prompt_id, sample, scorer
-- references: experiment_id in experiment.experiment_id
-- bounds: score in [0, 1]
CREATE TABLE experiments.generation_score (
    -- The experiment.
    experiment_id INTEGER NOT NULL,
    -- The arm, counted from 0 in its experiment.
    arm_id INTEGER NOT NULL,
    -- The prompt, counted from 0 in its experiment.
    prompt_id INTEGER NOT NULL,
    -- The continuation.
    sample INTEGER NOT NULL,
    -- What scored it; a number means nothing without.
    scorer VARCHAR NOT NULL,
    -- Its version.
    scorer_version VARCHAR NOT NULL,
    -- What it gave the continuation alone, in [0, 1].
    score REAL NOT NULL,
    -- The score is 0.5 or more.
    is_over BOOLEAN NOT NULL
);

-- How far arms move scores, with a 95% interval over clusters of prompts.
-- grain: experiment_id, arm_id, scorer, decoding, measure
-- references: experiment_id in experiment.experiment_id
CREATE TABLE experiments.score_difference (
    -- The experiment.
    experiment_id INTEGER NOT NULL,
    -- The arm, counted from 0 in its experiment.
    arm_id INTEGER NOT NULL,
    -- What scored.
    scorer VARCHAR NOT NULL,
    -- How tokens were chosen in the continuations compared: greedy, sample or beam.
    decoding VARCHAR NOT NULL,
    -- What is averaged: score itself, or over, 1 where it is 0.5 or more and else 0.
    measure VARCHAR NOT NULL,
    -- Continuations, each held against the base arm's of the same prompt and seed.
    n_pairs INTEGER NOT NULL,
    -- Clusters of their prompts, which the draws are of.
    n_clusters INTEGER NOT NULL,
    -- Draws of as many clusters as there are, with replacement; 0 where there is no interval.
    n_draws INTEGER NOT NULL,
    -- Mean of the arm less that of the base arm, in [-1, 1].
    difference DOUBLE PRECISION NOT NULL,
    -- Lower end of the difference's 95% interval over clusters; null where there is none.
    low DOUBLE PRECISION,
    -- Its upper end.
    high DOUBLE PRECISION,
    -- How the interval was made, or why there is none; null where it is the percentile bootstrap of an earlier release.
    interval_note VARCHAR,
    CHECK (decoding IN ('greedy', 'sample', 'beam')),
    CHECK (measure IN ('over', 'score'))
);

-- What an arm costs on text that it has nothing to do with.
-- grain: experiment_id, arm_id, corpus_id
-- references: experiment_id in experiment.experiment_id
-- bounds: loss >= 0; perplexity >= 0; distinct_2 in [0, 1]
CREATE TABLE experiments.arm_cost (
    -- The experiment.
    experiment_id INTEGER NOT NULL,
    -- The arm, counted from 0 in its experiment.
    arm_id INTEGER NOT NULL,
    -- Corpus of the atlas whose text was predicted under the arm; null for another text, which the settings name.
    corpus_id INTEGER,
    -- Tokens predicted.
    n_tokens BIGINT NOT NULL,
    -- Mean loss, in nats a token.
    loss DOUBLE PRECISION NOT NULL,
    -- exp(loss).
    perplexity REAL NOT NULL,
    -- Share of distinct pairs of neighbouring tokens in the arm's continuations, in [0, 1]; null without.
    distinct_2 REAL
);

-- What a state does for an answer, cell by cell: causal tracing, patching and attention knockout.
-- grain: experiment_id, prompt_id, from_prompt_id, site, window, layer, index, sources
-- references: experiment_id in experiment.experiment_id
-- bounds: prob in [0, 1]
CREATE TABLE experiments.effect (
    -- The experiment.
    experiment_id INTEGER NOT NULL,
    -- The prompt, counted from 0 in its experiment.
    prompt_id INTEGER NOT NULL,
    -- The prompt whose states were put in, of patching; null where they are of the prompt's own clean run.
    from_prompt_id INTEGER,
    -- Where states were put back or put in; attention where reading was blocked.
    site VARCHAR NOT NULL,
    -- Layers changed together: half-open around the layer, cut at the ends; 1 for it alone.
    "window" SMALLINT NOT NULL,
    -- Transformer block, counted from 0.
    layer SMALLINT NOT NULL,
    -- Index of the state; null of knockouts, whose last position is changed.
    index INTEGER,
    -- What the last position could not read, of knockouts: subject, non_subject or last.
    sources VARCHAR,
    -- Draws of noise that are averaged; 1 where nothing is drawn.
    n_draws INTEGER NOT NULL,
    -- Probability of the answer with the change, in [0, 1].
    prob REAL NOT NULL,
    -- Its standard error over the draws; null for one draw.
    prob_se REAL,
    -- Log probability of the answer, in nats.
    logprob REAL,
    -- Logit of the answer less that of the foil.
    logit_difference REAL,
    -- Tracing: prob less that of the corrupted run.
    -- Patching: (D - D of the run as it is) / total_effect, D being logit_difference; null where total_effect is under 0.5 in size.
    -- Knockout: (prob - clean prob) / clean prob.
    effect REAL,
    -- Tracing: clean prob less corrupted prob. Patching: D of the run whose states are put in less D of the run as it is. Null of knockouts.
    total_effect REAL,
    CHECK (site IN ('embedding', 'resid_pre', 'attention', 'head', 'attn_out', 'resid_mid', 'pre_activation', 'coefficient', 'ffn_out', 'resid_post')),
    CHECK (sources IN ('subject', 'non_subject', 'last'))
);

-- What each token of a prompt adds to the prediction of its answer.
-- grain: experiment_id, prompt_id, method, score, baseline, index
-- references: experiment_id in experiment.experiment_id
CREATE TABLE experiments.attribution (
    -- The experiment.
    experiment_id INTEGER NOT NULL,
    -- The prompt, counted from 0 in its experiment.
    prompt_id INTEGER NOT NULL,
    -- gradient_input, integrated_gradients or occlusion.
    method VARCHAR NOT NULL,
    -- What is attributed: logit_difference, logprob (nats) or prob.
    score VARCHAR NOT NULL,
    -- What stands in for a token: the name of an embedding or of a token; none where the method needs nothing.
    baseline VARCHAR NOT NULL,
    -- Place of the token in the prompt, from 0; BOS is one.
    index INTEGER NOT NULL,
    -- What the token adds to the score, in the score's units; null where the method leaves it out.
    attribution REAL,
    CHECK (method IN ('gradient_input', 'integrated_gradients', 'occlusion')),
    CHECK (score IN ('logit_difference', 'logprob', 'prob'))
);

-- Whether attributions sum to what they are to explain.
-- grain: experiment_id, prompt_id, method, score, baseline
-- references: experiment_id in experiment.experiment_id
CREATE TABLE experiments.attribution_total (
    -- The experiment.
    experiment_id INTEGER NOT NULL,
    -- The prompt, counted from 0 in its experiment.
    prompt_id INTEGER NOT NULL,
    -- gradient_input, integrated_gradients or occlusion.
    method VARCHAR NOT NULL,
    -- What is attributed: logit_difference, logprob (nats) or prob.
    score VARCHAR NOT NULL,
    -- What stands in for a token: the name of an embedding or of a token; none where the method needs nothing.
    baseline VARCHAR NOT NULL,
    -- Points of the path at which gradients were taken; null where there is none.
    n_steps INTEGER,
    -- The score of the prompt as it is.
    at_input REAL NOT NULL,
    -- The score with the baseline in the place of every token that is not held.
    at_baseline REAL,
    -- Sum of the attributions.
    sum REAL NOT NULL,
    -- |sum - (at_input - at_baseline)| / max(|at_input - at_baseline|, 0.1); null where the method promises no sum.
    completeness_error REAL,
    CHECK (method IN ('gradient_input', 'integrated_gradients', 'occlusion')),
    CHECK (score IN ('logit_difference', 'logprob', 'prob'))
);

-- All tables of a live prompt that was kept with its trace: `a.live().kept(experiment)` puts them beside those of the atlas again.
-- grain: experiment_id, name
-- references: experiment_id in experiment.experiment_id
CREATE TABLE experiments.kept_table (
    -- The experiment.
    experiment_id INTEGER NOT NULL,
    -- The table's name in the atlas; of what no atlas has, in experiments.
    name VARCHAR NOT NULL,
    -- Its rows as an Arrow stream, as the model process gave them: ids are negative.
    arrow BYTEA NOT NULL
);
