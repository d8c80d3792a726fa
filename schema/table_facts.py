"""Facts about tables, such as which pass fills a table, without an import of SQLAlchemy, which takes longer than most answers.

facts.json is made from the metadata; `python -m schema.table_facts` rewrites it. Without it, opening an atlas takes 1.6 times the time of the processor, and
a question 1.3 times. If another distribution adds tables, the metadata itself is read.
"""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from schema.release import added_modules
from schema.terms import FORMER_PASSES

if TYPE_CHECKING:
    from sqlalchemy import Table

FILE = Path(__file__).with_name("facts.json")


class Pass(NamedTuple):
    """A pass of an ingest.

    asked_by: the options of `atlas ingest FILE` that request the pass. unit: the unit in which its speed is shown. counted: a SELECT of the number of
    units that run `r` processed; '' if no speed is shown.
    """

    asked_by: str
    unit: str
    counted: str


class Facts(NamedTuple):
    """Facts about all tables.

    passes: name → pass. filled_by: table → the pass that fills it, '' if none. added: table → column that a release added → the pass that fills it. words:
    column whose values are words from a fixed list → table → these words.
    """

    passes: dict[str, Pass]
    filled_by: dict[str, str]
    added: dict[str, dict[str, str]]
    words: dict[str, dict[str, list[str]]]


@cache
def facts() -> Facts:
    """Read the facts of all tables, in their order."""
    if added_modules():
        return of_metadata()
    read = json.loads(FILE.read_text(encoding="utf-8"))
    return Facts({name: Pass(*told) for name, told in read["passes"].items()}, read["filled_by"], read["added"], read["words"])


def of_metadata() -> Facts:
    """Collect the facts from the metadata, where they are declared."""
    from schema.tables import metadata

    tables = metadata(1).tables
    told = {t.info["filled_by"]: Pass(t.info["asked_by"], t.info["unit"], t.info["counted"]) for t in reversed(tables.values()) if t.info["filled_by"]}
    added = {name: {c.name: c.info["filled_by"] for c in t.columns if "filled_by" in c.info} for name, t in tables.items()}
    return Facts(
        passes={name: told[name] for name in dict.fromkeys(t.info["filled_by"] for t in tables.values()) if name},
        filled_by={name: t.info["filled_by"] for name, t in tables.items()},
        added={name: columns for name, columns in added.items() if columns},
        words=words(tables.values()),
    )


def words(tables: "Iterable[Table]") -> dict[str, dict[str, list[str]]]:
    """Collect the words that columns allow: column → table → words. Columns of the same name may allow different words in different tables."""
    found: dict[str, dict[str, list[str]]] = {}
    for t in tables:
        for constraint in sorted(t.constraints, key=str):
            for name, of_column in constraint.info.get("words", {}).items():
                found.setdefault(name, {})[t.name] = list(of_column)
    return dict(sorted(found.items()))


def command(name: str, path: object = "…") -> str:
    """Write the ingest command that runs a pass."""
    return f"atlas ingest {path} {facts().passes[name].asked_by}"


def passes_of(kinds: Iterable[str]) -> set[str]:
    """Find the passes that runs of these kinds count as. Earlier releases had other names for some kinds."""
    return {name for kind in kinds for name in FORMER_PASSES.get(kind, (kind,))}


def kinds_of(name: str) -> set[str]:
    """Find the kinds of run that count as a pass."""
    return {name, *(kind for kind, passes in FORMER_PASSES.items() if name in passes)}


if __name__ == "__main__":
    told = of_metadata()
    FILE.write_text(json.dumps({**told._asdict()}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
