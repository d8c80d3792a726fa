"""A corpus as the model reads it: documents, sequences, tokens, and which positions are sampled."""
