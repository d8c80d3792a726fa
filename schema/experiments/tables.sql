CREATE TABLE experiments.experiment_schema (
	version INTEGER NOT NULL, 
	derived_sha256 VARCHAR NOT NULL
);
COMMENT ON TABLE experiments.experiment_schema IS 'What wrote this file; one row.';
COMMENT ON COLUMN experiments.experiment_schema.version IS 'Version of the tables in this file.';
COMMENT ON COLUMN experiments.experiment_schema.derived_sha256 IS 'SHA-256 over the definitions of its views and questions.';
CREATE TABLE experiments.experiment (
	experiment_id INTEGER NOT NULL, 
	kind VARCHAR NOT NULL, 
	title VARCHAR NOT NULL, 
	settings JSON NOT NULL, 
	versions JSON NOT NULL, 
	seed BIGINT NOT NULL, 
	device VARCHAR NOT NULL, 
	dtype VARCHAR NOT NULL, 
	attention VARCHAR NOT NULL, 
	weights_sha256 VARCHAR NOT NULL, 
	author VARCHAR, 
	started_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	finished_at TIMESTAMP WITH TIME ZONE, 
	status VARCHAR NOT NULL, 
	CHECK (kind IN ('live', 'generation', 'tracing', 'patching', 'knockout', 'saliency', 'suppression')), 
	CHECK (status IN ('running', 'finished'))
);
COMMENT ON TABLE experiments.experiment IS 'Forward passes that belong together: prompts, arms and what came of them.';
COMMENT ON COLUMN experiments.experiment.experiment_id IS 'Counted from 0.';
COMMENT ON COLUMN experiments.experiment.kind IS 'What was done: live, generation, tracing, patching, knockout, saliency or suppression.';
COMMENT ON COLUMN experiments.experiment.title IS 'What whoever made it calls it.';
COMMENT ON COLUMN experiments.experiment.settings IS 'Everything beside prompts and arms that is needed to repeat it.';
COMMENT ON COLUMN experiments.experiment.versions IS 'Package → version of what computed it.';
COMMENT ON COLUMN experiments.experiment.seed IS 'What its draws are hashed from.';
COMMENT ON COLUMN experiments.experiment.device IS 'Where it was computed.';
COMMENT ON COLUMN experiments.experiment.dtype IS 'Number format of the forward pass; softmax and sums are float32 at least.';
COMMENT ON COLUMN experiments.experiment.attention IS 'Code that computed attention: eager or sdpa.';
COMMENT ON COLUMN experiments.experiment.weights_sha256 IS 'model.weights_sha256 of the atlas that it is of.';
COMMENT ON COLUMN experiments.experiment.author IS 'Who made it, as they call themselves.';
COMMENT ON COLUMN experiments.experiment.started_at IS 'UTC.';
COMMENT ON COLUMN experiments.experiment.finished_at IS 'UTC; null while arms are missing.';
COMMENT ON COLUMN experiments.experiment.status IS 'running while arms may be added, then finished.';
CREATE TABLE experiments.prompt (
	experiment_id INTEGER NOT NULL, 
	prompt_id INTEGER NOT NULL, 
	text VARCHAR NOT NULL, 
	cluster VARCHAR, 
	n_tokens INTEGER NOT NULL, 
	has_bos BOOLEAN NOT NULL, 
	position_id BIGINT, 
	answer_token_id INTEGER, 
	foil_token_id INTEGER
);
COMMENT ON TABLE experiments.prompt IS 'Texts that the model read.';
COMMENT ON COLUMN experiments.prompt.experiment_id IS 'The experiment.';
COMMENT ON COLUMN experiments.prompt.prompt_id IS 'The prompt, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.prompt.text IS 'What the model read.';
COMMENT ON COLUMN experiments.prompt.cluster IS 'Prompts of one template, which count as one observation.';
COMMENT ON COLUMN experiments.prompt.n_tokens IS 'Tokens of the prompt, BOS included.';
COMMENT ON COLUMN experiments.prompt.has_bos IS 'Its first token is BOS.';
COMMENT ON COLUMN experiments.prompt.position_id IS 'Position of the atlas where the prompt ends; null for a text of its own.';
COMMENT ON COLUMN experiments.prompt.answer_token_id IS 'The token whose prediction is measured; null where it is, at each index, the one that the base arm has likeliest.';
COMMENT ON COLUMN experiments.prompt.foil_token_id IS 'The token that the answer is held against in logit_difference; null where it is the base arm''s second likeliest.';
CREATE TABLE experiments.prompt_token (
	experiment_id INTEGER NOT NULL, 
	prompt_id INTEGER NOT NULL, 
	index INTEGER NOT NULL, 
	token_id INTEGER NOT NULL, 
	char_start INTEGER NOT NULL, 
	char_end INTEGER NOT NULL, 
	role VARCHAR NOT NULL, 
	CHECK (role IN ('subject_first', 'subject_middle', 'subject_last', 'after_subject', 'last', 'other'))
);
COMMENT ON TABLE experiments.prompt_token IS 'Tokens of the prompts.';
COMMENT ON COLUMN experiments.prompt_token.experiment_id IS 'The experiment.';
COMMENT ON COLUMN experiments.prompt_token.prompt_id IS 'The prompt, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.prompt_token.index IS 'Place of the token in the prompt, from 0; BOS is one.';
COMMENT ON COLUMN experiments.prompt_token.token_id IS 'The token.';
COMMENT ON COLUMN experiments.prompt_token.char_start IS 'Characters of the prompt''s text before it.';
COMMENT ON COLUMN experiments.prompt_token.char_end IS 'Where it ends, so that text[char_start:char_end] is its own; BOS has none.';
COMMENT ON COLUMN experiments.prompt_token.role IS 'What it is to the prompt: part of its subject, behind it, the last, or other.';
CREATE TABLE experiments.part (
	experiment_id INTEGER NOT NULL, 
	part INTEGER NOT NULL, 
	name VARCHAR NOT NULL, 
	note VARCHAR
);
COMMENT ON TABLE experiments.part IS 'Parts of an experiment that are done; one that was interrupted goes on with the others.';
COMMENT ON COLUMN experiments.part.experiment_id IS 'The experiment.';
COMMENT ON COLUMN experiments.part.part IS 'Counted from 0, in the order in which parts are computed.';
COMMENT ON COLUMN experiments.part.name IS 'What it is of: a prompt or an arm.';
COMMENT ON COLUMN experiments.part.note IS 'Why it brought no rows, as a prompt that the model answers otherwise, or what is to be known of them; null where there is nothing.';
CREATE TABLE experiments.token_text (
	token_id INTEGER NOT NULL, 
	text VARCHAR NOT NULL
);
COMMENT ON TABLE experiments.token_text IS 'Texts of all tokens that experiments name, so that this file is read without the atlas.';
COMMENT ON COLUMN experiments.token_text.token_id IS 'Row of the output embedding.';
COMMENT ON COLUMN experiments.token_text.text IS 'token.text of the atlas.';
CREATE TABLE experiments.arm (
	experiment_id INTEGER NOT NULL, 
	arm_id INTEGER NOT NULL, 
	name VARCHAR NOT NULL, 
	role VARCHAR NOT NULL, 
	interventions JSON NOT NULL, 
	sha256 VARCHAR NOT NULL, 
	draw INTEGER, 
	CHECK (role IN ('base', 'treatment', 'random_control', 'positive_control', 'baseline'))
);
COMMENT ON TABLE experiments.arm IS 'What was done to the forward pass. The base arm of an experiment is the model as it is.';
COMMENT ON COLUMN experiments.arm.experiment_id IS 'The experiment.';
COMMENT ON COLUMN experiments.arm.arm_id IS 'The arm, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.arm.name IS 'What people call it.';
COMMENT ON COLUMN experiments.arm.role IS 'base, treatment, random_control, positive_control, or baseline (another method to compare with).';
COMMENT ON COLUMN experiments.arm.interventions IS 'The resolved interventions, as canonical JSON: one unit each, strengths as values, keys sorted.';
COMMENT ON COLUMN experiments.arm.sha256 IS 'SHA-256 of interventions, by which arms of all experiments are told apart.';
COMMENT ON COLUMN experiments.arm.draw IS 'Which draw, of arms that are drawn at random.';
CREATE TABLE experiments.arm_change (
	experiment_id INTEGER NOT NULL, 
	arm_id INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	site VARCHAR NOT NULL, 
	layer SMALLINT, 
	unit INTEGER, 
	op VARCHAR NOT NULL, 
	value REAL, 
	strength_kind VARCHAR, 
	strength REAL, 
	sub_update_norm REAL, 
	positions JSON, 
	is_first_skipped BOOLEAN NOT NULL, 
	CHECK (site IN ('embedding', 'resid_pre', 'attention', 'head', 'attn_out', 'resid_mid', 'pre_activation', 'coefficient', 'ffn_out', 'resid_post')), 
	CHECK (op IN ('add', 'add_value', 'add_vector', 'block', 'mean', 'noise', 'patch', 'resample', 'scale', 'set', 'zero')), 
	CHECK (strength_kind IN ('times_max', 'times_min', 'norm'))
);
COMMENT ON TABLE experiments.arm_change IS 'The interventions of an arm, one a row. States, vectors and edges that go with them are in arm.interventions.';
COMMENT ON COLUMN experiments.arm_change.experiment_id IS 'The experiment.';
COMMENT ON COLUMN experiments.arm_change.arm_id IS 'The arm, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.arm_change.rank IS 'Place of the intervention in its arm, from 1.';
COMMENT ON COLUMN experiments.arm_change.site IS 'Where the forward pass was changed.';
COMMENT ON COLUMN experiments.arm_change.layer IS 'Transformer block, counted from 0; null for the embedding.';
COMMENT ON COLUMN experiments.arm_change.unit IS 'Neuron or head of the layer, from 0; null where the site was changed as a whole.';
COMMENT ON COLUMN experiments.arm_change.op IS 'What was done there.';
COMMENT ON COLUMN experiments.arm_change.value IS 'The number put in, added or multiplied by, in the units of the site, as it was used in the experiment''s dtype.';
COMMENT ON COLUMN experiments.arm_change.strength_kind IS 'How the value was asked for: times_max, times_min or norm; null where the value itself was.';
COMMENT ON COLUMN experiments.arm_change.strength IS 'Times the neuron''s largest, or smallest, coefficient; of norm the signed length that the change writes.';
COMMENT ON COLUMN experiments.arm_change.sub_update_norm IS '‖value · v‖, the length of what the neuron then writes, in residual-stream units.';
COMMENT ON COLUMN experiments.arm_change.positions IS 'At which indices: a name, or a list of indices and half-open ranges; null of edges.';
COMMENT ON COLUMN experiments.arm_change.is_first_skipped IS 'Index 0 was left as it was.';
CREATE TABLE experiments.outcome (
	experiment_id INTEGER NOT NULL, 
	arm_id INTEGER NOT NULL, 
	prompt_id INTEGER NOT NULL, 
	index INTEGER NOT NULL, 
	top_token_id INTEGER NOT NULL, 
	top_prob REAL NOT NULL, 
	answer_logit REAL, 
	answer_logprob REAL, 
	answer_rank INTEGER, 
	logit_difference REAL, 
	score REAL, 
	frozen_score REAL, 
	kl_from_base DOUBLE PRECISION NOT NULL, 
	entropy REAL NOT NULL
);
COMMENT ON TABLE experiments.outcome IS 'What an arm predicts at a position of a prompt; all arms read the same text.';
COMMENT ON COLUMN experiments.outcome.experiment_id IS 'The experiment.';
COMMENT ON COLUMN experiments.outcome.arm_id IS 'The arm, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.outcome.prompt_id IS 'The prompt, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.outcome.index IS 'Index of the token that was read last; the prediction is of the next one.';
COMMENT ON COLUMN experiments.outcome.top_token_id IS 'The likeliest next token.';
COMMENT ON COLUMN experiments.outcome.top_prob IS 'Its probability, in [0, 1].';
COMMENT ON COLUMN experiments.outcome.answer_logit IS 'Logit of the answer: the prompt''s, or at this index the base arm''s likeliest token where the prompt names none.';
COMMENT ON COLUMN experiments.outcome.answer_logprob IS 'Log probability of the answer: the prompt''s, or at this index the base arm''s likeliest token where the prompt names none, in nats.';
COMMENT ON COLUMN experiments.outcome.answer_rank IS 'Rank of the answer: the prompt''s, or at this index the base arm''s likeliest token where the prompt names none among all, from 1.';
COMMENT ON COLUMN experiments.outcome.logit_difference IS 'Logit of the answer less that of the foil: the prompt''s, or the base arm''s second likeliest.';
COMMENT ON COLUMN experiments.outcome.score IS 'What the sub-updates that the arm changes added to the answer''s logit in the base arm: Σ m_i·(e_w·v_i), raw projection, logits.';
COMMENT ON COLUMN experiments.outcome.frozen_score IS 'The same by E·(gain ⊙ v) over what the final norm divided by in the base arm, logits.';
COMMENT ON COLUMN experiments.outcome.kl_from_base IS 'KL(base ‖ arm) of the next token over the whole vocabulary, in nats; 0 of the base arm.';
COMMENT ON COLUMN experiments.outcome.entropy IS 'Of the next token over the whole vocabulary, in nats.';
CREATE TABLE experiments.outcome_token (
	experiment_id INTEGER NOT NULL, 
	arm_id INTEGER NOT NULL, 
	prompt_id INTEGER NOT NULL, 
	index INTEGER NOT NULL, 
	rank SMALLINT NOT NULL, 
	token_id INTEGER NOT NULL, 
	prob REAL NOT NULL
);
COMMENT ON TABLE experiments.outcome_token IS 'The likeliest next tokens of an outcome.';
COMMENT ON COLUMN experiments.outcome_token.experiment_id IS 'The experiment.';
COMMENT ON COLUMN experiments.outcome_token.arm_id IS 'The arm, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.outcome_token.prompt_id IS 'The prompt, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.outcome_token.index IS 'Index of the token that was read last.';
COMMENT ON COLUMN experiments.outcome_token.rank IS 'From 1, at most 10; ties go to the lowest token_id.';
COMMENT ON COLUMN experiments.outcome_token.token_id IS 'A likely next token.';
COMMENT ON COLUMN experiments.outcome_token.prob IS 'Its probability, in [0, 1].';
CREATE TABLE experiments.generation (
	experiment_id INTEGER NOT NULL, 
	arm_id INTEGER NOT NULL, 
	prompt_id INTEGER NOT NULL, 
	sample INTEGER NOT NULL, 
	seed BIGINT, 
	text VARCHAR NOT NULL, 
	token_ids INTEGER[] NOT NULL, 
	decoding VARCHAR NOT NULL, 
	finish VARCHAR NOT NULL, 
	CHECK (decoding IN ('greedy', 'sample', 'beam')), 
	CHECK (finish IN ('length', 'eos', 'cancelled'))
);
COMMENT ON TABLE experiments.generation IS 'Continuations of prompts.';
COMMENT ON COLUMN experiments.generation.experiment_id IS 'The experiment.';
COMMENT ON COLUMN experiments.generation.arm_id IS 'The arm, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.generation.prompt_id IS 'The prompt, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.generation.sample IS 'Counted from 0 in its arm and prompt.';
COMMENT ON COLUMN experiments.generation.seed IS 'Of the draws; null where nothing is drawn.';
COMMENT ON COLUMN experiments.generation.text IS 'What the model wrote after the prompt.';
COMMENT ON COLUMN experiments.generation.token_ids IS 'Its tokens.';
COMMENT ON COLUMN experiments.generation.decoding IS 'How tokens were chosen: greedy, sample or beam.';
COMMENT ON COLUMN experiments.generation.finish IS 'Why it ends: length, eos or cancelled.';
CREATE TABLE experiments.generation_score (
	experiment_id INTEGER NOT NULL, 
	arm_id INTEGER NOT NULL, 
	prompt_id INTEGER NOT NULL, 
	sample INTEGER NOT NULL, 
	scorer VARCHAR NOT NULL, 
	scorer_version VARCHAR NOT NULL, 
	score REAL NOT NULL, 
	is_over BOOLEAN NOT NULL
);
COMMENT ON TABLE experiments.generation_score IS 'What classifiers say of continuations.';
COMMENT ON COLUMN experiments.generation_score.experiment_id IS 'The experiment.';
COMMENT ON COLUMN experiments.generation_score.arm_id IS 'The arm, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.generation_score.prompt_id IS 'The prompt, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.generation_score.sample IS 'The continuation.';
COMMENT ON COLUMN experiments.generation_score.scorer IS 'What scored it; a number means nothing without.';
COMMENT ON COLUMN experiments.generation_score.scorer_version IS 'Its version.';
COMMENT ON COLUMN experiments.generation_score.score IS 'What it gave the continuation alone, in [0, 1].';
COMMENT ON COLUMN experiments.generation_score.is_over IS 'The score is 0.5 or more.';
CREATE TABLE experiments.score_difference (
	experiment_id INTEGER NOT NULL, 
	arm_id INTEGER NOT NULL, 
	scorer VARCHAR NOT NULL, 
	decoding VARCHAR NOT NULL, 
	measure VARCHAR NOT NULL, 
	n_pairs INTEGER NOT NULL, 
	n_clusters INTEGER NOT NULL, 
	n_draws INTEGER NOT NULL, 
	difference DOUBLE PRECISION NOT NULL, 
	low DOUBLE PRECISION, 
	high DOUBLE PRECISION, 
	interval_note VARCHAR, 
	CHECK (decoding IN ('greedy', 'sample', 'beam')), 
	CHECK (measure IN ('over', 'score'))
);
COMMENT ON TABLE experiments.score_difference IS 'How far arms move scores, with a 95% interval over clusters of prompts.';
COMMENT ON COLUMN experiments.score_difference.experiment_id IS 'The experiment.';
COMMENT ON COLUMN experiments.score_difference.arm_id IS 'The arm, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.score_difference.scorer IS 'What scored.';
COMMENT ON COLUMN experiments.score_difference.decoding IS 'How tokens were chosen in the continuations compared: greedy, sample or beam.';
COMMENT ON COLUMN experiments.score_difference.measure IS 'What is averaged: score itself, or over, 1 where it is 0.5 or more and else 0.';
COMMENT ON COLUMN experiments.score_difference.n_pairs IS 'Continuations, each held against the base arm''s of the same prompt and seed.';
COMMENT ON COLUMN experiments.score_difference.n_clusters IS 'Clusters of their prompts, which the draws are of.';
COMMENT ON COLUMN experiments.score_difference.n_draws IS 'Draws of as many clusters as there are, with replacement; 0 where there is no interval.';
COMMENT ON COLUMN experiments.score_difference.difference IS 'Mean of the arm less that of the base arm, in [-1, 1].';
COMMENT ON COLUMN experiments.score_difference.low IS 'Lower end of the difference''s 95% interval over clusters; null where there is none.';
COMMENT ON COLUMN experiments.score_difference.high IS 'Its upper end.';
COMMENT ON COLUMN experiments.score_difference.interval_note IS 'How the interval was made, or why there is none; null where it is the percentile bootstrap of an earlier release.';
CREATE TABLE experiments.arm_cost (
	experiment_id INTEGER NOT NULL, 
	arm_id INTEGER NOT NULL, 
	corpus_id INTEGER, 
	n_tokens BIGINT NOT NULL, 
	loss DOUBLE PRECISION NOT NULL, 
	perplexity REAL NOT NULL, 
	distinct_2 REAL
);
COMMENT ON TABLE experiments.arm_cost IS 'What an arm costs on text that it has nothing to do with.';
COMMENT ON COLUMN experiments.arm_cost.experiment_id IS 'The experiment.';
COMMENT ON COLUMN experiments.arm_cost.arm_id IS 'The arm, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.arm_cost.corpus_id IS 'Corpus of the atlas whose text was predicted under the arm; null for another text, which the settings name.';
COMMENT ON COLUMN experiments.arm_cost.n_tokens IS 'Tokens predicted.';
COMMENT ON COLUMN experiments.arm_cost.loss IS 'Mean loss, in nats a token.';
COMMENT ON COLUMN experiments.arm_cost.perplexity IS 'exp(loss).';
COMMENT ON COLUMN experiments.arm_cost.distinct_2 IS 'Share of distinct pairs of neighbouring tokens in the arm''s continuations, in [0, 1]; null without.';
CREATE TABLE experiments.effect (
	experiment_id INTEGER NOT NULL, 
	prompt_id INTEGER NOT NULL, 
	from_prompt_id INTEGER, 
	site VARCHAR NOT NULL, 
	"window" SMALLINT NOT NULL, 
	layer SMALLINT NOT NULL, 
	index INTEGER, 
	sources VARCHAR, 
	n_draws INTEGER NOT NULL, 
	prob REAL NOT NULL, 
	prob_se REAL, 
	logprob REAL, 
	logit_difference REAL, 
	effect REAL, 
	total_effect REAL, 
	CHECK (site IN ('embedding', 'resid_pre', 'attention', 'head', 'attn_out', 'resid_mid', 'pre_activation', 'coefficient', 'ffn_out', 'resid_post')), 
	CHECK (sources IN ('subject', 'non_subject', 'last'))
);
COMMENT ON TABLE experiments.effect IS 'What a state does for an answer, cell by cell: causal tracing, patching and attention knockout.';
COMMENT ON COLUMN experiments.effect.experiment_id IS 'The experiment.';
COMMENT ON COLUMN experiments.effect.prompt_id IS 'The prompt, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.effect.from_prompt_id IS 'The prompt whose states were put in, of patching; null where they are of the prompt''s own clean run.';
COMMENT ON COLUMN experiments.effect.site IS 'Where states were put back or put in; attention where reading was blocked.';
COMMENT ON COLUMN experiments.effect."window" IS 'Layers changed together: half-open around the layer, cut at the ends; 1 for it alone.';
COMMENT ON COLUMN experiments.effect.layer IS 'Transformer block, counted from 0.';
COMMENT ON COLUMN experiments.effect.index IS 'Index of the state; null of knockouts, whose last position is changed.';
COMMENT ON COLUMN experiments.effect.sources IS 'What the last position could not read, of knockouts: subject, non_subject or last.';
COMMENT ON COLUMN experiments.effect.n_draws IS 'Draws of noise that are averaged; 1 where nothing is drawn.';
COMMENT ON COLUMN experiments.effect.prob IS 'Probability of the answer with the change, in [0, 1].';
COMMENT ON COLUMN experiments.effect.prob_se IS 'Its standard error over the draws; null for one draw.';
COMMENT ON COLUMN experiments.effect.logprob IS 'Log probability of the answer, in nats.';
COMMENT ON COLUMN experiments.effect.logit_difference IS 'Logit of the answer less that of the foil.';
COMMENT ON COLUMN experiments.effect.effect IS 'Tracing: prob less that of the corrupted run. Patching: (D - D of the run as it is) / total_effect, D being logit_difference; null where total_effect is under 0.5 in size. Knockout: (prob - clean prob) / clean prob.';
COMMENT ON COLUMN experiments.effect.total_effect IS 'Tracing: clean prob less corrupted prob. Patching: D of the run whose states are put in less D of the run as it is. Null of knockouts.';
CREATE TABLE experiments.attribution (
	experiment_id INTEGER NOT NULL, 
	prompt_id INTEGER NOT NULL, 
	method VARCHAR NOT NULL, 
	score VARCHAR NOT NULL, 
	baseline VARCHAR NOT NULL, 
	index INTEGER NOT NULL, 
	attribution REAL, 
	CHECK (method IN ('gradient_input', 'integrated_gradients', 'occlusion')), 
	CHECK (score IN ('logit_difference', 'logprob', 'prob'))
);
COMMENT ON TABLE experiments.attribution IS 'What each token of a prompt adds to the prediction of its answer.';
COMMENT ON COLUMN experiments.attribution.experiment_id IS 'The experiment.';
COMMENT ON COLUMN experiments.attribution.prompt_id IS 'The prompt, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.attribution.method IS 'gradient_input, integrated_gradients or occlusion.';
COMMENT ON COLUMN experiments.attribution.score IS 'What is attributed: logit_difference, logprob (nats) or prob.';
COMMENT ON COLUMN experiments.attribution.baseline IS 'What stands in for a token: the name of an embedding or of a token; none where the method needs nothing.';
COMMENT ON COLUMN experiments.attribution.index IS 'Place of the token in the prompt, from 0; BOS is one.';
COMMENT ON COLUMN experiments.attribution.attribution IS 'What the token adds to the score, in the score''s units; null where the method leaves it out.';
CREATE TABLE experiments.attribution_total (
	experiment_id INTEGER NOT NULL, 
	prompt_id INTEGER NOT NULL, 
	method VARCHAR NOT NULL, 
	score VARCHAR NOT NULL, 
	baseline VARCHAR NOT NULL, 
	n_steps INTEGER, 
	at_input REAL NOT NULL, 
	at_baseline REAL, 
	sum REAL NOT NULL, 
	completeness_error REAL, 
	CHECK (method IN ('gradient_input', 'integrated_gradients', 'occlusion')), 
	CHECK (score IN ('logit_difference', 'logprob', 'prob'))
);
COMMENT ON TABLE experiments.attribution_total IS 'Whether attributions sum to what they are to explain.';
COMMENT ON COLUMN experiments.attribution_total.experiment_id IS 'The experiment.';
COMMENT ON COLUMN experiments.attribution_total.prompt_id IS 'The prompt, counted from 0 in its experiment.';
COMMENT ON COLUMN experiments.attribution_total.method IS 'gradient_input, integrated_gradients or occlusion.';
COMMENT ON COLUMN experiments.attribution_total.score IS 'What is attributed: logit_difference, logprob (nats) or prob.';
COMMENT ON COLUMN experiments.attribution_total.baseline IS 'What stands in for a token: the name of an embedding or of a token; none where the method needs nothing.';
COMMENT ON COLUMN experiments.attribution_total.n_steps IS 'Points of the path at which gradients were taken; null where there is none.';
COMMENT ON COLUMN experiments.attribution_total.at_input IS 'The score of the prompt as it is.';
COMMENT ON COLUMN experiments.attribution_total.at_baseline IS 'The score with the baseline in the place of every token that is not held.';
COMMENT ON COLUMN experiments.attribution_total.sum IS 'Sum of the attributions.';
COMMENT ON COLUMN experiments.attribution_total.completeness_error IS '|sum - (at_input - at_baseline)| / max(|at_input - at_baseline|, 0.1); null where the method promises no sum.';
CREATE TABLE experiments.kept_table (
	experiment_id INTEGER NOT NULL, 
	name VARCHAR NOT NULL, 
	arrow BYTEA NOT NULL
);
COMMENT ON TABLE experiments.kept_table IS 'All tables of a live prompt that was kept with its trace: `a.live().kept(experiment)` puts them beside those of the atlas again.';
COMMENT ON COLUMN experiments.kept_table.experiment_id IS 'The experiment.';
COMMENT ON COLUMN experiments.kept_table.name IS 'The table''s name in the atlas; of what no atlas has, in experiments.';
COMMENT ON COLUMN experiments.kept_table.arrow IS 'Its rows as an Arrow stream, as the model process gave them: ids are negative.'
