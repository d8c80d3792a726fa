"""Errors that say what exists if a question is asked for a layer, neuron, position, corpus or token that does not exist."""

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from math import isnan

import duckdb

from atlas.cursors import fetch_rows
from atlas.left_out import describe_left_out
from atlas.model_row import model_size
from atlas.reads import relations
from atlas.statement import argument, literal
from schema.errors import AtlasError, what_there_is
from schema.interventions.sites import OPS
from schema.table_facts import facts, passes_of
from schema.terms import ANALOGIES, BEHAVIOURS, DECODINGS, DENSITIES, MEMBER_KINDS, SUBJECTS

LEAST = {
    "n": ("rows", 1),
    "min_tokens": ("tokens", 1),
    "min_pairs": ("pairs", 1),
    "n_bins": ("bins", 1),
    "width": ("tokens", 0),
    "per_sequence": ("triggers of a sequence", 1),
    "n_cells": ("cells", 1),
    "steps": ("thresholds", 1),
}

WORDS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "behaviour": {"head_behaviour": BEHAVIOURS},
    "subject": {"annotation": SUBJECTS},
    "density": {"neuron_statistics": DENSITIES},
    "kind": {"collection_member": MEMBER_KINDS},
    "site": {"effect": tuple(OPS)},
    "mass": {"scored_position": ("no", "yes")},
    "method": {"token_vector": ANALOGIES},
    "decoding": {"generation": DECODINGS},
    "input_token": {"elimination": ("yes", "no")},
    "worst": {"scored_query": ("no", "yes")},
}
"""Words allowed for an argument: name of the argument → view, or table of a file beside an atlas, that a question reads → the words."""

LARGEST = 2**63 - 1
"""Largest number that DuckDB accepts as a number of rows or an identifier."""


def check_arguments(con: duckdb.DuckDBPyConnection, arguments: Mapping[str, object], sql: str = "") -> None:
    """Raise AtlasError if an argument is out of range, naming the values that exist. Arguments that are absent or None pass. sql: the question's SQL."""
    given = {name: value for name, value in arguments.items() if value is not None}
    for name, value in given.items():
        if (words := words_of(name, sql)) and value not in words:
            raise AtlasError(f"no {name} {value!r}; {what_there_is(', '.join(words))}")
    for name, (meaning, least) in LEAST.items():
        if name in given and given[name] < least:  # type: ignore[operator]
            raise AtlasError(f"{name} is the number of {meaning}, and must be at least {least}, not {given[name]}")
    for name, value in given.items():
        if isinstance(value, float) and isnan(value):
            raise AtlasError(f"{name} is a number, not NaN")
        if isinstance(value, int) and abs(value) > LARGEST:
            raise AtlasError(f"{name} is at most {LARGEST}, not {value}")
    for name, check in CHECKS.items():
        if name in given:
            check(con, given[name])
    if "experiment" in given:
        check_experiment(con, given)
    if "layer" in given and "token_state" in relations(sql):
        check_state_layer(con, given["layer"])


def words_of(name: str, sql: str) -> list[str]:
    """List the words allowed for an argument: those of the tables that the question reads, or those of all tables if the question reads none of them."""
    of_tables: Mapping[str, Sequence[str]] = {**facts().words.get(name, {}), **WORDS.get(name, {})}
    read = relations(sql) & of_tables.keys() if len(of_tables) > 1 else set()
    return list(dict.fromkeys(word for table, words in of_tables.items() if table in read or not read for word in words))


def check_layer(con: duckdb.DuckDBPyConnection, layer: object) -> None:
    check_below(layer, "layer", model_size(con, "n_layers"))


def check_state_layer(con: duckdb.DuckDBPyConnection, layer: object) -> None:
    """Raise AtlasError for a layer without mean states, which are stored for some layers only."""
    layers = [kept for (kept,) in fetch_rows(con, "SELECT DISTINCT layer FROM token_state ORDER BY layer")]
    if layers and layer not in layers:
        raise AtlasError(f"no mean states of layer {layer} are stored; they are stored for layers {', '.join(map(str, layers))}")


