CREATE TABLE retrievals.retrieval_schema (
	version INTEGER NOT NULL, 
	derived_sha256 VARCHAR NOT NULL
);
COMMENT ON TABLE retrievals.retrieval_schema IS 'What wrote this file; one row.';
COMMENT ON COLUMN retrievals.retrieval_schema.version IS 'Version of the tables in this file.';
COMMENT ON COLUMN retrievals.retrieval_schema.derived_sha256 IS 'SHA-256 over the definitions of its views and questions.';
CREATE TABLE retrievals.retrieval (
	retrieval_id INTEGER NOT NULL, 
	store_corpus_id INTEGER NOT NULL, 
	tune_corpus_id INTEGER NOT NULL, 
	test_corpus_id INTEGER NOT NULL, 
	store_sha256 VARCHAR NOT NULL, 
	tune_sha256 VARCHAR NOT NULL, 
	test_sha256 VARCHAR NOT NULL, 
	weights_sha256 VARCHAR NOT NULL, 
	key_site VARCHAR NOT NULL, 
	layer SMALLINT NOT NULL, 
	n_entries BIGINT NOT NULL, 
	metric VARCHAR NOT NULL, 
	search VARCHAR NOT NULL, 
	n_queries INTEGER NOT NULL, 
	most_neighbours INTEGER NOT NULL, 
	seed BIGINT NOT NULL, 
	is_training_text BOOLEAN, 
	median_distance DOUBLE PRECISION NOT NULL, 
	k INTEGER NOT NULL, 
	temperature DOUBLE PRECISION NOT NULL, 
	weight DOUBLE PRECISION NOT NULL, 
	n_earlier_tests INTEGER NOT NULL, 
	versions JSON NOT NULL, 
	started_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	finished_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	CHECK (search IN ('exact', 'compressed'))
);
COMMENT ON TABLE retrievals.retrieval IS 'Queries answered from a store of keys (kNN-LM, Khandelwal et al. 2020), and what was chosen on the tune queries alone.';
COMMENT ON COLUMN retrievals.retrieval.retrieval_id IS 'Counted from 0.';
COMMENT ON COLUMN retrievals.retrieval.store_corpus_id IS 'corpus_id of the entries that neighbours are looked for among.';
COMMENT ON COLUMN retrievals.retrieval.tune_corpus_id IS 'corpus_id of the queries that k, temperature and weight are chosen on.';
COMMENT ON COLUMN retrievals.retrieval.test_corpus_id IS 'corpus_id of the queries that the choice is scored on.';
COMMENT ON COLUMN retrievals.retrieval.store_sha256 IS 'datastore.sha256 of the entries.';
COMMENT ON COLUMN retrievals.retrieval.tune_sha256 IS 'datastore.sha256 of the keys of the tune corpus.';
COMMENT ON COLUMN retrievals.retrieval.test_sha256 IS 'datastore.sha256 of the keys of the test corpus.';
COMMENT ON COLUMN retrievals.retrieval.weights_sha256 IS 'The model whose states the keys are: model.weights_sha256.';
COMMENT ON COLUMN retrievals.retrieval.key_site IS 'Which state a key is: ffn_in, the input of the up projection.';
COMMENT ON COLUMN retrievals.retrieval.layer IS 'Transformer block, counted from 0.';
COMMENT ON COLUMN retrievals.retrieval.n_entries IS 'Entries of the store.';
COMMENT ON COLUMN retrievals.retrieval.metric IS 'Distance: squared L2, in float32 from the stored keys.';
COMMENT ON COLUMN retrievals.retrieval.search IS 'exact: among all entries; compressed: among those that an index of product codes proposes, distances exact.';
COMMENT ON COLUMN retrievals.retrieval.n_queries IS 'Queries asked for, of each of both corpora; fewer where a corpus has fewer.';
COMMENT ON COLUMN retrievals.retrieval.most_neighbours IS 'The largest k that was tried.';
COMMENT ON COLUMN retrievals.retrieval.seed IS 'Of the hash that chooses them.';
COMMENT ON COLUMN retrievals.retrieval.is_training_text IS 'Whether the model was trained on the store''s text, as whoever ran it says; null: not said.';
COMMENT ON COLUMN retrievals.retrieval.median_distance IS 'Median over the tune queries of the distance to the nearest entry.';
COMMENT ON COLUMN retrievals.retrieval.k IS 'The chosen number of neighbours: with temperature and weight it gives the smallest perplexity of the tune queries.';
COMMENT ON COLUMN retrievals.retrieval.temperature IS 'The chosen temperature T of exp(-distance / T), in squared units of the key.';
COMMENT ON COLUMN retrievals.retrieval.weight IS 'The chosen share λ of the neighbours in the mixture.';
COMMENT ON COLUMN retrievals.retrieval.n_earlier_tests IS 'Retrievals before this one that had scored the same corpus against the same entries: 0 where it is seen once.';
COMMENT ON COLUMN retrievals.retrieval.versions IS 'JSON: versions of python, faiss, numpy, duckdb and this project.';
COMMENT ON COLUMN retrievals.retrieval.started_at IS 'When it began, UTC.';
COMMENT ON COLUMN retrievals.retrieval.finished_at IS 'When it had ended, UTC.';
CREATE TABLE retrievals.knn_query (
	retrieval_id INTEGER NOT NULL, 
	part VARCHAR NOT NULL, 
	position_id BIGINT NOT NULL, 
	index INTEGER NOT NULL, 
	next_token_id INTEGER NOT NULL, 
	surprisal REAL NOT NULL, 
	top_token_id INTEGER NOT NULL, 
	top_prob REAL NOT NULL, 
	nearest_distance REAL NOT NULL, 
	is_near BOOLEAN NOT NULL, 
	is_same_text BOOLEAN NOT NULL, 
	CHECK (part IN ('tune', 'test'))
);
COMMENT ON TABLE retrievals.knn_query IS 'The queries. A query is a near-copy where is_near or is_same_text.';
COMMENT ON COLUMN retrievals.knn_query.retrieval_id IS 'The retrieval.';
COMMENT ON COLUMN retrievals.knn_query.part IS 'tune or test.';
COMMENT ON COLUMN retrievals.knn_query.position_id IS 'The query: the position whose key is compared.';
COMMENT ON COLUMN retrievals.knn_query.index IS 'Its place in its sequence, from 0.';
COMMENT ON COLUMN retrievals.knn_query.next_token_id IS 'The token that follows.';
COMMENT ON COLUMN retrievals.knn_query.surprisal IS 'The model''s negative log-probability of that token, in nats: position_prediction.surprisal.';
COMMENT ON COLUMN retrievals.knn_query.top_token_id IS 'The model''s most probable token.';
COMMENT ON COLUMN retrievals.knn_query.top_prob IS 'Its probability, in [0, 1].';
COMMENT ON COLUMN retrievals.knn_query.nearest_distance IS 'Squared L2 distance to the nearest entry.';
COMMENT ON COLUMN retrievals.knn_query.is_near IS 'Whether that is under 1% of retrieval.median_distance.';
COMMENT ON COLUMN retrievals.knn_query.is_same_text IS 'Whether the 32 tokens up to the query are those up to one of its neighbours.';
CREATE TABLE retrievals.knn_prediction (
	retrieval_id INTEGER NOT NULL, 
	position_id BIGINT NOT NULL, 
	k INTEGER NOT NULL, 
	temperature DOUBLE PRECISION NOT NULL, 
	next_token_prob DOUBLE PRECISION NOT NULL, 
	top_token_id INTEGER NOT NULL, 
	top_prob REAL NOT NULL, 
	entropy REAL NOT NULL, 
	n_tokens INTEGER NOT NULL, 
	log_normaliser DOUBLE PRECISION NOT NULL
);
COMMENT ON TABLE retrievals.knn_prediction IS 'What neighbours predict: of tune queries for every k and temperature that were tried, of test queries for the chosen ones alone.';
COMMENT ON COLUMN retrievals.knn_prediction.retrieval_id IS 'The retrieval.';
COMMENT ON COLUMN retrievals.knn_prediction.position_id IS 'The query.';
COMMENT ON COLUMN retrievals.knn_prediction.k IS 'Neighbours that are counted.';
COMMENT ON COLUMN retrievals.knn_prediction.temperature IS 'T of exp(-distance / T).';
COMMENT ON COLUMN retrievals.knn_prediction.next_token_prob IS 'Share of the token that follows in Σ exp(-distance / T) over the neighbours, in [0, 1].';
COMMENT ON COLUMN retrievals.knn_prediction.top_token_id IS 'The token with the largest share; ties go to the lower token_id.';
COMMENT ON COLUMN retrievals.knn_prediction.top_prob IS 'Its share, in [0, 1].';
COMMENT ON COLUMN retrievals.knn_prediction.entropy IS 'Entropy of the shares of all tokens, in nats.';
COMMENT ON COLUMN retrievals.knn_prediction.n_tokens IS 'Distinct tokens that follow the neighbours.';
COMMENT ON COLUMN retrievals.knn_prediction.log_normaliser IS 'ln Σ exp(-distance / T): a neighbour''s weight is exp(-distance / T - log_normaliser).';
CREATE TABLE retrievals.knn_neighbour (
	retrieval_id INTEGER NOT NULL, 
	position_id BIGINT NOT NULL, 
	rank SMALLINT NOT NULL, 
	neighbour_position_id BIGINT NOT NULL, 
	next_token_id INTEGER NOT NULL, 
	distance REAL NOT NULL
);
COMMENT ON TABLE retrievals.knn_neighbour IS 'The nearest entries of a query, 32 at most; none is of the query''s own document.';
COMMENT ON COLUMN retrievals.knn_neighbour.retrieval_id IS 'The retrieval.';
COMMENT ON COLUMN retrievals.knn_neighbour.position_id IS 'The query.';
COMMENT ON COLUMN retrievals.knn_neighbour.rank IS 'From 1, the nearest; ties go to the smaller neighbour_position_id.';
COMMENT ON COLUMN retrievals.knn_neighbour.neighbour_position_id IS 'The entry.';
COMMENT ON COLUMN retrievals.knn_neighbour.next_token_id IS 'The token that follows the entry: its value.';
COMMENT ON COLUMN retrievals.knn_neighbour.distance IS 'Squared L2 distance of the keys.';
CREATE TABLE retrievals.position_text (
	position_id BIGINT NOT NULL, 
	document VARCHAR NOT NULL, 
	text_before VARCHAR NOT NULL
);
COMMENT ON TABLE retrievals.position_text IS 'Texts of queries and entries, so that the file can be read without its atlas.';
COMMENT ON COLUMN retrievals.position_text.position_id IS 'A query, or one of its nearest entries.';
COMMENT ON COLUMN retrievals.position_text.document IS 'Name of its document.';
COMMENT ON COLUMN retrievals.position_text.text_before IS 'At most 80 characters up to the end of its token.';
CREATE TABLE retrievals.token_text (
	token_id INTEGER NOT NULL, 
	text VARCHAR NOT NULL
);
COMMENT ON TABLE retrievals.token_text IS 'Texts of the tokens that are named.';
COMMENT ON COLUMN retrievals.token_text.token_id IS 'A token that follows a query or an entry, or that the model holds most probable.';
COMMENT ON COLUMN retrievals.token_text.text IS 'Its characters, as token.text.'
