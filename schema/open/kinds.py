"""Kinds of file beside an atlas, NAME.<kind>.duckdb: the annotations that people make of an atlas are one.

Entry points add any number of kinds. A file beside an atlas is no part of the snapshot, so that another ingest does not change it. It holds its own views and
questions, because a macro of the atlas cannot name another file.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from schema.errors import AtlasError
from schema.registry import find_parts
from schema.release import add_title_comment
from schema.table_digests import CREATION

GROUP = "activation_atlas.beside"
"""Group of the entry points that are a `Companion`. Ours are among them, since they lie in `atlas`, which this package does not import."""


@dataclass(frozen=True)
class Companion:
    """A kind of file beside an atlas.

    `name` is the name of the database, the word for its contents in messages, and a part of the file's name. `tables` is a file of SQL that creates the tables
    in that database, among them `label`, which has one row (version, derived_sha256); their headers describe them (`read_headers`). `folder` has the kind's
    views, questions and audits, one file for each. `changed_by` and `told_by` are the commands that change a file and show its contents; `again` says how to
    restore a file that is lost. `hanging` is the parameter of `leave_out` (schema/open/others.py). `is_of_one_model`: whether every layer, neuron and head is
    of the atlas's model.
    """

    name: str
    version: int
    label: str
    tables: Path
    folder: Path
    changed_by: str
    told_by: str
    again: str
    hanging: tuple[tuple[str, str, str], ...] = ()
    is_of_one_model: bool = True

    def path(self, atlas: Path | str) -> Path:
        """Return the path of this kind's file beside an atlas."""
        return Path(atlas).parent / f"{Path(atlas).stem}.{self.name}.duckdb"

    def file(self, atlas: Path | str) -> Path:
        """Return the path of this kind's file beside an atlas, with links resolved. Raises AtlasError for a link to nothing, as when a disk is not mounted."""
        path = self.path(atlas)
        if not path.is_symlink():
            return path
        if not path.exists():
            raise AtlasError(f"{path} is a link to {path.readlink()}, which does not exist: restore that file, or remove the link")
        return path.resolve()

    @property
    def others_sql(self) -> str:
        """SQL that selects the rows of another model or text than the atlas's; '' for a kind that belongs to no atlas (schema/open/others.py)."""
        path = self.folder / "others.sql"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def questions(self) -> dict[str, str]:
        """Read the questions, name → SQL, in the order of names."""
        return read_folder(self.folder / "questions")


def read_folder(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.sql"), key=lambda p: p.stem)}


@cache
def kinds() -> tuple[Companion, ...]:
    """List every installed kind, by name. Raises AtlasError for an entry point that is broken, and for two kinds of one name."""
    return tuple(kind for _, kind in sorted(find_parts(GROUP, dict[str, Companion]()).items()))


def kind_of(path: Path) -> Companion | None:
    """Tell the kind of a file by its name; None for an atlas."""
    return next((kind for kind in kinds() if f".{path.name}".lower().endswith(f".{kind.name}.duckdb")), None)


CREATE = re.compile(r"((?:^--.*\n)+)CREATE TABLE (\w+\.\w+) \(\n((?:.*\n)*?)\)", re.MULTILINE)
COLUMN = re.compile(r'((?:^ +-- .+\n)+) +(?!(?:CHECK|PRIMARY|UNIQUE|FOREIGN|CONSTRAINT)\b)("?\w+"?) ', re.MULTILINE)
FACT = re.compile(r"(grain|references|bounds):(.*)")
REFERENCE, BOUND = re.compile(r"(\w+) in (\w+\.\w+)"), re.compile(r"(\w+) (in \[0, 1\]|>= 0)")


@dataclass(frozen=True)
class Header:
    """Facts about a table, from the comments in the SQL that creates it.

    comment: what the table holds. columns: name, as the SQL writes it → comment. grain: the columns that identify a row; None if the header does not name them.
    references: column → table.column. bounds: column → `in [0, 1]` or `>= 0`.
    """

    comment: str
    columns: dict[str, str]
    grain: tuple[str, ...] | None
    references: dict[str, str]
    bounds: dict[str, str]


def read_headers(sql: str) -> dict[str, Header]:
    """Read the header of each table, full name → header: the comment lines before CREATE TABLE, which describe the table, and those before its columns.

    Lines such as `-- grain: a, b`, `-- references: a in t.a, b in u.b` and `-- bounds: a in [0, 1]; b >= 0` state facts. Raises AtlasError for a fact that
    is written in another form.
    """
    found = {}
    for above, name, body in CREATE.findall(sql):
        lines = [line.removeprefix("--").strip() for line in above.splitlines()]
        told = {fact[1]: fact[2].strip() for line in lines if (fact := FACT.fullmatch(line))}
        found[name] = Header(
            " ".join(line for line in lines if not FACT.fullmatch(line)),
            {column: " ".join(line.strip().removeprefix("-- ") for line in meaning.splitlines()) for meaning, column in COLUMN.findall(body)},
            tuple(filter(None, map(str.strip, told["grain"].split(",")))) if "grain" in told else None,
            read_facts(name, REFERENCE, told.get("references", ""), ","),
            read_facts(name, BOUND, told.get("bounds", ""), ";"),
        )
    return found


def read_facts(table: str, form: re.Pattern[str], told: str, between: str) -> dict[str, str]:
    """Read column → fact from a line of a header. Raises AtlasError for a part that does not match `form`."""
    found = {}
    for part in filter(None, map(str.strip, told.split(between))):
        if (fact := form.fullmatch(part)) is None:
            raise AtlasError(f"the header of the table {table} has {part!r}, which is not in the form that read_headers in schema/open/kinds.py describes")
        found[fact[1]] = fact[2]
    return found


def comments(sql: str) -> list[str]:
    """Write a COMMENT ON statement for each table, and for each column with a comment."""
    found = []
    for name, header in read_headers(sql).items():
        for what, text in ((f"TABLE {name}", header.comment), *((f"COLUMN {name}.{column}", text) for column, text in header.columns.items())):
            found.append(f"COMMENT ON {what} IS '{text.replace(chr(39), chr(39) * 2)}'")
    return found


@cache
def creation_sql(kind: Companion) -> str:
    """Write the SQL that fills the empty database of a kind, in one transaction, so that a file is written to only once."""
    tables = kind.tables.read_text(encoding="utf-8")
    version = f"INSERT INTO {kind.name}.{kind.label} VALUES ({kind.version}, '{derived_sha256(kind)}')"
    # each on a line of its own, behind what may end in a comment
    return "\n;\n".join(["BEGIN", tables.rstrip().removesuffix(";"), *comments(tables), CREATION.format(kind.name), *derived_sql(kind), version, "COMMIT"])


def derived_sql(kind: Companion) -> list[str]:
    """List the SQL of the views, in the order of their names, then of the questions."""
    return [*read_folder(kind.folder / "views").values(), *(add_title_comment(name, sql, kind.name) for name, sql in kind.questions().items())]


@cache
def sources_sha256(kind: Companion) -> str:
    return hashlib.sha256("\n".join([kind.tables.read_text(encoding="utf-8"), *derived_sql(kind)]).encode()).hexdigest()


@cache
def derived_sha256(kind: Companion) -> str:
    return hashlib.sha256("\n".join(derived_sql(kind)).encode()).hexdigest()
