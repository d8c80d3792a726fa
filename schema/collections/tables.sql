CREATE TABLE collections.collection_schema (
	version INTEGER NOT NULL, 
	derived_sha256 VARCHAR NOT NULL
);
COMMENT ON TABLE collections.collection_schema IS 'What wrote this file; one row.';
COMMENT ON COLUMN collections.collection_schema.version IS 'Version of the tables in this file.';
COMMENT ON COLUMN collections.collection_schema.derived_sha256 IS 'SHA-256 over the definitions of its views and questions.';
CREATE TABLE collections.collection (
	collection_id INTEGER NOT NULL, 
	name VARCHAR NOT NULL, 
	note VARCHAR NOT NULL, 
	made_by VARCHAR NOT NULL, 
	created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	PRIMARY KEY (collection_id)
);
COMMENT ON TABLE collections.collection IS 'A set of components, positions or tokens that somebody put together and gave a name.';
COMMENT ON COLUMN collections.collection.collection_id IS 'Counted from 0.';
COMMENT ON COLUMN collections.collection.name IS 'Its name: letters, digits, spaces and .,:+()_-; no other has the same, whatever the case.';
COMMENT ON COLUMN collections.collection.note IS 'What it is of, in the words of who made it; '''' if that was not said.';
COMMENT ON COLUMN collections.collection.made_by IS 'Who made it, as the person calls herself.';
COMMENT ON COLUMN collections.collection.created_at IS 'When it was made, UTC.';
CREATE TABLE collections.collection_member (
	collection_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	kind VARCHAR NOT NULL, 
	layer SMALLINT, 
	neuron INTEGER, 
	head SMALLINT, 
	position_id BIGINT, 
	token_id INTEGER, 
	text VARCHAR NOT NULL, 
	note VARCHAR NOT NULL, 
	added_by VARCHAR NOT NULL, 
	weights_sha256 VARCHAR NOT NULL, 
	added_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	CHECK (kind IN ('neuron', 'head', 'position', 'token'))
);
COMMENT ON TABLE collections.collection_member IS 'What is in a collection. A row carries what the atlas showed, so that it stays readable without it.';
COMMENT ON COLUMN collections.collection_member.collection_id IS 'The collection.';
COMMENT ON COLUMN collections.collection_member.number IS 'Order in which members were added, from 0; one that is removed leaves a gap.';
COMMENT ON COLUMN collections.collection_member.kind IS 'What it is: a neuron, a head, a position or a token.';
COMMENT ON COLUMN collections.collection_member.layer IS 'Transformer block of a neuron or head, from 0; null for others.';
COMMENT ON COLUMN collections.collection_member.neuron IS 'FFN hidden unit of the layer, from 0; null for others.';
COMMENT ON COLUMN collections.collection_member.head IS 'Attention head of the layer, from 0; null for others.';
COMMENT ON COLUMN collections.collection_member.position_id IS 'The position, as in the atlas it was added from; null for others.';
COMMENT ON COLUMN collections.collection_member.token_id IS 'The token of the vocabulary; null for others.';
COMMENT ON COLUMN collections.collection_member.text IS 'What the atlas showed of it: tokens that a value promotes, the text up to a position, a token''s characters; '''' for heads.';
COMMENT ON COLUMN collections.collection_member.note IS 'What was said of this member; '''' if nothing was.';
COMMENT ON COLUMN collections.collection_member.added_by IS 'Who added it.';
COMMENT ON COLUMN collections.collection_member.weights_sha256 IS 'model.weights_sha256 of the atlas it was added from.';
COMMENT ON COLUMN collections.collection_member.added_at IS 'When it was added, UTC.'
