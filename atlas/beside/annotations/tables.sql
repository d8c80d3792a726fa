-- What people say of an atlas's keys and values: a row carries the text that was shown, so that it stays readable without the atlas.

-- What wrote this file; one row.
-- grain:
CREATE TABLE annotations.annotation_schema (
    -- Version of the tables in this file.
    version INTEGER NOT NULL,
    -- SHA-256 over the definitions of its views and questions.
    derived_sha256 VARCHAR NOT NULL
);

-- One annotator's look at one key, value, random vector or FFN update; with no patterns, the annotator found none.
-- grain: subject, corpus_id, layer, item, annotator, weights_sha256
CREATE TABLE annotations.annotation (
    -- Counted from 0; renewed where an annotation is replaced.
    annotation_id INTEGER NOT NULL,
    -- What was looked at: a key (the texts that trigger it), or the tokens of a value, a random_vector or an ffn_update.
    subject VARCHAR NOT NULL,
    -- The corpus whose texts were read; null for values and random vectors.
    corpus_id INTEGER,
    -- Transformer block, counted from 0.
    layer SMALLINT NOT NULL,
    -- Neuron of a key or value; number of the random vector; position_id of the update (control_token.item).
    item BIGINT NOT NULL,
    -- Texts or tokens that were shown: 25 of a key, 30 of a value, less where the atlas holds less.
    n_items SMALLINT NOT NULL,
    -- Who annotated, as the person calls herself; miner for what the program proposes.
    annotator VARCHAR NOT NULL,
    -- Proposed by the program, not found by a person.
    is_proposed BOOLEAN NOT NULL,
    -- model.weights_sha256 of the atlas annotated.
    weights_sha256 VARCHAR NOT NULL,
    -- When it was loaded, UTC.
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (annotation_id),
    CHECK (subject IN ('key', 'value', 'random_vector', 'ffn_update'))
);

-- One text or token that was shown to an annotator, explained or not.
-- grain: annotation_id, rank
-- references: annotation_id in annotation.annotation_id
CREATE TABLE annotations.annotation_item (
    -- The look at which it was shown.
    annotation_id INTEGER NOT NULL,
    -- From 1: rank of the trigger or of the token when it was shown.
    rank SMALLINT NOT NULL,
    -- Where the text of a key ends; null for tokens.
    position_id BIGINT,
    -- The token; of a text the token it ends with.
    token_id INTEGER NOT NULL,
    -- token.is_stop_word when it was shown.
    is_stop_word BOOLEAN NOT NULL,
    -- Characters shown before the token; null for tokens.
    text_before VARCHAR,
    -- Characters of the token.
    token VARCHAR NOT NULL
);

-- A pattern in at least 3 texts of a key (Geva et al. 2021, section 3), or a concept of at least 4 tokens (Geva et al. 2022, section 4).
-- grain: pattern_id
-- references: annotation_id in annotation.annotation_id
CREATE TABLE annotations.pattern (
    -- Counted from 0.
    pattern_id INTEGER NOT NULL,
    -- The look at which it was found.
    annotation_id INTEGER NOT NULL,
    -- Of a key shallow or semantic; of tokens semantic, syntactic or names.
    kind VARCHAR NOT NULL,
    -- What its texts or tokens have in common, in the annotator's words.
    description VARCHAR NOT NULL,
    PRIMARY KEY (pattern_id),
    CHECK (kind IN ('shallow', 'semantic', 'syntactic', 'names'))
);

-- Which texts or tokens a pattern explains.
-- grain: pattern_id, rank
-- references: pattern_id in pattern.pattern_id
CREATE TABLE annotations.pattern_match (
    -- The pattern.
    pattern_id INTEGER NOT NULL,
    -- Rank of the text or token it explains: annotation_item.rank of the same annotation.
    rank SMALLINT NOT NULL
);
