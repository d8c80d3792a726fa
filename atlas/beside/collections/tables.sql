-- Sets of components, positions or tokens that somebody put together and gave a name.

-- What wrote this file; one row.
-- grain:
CREATE TABLE collections.collection_schema (
    -- Version of the tables in this file.
    version INTEGER NOT NULL,
    -- SHA-256 over the definitions of its views and questions.
    derived_sha256 VARCHAR NOT NULL
);

-- A set of components, positions or tokens that somebody put together and gave a name.
-- grain: name
CREATE TABLE collections.collection (
    -- Counted from 0.
    collection_id INTEGER NOT NULL,
    -- Its name: letters, digits, spaces and .,:+()_-; no other has the same, whatever the case.
    name VARCHAR NOT NULL,
    -- What it is of, in the words of who made it; '' if that was not said.
    note VARCHAR NOT NULL,
    -- Who made it, as the person calls herself.
    made_by VARCHAR NOT NULL,
    -- When it was made, UTC.
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (collection_id)
);

-- What is in a collection. A row carries what the atlas showed, so that it stays readable without it.
-- grain: collection_id, layer, neuron, head, position_id, token_id, weights_sha256
-- references: collection_id in collection.collection_id
CREATE TABLE collections.collection_member (
    -- The collection.
    collection_id INTEGER NOT NULL,
    -- Order in which members were added, from 0; one that is removed leaves a gap.
    number INTEGER NOT NULL,
    -- What it is: a neuron, a head, a position or a token.
    kind VARCHAR NOT NULL,
    -- Transformer block of a neuron or head, from 0; null for others.
    layer SMALLINT,
    -- FFN hidden unit of the layer, from 0; null for others.
    neuron INTEGER,
    -- Attention head of the layer, from 0; null for others.
    head SMALLINT,
    -- The position, as in the atlas it was added from; null for others.
    position_id BIGINT,
    -- The token of the vocabulary; null for others.
    token_id INTEGER,
    -- What the atlas showed of it: tokens that a value promotes, the text up to a position, a token's characters; '' for heads.
    text VARCHAR NOT NULL,
    -- What was said of this member; '' if nothing was.
    note VARCHAR NOT NULL,
    -- Who added it.
    added_by VARCHAR NOT NULL,
    -- model.weights_sha256 of the atlas it was added from.
    weights_sha256 VARCHAR NOT NULL,
    -- When it was added, UTC.
    added_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CHECK (kind IN ('neuron', 'head', 'position', 'token'))
);
