"""Test sets for word vectors, as the installed gensim ships them; this package contains none of them."""

from importlib.util import find_spec
from pathlib import Path

from schema.errors import AtlasError

SIMILARITIES = ("wordsim353", "simlex999")


def folder() -> Path:
    """Find the folder in which gensim keeps the test sets. Raises AtlasError if gensim is not installed, or lacks one of them."""
    spec = find_spec("gensim")
    if spec is None or spec.origin is None:
        raise AtlasError("--word-tests: the analogies and similarities come with gensim, which is not installed: pip install 'gensim==4.4.0'")
    found = Path(spec.origin).parent / "test" / "test_data"
    if missing := [name for name in ("questions-words.txt", *map(similarity_file, SIMILARITIES)) if not (found / name).is_file()]:
        raise AtlasError(f"--word-tests: the installed version of gensim has no {missing[0]} in {found}: pip install 'gensim==4.4.0'")
    return found


def similarity_file(suite: str) -> str:
    return f"{suite}.tsv" if suite == "wordsim353" else f"{suite}.txt"


def analogies(path: Path) -> dict[str, list[tuple[str, str, str, str]]]:
    """Read the analogies: section → questions, each a, b, c and the answer (questions-words, Mikolov et al. 2013)."""
    found: dict[str, list[tuple[str, str, str, str]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(":"):
            found[line[1:].strip()] = section = []
        elif len(words := line.split()) == 4:
            section.append((words[0], words[1], words[2], words[3]))
    return found


def similarities(path: Path) -> list[tuple[str, str, float]]:
    """Read pairs of words, each with people's rating of how similar they are."""
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line.strip() and not line.startswith("#"))
    return [(first, second, float(score)) for first, second, score in rows]
