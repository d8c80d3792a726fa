"""The store for many machines: DuckLake tables, to which workers add Parquet files (schema/open/lake.py describes a lake)."""
