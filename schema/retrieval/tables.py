"""All tables of a file of retrievals, as metadata and as SQL."""

from functools import partial
from pathlib import Path

from sqlalchemy import BigInteger, Boolean, Column, DateTime, Double, Integer, MetaData, SmallInteger, String

from schema import terms
from schema.build import table_ddl
from schema.columns import Json, column, layer, nonnegative, one_of, probability
from schema.experiments.declaring import Declare, declared


def retrieval_id() -> Column:
    return column("retrieval_id", Integer, "The retrieval.", "retrieval.retrieval_id")


def position(name: str, comment: str) -> Column:
    return column(name, BigInteger, comment)


def declare_asked(declare: Declare) -> None:
    declare(
        "retrieval",
        column("retrieval_id", Integer, "Counted from 0."),
        column("store_corpus_id", Integer, "corpus_id of the entries that neighbours are looked for among."),
        column("tune_corpus_id", Integer, "corpus_id of the queries that k, temperature and weight are chosen on."),
        column("test_corpus_id", Integer, "corpus_id of the queries that the choice is scored on."),
        column("store_sha256", String, "datastore.sha256 of the entries."),
        column("tune_sha256", String, "datastore.sha256 of the keys of the tune corpus."),
        column("test_sha256", String, "datastore.sha256 of the keys of the test corpus."),
        column("weights_sha256", String, "The model whose states the keys are: model.weights_sha256."),
        column("key_site", String, "Which state a key is: ffn_in, the input of the up projection."),
        layer(),
        column("n_entries", BigInteger, "Entries of the store."),
        column("metric", String, "Distance: squared L2, in float32 from the stored keys."),
        column("search", String, "exact: among all entries; compressed: among those that an index of product codes proposes, distances exact."),
        column("n_queries", Integer, "Queries asked for, of each of both corpora; fewer where a corpus has fewer."),
        column("most_neighbours", Integer, "The largest k that was tried."),
        column("seed", BigInteger, "Of the hash that chooses them."),
        column("is_training_text", Boolean, "Whether the model was trained on the store's text, as whoever ran it says; null: not said.", null=True),
        nonnegative("median_distance", "Median over the tune queries of the distance to the nearest entry.", kind=Double),
        column("k", Integer, "The chosen number of neighbours: with temperature and weight it gives the smallest perplexity of the tune queries."),
        column("temperature", Double, "The chosen temperature T of exp(-distance / T), in squared units of the key."),
        probability("weight", "The chosen share λ of the neighbours in the mixture.", kind=Double),
        column("n_earlier_tests", Integer, "Retrievals before this one that had scored the same corpus against the same entries: 0 where it is seen once."),
        column("versions", Json, "JSON: versions of python, faiss, numpy, duckdb and this project."),
        column("started_at", DateTime(timezone=True), "When it began, UTC."),
        column("finished_at", DateTime(timezone=True), "When it had ended, UTC."),
        one_of("search", terms.SEARCHES),
        comment="Queries answered from a store of keys (kNN-LM, Khandelwal et al. 2020), and what was chosen on the tune queries alone.",
        grain=("retrieval_id",),
    )


def declare_queries(declare: Declare) -> None:
    declare(
        "knn_query",
        retrieval_id(),
        column("part", String, "tune or test."),
        position("position_id", "The query: the position whose key is compared."),
        column("index", Integer, "Its place in its sequence, from 0."),
        column("next_token_id", Integer, "The token that follows."),
        nonnegative("surprisal", "The model's negative log-probability of that token, in nats: position_prediction.surprisal."),
        column("top_token_id", Integer, "The model's most probable token."),
        probability("top_prob", "Its probability, in [0, 1]."),
        nonnegative("nearest_distance", "Squared L2 distance to the nearest entry."),
        column("is_near", Boolean, "Whether that is under 1% of retrieval.median_distance."),
        column("is_same_text", Boolean, "Whether the 32 tokens up to the query are those up to one of its neighbours."),
        one_of("part", terms.RETRIEVAL_PARTS),
        comment="The queries. A query is a near-copy where is_near or is_same_text.",
        grain=("retrieval_id", "position_id"),
    )
    declare(
        "knn_prediction",
        retrieval_id(),
        position("position_id", "The query."),
        column("k", Integer, "Neighbours that are counted."),
        column("temperature", Double, "T of exp(-distance / T)."),
        probability("next_token_prob", "Share of the token that follows in Σ exp(-distance / T) over the neighbours, in [0, 1].", kind=Double),
        column("top_token_id", Integer, "The token with the largest share; ties go to the lower token_id."),
        probability("top_prob", "Its share, in [0, 1]."),
        nonnegative("entropy", "Entropy of the shares of all tokens, in nats."),
        column("n_tokens", Integer, "Distinct tokens that follow the neighbours."),
        column("log_normaliser", Double, "ln Σ exp(-distance / T): a neighbour's weight is exp(-distance / T - log_normaliser)."),
        comment="What neighbours predict: of tune queries for every k and temperature that were tried, of test queries for the chosen ones alone.",
        grain=("retrieval_id", "position_id", "k", "temperature"),
    )
    declare(
        "knn_neighbour",
        retrieval_id(),
        position("position_id", "The query."),
        column("rank", SmallInteger, "From 1, the nearest; ties go to the smaller neighbour_position_id."),
        position("neighbour_position_id", "The entry."),
        column("next_token_id", Integer, "The token that follows the entry: its value."),
        nonnegative("distance", "Squared L2 distance of the keys."),
        comment="The nearest entries of a query, 32 at most; none is of the query's own document.",
        grain=("retrieval_id", "position_id", "rank"),
    )


def declare_texts(declare: Declare) -> None:
    declare(
        "position_text",
        position("position_id", "A query, or one of its nearest entries."),
        column("document", String, "Name of its document."),
        column("text_before", String, "At most 80 characters up to the end of its token."),
        comment="Texts of queries and entries, so that the file can be read without its atlas.",
        grain=("position_id",),
    )
    declare(
        "token_text",
        column("token_id", Integer, "A token that follows a query or an entry, or that the model holds most probable."),
        column("text", String, "Its characters, as token.text."),
        comment="Texts of the tokens that are named.",
        grain=("token_id",),
    )


def retrieval_metadata() -> MetaData:
    """All tables of a file of retrievals, under the name they are attached by."""
    m = MetaData(schema=terms.RETRIEVAL_CATALOG)
    declare = partial(declared, m)
    declare(
        "retrieval_schema",
        column("version", Integer, "Version of the tables in this file."),
        column("derived_sha256", String, "SHA-256 over the definitions of its views and questions."),
        comment="What wrote this file; one row.",
        grain=(),
    )
    for part in (declare_asked, declare_queries, declare_texts):
        part(declare)
    return m


def ddl() -> str:
    """SQL that creates them, and their comments."""
    return ";\n".join(statement.strip() for table in retrieval_metadata().tables.values() for statement in table_ddl(table)) + "\n"


if __name__ == "__main__":
    Path(__file__).with_suffix(".sql").write_text(ddl(), encoding="utf-8")
