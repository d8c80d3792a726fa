"""`atlas retrieve`, from the keys beside an atlas to a stored retrieval:

keys → the tune queries' neighbours → k, temperature and weight → the test queries' neighbours, scored once with that choice → NAME.retrievals.duckdb
"""

import platform
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from rich.progress import Progress

from atlas.beside.retrieval import copies
from atlas.beside.retrieval.compressed import MOST_EXACT, build_proposer
from atlas.beside.retrieval.corpus_queries import CorpusQueries, Retrieval, position_texts, queries, text_numbers, token_texts
from atlas.beside.retrieval.entries import Store, store
from atlas.beside.retrieval.keeping import KeptRetrieval, find_kept, keep
from atlas.beside.retrieval.mixture import Choice, Shares, choose, median_nearest, parameter_grid, shares
from atlas.beside.retrieval.resuming import Batches, forget, work_folder
from atlas.beside.retrieval.search import Neighbours, Propose, Queries, Texts, every_entry, neighbours
from atlas.model_row import model_weights
from schema.errors import AtlasError
from schema.open.open_with_beside import open_with_beside

MOST_KEPT = 32
"""Maximum neighbours of a query that are stored."""


@dataclass(frozen=True)
class RetrievalContext:
    """An open atlas with the keys that a retrieval reads. texts: document_ids → numbers, equal for equal texts. work: folder of neighbours already found."""

    con: duckdb.DuckDBPyConnection
    asked: Retrieval
    store: Store
    of_queries: dict[int, Store]
    texts: Texts
    propose: Propose
    work: Path
    bar: Progress


@dataclass(frozen=True)
class PartNeighbours:
    """The queries of one corpus, their neighbours, and whether each query has the same text before it as one of its neighbours."""

    part: str
    asked: CorpusQueries
    neighbours: Neighbours
    is_same_text: np.ndarray


def retrieve(path: Path, asked: Retrieval, bar: Progress) -> KeptRetrieval:
    """Run a retrieval, or return the stored one if the same was run before.

    Raises AtlasError, with nothing changed, if keys are missing or not the atlas's.
    """
    started = datetime.now(UTC)
    with closing(open_with_beside(path)) as con:
        check(asked)
        stores = {corpus_id: store(con, path, corpus_id) for corpus_id in (asked.store, asked.tune, asked.test)}
        row = settings(con, asked, stores)
        work = work_folder(path, row)
        if there := find_kept(con, row):
            forget(work)
            return there
        check_files(con, list(stores.values()), bar)
        world = open_context(con, asked, stores, work, bar)
        tune = find_neighbours(world, "tune", asked.tune)
        try:
            median = median_nearest(tune.neighbours)
        except AtlasError:
            # these neighbours lead to no retrieval
            forget(work)
            raise
        grid = parameter_grid(asked.k, median)
        predicted = shares(tune.neighbours, tune.asked.next_token_ids, grid)
        choice = choose(tune.asked.surprisals, predicted, grid)
        test = find_neighbours(world, "test", asked.test)
        chosen = [(choice.k, choice.temperature)]
        scored = shares(test.neighbours, test.asked.next_token_ids, chosen)
        row |= chosen_row(choice, median) | {"started_at": started, "finished_at": datetime.now(UTC)}
        tables = {
            "knn_query": pa.concat_tables([query_rows(each, median) for each in (tune, test)]),
            "knn_prediction": pa.concat_tables([prediction_rows(tune, grid, predicted), prediction_rows(test, chosen, scored)]),
            "knn_neighbour": pa.concat_tables([neighbour_rows(each) for each in (tune, test)]),
        }
        tables |= texts_of(con, tables)
    kept = keep(path, row, tables)
    forget(work)
    return kept


def check(asked: Retrieval) -> None:
    if asked.tune == asked.test:
        raise AtlasError(f"--tune and --test are both corpus {asked.tune}: settings chosen on a text cannot be scored on the same text")


def settings(con: duckdb.DuckDBPyConnection, asked: Retrieval, stores: dict[int, Store]) -> dict[str, object]:
    """Collect the columns of the retrieval's row that are known before the search."""
    of, tune, test = (stores[corpus_id] for corpus_id in (asked.store, asked.tune, asked.test))
    is_compressed = of.n_entries > MOST_EXACT if asked.is_compressed is None else asked.is_compressed
    return {
        "store_corpus_id": asked.store, "tune_corpus_id": asked.tune, "test_corpus_id": asked.test, "store_sha256": of.sha256, "tune_sha256": tune.sha256,
        "test_sha256": test.sha256, "weights_sha256": model_weights(con), "key_site": of.key_site, "layer": of.layer, "n_entries": of.n_entries, "metric": "l2",
        "search": "compressed" if is_compressed else "exact", "n_queries": asked.queries, "most_neighbours": asked.k, "seed": asked.seed,
        "is_training_text": asked.is_training_text, "versions": versions(),
    }  # fmt: skip


