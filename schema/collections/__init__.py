"""The tables of the file NAME.collections.duckdb: what people put together and gave a name."""
