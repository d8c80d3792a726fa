CREATE TABLE trials.trial_schema (version INTEGER NOT NULL, derived_sha256 VARCHAR NOT NULL);

CREATE TABLE trials.trial (trial_id INTEGER NOT NULL, layer SMALLINT NOT NULL, effect FLOAT NOT NULL);

COMMENT ON TABLE trials.trial IS 'One trial.';

COMMENT ON COLUMN trials.trial.effect IS 'Change of the loss, in nats.'
