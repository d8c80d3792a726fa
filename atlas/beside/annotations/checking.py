"""Checks of a filled-in sheet against the atlas and the papers' rules: the result is annotations, or the faults of each row."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from atlas.beside.annotations.cells import mark_token
from atlas.beside.annotations.reading import Row
from atlas.beside.annotations.sheet import NONE, POSITION
from atlas.beside.annotations.subjects import SUBJECTS, Address, Annotation, Pattern, ShownItem
from atlas.export.visible import visible_line
from schema.errors import AtlasError, what_there_is

NUMBERS = ("layer", "item", "rank", "id")
DIGITS = {"layer": 9, "item": 9, "corpus": 9, "rank": 9, "id": 18}
"""Column → the maximum digits of its numbers: those of DuckDB's INTEGER, or BIGINT for `id`."""
LONGEST_SHOWN = 40
"""Maximum characters of a refused cell that its message shows."""
LONGEST_FAULT = 500
"""Maximum characters of the message about a row."""
BETWEEN = re.compile(r"(?:(?<=[\s,;.+/&])and(?=[\s,;.+/&])|[\s,;.+/&])+")
"""Separators that people put between letters."""
ROUNDED = re.compile(r"\d(?:[.,]\d+)?E\+\d\d", re.IGNORECASE)
"""A position as Excel saves it if the cell holds it as a number."""


@dataclass
class Faults:
    """Faults of a sheet, each with its row number."""

    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, row: Row, why: str) -> None:
        shown = why if len(why) <= LONGEST_FAULT else f"{why[:LONGEST_FAULT]} …"
        self.found.append((row.number, visible_line(shown)))


@dataclass(frozen=True)
class Entry:
    """One row with its address and rank parsed. `id` is None if its cell is empty or was rounded by a spreadsheet: rank and text then identify the item."""

    row: Row
    address: Address
    rank: int
    id: int | None


def blocks_by_address(rows: Iterable[Row], faults: Faults) -> dict[Address, list[Entry]]:
    """Group the sheet's rows into blocks, in the order of the sheet. Rows without a valid subject and valid numbers are added to `faults`."""
    blocks: dict[Address, list[Entry]] = defaultdict(list)
    for row in rows:
        entry = read_entry(row, faults)
        if entry:
            blocks[entry.address].append(entry)
    return dict(blocks)


def read_entry(row: Row, faults: Faults) -> Entry | None:
    subject = SUBJECTS.get(row["subject"].strip())
    if subject is None:
        faults.add(row, f"no subject {row['subject']!r}; {what_there_is(', '.join(SUBJECTS))}")
        return None
    names = [*NUMBERS, "corpus"] if subject.has_corpus else list(NUMBERS)
    cells = {name: row[name].strip().removeprefix(POSITION).removeprefix(POSITION.upper()) for name in names}
    is_rounded = ROUNDED.fullmatch(cells["id"]) is not None or not cells["id"]
    if is_rounded:
        del cells["id"]
    digits = DIGITS | ({"item": DIGITS["id"]} if subject.name == "ffn_update" else {})
    if wrong := next(filter(None, (no_number(name, cell, digits[name]) for name, cell in cells.items())), None):
        faults.add(row, wrong)
        return None
    number = {name: int(cell) for name, cell in cells.items()}
    address = Address(subject.name, number.get("corpus"), number["layer"], number["item"])
    return Entry(row, address, number["rank"], number.get("id"))


def no_number(column: str, cell: str, most_digits: int) -> str | None:
    """Explain why a cell is not a valid number for its column; return None if it is."""
    is_whole = cell.isdecimal()
    if is_whole and len(cell) <= most_digits:
        return None
    if ROUNDED.fullmatch(cell):
        return f"{column} is {cell}: a spreadsheet has rounded the position. Make the sheet again: its positions are then text"
    return f"{column} must be a whole number{f' of at most {most_digits} digits' if is_whole else ''}, not {cell[:LONGEST_SHOWN]!r}"


def annotations(blocks: Mapping[Address, list[Entry]], atlas_items: Mapping[Address, tuple[ShownItem, ...]], faults: Faults) -> list[Annotation]:
    """Turn filled-in blocks into annotations; empty and faulty blocks are left out. atlas_items: the items that the atlas shows at each address."""
    found = []
    for address, block in blocks.items():
        items = {item.rank: item for item in atlas_items.get(address, ())}
        n_faults = len(faults.found)
        check_block(address, block, items, faults)
        if len(faults.found) == n_faults and is_filled_in(block):
            found.append(Annotation(address, tuple(items.values()), patterns(address, block, faults)))
    return found


