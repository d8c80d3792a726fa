"""A sample as a sheet that people fill in with a spreadsheet program: one row for each text or token, a block of rows for each key or vector."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from string import ascii_lowercase

from atlas.beside.annotations.cells import guard_cell, mark_token
from atlas.beside.annotations.subjects import SUBJECTS, Address, Pattern, ShownItem

COLUMNS = ("subject", "layer", "item", "corpus", "rank", "id", "text", "next_token", "document", "metadata", "explained_by", "pattern", "kind", "description")
"""item: the neuron, or the number or position of a vector. id: the position of a text, or the token. People fill in explained_by, kind, description."""

POSITION = "p"
"""Prefix of a position in a cell: Excel would save a plain number of 13 digits rounded, and positions of a second corpus have 13."""

LETTERS = ascii_lowercase
NONE = "none"

MEANINGS = {
    "shallow": "shallow (a word or phrase that recurs, most often at the end)",
    "semantic": "semantic (a topic or meaning)",
    "syntactic": "syntactic (a part of speech or form)",
    "names": "names (of people, places, organisations)",
}


def instructions(subject: str) -> list[str]:
    """Write the instructions for filling in a sheet, one string per line."""
    s = SUBJECTS[subject]
    kinds = " or ".join(MEANINGS[kind] for kind in s.kinds)
    is_key = subject == "key"
    things, one = ("texts", "pattern") if is_key else ("tokens", "concept")
    shows = (
        "the texts that trigger it most, at most one from each sequence, each ending with the token in « » where it fires"
        if is_key
        else "the tokens it promotes most, in « »"
    )
    return [
        f"Each block of rows is one {s.title} (subject, layer, item): {shows}. ↵ is a line break.",
        f"Where {s.least} or more {things} of a block share something, describe it once: choose a row of the block, and fill in its kind and description.",
        f"Kinds are {kinds}. The row's letter (column pattern) is now the letter of your {one}.",
        f"Write the letter in explained_by beside every one of the {things} it explains; ab where both a and b do.",
        f"No {one} in a block: write {NONE} as kind in its first row. A block left empty counts as not looked at.",
        "Change no other column and delete no single rows. Save as CSV (UTF-8), then: atlas annotate load FILE --db ATLAS --annotator NAME",
    ]


def sheet(subject: str, found: Mapping[Address, tuple[ShownItem, ...]], former: Mapping[Address, tuple[Pattern, ...]]) -> bytes:
    """Write the sheet as CSV in UTF-8 with a byte-order mark, without which Excel does not read it as UTF-8; `former` patterns are filled in."""
    out = io.StringIO()
    # every text in quotes: some programs guess the separator, and texts have many commas
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n")
    writer.writerows([f"# {line}"] for line in instructions(subject))
    writer.writerow(COLUMNS)
    for address, items in found.items():
        writer.writerows(block(address, items, former.get(address)))
        writer.writerow([])
    return out.getvalue().encode("utf-8-sig")


def block(address: Address, items: tuple[ShownItem, ...], patterns: tuple[Pattern, ...] | None) -> Iterable[list[object]]:
    """Yield the rows of one address, with `patterns` filled in: those of an earlier annotation, or None if there is no such annotation."""
    for place, item in enumerate(items):
        letter = LETTERS[place] if place < len(LETTERS) else ""
        own = patterns[place] if patterns is not None and place < len(patterns) else None
        kind = own.kind if own else NONE if patterns == () and place == 0 else ""
        explained_by = "".join(LETTERS[i] for i, p in enumerate(patterns or ()) if item.rank in p.ranks)
        words = [mark_token(item.token, item.text_before or ""), mark_token(item.next_token) if item.next_token is not None else "", item.document or ""]
        words += ["; ".join(filter(None, [facts(item.metadata), describe_more_texts(item)])), explained_by, letter, kind, own.description if own else ""]
        corpus = "" if address.corpus_id is None else address.corpus_id
        of_update = address.subject == "ffn_update"
        item_cell = f"{POSITION}{address.item}" if of_update else address.item
        id_cell = item.id if item.position_id is None else f"{POSITION}{item.id}"
        yield [address.subject, address.layer, item_cell, corpus, item.rank, id_cell, *map(guard_cell, words)]


def facts(metadata: str | None) -> str:
    """Format a document's metadata for people: 'year: 1790; president: …'."""
    return "; ".join(f"{key}: {value}" for key, value in json.loads(metadata or "{}").items())


def describe_more_texts(item: ShownItem) -> str:
    """Describe how many more texts of the key are in the item's sequence; return '' if there are none."""
    return f"{item.n_more} more in this sequence" if item.n_more else ""
