"""`atlas paper`: every figure and table of a paper, from one atlas, into a folder."""

from pathlib import Path

import click

from atlas.cli.near import did_you_mean
from atlas.cli.options import db_option, open_atlas

PAPERS = (
    "geva2021", "geva2022", "elhage2021", "meng2022", "geva2023", "khandelwal2020", "hewitt_liang2019", "hewitt_manning2019", "voita_titov2020", "clark2019",
)  # fmt: skip
"""Names of the papers, as in atlas/papers/catalogue.py, which is not imported for --help."""


def folder(ctx: click.Context, param: click.Parameter, value: str) -> Path:
    """Convert the value of an option to a folder; an empty name is refused, since Path takes it for the current folder."""
    if not value.strip():
        raise click.BadParameter("an empty name is not a folder; the current folder is '.'", ctx, param)
    return Path(value)


@click.command()
@click.argument("paper", type=click.Choice(PAPERS))
@click.argument("path", required=False, type=click.Path(path_type=Path))
@db_option
@click.option("-o", "--output", "out", required=True, type=click.Path(file_okay=False), callback=folder, metavar="FOLDER", help="Where the files go.")
@click.option("--only", multiple=True, metavar="ITEM", help="Only this item, such as fig4; may be given several times.")
@click.option("--corpus", type=int, help="A corpus_id; items about one text need it if the atlas has several.")
@click.option(
    "--threshold", type=float, default=10.0, show_default=True, help="geva2022: score above which a sub-update is extreme, in logits; the paper takes 10 and 5."
)
@click.option("--experiment", type=click.IntRange(0), help="meng2022, geva2023: the experiment; without it the last of its kind.")
@click.option("--prompt", type=click.IntRange(0), help="meng2022: the prompt of the map; without it the prompt whose answer loses most by the noise.")
@click.option("--retrieval", type=click.IntRange(0), help="khandelwal2020: the retrieval; without it the last.")
def command(
    paper: str,
    path: Path | None,
    db: Path | None,
    out: Path,
    only: tuple[str, ...],
    corpus: int | None,
    threshold: float,
    experiment: int | None,
    prompt: int | None,
    retrieval: int | None,
) -> None:
    """Write every figure and table of a paper for one atlas. PATH stands in for --db.

    Tables as LaTeX, Markdown, CSV and Parquet, figures as PDF, SVG and PNG, each with its provenance beside it, and index.html with all of them.
    An item that this atlas cannot give is listed with the reason and the command that would provide it.

    \b
    atlas paper geva2021 demo.duckdb -o out/
    """
    with open_atlas(path or db) as a:
        from atlas.export.rendering import need_renderer

        need_renderer()  # papers cannot be imported without
        from atlas.export.terminal import terminal_table
        from atlas.papers.catalogue import PAPERS as CATALOGUE
        from atlas.papers.write import summary, write_paper
        from atlas.ranges import check_corpus

        if corpus is not None:
            check_corpus(a.con, corpus)
        chosen = CATALOGUE[paper]
        names = [full_name(name, paper, [item.name for item in chosen.items]) for name in only]
        made = write_paper(
            a,
            chosen,
            out,
            {"corpus": corpus, "threshold": threshold, "experiment": experiment, "prompt": prompt, "retrieval": retrieval},
            only=names,
            report=lambda name: click.echo(name, err=True),
        )
    click.echo(terminal_table(summary(made)), nl=False)
    click.echo(f"{out / 'index.html'}: {sum(m.frame is not None for m in made)} of {len(made)} items", err=True)
    if any(m.is_failure for m in made):
        raise click.exceptions.Exit(1)


def full_name(name: str, paper: str, names: list[str]) -> str:
    """Complete the name of an item: 'fig4' → 'geva2021_fig4'. Raises UsageError, with the nearest names, if there is no such item."""
    full = name if name.startswith(f"{paper}_") or name in names else f"{paper}_{name}"
    if full not in names:
        raise click.UsageError(f"{paper} has no item '{name}'{did_you_mean(full, names)}")
    return full
