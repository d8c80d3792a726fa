"""`atlas test`: reading the sentences of test suites into an atlas as a corpus, and the model's accuracy on them."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from schema.open.store import open_reader

SCORES = "SELECT suite, paradigm, n_items, accuracy, accuracy_low, accuracy_high, macro_accuracy FROM test_suites() WHERE corpus_id = ?"


@click.command()
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("more", nargs=-1, metavar="[SUITE]...")
@click.option("--suite", required=True, multiple=True, help="agreement, which is generated, or a file or pattern: .jsonl, .json, .yaml.")
@click.option("--model", help="Named as for `atlas ingest`.  [default: that of TARGET]")
@click.option("--revision", help="Commit, tag or branch of a hub model.")
@click.option("--dtype", type=click.Choice(["auto", "float32", "bfloat16", "float16"]), help="As for `atlas ingest`.  [default: the atlas's, else auto]")
@click.option("--device", default="auto", show_default=True, help="As for `atlas ingest`.")
@click.option("--items", type=click.IntRange(1, 1000), default=150, show_default=True, help="Number of items of each generated paradigm.")
@click.option("--seed", type=click.IntRange(-(2**63), 2**63 - 1), default=0, show_default=True, help="Seed of the random choices.")
@click.option("--context", type=click.IntRange(2), default=256, show_default=True, help="Tokens that the longest sentence may have.")
@click.option("--trace", type=click.IntRange(0), default=0, show_default=True, help="Positions to trace.")
@click.option("--batch-size", type=click.IntRange(1), help="As for `atlas ingest`.")
@click.option("--quiet", is_flag=True, help="As for `atlas ingest`.")
@click.option("--dry-run", is_flag=True, help="Print tokens, rows, bytes and time; write nothing.")
@click.pass_context
def test(ctx: click.Context, target: Path, more: tuple[str, ...], suite: tuple[str, ...], **given: Any) -> None:
    """Test the model of the atlas TARGET: which of two sentences it finds more probable, and other tests.

    Each suite becomes a corpus whose documents are sentences. A sentence is read after BOS or an end-of-text token, so that its first token is scored.
    Further SUITEs are the files into which the shell expands a pattern. To continue after an interruption, run the same command again. The command is
    `atlas ingest TARGET --suite …` with predictions and without a sweep; the questions test_suites, test_items, contrast_neurons and
    perturbation_effects read the results.

    \b
    atlas test smollm2.duckdb --suite agreement
    atlas test smollm2.duckdb --suite blimp/*.jsonl
    """
    from ingest.cli import ingest
    from ingest.text.suites import open_suites

    suites = group_suite_files(suite, more)
    ctx.invoke(ingest, target=target, suite=suites, bos="start", triggers=0, prediction=True, **given)
    if not given["dry_run"]:
        corpus = open_suites(suites, n_items=given["items"], seed=given["seed"])
        click.echo(score_table(target, corpus.name, {**corpus.source, "context": given["context"], "bos": "start"}))


def group_suite_files(suite: Sequence[str], more: Sequence[str]) -> list[tuple[str, ...]]:
    """Group the files into which the shell expanded each pattern.

    A further file belongs to the last option that names a file in the same folder; if there is none, to the last option.
    """
    groups = [[spec] for spec in suite]
    for spec in more:
        next((group for group in reversed(groups) if Path(group[0]).parent == Path(spec).parent), groups[-1]).append(spec)
    return [tuple(group) for group in groups]


def score_table(target: Path, name: str, source: Mapping[str, object]) -> str:
    """Format the accuracy on the corpus of this name and source, one line per paradigm."""
    with closing(open_reader(target)) as con:
        corpora = con.execute("SELECT c.corpus_id, c.source FROM corpus AS c WHERE c.name = ?", [name]).fetchall()
        (corpus_id,) = [each for each, stored in corpora if json.loads(stored).items() >= source.items()]
        found = con.execute(SCORES, [corpus_id]).fetchall()
    lines = [f"{'suite':<16}{'paradigm':<28}{'items':>7}{'right':>8}{'95% from':>10}{'to':>8}"]
    lines += [f"{suite[:15]:<16}{(paradigm or 'all')[:27]:<28}{n:>7}{right:>8.1%}{low:>10.1%}{high:>8.1%}" for suite, paradigm, n, right, low, high, _ in found]
    macro = ", ".join(f"{suite} {mean:.1%}" for suite, paradigm, *_, mean in found if paradigm is None)
    return "\n".join([*lines, f"mean over paradigms: {macro}"])
