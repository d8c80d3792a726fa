"""Needs of questions: rows that a question must find in an atlas, and the command that adds them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

import duckdb

from atlas.commands import complete, ingest_command
from atlas.cursors import fetch_rows
from atlas.questions import header
from atlas.reads import REQUIRED, relations
from schema.table_facts import command, facts, kinds_of

ANNOTATE = (
    "atlas annotate sheet --db {path} --subject {subject} -o {subject}.csv` and, once somebody has filled it in, "
    "`atlas annotate load {subject}.csv --db {path} --annotator YOU"
)
KNOWN = '"Everybody knows that the capital of France is the city of" --answer " Paris"'


@dataclass(frozen=True)
class Need:
    """Rows that the atlas must have for a question.

    `rows`: SQL that finds them, of the corpus $corpus if that is given. `of_corpus`: words that name the corpus in a message; '' if the rows are of no corpus.
    `kind`: the pass that makes the rows, None if no pass does."""

    what: str
    rows: str
    command: str
    kind: str | None = None
    of_corpus: str = " of corpus {corpus}"


def run_need(name: str) -> Need:
    """Build the need for a finished run of a pass."""
    kinds = ", ".join(f"'{kind}'" for kind in sorted(kinds_of(name)))
    rows = f"FROM run WHERE kind IN ({kinds}) AND status = 'finished' AND ($corpus IS NULL OR corpus_id IS NULL OR corpus_id = $corpus)"
    return Need(name, rows, command(name, "{path}"), name)


def annotation_need(subjects: str, what: str, option: str) -> Need:
    rows = f"FROM annotations.annotation WHERE subject IN ({subjects}) AND ($corpus IS NULL OR corpus_id IS NULL OR corpus_id = $corpus)"
    return Need(f"annotated {what}", rows, ANNOTATE.format(subject=option, path="{path}"))


RAW_TOPS = Need(
    "trace that has top tokens by the raw projection (a trace of more positions than before adds them)",
    "FROM layer_activity AS a INNER JOIN traced_position AS t USING (position_id) "
    "WHERE a.n_agreeing_values_raw IS NOT NULL AND ($corpus IS NULL OR t.corpus_id = $corpus)",
    command("trace", "{path}"),
    "trace",
)


def experiment_need(kind: str, asked: str = "--facts") -> Need:
    """Build the need for a finished experiment of a kind. asked: the arguments of the command that makes one."""
    rows = f"FROM experiments.experiment WHERE kind = '{kind}' AND status = 'finished' AND ($corpus IS NULL OR $corpus IS NOT NULL)"
    return Need(f"finished experiment of kind {kind}", rows, f"atlas experiment {kind} {asked} --db {{path}}", of_corpus="")


EXPERIMENT = Need(
    "experiment",
    "FROM experiments.experiment WHERE ($corpus IS NULL OR $corpus IS NOT NULL)",
    "atlas experiment tracing --facts --db {path}",
    of_corpus="",
)

HEADS = replace(
    run_need("head_probe"), what="head_probe and no head_statistics", rows="FROM head_behaviour WHERE ($corpus IS NULL OR $corpus IS NOT NULL)", of_corpus=""
)

CURVE = replace(run_need("training_curve"), what="training_curve, which only a model has that ships it, such as attention-2l-sotu")

SUPPRESSION = Need(
    "experiment of suppression",
    "FROM experiments.arm_cost AS c INNER JOIN experiments.experiment AS e USING (experiment_id) "
    "WHERE e.kind = 'suppression' AND ($corpus IS NULL OR c.corpus_id = $corpus)",
    "atlas experiment suppression --db {path}",
    of_corpus=" whose arms read text of corpus {corpus}",
)

RETRIEVAL = Need(
    "retrieval over keys that this atlas has",
    "FROM retrievals.retrieval AS r WHERE $corpus IS NULL OR $corpus IN (r.store_corpus_id, r.tune_corpus_id, r.test_corpus_id)",
    "atlas retrieve {path} --store 0 --tune 1 --test 2",
)

NEEDS = {
    **{name: run_need(name) for name in facts().passes},
    "training_curve": CURVE,
    "raw tops": RAW_TOPS,
    "heads": HEADS,
    "experiment": EXPERIMENT,
    "tracing": experiment_need("tracing"),
    "knockout": experiment_need("knockout"),
    "patching": experiment_need("patching", f'{KNOWN} --corrupted "Everybody knows that the capital of Italy is the city of" --foil " Rome"'),
    "saliency": experiment_need("saliency", KNOWN),
    "suppression": SUPPRESSION,
    "retrieval": RETRIEVAL,
    "annotated keys": annotation_need("'key'", "keys", "keys"),
    "annotated values": annotation_need("'value'", "values", "values"),
    "annotated vectors": annotation_need("'value', 'random_vector', 'ffn_update'", "values, random vectors or updates", "values"),
}


def derive_needs(sql: str) -> tuple[str, ...]:
    """Derive the needs of a question from its SQL: the passes that fill the tables which it requires; weights are in every atlas.

    A retrieval is over the keys and predictions of the atlas. Needs in the header replace all others. They are given where tables do not tell: rows are of one
    kind of experiment or subject of annotations, either of two passes fills them, a table is optional though a CTE reads it, or one pass has another go before.
    """
    if given := dict(header(sql)).get("needs"):
        return tuple(given.split(", "))
    of_keys, of_retrieval = (("keys", "prediction"), ("retrieval",)) if " retrievals." in sql else ((), ())
    filled = {facts().filled_by.get(name) for name in relations(sql, REQUIRED)} - {"weights"}
    return (*of_keys, *(name for name in facts().passes if name in filled), *of_retrieval)


def describe_unmet_need(con: duckdb.DuckDBPyConnection, path: str, needs: Iterable[str], corpus: object) -> str | None:
    """Name the first need that this atlas does not meet, and the command that would meet it; None if all are met."""
    for name in needs:
        need = NEEDS[name]
        if not fetch_rows(con, f"SELECT 1 {need.rows} LIMIT 1", {"corpus": corpus}):
            of_corpus = need.of_corpus.format(corpus=corpus) if corpus is not None else ""
            how = ingest_command(con, Path(path), need.kind, corpus) if need.kind else complete(con, need.command.format(path=quote(path)), corpus)
            return f"no {need.what}{of_corpus}: `{how}`"
    return None


def kinds(needs: Iterable[str]) -> set[str]:
    """Collect the kinds of run that make the rows of these needs; weights are always included."""
    return {kind for name in ("weights", *needs) if (of := NEEDS[name].kind) for kind in kinds_of(of)}
