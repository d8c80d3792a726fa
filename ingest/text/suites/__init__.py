"""Test suites: corpora of sentences that test a model. The metadata of each document says what its sentence is for.

`open_suites` works out from each specification which kind of suite it names; each kind is one file of this folder.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path

from ingest.text.corpora.document import Corpus, Document
from ingest.text.corpora.files import matches
from ingest.text.suites import agreement, pairs, syntaxgym, templates
from ingest.text.suites.item import Item
from schema.errors import AtlasError
from schema.registry import find_parts

GROUP = "activation_atlas.suites"
"""Group of the entry points of other distributions; each loads a mapping like READERS."""

Reader = Callable[[Path, str, int], Iterable[Item]]
"""Reads a file, called with the path, the name of the suite if the file gives none, and the seed."""

READERS: dict[str, Reader] = {
    ".jsonl": pairs.read_pairs,
    ".json": syntaxgym.read_syntaxgym,
    ".yaml": templates.read_templates,
    ".yml": templates.read_templates,
}
"""Suffix of a file → what reads it, of this distribution."""

MOST_ITEMS = 250_000
"""Limit on the items of all suites together: each takes some kilobytes of memory while the suites are read. BLiMP has 67,000."""


@cache
def readers() -> dict[str, Reader]:
    """Map the suffixes of files to what reads them. Raises AtlasError for an entry point that is broken, and for a suffix that two readers have."""
    return find_parts(GROUP, READERS, EntryPoint.load)


def open_suites(given: Sequence[str | tuple[str, ...]], *, n_items: int, seed: int) -> Corpus:
    """Open suites as one corpus: `agreement`, which is generated, or files and patterns of files. Everything is read and checked here.

    given: the specifications; a tuple holds the paths that a shell made of one pattern. n_items: items of each generated paradigm. seed: of random draws.
    Raises AtlasError for a file that is missing or malformed, for two items with the same name, and for two specifications whose suites have the same name.
    """
    groups = [(each,) if isinstance(each, str) else each for each in given]
    specs = [spec for group in groups for spec in group]
    files = [(group[0], paths) for group in groups if (paths := [path for spec in group if spec != agreement.SUITE for path in find_suite_files(spec)])]
    is_generated = agreement.SUITE in specs
    generated = [(agreement.SUITE, agreement.agreement(n_items, seed))] if is_generated else []
    items = by_paradigm(require_distinct_names([*generated, *((spec, read_suite_files(paths, seed)) for spec, paths in files)]))
    n_files = sum(len(paths) for _, paths in files)
    source = {"kind": "suite", "suites": specs, "n_files": n_files, "items": n_items if is_generated else None, "seed": seed}
    name = specs[0] if len(specs) == 1 else f"{specs[0]} and {len(specs) - 1} more"

    def documents() -> Iterator[Document]:
        return (document for item in items for document in item.documents())

    return Corpus(name=name, split="all", source=source, revision=None, documents=documents)


def read_suite_files(paths: Sequence[Path], seed: int) -> Iterator[Item]:
    """Read the files of one specification. A suite whose file gives no name is called after the file, or after its folder if there are several files."""
    for path in paths:
        yield from readers()[path.suffix.lower()](path, path.absolute().parent.name if len(paths) > 1 else path.stem, seed)


def require_distinct_names(suites: Sequence[tuple[str, Iterable[Item]]]) -> Iterator[Item]:
    """Yield the items of all specifications. Raises AtlasError if two specifications have suites of the same name, whose rows could not be told apart."""
    brought: dict[str, int] = {}
    for i, (spec, items) in enumerate(suites):
        for item in items:
            if (other := brought.setdefault(item.suite, i)) != i:
                raise AtlasError(
                    f"two suites are called {item.suite!r}, that of {suites[other][0]} and that of {spec}: rename one, or give both by one pattern"
                )
            yield item


def find_suite_files(spec: str) -> list[Path]:
    """Find the files that a path or a pattern names, sorted. Raises AtlasError if there are none, or if one has a suffix that nothing reads."""
    path = Path(spec).expanduser()
    paths = [path] if path.is_file() else sorted(each for each in map(Path, matches(str(path))) if each.is_file())
    if not paths:
        raise AtlasError(f"suite {spec!r}: there is no such file; give a file ({' '.join(readers())}), a pattern of files, or {agreement.SUITE}")
    if strange := [each.name for each in paths if each.suffix.lower() not in readers()]:
        raise AtlasError(f"suite {spec!r}: cannot read {strange[0]}; read are {' '.join(readers())}")
    return paths


def by_paradigm(items: Iterable[Item]) -> list[Item]:
    """Group the items by paradigm, in order of appearance. Raises AtlasError for items with the same name, two kinds in a paradigm, too many items or none."""
    grouped: dict[tuple[str, str], dict[str, Item]] = {}
    for n, item in enumerate(items):
        if n == MOST_ITEMS:
            raise AtlasError(f"the suite has more than {MOST_ITEMS:,} items, and no more are read; divide it")
        same = grouped.setdefault((item.suite, item.paradigm), {})
        # all that are there are of one kind, so the first tells
        if (other := next(iter(same.values()), item)).kind != item.kind:
            raise AtlasError(f"suite {item.suite}, paradigm {item.paradigm}: item {other.name!r} is of kind {other.kind} and {item.name!r} of {item.kind}")
        if item.name in same:
            raise AtlasError(f"suite {item.suite}, paradigm {item.paradigm}: two items are called {item.name!r}; each needs a name of its own")
        same[item.name] = item
    if not grouped:
        raise AtlasError("the suite is empty: it has no item")
    return [item for same in grouped.values() for item in same.values()]
