"""Creation of the tables of a new file, and of the derived objects of any file: views, table macros, comments.

Only the functions that write DDL import SQLAlchemy, which reading an atlas file does not need.
"""

import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

import duckdb

from schema.errors import AtlasError
from schema.release import question_files, store_digest, view_files

if TYPE_CHECKING:
    from duckdb_sqlalchemy import Dialect
    from sqlalchemy import MetaData, Table

WORD = re.compile(r"\w+")
COMMENT = re.compile(r"--.*")


@cache
def dialect() -> "Dialect":
    from duckdb_sqlalchemy import Dialect

    # the statements take no parameters; of another style each per cent sign would be doubled
    return Dialect(paramstyle="qmark")


def table_ddl(table: "Table") -> Iterator[str]:
    """Yield the SQL statements that create a table and its comments."""
    from sqlalchemy.schema import CreateTable

    yield str(CreateTable(table).compile(dialect=dialect()))
    yield from table_comments(table)


def table_comments(table: "Table", kind: str = "TABLE") -> Iterator[str]:
    """Yield the COMMENT ON statements of a table and its columns. kind: VIEW if a view stands in for the table."""
    from sqlalchemy.schema import SetColumnComment, SetTableComment

    yield str(SetTableComment(table).compile(dialect=dialect())).replace("TABLE", kind, 1)
    for column in table.columns:
        yield str(SetColumnComment(column).compile(dialect=dialect()))


def column_types(table: "Table") -> dict[str, str]:
    """Map each column to its type in DuckDB."""
    return {column.name: column.type.compile(dialect=dialect()) for column in table.columns}


def create_tables(con: duckdb.DuckDBPyConnection, d_model: int) -> "MetaData":
    """Create every table of an atlas in the connection's current database, and return their metadata."""
    from schema.tables import metadata

    tables = metadata(d_model)
    for table in tables.tables.values():
        for statement in table_ddl(table):
            con.execute(statement)
    return tables


def derived_files() -> dict[str, str]:
    """Return the SQL of every view and table macro, {name: SQL}, each after those that it uses: DuckDB looks up the names in the SQL when it creates them.

    A view or macro counts as used if its name is a word of the SQL outside comments.
    """
    files = {**view_files(), **question_files()}
    uses = {name: files.keys() & set(WORD.findall(COMMENT.sub("", sql))) - {name} for name, sql in files.items()}
    return {name: files[name] for name in TopologicalSorter(uses).static_order()}


def install_derived(con: duckdb.DuckDBPyConnection) -> None:
    """(Re)create views and table macros.

    Raises AtlasError at the first that fails, since DuckDB 2.0.0 runs no further statement of a transaction in which one has failed.
    """
    for name, sql in derived_files().items():
        try:
            con.execute(sql)
        except duckdb.Error as error:
            raise AtlasError(f"view or question {name} does not build: {str(error).splitlines()[0]}") from error
    store_digest(con)