def check_block(address: Address, block: list[Entry], items: Mapping[int, ShownItem], faults: Faults) -> None:
    """Check that a block has a row for every item that the atlas shows, each once, and no other rows; faults are added to `faults`."""
    if not items:
        faults.add(block[0].row, f"this atlas has no {address}")
        return
    seen: dict[int, Entry] = {}
    for entry in block:
        item = items.get(entry.rank)
        if item is None or entry.id not in (item.id, None) or entry.row["text"] != mark_token(item.token, item.text_before or ""):
            now = f"it shows {item.id}, {mark_token(item.token, (item.text_before or '')[-20:])}" if item else "it shows nothing there"
            faults.add(entry.row, f"rank {entry.rank} of {address} is not what this atlas shows: {now}")
        elif entry.rank in seen:
            faults.add(entry.row, f"rank {entry.rank} of {address} stands in row {seen[entry.rank].row.number} already")
        seen.setdefault(entry.rank, entry)
    missing = sorted(set(items) - set(seen))
    if missing:
        faults.add(block[0].row, f"{address} lacks rank {', '.join(map(str, missing))}: keep every row of a block, or delete the whole block")


def is_filled_in(block: list[Entry]) -> bool:
    return any(e.row[c].strip() for e in block for c in ("explained_by", "kind", "description"))


def patterns(address: Address, block: list[Entry], faults: Faults) -> tuple[Pattern, ...]:
    """Read the patterns of a block, in the order of their letters; every rule that a pattern breaks is added to `faults`."""
    subject = SUBJECTS[address.subject]
    described = describe(address, block, faults)
    matches: dict[str, list[int]] = {letter: [] for letter in described}
    for entry in block:
        letters = letters_of(entry.row["explained_by"])
        for letter in letters & set(matches):
            matches[letter].append(entry.rank)
        unknown = ", ".join(sorted(letters - set(matches)))
        if unknown:
            faults.add(entry.row, f"explained_by has '{unknown}', but no row of {address} with that letter has a kind and a description")
    for letter, entry in described.items():
        n = len(matches[letter])
        if n < subject.least:
            things = "texts" if address.subject == "key" else "tokens"
            faults.add(entry.row, f"pattern {letter} of {address} explains {n} {things}; the rule is at least {subject.least}")
    return tuple(Pattern(kind_of(e), e.row["description"], tuple(sorted(matches[letter]))) for letter, e in sorted(described.items()))


def describe(address: Address, block: list[Entry], faults: Faults) -> dict[str, Entry]:
    """Map the letter of each pattern to the row that gives the pattern's kind and description; rows that break a rule are added to `faults`."""
    kinds = SUBJECTS[address.subject].kinds
    found: dict[str, Entry] = {}
    for entry in block:
        letter, kind, description = entry.row["pattern"].strip().lower(), kind_of(entry), entry.row["description"].strip()
        if not kind and not description:
            continue
        if kind == NONE:
            if description or any(e.row["explained_by"].strip() or kind_of(e) not in ("", NONE) for e in block):
                faults.add(entry.row, f"kind is {NONE}, but {address} has a pattern or a description")
        elif kind not in kinds:
            faults.add(
                entry.row,
                f"no kind {kind!r} for a {SUBJECTS[address.subject].title}; {what_there_is(', '.join(kinds))}" if kind else "a description without a kind",
            )
        elif not description:
            faults.add(entry.row, f"pattern {letter} of {address} has a kind and no description")
        elif len(letter) != 1 or not letter.isalpha():
            faults.add(entry.row, f"the column pattern must have one letter here, not {letter!r}")
        elif letter in found:
            faults.add(entry.row, f"letter {letter} of {address} is used in row {found[letter].row.number} already")
        else:
            found[letter] = entry
    return found


def kind_of(entry: Entry) -> str:
    return entry.row["kind"].strip().lower()


def letters_of(cell: str) -> set[str]:
    return set(BETWEEN.sub("", cell.lower()))


MOST_SHOWN = 20


def refusal(path: object, faults: Faults) -> AtlasError:
    """Build one error for all faults, one line for each, because a sheet is corrected as a whole."""
    lines = [f"row {number}: {why}" for number, why in sorted(faults.found)]
    more = [f"and {len(lines) - MOST_SHOWN} more"] if len(lines) > MOST_SHOWN else []
    return AtlasError("\n  ".join([f"{path} was not loaded, and nothing has changed:", *lines[:MOST_SHOWN], *more]))
