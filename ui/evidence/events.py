"""Whether there is a trace, which all that is said of single predictions rests on."""

from ui import blocks, data

NO_TRACE = "No position of this atlas has been traced yet."


def is_traced() -> bool:
    """Whether any position is traced; if not, what to run is said."""
    if data.status().corpora["n_traced"].sum():
        return True
    blocks.empty(NO_TRACE, "atlas ingest NAME.duckdb --model … --corpus … --trace 300")
    return False
