"""`atlas retrieve`: neighbours among the keys of other text, and their gain over the model."""

import sys
from pathlib import Path

import click


@click.command()
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--store", required=True, type=int, help="corpus_id of the text whose entries are searched: the training split.")
@click.option("--tune", required=True, type=int, help="corpus_id of the text on which k, temperature and weight are chosen: the validation split.")
@click.option("--test", required=True, type=int, help="corpus_id of the text on which the choice is scored, once.")
@click.option("--queries", type=click.IntRange(1), default=10_000, show_default=True, help="Maximum number of positions of each text that are queried.")
@click.option(
    "--k",
    type=click.IntRange(1),
    default=1024,
    show_default=True,
    help="Maximum number of neighbours: 8, 64, 256 and 1024 up to this number are tried, and the number.",
)
@click.option("--exact/--compressed", "is_exact", default=None, help="How neighbours are found.  [default: exact up to 5 million entries]")
@click.option("--trained-on/--not-trained-on", "is_training_text", default=None, help="Say whether the model was trained on the store's text.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the choice of queries.")
def command(target: Path, store: int, tune: int, test: int, queries: int, k: int, is_exact: bool | None, is_training_text: bool | None, seed: int) -> None:
    """Look for neighbours in the keys of the atlas TARGET, and mix the tokens that follow them with the model's prediction (kNN-LM, Khandelwal et al. 2020).

    The keys are those that `atlas ingest --keys` stored; no model is loaded. Results are stored beside the atlas, in NAME.retrievals.duckdb.

    \b
    atlas retrieve smollm2.duckdb --store 0 --tune 1 --test 2
    atlas ask knn_result --db smollm2.duckdb
    """
    from atlas.api import Atlas
    from atlas.beside.retrieval.corpus_queries import Retrieval
    from atlas.export import formats
    from schema.errors import AtlasError

    try:
        from atlas.beside.retrieval.retrieve import retrieve
    except ImportError as error:
        raise AtlasError(f"retrieval needs faiss: pip install 'activation-atlas[retrieval]' ({error})") from error
    from schema.progress import progress_bar

    asked = Retrieval(store, tune, test, queries, k, None if is_exact is None else not is_exact, is_training_text, seed)
    with progress_bar() as bar:
        kept = retrieve(target, asked, bar)
    if not kept.is_new:
        click.echo(f"note: retrieval {kept.retrieval_id} has the same settings and is stored already: nothing was computed", err=True)
    if kept.n_earlier_tests:
        click.echo(
            f"note: test corpus {test} was scored {kept.n_earlier_tests} times before against these entries: this result is not a first look at it", err=True
        )
    with Atlas(target) as a:
        frame = a.ask("knn_result", retrieval=kept.retrieval_id).select("part", "queries", "n_queries", "perplexity", "perplexity_knn", "gain", "k", "weight")
    sys.stdout.buffer.write(formats.render(frame, "table", formats.Style({})))
