CREATE TABLE annotations.annotation_schema (
	version INTEGER NOT NULL, 
	derived_sha256 VARCHAR NOT NULL
);
COMMENT ON TABLE annotations.annotation_schema IS 'What wrote this file; one row.';
COMMENT ON COLUMN annotations.annotation_schema.version IS 'Version of the tables in this file.';
COMMENT ON COLUMN annotations.annotation_schema.derived_sha256 IS 'SHA-256 over the definitions of its views and questions.';
CREATE TABLE annotations.annotation (
	annotation_id INTEGER NOT NULL, 
	subject VARCHAR NOT NULL, 
	corpus_id INTEGER, 
	layer SMALLINT NOT NULL, 
	item BIGINT NOT NULL, 
	n_items SMALLINT NOT NULL, 
	annotator VARCHAR NOT NULL, 
	is_proposed BOOLEAN NOT NULL, 
	weights_sha256 VARCHAR NOT NULL, 
	created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	PRIMARY KEY (annotation_id), 
	CHECK (subject IN ('key', 'value', 'random_vector', 'ffn_update'))
);
COMMENT ON TABLE annotations.annotation IS 'One annotator''s look at one key, value, random vector or FFN update; with no patterns, the annotator found none.';
COMMENT ON COLUMN annotations.annotation.annotation_id IS 'Counted from 0; renewed where an annotation is replaced.';
COMMENT ON COLUMN annotations.annotation.subject IS 'What was looked at: a key (the texts that trigger it), or the tokens of a value, a random_vector or an ffn_update.';
COMMENT ON COLUMN annotations.annotation.corpus_id IS 'The corpus whose texts were read; null for values and random vectors.';
COMMENT ON COLUMN annotations.annotation.layer IS 'Transformer block, counted from 0.';
COMMENT ON COLUMN annotations.annotation.item IS 'Neuron of a key or value; number of the random vector; position_id of the update (control_token.item).';
COMMENT ON COLUMN annotations.annotation.n_items IS 'Texts or tokens that were shown: 25 of a key, 30 of a value, less where the atlas holds less.';
COMMENT ON COLUMN annotations.annotation.annotator IS 'Who annotated, as the person calls herself; miner for what the program proposes.';
COMMENT ON COLUMN annotations.annotation.is_proposed IS 'Proposed by the program, not found by a person.';
COMMENT ON COLUMN annotations.annotation.weights_sha256 IS 'model.weights_sha256 of the atlas annotated.';
COMMENT ON COLUMN annotations.annotation.created_at IS 'When it was loaded, UTC.';
CREATE TABLE annotations.annotation_item (
	annotation_id INTEGER NOT NULL, 
	rank SMALLINT NOT NULL, 
	position_id BIGINT, 
	token_id INTEGER NOT NULL, 
	is_stop_word BOOLEAN NOT NULL, 
	text_before VARCHAR, 
	token VARCHAR NOT NULL
);
COMMENT ON TABLE annotations.annotation_item IS 'One text or token that was shown to an annotator, explained or not.';
COMMENT ON COLUMN annotations.annotation_item.annotation_id IS 'The look at which it was shown.';
COMMENT ON COLUMN annotations.annotation_item.rank IS 'From 1: rank of the trigger or of the token when it was shown.';
COMMENT ON COLUMN annotations.annotation_item.position_id IS 'Where the text of a key ends; null for tokens.';
COMMENT ON COLUMN annotations.annotation_item.token_id IS 'The token; of a text the token it ends with.';
COMMENT ON COLUMN annotations.annotation_item.is_stop_word IS 'token.is_stop_word when it was shown.';
COMMENT ON COLUMN annotations.annotation_item.text_before IS 'Characters shown before the token; null for tokens.';
COMMENT ON COLUMN annotations.annotation_item.token IS 'Characters of the token.';
CREATE TABLE annotations.pattern (
	pattern_id INTEGER NOT NULL, 
	annotation_id INTEGER NOT NULL, 
	kind VARCHAR NOT NULL, 
	description VARCHAR NOT NULL, 
	PRIMARY KEY (pattern_id), 
	CHECK (kind IN ('shallow', 'semantic', 'syntactic', 'names'))
);
COMMENT ON TABLE annotations.pattern IS 'A pattern in at least 3 texts of a key (Geva et al. 2021, section 3), or a concept of at least 4 tokens (Geva et al. 2022, section 4).';
COMMENT ON COLUMN annotations.pattern.pattern_id IS 'Counted from 0.';
COMMENT ON COLUMN annotations.pattern.annotation_id IS 'The look at which it was found.';
COMMENT ON COLUMN annotations.pattern.kind IS 'Of a key shallow or semantic; of tokens semantic, syntactic or names.';
COMMENT ON COLUMN annotations.pattern.description IS 'What its texts or tokens have in common, in the annotator''s words.';
CREATE TABLE annotations.pattern_match (
	pattern_id INTEGER NOT NULL, 
	rank SMALLINT NOT NULL
);
COMMENT ON TABLE annotations.pattern_match IS 'Which texts or tokens a pattern explains.';
COMMENT ON COLUMN annotations.pattern_match.pattern_id IS 'The pattern.';
COMMENT ON COLUMN annotations.pattern_match.rank IS 'Rank of the text or token it explains: annotation_item.rank of the same annotation.'
