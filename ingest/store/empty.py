"""Tables, views and questions of a new file, copied from an empty atlas that each process builds once."""

from contextlib import closing
from pathlib import Path

import duckdb

from ingest.store.transaction import transaction
from schema.build import create_tables, install_derived
from schema.open.names import escape_quotes
from schema.open.store import open_writer
from schema.patient import make_interrupt_safe
from schema.release import release_digest

BUILT: dict[tuple[str, int], bytes] = {}
"""Bytes of an atlas file without rows, by release and width of the residual stream."""


def lay_out(con: duckdb.DuckDBPyConnection, draft: Path, d_model: int) -> None:
    """Create every table, view and question in the current database, which is empty and whose file is `draft`.

    They are copied from an empty atlas: creating them one by one would take longer than the rows of a small atlas, and twice the space in the file.
    """
    source = Path(f"{draft}.empty")
    source.unlink(missing_ok=True)
    key = (release_digest(), d_model)
    if key not in BUILT:
        build_empty_atlas(source, d_model)
        BUILT[key] = source.read_bytes()
    else:
        source.write_bytes(BUILT[key])
    name = con.execute("SELECT current_database()").fetchall()[0][0]
    con.execute(f"ATTACH '{escape_quotes(str(source))}' AS empty (READ_ONLY)")
    con.execute(f'COPY FROM DATABASE empty TO "{name}" (SCHEMA)')
    con.execute("DETACH empty")
    source.unlink()


def build_empty_atlas(path: Path, d_model: int) -> None:
    with closing(make_interrupt_safe(open_writer(path))) as con:
        with transaction(con):
            create_tables(con, d_model)
            install_derived(con)
        con.execute("CHECKPOINT")