def check_neuron(con: duckdb.DuckDBPyConnection, neuron: object) -> None:
    check_below(neuron, "neuron", model_size(con, "d_ffn"))


def check_head(con: duckdb.DuckDBPyConnection, head: object) -> None:
    check_below(head, "head", model_size(con, "n_heads"))


def check_below(value: object, name: str, n: int) -> None:
    if not (isinstance(value, int) and 0 <= value < n):
        raise AtlasError(f"no {name} {value}: this model has {name}s 0 to {n - 1}")


def check_corpus(con: duckdb.DuckDBPyConnection, corpus: object) -> None:
    corpora = {i: f"{name} ({split})" for i, name, split in fetch_rows(con, "SELECT corpus_id, name, split FROM corpus ORDER BY corpus_id")}
    if corpus not in corpora:
        raise AtlasError(f"no corpus {corpus}; {what_there_is(', '.join(f'{i}: {name}' for i, name in corpora.items()))}")


def check_traced(con: duckdb.DuckDBPyConnection, position_id: object) -> None:
    if fetch_rows(con, f"SELECT position_id FROM trace WHERE position_id = {literal(position_id)}"):
        return
    nearest = fetch_rows(con, f"SELECT position_id FROM trace ORDER BY abs(position_id - {literal(position_id)}), position_id LIMIT 3")
    if not nearest:
        raise AtlasError("this atlas has no traced positions; an ingest with --trace 300 makes some")
    raise AtlasError(f"position {position_id} is not traced; the nearest traced positions are {', '.join(str(p) for (p,) in nearest)} (table trace lists all)")


def select_traced(con: duckdb.DuckDBPyConnection, position_ids: Sequence[int]) -> set[int]:
    """Select those of the positions that are traced."""
    return {
        i for (i,) in fetch_rows(con, "SELECT t.position_id FROM trace AS t WHERE list_contains($ids::BIGINT[], t.position_id)", {"ids": list(position_ids)})
    }


def check_positions(con: duckdb.DuckDBPyConnection, position_ids: object) -> None:
    missing = f"SELECT u.id FROM (SELECT unnest({literal(position_ids)}::BIGINT[]) AS id) AS u ANTI JOIN position AS p ON u.id = p.position_id ORDER BY u.id"
    unknown = [i for (i,) in fetch_rows(con, missing)]
    if unknown:
        raise AtlasError(f"no position {', '.join(str(i) for i in unknown[:5])}; table position lists those that exist")


def check_position(con: duckdb.DuckDBPyConnection, position_id: object) -> None:
    check_positions(con, [position_id])


def check_words(_: duckdb.DuckDBPyConnection, words: object) -> None:
    if not str(words).strip():
        raise AtlasError("the words are blank: give the text to look for")


def check_token(con: duckdb.DuckDBPyConnection, token: object) -> None:
    if not token:
        raise AtlasError("the token is empty: give the text of a token of the vocabulary")
    if fetch_rows(con, f"SELECT token_id FROM token WHERE text IN ({argument(token)}, {argument(f' {token}')}) LIMIT 1"):
        return
    start = f"{str(token)[:2]}%"
    texts = [t for (t,) in fetch_rows(con, f"SELECT DISTINCT trim(text) FROM token WHERE ltrim(text) LIKE {argument(start)} LIMIT 5000")]
    near = get_close_matches(str(token), texts, n=3)
    hint = f"; near it: {', '.join(repr(t) for t in near)}" if near else ""
    raise AtlasError(f"no token {token!r} in the vocabulary, with or without a leading space{hint}. A longer word is several tokens; a space is shown as ␣.")


def check_annotator(con: duckdb.DuckDBPyConnection, annotator: object) -> None:
    names = [name for (name,) in fetch_rows(con, "SELECT DISTINCT annotator FROM annotations.annotation ORDER BY annotator")]
    if str(annotator).lower() not in {name.lower() for name in names}:
        raise AtlasError(f"no annotator {annotator!r}; {what_there_is(', '.join(names))}")


def check_collection(con: duckdb.DuckDBPyConnection, collection: object) -> None:
    from atlas.beside.collections.keeping import find_collection  # with Arrow, which an atlas is opened without

    find_collection(con, collection)


