"""The other store: DuckLake tables, to which workers on many machines bring Parquet files (schema/open/lake.py says what a lake is)."""
