"""The tables of the file NAME.retrievals.duckdb: what comes of looking for a position's neighbours among the keys of other text."""
