"""The tables of docs/scale.md that the model gives.

    python -m tests.scale.tables [--write]

Prints them, or puts each between its marks in the document.
"""

import re
from pathlib import Path

import click

from ingest.text.probed_words import MOST_WORDS
from tests.scale import constants, model
from tests.scale.markdown import count, rounded, size, table, time
from tests.scale.shapes import CORPORA, GPUS, LARGEST_SHARD, MODELS, SHARD_POSITIONS, K, Sweep, candidates, loaded_rows, published_rows, usual

DOCUMENT = Path(__file__).parents[2] / "docs" / "scale.md"
SHARDS = (SHARD_POSITIONS, LARGEST_SHARD, 1 << 24)
EXAMPLE = MODELS[3]
PROBED_WORDS = sum(MOST_WORDS.values())
REMEDIES = (
    ("shards of 65,536, as for short texts (`--shard-positions`)", SHARDS[0], set()),
    ("as it is: shards of 1,048,576", SHARDS[1], set()),
    ("shards of 16,777,216 (`--shard-positions`)", SHARDS[2], set()),
    ("workers cut their own text, and nobody surveys it (not in the code)", SHARDS[2], {"survey", "cut", "hand over"}),
    ("positions and text are not stored (not in the code)", SHARDS[2], {"load positions", "publish positions"}),
    ("loading and merging done by many (not in the code)", SHARDS[2], {"load", "publish"}),
)
"""Name, positions a shard, and the parts of the work that nobody waits for any more; each change keeps those before it."""


def constants_table() -> str:
    """Every constant of tests/scale/constants.py."""
    rows = []
    for name, value in vars(constants).items():
        if name.isupper():
            rows += [[f"`{name}`", unit, f"{cost:.3g}"] for unit, cost in (value.items() if isinstance(value, dict) else [("", value)])]
    return table(["constant", "of one", "value"], rows)


def weights_table() -> str:
    """What does not depend on the text."""
    held = ["reductions, a worker", "to write its first shard", "all values"]
    heads = ["model", "neurons", "rows of the weights", *held, "weights, GPU time", "tokens/s of a GPU", "a traced position"]
    rows = []
    for m in MODELS:
        n = loaded_rows(m, usual(1))
        weights = sum(n[t] for t in ("neuron", "value_token", "value_neighbour"))
        memory = [size(x) for x in (model.reduction_bytes(m, K), model.writing_bytes(m, K), model.unit_values_bytes(m))]
        seconds, rate = time(model.weights_seconds(m)), f"{model.tokens_per_second(m):,.0f}"
        rows.append([m.name, f"{m.n_neurons:,}", count(weights), *memory, seconds, rate, size(model.traced_position_bytes(m))])
    return table(heads, rows)


def heads_table() -> str:
    """What the passes that read heads store."""
    heads = ["model", "heads", "`--circuit`", "of it a head", "`--attribution`, a traced position"]
    rows = []
    for m in MODELS:
        n_heads, whole = m.n_layers * m.n_heads, model.stored_bytes("circuit", m)
        rows.append([m.name, f"{n_heads:,}", size(whole), size(whole / n_heads), size(model.stored_bytes("attribution", m))])
    return table(heads, rows)


def reading_table() -> str:
    """What predictions, keys, probes and words take."""
    heads = ["model", "head over blocks", "logits held", "keys of a million", "states, 40,000 words", "untrained model", "reading for them, one GPU"]
    rows = []
    for m in MODELS:
        held, keys, states = (size(x) for x in (model.logits_bytes(m), model.keys_bytes(m, 10**6), model.probed_bytes(m, PROBED_WORDS)))
        seconds = time(2 * PROBED_WORDS / model.tokens_per_second(m))
        rows.append([m.name, f"{model.head_share(m):.0%}", held, keys, states, size(model.weights_bytes(m)), seconds])
    return table(heads, rows)


