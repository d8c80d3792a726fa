"""Hugging Face datasets, streamed. One is named by its id on the hub, or by the path of a folder with a dataset's layout."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from ingest.text.corpora.document import DEFAULT_COLUMN, Corpus, Document, missing_column, row_document, text_column
from ingest.text.corpora.formats import TABLES, named_format
from schema.errors import AtlasError

DESCRIBING = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json")
"""Files beside a dataset's rows, which the datasets library writes."""


def open_dataset(spec: str, split: str | None, config: str | None, column: str | None, revision: str | None) -> Corpus:
    """Open a dataset's split as a corpus, its revision pinned to a commit; documents are named `<dataset>:<row>`.

    Without `split` the dataset must have only one. Raises AtlasError naming the configs, splits or columns that exist.
    """
    folder = Path(spec).expanduser()
    if folder.is_dir():
        _check_folder(spec, folder, revision)
        path, commit = str(folder.resolve()), None
    else:
        path, commit = spec, _commit(spec, revision)
    splits = _load(spec, path, config, commit)
    chosen = _choose_split(spec, list(splits), split)
    rows, asked = splits[chosen], column or DEFAULT_COLUMN
    if rows.column_names is not None and text_column(rows.column_names, asked) is None:
        raise missing_column(f"dataset {spec!r}, split {chosen!r}", asked, rows.column_names)
    short_name = Path(path).name

    def documents() -> Iterator[Document]:
        for row_number, row in enumerate(rows):
            yield row_document(f"{short_name}:{row_number}", row, asked)

    source = {"kind": "dataset", "dataset": spec, "config": config, "split": chosen, "column": asked}
    return Corpus(name=spec, split=chosen, source=source, revision=commit, documents=documents)


def _choose_split(spec: str, names: list[str], split: str | None) -> str:
    if split is None and len(names) == 1:
        return names[0]
    if split not in names:
        asked = "has several splits, name one" if split is None else f"has no split {split!r}"
        raise AtlasError(f"dataset {spec!r} {asked}: {', '.join(names)} (--split)")
    return split


def _check_folder(spec: str, folder: Path, revision: str | None) -> None:
    if revision is not None:
        raise AtlasError(f"corpus {spec!r} is a local folder, which has no revision; leave the revision out")
    if (folder / "README.md").exists():
        return
    if any(folder.glob("*.txt")):
        # The datasets library would make a document of every line.
        raise AtlasError(f"corpus {spec!r} is a folder of text files, not a dataset; give its files: {spec.rstrip('/')}/*.txt")
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in DESCRIBING and not is_hidden(path.relative_to(folder)))
    names = {named_format(path) for path in files} & {*TABLES}
    # the library reads both by one reader
    if len({name.removesuffix("l") for name in names}) > 1:
        # of these it would read the most frequent alone
        raise AtlasError(
            f"corpus {spec!r} is a folder of {' and '.join(sorted(names))} files, and a dataset has files of one kind; give the files by a pattern: "
            f"{spec.rstrip('/')}/** for all of them, or {spec.rstrip('/')}/**/*.{min(names)} for one kind"
        )


def is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _commit(spec: str, revision: str | None) -> str | None:
    """Look up the commit that a branch, a tag or no revision stands for, so that a resumed run reads the same text."""
    import huggingface_hub

    try:
        return huggingface_hub.dataset_info(spec, revision=revision).sha
    except Exception as error:  # the clients below raise a dozen unrelated types for an unknown id, revision, or no network
        raise AtlasError(f"no file and no reachable dataset {spec!r}{f' at {revision!r}' if revision else ''}: {_first_line(error)}") from error


def _load(spec: str, path: str, config: str | None, commit: str | None) -> Mapping:
    import datasets

    try:
        return datasets.load_dataset(path, name=config, revision=commit, streaming=True)
    except Exception as error:  # ValueError, OSError and the library's own types, all meaning that the dataset cannot be opened so
        raise AtlasError(f"cannot open dataset {spec!r}{f', config {config!r}' if config else ''}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """Cut the message where the library's example code begins, and join its lines into one."""
    return " ".join(str(error).split("\nExample")[0].split())
