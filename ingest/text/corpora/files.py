"""Local files: those that a path or glob names, each read by its format."""

import os
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from glob import escape, glob, has_magic
from pathlib import Path

from ingest.text.corpora.document import DEFAULT_COLUMN, Corpus, Document
from ingest.text.corpora.formats import COMPRESSED, FORMATS, SUFFIXES, TABLES, is_text, named_format, read_documents, suffix
from schema.errors import AtlasError


def means_files(spec: str) -> bool:
    """Tell whether a specification names files: an existing file, a glob, a name with a supported suffix, or a path that cannot be a dataset id."""
    path = Path(spec).expanduser()
    if path.is_dir():
        return False
    looks_like_path = spec.startswith(("/", ".", "~")) or spec.count("/") > 1
    return path.exists() or has_magic(spec) or suffix(path) in SUFFIXES or looks_like_path


def open_files(spec: str, split: str | None, column: str | None, form: str | None = None) -> Corpus:
    """Open every file that `spec` matches, in the order of their paths. form: the format of all of them; None to infer each from the file's name.

    A document is named by its file's path below the folder common to all: `a.txt` (a long one is cut: `a.txt#0`, …), or `a.csv:<row>`.
    """
    paths = find_files(spec, form)
    has_columns = any((form or named_format(path)) in TABLES for path in paths)
    if column is not None and not has_columns:
        raise AtlasError(f"corpus {spec!r} is plain text, which has no column {column!r}; leave the column out")
    text_column = (column or DEFAULT_COLUMN) if has_columns else None
    common = os.path.commonpath([path.absolute().parent for path in paths])

    def documents() -> Iterator[Document]:
        for path in paths:
            name = path.absolute().relative_to(common).as_posix()
            yield from read_documents(path, name, form or named_format(path), text_column or DEFAULT_COLUMN)

    source = {"kind": "files", "pattern": spec, "n_files": len(paths), "column": text_column, **({"format": form} if form else {})}
    return Corpus(name=spec, split=split or "all", source=source, revision=None, documents=documents)


def find_files(spec: str, form: str | None) -> list[Path]:
    """Find the readable files that a path or glob names, sorted. Raises AtlasError if there are none or one of them cannot be read."""
    path = Path(spec).expanduser()
    if path.is_file():
        paths = [path]
    elif path.exists():
        raise AtlasError(f"corpus {spec!r} is no regular file; pipe it in and give '-'")
    else:
        paths = unique_paths(found for found in map(Path, matches(str(path))) if found.is_file())
    if not paths:
        raise AtlasError(f"no file matches {spec!r}{_suggest_nearest(path)}")
    for found in paths:
        if not os.access(found, os.R_OK):
            raise AtlasError(f"corpus {spec!r}: no permission to read {found}")
    if packed := [found.name for found in paths if suffix(found) == ".parquet" and found.suffix.lower() in COMPRESSED]:
        raise AtlasError(f"corpus {spec!r}: Parquet is compressed inside, and is not read if it is compressed again; decompress {', '.join(packed[:5])}")
    if strange := [found.name for found in paths if form is None and suffix(found) not in SUFFIXES and not is_text(found)]:
        raise AtlasError(
            f"corpus {spec!r}: cannot read {', '.join(strange[:5])}, which {'is' if len(strange) == 1 else 'are'} no text in UTF-8. Give text, whatever "
            f"its suffix, or a table: {' '.join(f'.{each}' for each in FORMATS if each in TABLES)}; all but Parquet may be compressed ({' '.join(COMPRESSED)})"
        )
    return paths


def matches(pattern: str) -> Iterator[str]:
    """Match a pattern as glob does, but enter a folder that `**` reaches by several ways only once: links may lead in circles."""
    parts = Path(pattern).parts
    if "**" not in parts:
        yield from glob(pattern)  # noqa: PTH207 - an absolute pattern
        return
    place = parts.index("**")
    below = parts[place + 1 :] or ("*",)
    seen: set[str] = set()
    waiting = sorted(glob(str(Path(*parts[:place])))) if place else ["."]  # noqa: PTH207
    while waiting:
        folder = waiting.pop(0)
        if (real := os.path.realpath(folder)) in seen or not Path(folder).is_dir():
            continue
        seen.add(real)
        yield from matches(str(Path(escape(folder), *below)))
        waiting += sorted(glob(f"{escape(folder)}/*/"))  # noqa: PTH207


def unique_paths(paths: Iterable[Path]) -> list[Path]:
    """Sort the paths, and keep one path to each file: the one that is not a link, else the first."""
    by_file: dict[str, Path] = {}
    for path in sorted(paths, key=lambda path: (path.is_symlink(), path)):
        by_file.setdefault(os.path.realpath(path), path)
    return sorted(by_file.values())


def _suggest_nearest(path: Path) -> str:
    if has_magic(str(path.parent)):
        return ""
    if not path.parent.is_dir():
        return f": there is no folder {path.parent}"
    names = sorted(found.name for found in path.parent.iterdir() if found.is_file())
    close = get_close_matches(path.name, names, n=3, cutoff=0.5) or [name for name in names if suffix(Path(name)) in SUFFIXES][:3]
    return f"; the nearest names there: {', '.join(close)}" if close else f": the folder {path.parent} holds no file to read"
