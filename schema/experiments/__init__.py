"""Tables of NAME.experiments.duckdb, the file beside an atlas that holds what its model did when its forward passes were changed, or asked why.

tables.sql is their DDL, for whoever attaches them and has no time for SQLAlchemy; `python -m schema.experiments.tables` writes it anew.
An experiment is of one model: its weights_sha256 is the atlas's, or the file is refused.
"""
