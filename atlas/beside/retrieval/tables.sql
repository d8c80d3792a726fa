-- Queries answered from a store of keys (kNN-LM, Khandelwal et al. 2020).

-- What wrote this file; one row.
-- grain:
CREATE TABLE retrievals.retrieval_schema (
    -- Version of the tables in this file.
    version INTEGER NOT NULL,
    -- SHA-256 over the definitions of its views and questions.
    derived_sha256 VARCHAR NOT NULL
);

-- Queries answered from a store of keys (kNN-LM, Khandelwal et al. 2020), and what was chosen on the tune queries alone.
-- grain: retrieval_id
-- bounds: median_distance >= 0; weight in [0, 1]
CREATE TABLE retrievals.retrieval (
    -- Counted from 0.
    retrieval_id INTEGER NOT NULL,
    -- corpus_id of the entries that neighbours are looked for among.
    store_corpus_id INTEGER NOT NULL,
    -- corpus_id of the queries that k, temperature and weight are chosen on.
    tune_corpus_id INTEGER NOT NULL,
    -- corpus_id of the queries that the choice is scored on.
    test_corpus_id INTEGER NOT NULL,
    -- datastore.sha256 of the entries.
    store_sha256 VARCHAR NOT NULL,
    -- datastore.sha256 of the keys of the tune corpus.
    tune_sha256 VARCHAR NOT NULL,
    -- datastore.sha256 of the keys of the test corpus.
    test_sha256 VARCHAR NOT NULL,
    -- The model whose states the keys are: model.weights_sha256.
    weights_sha256 VARCHAR NOT NULL,
    -- Which state a key is: ffn_in, the input of the up projection.
    key_site VARCHAR NOT NULL,
    -- Transformer block, counted from 0.
    layer SMALLINT NOT NULL,
    -- Entries of the store.
    n_entries BIGINT NOT NULL,
    -- Distance: squared L2, in float32 from the stored keys.
    metric VARCHAR NOT NULL,
    -- exact: among all entries; compressed: among those that an index of product codes proposes, distances exact.
    search VARCHAR NOT NULL,
    -- Queries asked for, of each of both corpora; fewer where a corpus has fewer.
    n_queries INTEGER NOT NULL,
    -- The largest k that was tried.
    most_neighbours INTEGER NOT NULL,
    -- Of the hash that chooses them.
    seed BIGINT NOT NULL,
    -- Whether the model was trained on the store's text, as whoever ran it says; null: not said.
    is_training_text BOOLEAN,
    -- Median over the tune queries of the distance to the nearest entry.
    median_distance DOUBLE PRECISION NOT NULL,
    -- The chosen number of neighbours: with temperature and weight it gives the smallest perplexity of the tune queries.
    k INTEGER NOT NULL,
    -- The chosen temperature T of exp(-distance / T), in squared units of the key.
    temperature DOUBLE PRECISION NOT NULL,
    -- The chosen share λ of the neighbours in the mixture.
    weight DOUBLE PRECISION NOT NULL,
    -- Retrievals before this one that had scored the same corpus against the same entries: 0 where it is seen once.
    n_earlier_tests INTEGER NOT NULL,
    -- JSON: versions of python, faiss, numpy, duckdb and this project.
    versions JSON NOT NULL,
    -- When it began, UTC.
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    -- When it had ended, UTC.
    finished_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CHECK (search IN ('exact', 'compressed'))
);

-- The queries. A query is a near-copy where is_near or is_same_text.
-- grain: retrieval_id, position_id
-- references: retrieval_id in retrieval.retrieval_id
-- bounds: surprisal >= 0; top_prob in [0, 1]; nearest_distance >= 0
CREATE TABLE retrievals.knn_query (
    -- The retrieval.
    retrieval_id INTEGER NOT NULL,
    -- tune or test.
    part VARCHAR NOT NULL,
    -- The query: the position whose key is compared.
    position_id BIGINT NOT NULL,
    -- Its place in its sequence, from 0.
    index INTEGER NOT NULL,
    -- The token that follows.
    next_token_id INTEGER NOT NULL,
    -- The model's negative log-probability of that token, in nats: position_prediction.surprisal.
    surprisal REAL NOT NULL,
    -- The model's most probable token.
    top_token_id INTEGER NOT NULL,
    -- Its probability, in [0, 1].
    top_prob REAL NOT NULL,
    -- Squared L2 distance to the nearest entry.
    nearest_distance REAL NOT NULL,
    -- Whether that is under 1% of retrieval.median_distance.
    is_near BOOLEAN NOT NULL,
    -- Whether the 32 tokens up to the query are those up to one of its neighbours.
    is_same_text BOOLEAN NOT NULL,
    CHECK (part IN ('tune', 'test'))
);

-- What neighbours predict: of tune queries for every k and temperature that were tried, of test queries for the chosen ones alone.
-- grain: retrieval_id, position_id, k, temperature
-- references: retrieval_id in retrieval.retrieval_id
-- bounds: next_token_prob in [0, 1]; top_prob in [0, 1]; entropy >= 0
CREATE TABLE retrievals.knn_prediction (
    -- The retrieval.
    retrieval_id INTEGER NOT NULL,
    -- The query.
    position_id BIGINT NOT NULL,
    -- Neighbours that are counted.
    k INTEGER NOT NULL,
    -- T of exp(-distance / T).
    temperature DOUBLE PRECISION NOT NULL,
    -- Share of the token that follows in Σ exp(-distance / T) over the neighbours, in [0, 1].
    next_token_prob DOUBLE PRECISION NOT NULL,
    -- The token with the largest share; ties go to the lower token_id.
    top_token_id INTEGER NOT NULL,
    -- Its share, in [0, 1].
    top_prob REAL NOT NULL,
    -- Entropy of the shares of all tokens, in nats.
    entropy REAL NOT NULL,
    -- Distinct tokens that follow the neighbours.
    n_tokens INTEGER NOT NULL,
    -- ln Σ exp(-distance / T): a neighbour's weight is exp(-distance / T - log_normaliser).
    log_normaliser DOUBLE PRECISION NOT NULL
);

-- The nearest entries of a query, 32 at most; none is of the query's own document.
-- grain: retrieval_id, position_id, rank
-- references: retrieval_id in retrieval.retrieval_id
-- bounds: distance >= 0
CREATE TABLE retrievals.knn_neighbour (
    -- The retrieval.
    retrieval_id INTEGER NOT NULL,
    -- The query.
    position_id BIGINT NOT NULL,
    -- From 1, the nearest; ties go to the smaller neighbour_position_id.
    rank SMALLINT NOT NULL,
    -- The entry.
    neighbour_position_id BIGINT NOT NULL,
    -- The token that follows the entry: its value.
    next_token_id INTEGER NOT NULL,
    -- Squared L2 distance of the keys.
    distance REAL NOT NULL
);

-- Texts of queries and entries, so that the file can be read without its atlas.
-- grain: position_id
CREATE TABLE retrievals.position_text (
    -- A query, or one of its nearest entries.
    position_id BIGINT NOT NULL,
    -- Name of its document.
    document VARCHAR NOT NULL,
    -- At most 80 characters up to the end of its token.
    text_before VARCHAR NOT NULL
);

-- Texts of the tokens that are named.
-- grain: token_id
CREATE TABLE retrievals.token_text (
    -- A token that follows a query or an entry, or that the model holds most probable.
    token_id INTEGER NOT NULL,
    -- Its characters, as token.text.
    text VARCHAR NOT NULL
);
