"""How an atlas came to be: the runs of its passes, and the shards they consist of."""

from sqlalchemy import BigInteger, DateTime, Integer, MetaData, PrimaryKeyConstraint, String

from schema import terms
from schema.columns import REGISTRATION, Json, column, one_of, table

ORDER = 20


def tables(m: MetaData, _: int) -> None:
    table(
        "run",
        m,
        column("run_id", Integer, "Counted from 0 in the order of ingest."),
        column("kind", String, "Name of the pass: weights (from the weights alone), sweep (every position), trace (sampled positions) and so on."),
        column("corpus_id", Integer, "The corpus it read; null for weights and map, which are of the model or of all traces.", "corpus.corpus_id", null=True),
        column("settings", Json, "JSON: everything needed to repeat the run."),
        column(
            "versions",
            Json,
            "JSON: versions of python, torch, duckdb and others, and of this project; GPUs and their driver; what counted coefficients.",
        ),
        column("seed", BigInteger, "Seed of every random choice in the run."),
        column("device", String, "Where the forward pass ran."),
        column("n_shards", Integer, "Shards the run consists of."),
        column("started_at", DateTime(timezone=True), "When the run was first started, UTC."),
        column("finished_at", DateTime(timezone=True), "When its last shard was loaded, UTC; null while running.", null=True),
        column("status", String, "running (resumable) or finished."),
        PrimaryKeyConstraint("run_id"),
        one_of("status", terms.RUN_STATUSES),
        comment="One ingest run.",
        grain=("run_id",),
        sort=("run_id",),
        filled_by=REGISTRATION,
        bytes_a_row=0,
    )
    table(
        "shard",
        m,
        column("run_id", Integer, "The run it belongs to.", "run.run_id"),
        column("shard_id", Integer, "Counted from 0 within the run."),
        column("n_rows", Json, "JSON: rows of each table in the shard as the worker wrote it."),
        column("sha256", String, "SHA-256 over the shard's files."),
        column("worker", String, "Host and process that computed it."),
        column("committed_at", DateTime(timezone=True), "When its transaction was committed, UTC."),
        PrimaryKeyConstraint("run_id", "shard_id"),
        comment="The manifest: one row per shard that is in the atlas, written in the same transaction as its data.",
        grain=("run_id", "shard_id"),
        sort=("run_id", "shard_id"),
        filled_by=REGISTRATION,
        bytes_a_row=0,
    )