def check_retrieval(con: duckdb.DuckDBPyConnection, retrieval: object) -> None:
    """Raise AtlasError unless the retrieval exists, and is of this model and of keys that this atlas has."""
    ids = [i for (i,) in fetch_rows(con, "SELECT retrieval_id FROM retrievals.retrieval ORDER BY retrieval_id")]
    if retrieval not in ids:
        others = describe_left_out(con, "retrievals")
        raise AtlasError(f"no retrieval {retrieval}; {what_there_is(', '.join(map(str, ids)))}{others and f' ({others})'}")


def check_experiment(con: duckdb.DuckDBPyConnection, given: Mapping[str, object]) -> None:
    """Raise AtlasError unless the experiment exists, and has the arm and the prompt that are given."""
    asked = given["experiment"]
    titles = dict(fetch_rows(con, "SELECT experiment_id, title FROM experiments.experiment ORDER BY experiment_id"))
    if asked not in titles:
        others = describe_left_out(con, "experiments")
        raise AtlasError(f"no experiment {asked}; {what_there_is(list_by_number(titles))} (atlas experiment list{others and f'; {others}'})")
    for name, text in (("arm", "name"), ("prompt", "text")):
        sql = f"SELECT {name}_id, {text} FROM experiments.{name} WHERE experiment_id = {literal(asked)} ORDER BY {name}_id"
        if name in given and given[name] not in (found := dict(fetch_rows(con, sql))):
            raise AtlasError(f"no {name} {given[name]} in experiment {asked}; its {name}s are {list_by_number(found) or 'none'}")


def list_by_number(found: Mapping[int, str]) -> str:
    """List the first few entries by number, on one line."""
    texts = {i: " ".join(str(text)[:1000].split()) for i, text in list(found.items())[:8]}
    shown = [f"{i}: {text if len(text) <= 40 else text[:39] + '…'}" for i, text in texts.items()]
    return ", ".join(shown + (["…"] if len(found) > len(shown) else []))


def missing_run(con: duckdb.DuckDBPyConnection, sql: str) -> str | None:
    """Name the first pass without a run in this atlas that fills a table which a question reads, directly or through another one; None if there is none."""
    done = passes_of(kind for (kind,) in fetch_rows(con, "SELECT DISTINCT kind FROM run"))
    return next((name for name in filling_passes(sql).values() if name not in done), None)


def filling_passes(sql: str) -> dict[str, str]:
    """Map each table that a question reads and that a pass fills to that pass, in the order of tables."""
    read = relations(sql)
    return {table: name for table, name in facts().filled_by.items() if name and table in read}


def unknown_tables(con: duckdb.DuckDBPyConnection, sql: str) -> dict[str, str]:
    """Map each table that a question reads, and whose rows no shard of this atlas counts, to the pass that fills it: the runs are older than the table."""
    counted = {table for (table,) in fetch_rows(con, "SELECT DISTINCT unnest(json_keys(s.n_rows)) FROM shard AS s")}
    return {table: name for table, name in filling_passes(sql).items() if table not in counted}


def unfilled_columns(con: duckdb.DuckDBPyConnection, sql: str) -> dict[str, str]:
    """Map each column that a question's SQL names and that is null in every row to the pass that fills it: the runs are older than the column."""
    later = [(table, c, name) for table, columns in facts().added.items() for c, name in columns.items() if re.search(rf"\b{c}\b", sql)]
    empty = "SELECT 1 FROM {0} HAVING count(*) > 0 AND count({1}) = 0"
    return {c: name for table, c, name in later if fetch_rows(con, empty.format(table, c))}


CHECKS: dict[str, Callable[[duckdb.DuckDBPyConnection, object], None]] = {
    "layer": check_layer,
    "neuron": check_neuron,
    "head": check_head,
    "corpus": check_corpus,
    "position_id": check_traced,
    "position_ids": check_positions,
    "at_position": check_position,
    "words": check_words,
    "token": check_token,
    "a": check_token,
    "b": check_token,
    "c": check_token,
    "annotator": check_annotator,
    "collection": check_collection,
    "retrieval": check_retrieval,
}
