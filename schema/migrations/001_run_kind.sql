-- change: the kind of a run is the name of any pass, and no longer one of five words
-- due: FROM duckdb_constraints() WHERE database_name = current_database() AND table_name = 'run' AND contains(constraint_text, 'kind IN')
CREATE TABLE former_run AS FROM run;

DROP TABLE run;

CREATE TABLE run (
    run_id INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    corpus_id INTEGER,
    settings JSON NOT NULL,
    versions JSON NOT NULL,
    seed BIGINT NOT NULL,
    device VARCHAR NOT NULL,
    n_shards INTEGER NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    status VARCHAR NOT NULL,
    PRIMARY KEY (run_id),
    CHECK (status IN ('running', 'finished'))
);

INSERT INTO run BY NAME FROM former_run;

DROP TABLE former_run;