def rows_table() -> str:
    """One worker."""
    heads = ["model", "tokens", "shards", "statistics rows", "trigger rows", "in the snapshot", "committer's file", "snapshot", "disk at the peak"]
    rows = []
    for m in MODELS:
        for n in CORPORA:
            s = usual(n)
            brought, kept = loaded_rows(m, s), published_rows(m, s)
            counts = [count(x) for x in (n, s.n_shards, brought["neuron_statistics"], brought["trigger"], kept["trigger"])]
            rows.append([m.name, *counts, *(size(x) for x in (model.work_bytes(m, s), model.published_bytes(m, s), model.disk_bytes(m, s)))])
    return table(heads, rows)


def times_table() -> str:
    """Whole ingests. In brackets: how many times quicker than one GPU."""
    rows = []
    for m in MODELS:
        for n in CORPORA:
            seconds = [model.ingest_seconds(m, usual(n, gpus)) for gpus in GPUS]
            rows.append([m.name, count(n), *(f"{time(s)} ({rounded(seconds[0] / s)})" for s in seconds), time(n / model.tokens_per_second(m))])
    return table(["model", "tokens", *(f"{g:,} GPU{'s' if g > 1 else ''}" for g in GPUS), "forward pass, 1 GPU"], rows)


def parts_table() -> str:
    """Where the time of one ingest goes, by the number of GPUs and the size of a shard."""
    heads = ["positions a shard", "GPUs", "survey", "a worker's time, each", "the driver's time", "last snapshot", "text in flight"]
    rows = []
    for shard_positions in SHARDS:
        for gpus in GPUS:
            s = Sweep(10**9, shard_positions, gpus)
            parts = [
                s.n_positions * constants.SURVEY_SECONDS,
                s.n_shards / gpus * model.worker_seconds(EXAMPLE, s),
                s.n_shards * model.driver_seconds(EXAMPLE, s),
                model.publish_seconds(EXAMPLE, s),
            ]
            rows.append([f"{shard_positions:,}", f"{gpus:,}", *(time(p) for p in parts), size(model.handed_over_bytes(s))])
    return table(heads, rows)


def best_table() -> str:
    """How many GPUs are done first, and how many times quicker than one, by the size of a shard."""
    rows = []
    for m in MODELS:
        found = [model.best_workers(m, 10**10, p) for p in SHARDS]
        rows.append([m.name, *(f"{n:,} ({rounded(quicker)})" for n, quicker in found)])
    return table(["model", *(f"shards of {p:,}" for p in SHARDS)], rows)


def candidates_table() -> str:
    """Trigger rows that the shards bring, 10^9 tokens."""
    rows = [[m.name, *(count(candidates(m, usual(10**9, g), K)) for g in GPUS), count(published_rows(m, usual(10**9))["trigger"])] for m in MODELS]
    return table(["model", *(f"{g:,} worker{'s' if g > 1 else ''}" for g in GPUS), "kept"], rows)


def remedies_table() -> str:
    """What one change after the other would make of ingests of the same model and text."""
    rows, gone = [], set[str]()
    for name, shard_positions, parts in REMEDIES:
        gone |= parts
        seconds = [model.ingest_seconds(EXAMPLE, Sweep(10**10, shard_positions, gpus), gone) for gpus in GPUS]
        rows.append([name, *(f"{time(s)} ({rounded(seconds[0] / s)})" for s in seconds)])
    return table(["change, and all above it", *(f"{g:,} GPU{'s' if g > 1 else ''}" for g in GPUS)], rows)


TABLES = {
    "constants": constants_table,
    "weights": weights_table,
    "heads": heads_table,
    "reading": reading_table,
    "rows": rows_table,
    "candidates": candidates_table,
    "times": times_table,
    "parts": parts_table,
    "best": best_table,
    "remedies": remedies_table,
}


def with_tables(text: str) -> str:
    """The document with every table made anew between `<!-- table NAME -->` and `<!-- / -->`. Raises KeyError for one that there is not."""
    return re.sub(r"(<!-- table (\S+) -->\n).*?(<!-- / -->)", lambda m: f"{m[1]}{TABLES[m[2]]()}\n{m[3]}", text, flags=re.DOTALL)


@click.command()
@click.option("--write", is_flag=True, help="Write them into docs/scale.md.")
def main(write: bool) -> None:
    if write:
        DOCUMENT.write_text(with_tables(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        click.echo("\n\n".join(f"{name}\n{make()}" for name, make in TABLES.items()))


if __name__ == "__main__":
    main()
