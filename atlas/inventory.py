"""Inventory of an atlas: model, corpora, runs, rows."""

from dataclasses import dataclass
from html import escape
from pathlib import Path

import duckdb
import polars as pl

from atlas.export.visible import visible_line
from atlas.frames import fetch
from atlas.questions import question
from atlas.status_notes import notes
from schema.open.lake import is_lake, lake_bytes
from schema.table_facts import facts

RUNS = """
SELECT
    r.run_id,
    r.kind,
    r.corpus_id,
    r.status,
    count(s.shard_id) AS n_shards_loaded,
    r.n_shards,
    r.device,
    r.started_at,
    r.finished_at
FROM run AS r
LEFT JOIN shard AS s ON r.run_id = s.run_id
GROUP BY ALL
ORDER BY r.run_id
"""


@dataclass(frozen=True)
class Status:
    """Content of an atlas.

    `model` has one row (none in an empty atlas), `corpora` one per corpus, `runs` one per run, `tables` one per table with its number of rows.
    `notes`: sentences about the atlas that its user may not know (atlas/status_notes.py).
    """

    path: str
    bytes: int
    model: pl.DataFrame
    corpora: pl.DataFrame
    runs: pl.DataFrame
    tables: pl.DataFrame
    notes: list[str]

    def to_dict(self) -> dict[str, object]:
        """Convert to plain values, for JSON."""
        model = self.model.to_dicts()
        return {
            "path": self.path,
            "bytes": self.bytes,
            "model": model[0] if model else None,
            "corpora": self.corpora.to_dicts(),
            "runs": self.runs.to_dicts(),
            "rows": dict(self.tables.iter_rows()),
            "notes": self.notes,
        }

    def _repr_html_(self) -> str:
        return status_html(self)


def read_status(con: duckdb.DuckDBPyConnection, path: Path) -> Status:
    counts = " UNION ALL ".join(f"SELECT '{t}' AS relation, count(*) AS n_rows FROM {t}" for t in facts().filled_by)
    return Status(
        path=str(path),
        bytes=lake_bytes(con) if is_lake(path) else path.stat().st_size,
        model=fetch(con, "FROM model LIMIT 1"),
        corpora=fetch(con, question("corpus_summary").call),
        runs=fetch(con, RUNS),
        tables=fetch(con, counts),
        notes=notes(con, path),
    )


def headline(status: Status) -> str:
    """Describe the model in one line."""
    if status.model.is_empty():
        return "empty: no model yet, `atlas ingest` fills it"
    m = status.model.to_dicts()[0]
    gated = ", gated" if m["is_gated"] else ""
    heads = f"{m['n_heads']} heads" if m["n_heads"] else "heads that are not read"
    return visible_line(
        f"{m['name']} @ {m['revision']}: {m['model_type']}, {m['n_layers']} layers × {m['d_ffn']} neurons{gated} and {heads}, "
        f"d_model {m['d_model']}, {m['d_vocab']} tokens, {m['dtype']}"
    )


def status_html(status: Status) -> str:
    from atlas.export.cells import display_cells

    def table(frame: pl.DataFrame) -> str:
        head = "".join(f"<th>{escape(c)}</th>" for c in frame.columns)
        rows = zip(*(display_cells(frame[c]) for c in frame.columns), strict=True)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    parts = [f"<b>{escape(status.path)}</b> ({status.bytes / 1e6:,.1f} MB)<br>{escape(headline(status))}"]
    return "\n".join(
        [
            *parts,
            table(status.corpora),
            table(status.runs),
            table(status.tables.filter(pl.col("n_rows") > 0)),
            *(f"<p>{escape(note)}</p>" for note in status.notes),
        ]
    )
