-- change: probes are of labels too that the text itself gives, and no longer of four alone
-- due: FROM duckdb_constraints() WHERE database_name = current_database() AND table_name = 'probe' AND contains(constraint_text, '''entity'')')
CREATE TABLE former_probe_task AS FROM probe_task;

CREATE TABLE former_probe AS FROM probe;

CREATE TABLE former_probe_prediction AS FROM probe_prediction;

DROP TABLE probe_task;

DROP TABLE probe;

DROP TABLE probe_prediction;

CREATE TABLE probe_task (
    run_id INTEGER NOT NULL,
    task VARCHAR NOT NULL,
    corpus_id INTEGER NOT NULL,
    n_train BIGINT NOT NULL,
    n_test BIGINT NOT NULL,
    n_train_documents INTEGER NOT NULL,
    n_test_documents INTEGER NOT NULL,
    n_classes INTEGER NOT NULL,
    n_unseen BIGINT NOT NULL,
    l2 DOUBLE NOT NULL,
    majority_accuracy DOUBLE NOT NULL,
    type_accuracy DOUBLE NOT NULL,
    CHECK (task IN ('pos', 'tag', 'relation', 'entity', 'token', 'next_token', 'frequency', 'index', 'starts_word', 'sentence_end'))
);

CREATE TABLE probe (
    run_id INTEGER NOT NULL,
    task VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    layer SMALLINT NOT NULL,
    site VARCHAR NOT NULL,
    accuracy DOUBLE NOT NULL,
    accuracy_low DOUBLE NOT NULL,
    accuracy_high DOUBLE NOT NULL,
    unseen_accuracy DOUBLE,
    codelength DOUBLE NOT NULL,
    is_converged BOOLEAN NOT NULL,
    rank INTEGER,
    CHECK (task IN ('pos', 'tag', 'relation', 'entity', 'token', 'next_token', 'frequency', 'index', 'starts_word', 'sentence_end')),
    CHECK (kind IN ('label', 'control', 'untrained')),
    CHECK (site IN ('resid_pre', 'resid_post'))
);

CREATE TABLE probe_prediction (
    run_id INTEGER NOT NULL,
    task VARCHAR NOT NULL,
    layer SMALLINT NOT NULL,
    site VARCHAR NOT NULL,
    word_id BIGINT NOT NULL,
    label VARCHAR NOT NULL,
    predicted VARCHAR NOT NULL,
    prob REAL NOT NULL,
    CHECK (task IN ('pos', 'tag', 'relation', 'entity', 'token', 'next_token', 'frequency', 'index', 'starts_word', 'sentence_end')),
    CHECK (site IN ('resid_pre', 'resid_post'))
);

INSERT INTO probe_task BY NAME FROM former_probe_task;

INSERT INTO probe BY NAME FROM former_probe;

INSERT INTO probe_prediction BY NAME FROM former_probe_prediction;

DROP TABLE former_probe_task;

DROP TABLE former_probe;

DROP TABLE former_probe_prediction;
