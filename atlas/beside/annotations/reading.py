"""Rows of a filled-in sheet; only the form of the file is checked here."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from atlas.beside.annotations.cells import unguard_cell
from atlas.beside.annotations.sheet import COLUMNS
from schema.errors import AtlasError

OPTIONAL = {"next_token", "document", "metadata"}
"""Columns that only inform annotators, and that a sheet may lack."""

SEPARATORS = ",;\t"

LARGEST = 64 << 20
"""Maximum bytes of a sheet: enough for a hundred times as many rows as people have filled in."""


@dataclass(frozen=True)
class Row:
    """One row of a sheet. number: from 1, as spreadsheet programs count rows. cells: column → text, without the apostrophes of `guard_cell`."""

    number: int
    cells: dict[str, str]

    def __getitem__(self, column: str) -> str:
        return self.cells[column]


def read_sheet(path: Path) -> list[Row]:
    """Read the rows below the heading, without the empty ones. Raises AtlasError, with the reason, if the file is not a sheet."""
    try:
        check_file(path)
        text = path.read_bytes().decode("utf-8-sig")
        return parse(text, path)
    except OSError as error:
        raise AtlasError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AtlasError(f"{path} is not UTF-8: save the sheet as CSV with the character set UTF-8") from error
    except csv.Error as error:
        raise AtlasError(f"{path} is no CSV file: {error}") from error


def check_file(path: Path) -> None:
    """Raise AtlasError unless `path` is a regular file of at most LARGEST bytes: a pipe may never end, and a sheet is read whole."""
    found = path.stat()
    if not S_ISREG(found.st_mode):
        raise AtlasError(f"cannot read {path}: it is no file")
    if found.st_size > LARGEST:
        raise AtlasError(f"cannot read {path}: it has {found.st_size >> 20:,} MB, and a sheet has at most {LARGEST >> 20}")


def parse(text: str, path: Path) -> list[Row]:
    """Parse the CSV text into rows, whatever separator the spreadsheet program chose."""
    heading = next((line for line in text.splitlines() if line.strip() and not is_remark(line.lstrip('"'))), "")
    separator = max(SEPARATORS, key=heading.count)
    rows = enumerate(csv.reader(io.StringIO(text, newline=""), delimiter=separator), start=1)
    columns: list[str] | None = None
    found = []
    for number, cells in rows:
        if not any(cells) or (columns is None and is_remark(cells[0])):
            continue
        if columns is None:
            columns = [cell.strip().lower() for cell in cells]
            check_heading(columns, path)
        else:
            found.append(Row(number, {c: unguard_cell(cell) for c, cell in zip(columns, cells + [""] * len(columns), strict=False) if c in COLUMNS}))
    if not found:
        raise AtlasError(f"{path} has no rows to load; `atlas annotate sheet` writes a sheet")
    return found


def is_remark(line: str) -> bool:
    """Tell whether a line above the heading is an instruction, or the line that tells Excel the separator."""
    return line.lower().startswith(("#", "sep="))


def check_heading(columns: list[str], path: Path) -> None:
    missing = [c for c in COLUMNS if c not in columns and c not in OPTIONAL]
    if missing:
        raise AtlasError(f"{path} is not a sheet of `atlas annotate sheet`: its heading has no {', '.join(missing)}")