def versions() -> dict[str, str]:
    packages = ("activation-atlas", "faiss-cpu", "numpy", "duckdb")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def check_files(con: duckdb.DuckDBPyConnection, stores: Sequence[Store], bar: Progress) -> None:
    """Check every file of keys by reading it once: a truncated or replaced file would silently give other neighbours."""
    ((d_model,),) = con.execute("SELECT m.d_model FROM model AS m").fetchall()
    different = {each.corpus_id: each for each in stores}.values()
    task = bar.add_task("check keys", total=sum(each.n_bytes for each in different), unit="bytes")
    for each in different:
        each.check(d_model, lambda n: bar.advance(task, n))


def open_context(con: duckdb.DuckDBPyConnection, asked: Retrieval, stores: dict[int, Store], work: Path, bar: Progress) -> RetrievalContext:
    document_ids, numbers = text_numbers(con)

    def texts(of: np.ndarray) -> np.ndarray:
        at = np.searchsorted(document_ids, of)
        if len(of) and not np.array_equal(document_ids[at.clip(max=len(document_ids) - 1)], of):
            raise AtlasError("a key is of a document that this atlas does not have: the keys are of another atlas, or were not written by `--keys`")
        return numbers[at]

    searched = stores[asked.store]
    is_compressed = searched.n_entries > MOST_EXACT if asked.is_compressed is None else asked.is_compressed
    propose = build_proposer(searched, texts, bar) if is_compressed else every_entry(searched, texts)
    return RetrievalContext(con, asked, searched, stores, texts, propose, work, bar)


def find_neighbours(world: RetrievalContext, part: str, corpus_id: int) -> PartNeighbours:
    """Find the queries of a corpus and the requested number of nearest entries of each, also beyond the chosen k, so that near-copies do not depend on k."""
    asked = queries(world.con, corpus_id, world.asked.queries, world.asked.seed)
    keys = world.of_queries[corpus_id].keys_at(asked.position_ids)
    task = world.bar.add_task(f"search {part}", total=len(keys) * world.store.n_entries, unit="pairs")
    of = Queries(keys, world.texts(asked.document_ids))
    remembered = Batches(world.work, part, asked.position_ids)
    nearest = neighbours(world.store, of, world.asked.k, world.propose, lambda n: world.bar.advance(task, n), remembered)
    both = ((corpus_id, asked.position_ids), (world.store.corpus_id, nearest.position_ids))
    return PartNeighbours(part, asked, nearest, copies.is_same_text(*(copies.context_hashes(world.con, *each) for each in both)))


def chosen_row(choice: Choice, median: float) -> dict[str, object]:
    return {"median_distance": median, "k": choice.k, "temperature": choice.temperature, "weight": choice.weight}


def query_rows(each: PartNeighbours, median: float) -> pa.Table:
    asked, nearest = each.asked, each.neighbours.distances[:, 0]
    columns = {
        "part": [each.part] * len(nearest), "position_id": asked.position_ids, "index": asked.indices, "next_token_id": asked.next_token_ids,
        "surprisal": asked.surprisals, "top_token_id": asked.top_token_ids, "top_prob": asked.top_probs, "nearest_distance": nearest,
        "is_near": nearest < copies.NEAR * median, "is_same_text": each.is_same_text,
    }  # fmt: skip
    return pa.table(columns)


def prediction_rows(each: PartNeighbours, grid: Sequence[tuple[int, float]], predicted: Sequence[Shares]) -> pa.Table:
    n = len(each.asked.position_ids)
    parts = []
    for (k, temperature), of in zip(grid, predicted, strict=True):
        columns = of._asdict() | {name: getattr(of, name).astype(np.int32) for name in ("top_token_id", "n_tokens")}
        parts.append(pa.table({"position_id": each.asked.position_ids, "k": np.full(n, k, np.int32), "temperature": np.full(n, temperature), **columns}))
    return pa.concat_tables(parts)


def neighbour_rows(each: PartNeighbours) -> pa.Table:
    """Build a row for each of the nearest MOST_KEPT neighbours of each query, or for all if there are fewer."""
    of = Neighbours(*(column[:, :MOST_KEPT] for column in each.neighbours))
    rows, columns = np.nonzero(of.position_ids >= 0)
    return pa.table(
        {
            "position_id": each.asked.position_ids[rows], "rank": (columns + 1).astype(np.int16), "neighbour_position_id": of.position_ids[rows, columns],
            "next_token_id": of.next_token_ids[rows, columns], "distance": of.distances[rows, columns],
        }
    )  # fmt: skip


def texts_of(con: duckdb.DuckDBPyConnection, tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """Read the texts of the positions and tokens that the other tables name."""
    of, predicted, near = (tables[name] for name in ("knn_query", "knn_prediction", "knn_neighbour"))
    positions = np.concatenate([of["position_id"].to_numpy(), near["neighbour_position_id"].to_numpy()])
    named = (of["next_token_id"], of["top_token_id"], predicted["top_token_id"], near["next_token_id"])
    return {"position_text": position_texts(con, positions), "token_text": token_texts(con, (column.to_numpy() for column in named))}
