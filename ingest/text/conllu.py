"""A CoNLL-U file aligned to documents by their characters.

Format: https://universaldependencies.org/format.html. The words of a multiword token share its characters; empty nodes have none and are left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ingest.text.corpora import Document
from ingest.text.labelled import IDS_PER_CHARACTER, Word
from schema.errors import AtlasError

N_COLUMNS = 10
MOST_CHARACTERS = 100_000
"""Most characters of a line, and of all lines of a sentence: the file is read one sentence at a time."""
MOST_DIGITS = 9


@dataclass(frozen=True)
class Row:
    """A word of the file. number: its ID. head: the ID of its head, 0 for the root, None if the file gives none."""

    number: int
    pos: str | None
    tag: str | None
    relation: str | None
    entity: str | None
    head: int | None


@dataclass
class WrittenForm:
    """A form that the text has in one piece, with the rows of its one or several words. is_glued: whether the file says that no white space follows."""

    form: str
    rows: list[Row]
    is_glued: bool


@dataclass(frozen=True)
class Sentence:
    """A sentence of the file. where: file, number and line, as text for errors. begins_document: whether the file says that a document begins here."""

    where: str
    begins_document: bool
    written: list[WrittenForm]


def sentences(path: Path) -> Iterator[Sentence]:
    """Read the sentences of a CoNLL-U file. Raises AtlasError, with file and line, if the file is not CoNLL-U."""
    n, first, lines, begins, held = 0, 0, list[tuple[int, str]](), False, 0
    # it is read several times, and nobody may ever write to a pipe
    if path.exists() and not path.is_file():
        raise AtlasError(f"--words {path}: it is no regular file; give spacy:PIPELINE or a CoNLL-U file")
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(chain(iter(lambda: file.readline(MOST_CHARACTERS), ""), ["\n"]), start=1):
                held = held + len(line) if line.strip() else 0
                if held >= MOST_CHARACTERS:
                    raise AtlasError(f"--words {path}, line {number}: a sentence of {MOST_CHARACTERS:,} characters and more; is it a CoNLL-U file?")
                if line.startswith("#"):
                    begins |= line[1:].split()[:1] == ["newdoc"]
                elif line.strip():
                    first = first if lines else number
                    lines.append((number, line.rstrip("\r\n")))
                elif lines:
                    n += 1
                    yield Sentence(f"{path}: sentence {n} (line {first})", begins, list(pieces(path, lines)))
                    lines, begins = [], False
    except OSError as error:
        raise AtlasError(f"--words {path}: {error.strerror}; give spacy:PIPELINE or a CoNLL-U file") from error
    except UnicodeDecodeError as error:
        raise AtlasError(f"--words {path}: the file is not UTF-8") from error


def pieces(path: Path, lines: list[tuple[int, str]]) -> Iterator[WrittenForm]:
    """Yield the forms of a sentence as the text has them, in order. lines: pairs of line number and line."""
    piece, last = None, 0
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != N_COLUMNS:
            raise AtlasError(f"--words {path}, line {number}: {len(cells)} columns, and CoNLL-U has {N_COLUMNS}, divided by tabs")
        if "." in cells[0]:
            continue
        start, _, end = cells[0].partition("-")
        if not (is_number(start) and (is_number(end) or not end) and cells[1].strip() and (is_number(cells[6]) or cells[6] == "_")):
            shown = (cells[i][:40] for i in (0, 1, 6))
            raise AtlasError(f"--words {path}, line {number}: ID, FORM and HEAD are {next(shown)!r}, {next(shown)!r} and {next(shown)!r}, which is not CoNLL-U")
        if end:
            piece, last = WrittenForm(cells[1], [], lacks_space_after(cells[9])), int(end)
            yield piece
            continue
        if piece is None or int(start) > last:
            piece, last = WrittenForm(cells[1], [], lacks_space_after(cells[9])), int(start)
            yield piece
        piece.rows.append(row(cells))


def is_number(cell: str) -> bool:
    return cell.isdecimal() and len(cell) <= MOST_DIGITS


def lacks_space_after(misc: str) -> bool:
    return "SpaceAfter=No" in misc.split("|")


def row(cells: list[str]) -> Row:
    said = dict(each.partition("=")[::2] for each in cells[9].split("|"))
    entity = said.get("NER", "O").removeprefix("B-").removeprefix("I-")
    pos, tag, relation = (None if cells[i] == "_" else cells[i] for i in (3, 4, 7))
    return Row(int(cells[0]), pos, tag, relation, None if entity in ("O", "_") else entity, None if cells[6] == "_" else int(cells[6]))


class AlignedFile:
    """A CoNLL-U file that gives each document its words, in order. A document ends with its text, or where the file says that another begins."""

    def __init__(self, path: Path) -> None:
        self.read = sentences(path)
        self.next = next(self.read, None)
        if self.next is None:
            raise AtlasError(f"--words {path}: the file has no sentence; give spacy:PIPELINE or a CoNLL-U file")

    def words(self, document: Document) -> list[Word]:
        """Find the words of a document in the file. Raises AtlasError, with sentence and place, if file and text differ."""
        text, at, n, found = document.text, 0, 0, list[Word]()
        while self.next is not None and not (n and self.next.begins_document) and (at := skip_whitespace(text, at)) < len(text):
            words, at = align_sentence(self.next, document.name, text, at, n, len(found))
            found += words
            n += 1
            self.next = next(self.read, None)
        return found

    def end(self) -> None:
        """Check, after the last document, that no sentence is left. Raises AtlasError if one is."""
        if self.next is not None:
            raise AtlasError(
                f"--words {self.next.where} comes after the end of the last document; was the file made from another text, or from a longer part of this text?"
            )


def align_sentence(sentence: Sentence, name: str, text: str, at: int, number: int, before: int) -> tuple[list[Word], int]:
    """Align a sentence to the text from character `at` on; return its words, and the offset of its end.

    number: the sentence's number in the document. before: how many words of the document come before it.
    """
    spans: list[tuple[Row, int, int]] = []
    is_glued = False
    for piece in sentence.written:
        start = at if is_glued else skip_whitespace(text, at)
        if (end := match_form(text, start, piece.form)) is None:
            stands = f"{text[start : start + 20]!r} stands" if start < len(text) else "the document has ended"
            raise AtlasError(f"--words {sentence.where} does not align: at character {start} of document {name!r} {stands}, not {piece.form!r}")
        if len(piece.rows) > IDS_PER_CHARACTER * (end - start):
            raise AtlasError(f"--words {sentence.where}: {piece.form!r} is {len(piece.rows)} words, more than {IDS_PER_CHARACTER} a character")
        spans += [(each, start, end) for each in piece.rows]
        at, is_glued = end, piece.is_glued
    number_of = {each.number: before + i for i, (each, *_) in enumerate(spans)} | {0: None}
    if lost := [each.head for each, *_ in spans if each.head is not None and each.head not in number_of]:
        raise AtlasError(f"--words {sentence.where}: a word has the head {lost[0]}, and the sentence has no such word")
    heads = [None if each.head is None else number_of[each.head] for each, *_ in spans]
    return [Word(start, end, number, each.pos, each.tag, each.relation, each.entity, head) for (each, start, end), head in zip(spans, heads, strict=True)], at


def skip_whitespace(text: str, at: int) -> int:
    """Find the first character from `at` on that is not white space; the text's end if there is none."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def match_form(text: str, at: int, form: str) -> int | None:
    """Find the end of a form at character `at`; None if the text does not have the form there. White space within the form matches any white space."""
    for i, part in enumerate(form.split()):
        at = skip_whitespace(text, at) if i else at
        if not text.startswith(part, at):
            return None
        at += len(part)
    return at


def align_all(path: Path, documents: Iterable[Document]) -> None:
    """Raise AtlasError if a file does not align with these documents."""
    found = AlignedFile(path)
    for document in documents:
        found.words(document)
    found.end()
