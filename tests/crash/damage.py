"""Damage an atlas, its keys and what lies beside it in every way that disks do, hundreds of times: `atlas verify` notices each that leaves other rows.

make damage
"""

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import duckdb
import numpy as np

from schema.key_files import keys_folder
from schema.open.kinds import kinds
from schema.open.store import open_writer
from schema.progress import progress_bar
from schema.table_digests import digest_tables, store_digests
from tests import preloaded
from tests.atlas.annotations.tiny_annotations import write_tiny_annotations
from tests.atlas.collections.tiny_collections import write_tiny_collections
from tests.atlas.experiments.tiny_experiments import write_tiny_experiments
from tests.atlas.retrieval.stores import write_file
from tests.atlas.retrieval.tiny_retrievals import write_tiny_retrievals
from tests.atlas.tiny_atlas import write_tiny_atlas

WORD, PAGE, HEADERS, BLOCK = 8, 4096, 3 * 4096, 2**18
"""Bytes: of a number of DuckDB's checksum, of what a disk writes at once, of a file before its blocks, and of a block."""

VERIFY = """
import sys
from atlas.cli.main import run
sys.exit(run(["verify", "--quiet", "--db", sys.argv[1]], False))
"""


@dataclass(frozen=True)
class Outcome:
    """What came of one damage. code: of verify, below 0 where its process was killed. differs: whether rows, or keys, are others; None where they cannot be
    read."""

    how: str
    file: str
    code: int
    said: str
    differs: bool | None

    @property
    def kind(self) -> str:
        if self.code == 0:
            return "no rows differ" if self.differs is False else "SILENT"
        return "noticed" if self.code == 1 and self.said.count("\n") == 1 and "INTERNAL" not in self.said else "NOT IN ONE LINE"


def write_world(folder: Path) -> Path:
    """A small atlas with digests and keys, and with a file of each kind beside it."""
    atlas = write_tiny_atlas(folder / "tiny.duckdb")
    rng = np.random.default_rng(1)
    with closing(open_writer(atlas)) as con:
        for (first,) in con.execute("SELECT first_position_id FROM key_file ORDER BY ALL").fetchall():
            ids = first + np.arange(40)
            row = write_file(keys_folder(atlas) / f"{first}.parquet", ids, ids, ids % 12, rng.normal(size=(40, 2)))
            con.execute("UPDATE key_file SET name = ?, sha256 = ? WHERE first_position_id = ?", [row["name"], row["sha256"], first])
        store_digests(con, "tiny", digest_tables(con, "tiny"))
    for write in (write_tiny_annotations, write_tiny_collections, write_tiny_experiments, write_tiny_retrievals):
        write(atlas)
    return atlas


def files_of(atlas: Path) -> list[Path]:
    return [atlas, *(kind.path(atlas) for kind in kinds()), *sorted(keys_folder(atlas).iterdir())]


def flip(data: bytearray, rng: random.Random) -> None:
    """One bit: every other time of what is not zero, which most of a small file is."""
    full = np.flatnonzero(np.frombuffer(data, np.uint8))
    place = int(rng.choice(full)) if rng.random() < 0.5 else rng.randrange(len(data))
    data[place] ^= 1 << rng.randrange(8)


def swap_words(data: bytearray, rng: random.Random) -> None:
    """Two words of a block, which DuckDB's checksum of it does not tell."""
    blocks = range(HEADERS, len(data) - BLOCK + 1, BLOCK) or range(1)
    while True:
        start = rng.choice(blocks)
        words = np.frombuffer(data, np.uint64, count=(min(BLOCK, len(data) - start)) // WORD, offset=start).copy()
        full = np.flatnonzero(words)[1:]  # the first is the checksum
        if len(full) < 2:
            continue
        one, other = (int(i) for i in rng.sample(list(full), 2))
        if words[one] != words[other]:
            swap(data, start + WORD * one, start + WORD * other, WORD)
            return


def swap_blocks(data: bytearray, rng: random.Random) -> None:
    """Two blocks of a file of several, or else two pages."""
    size, start = (BLOCK, HEADERS) if len(data) >= HEADERS + 2 * BLOCK else (len(data) // 8, 0)
    one, other = rng.sample(range((len(data) - start) // size), 2)
    swap(data, start + size * one, start + size * other, size)


def lose_write(data: bytearray, rng: random.Random) -> None:
    """A page that was not written, or the end of the file."""
    if rng.random() < 0.3:
        del data[-rng.randrange(1, min(len(data), BLOCK)) :]
        return
    pages = [at for at in range(0, len(data), PAGE) if any(data[at : at + PAGE])]
    at = rng.choice(pages)
    data[at : at + PAGE] = bytes(len(data[at : at + PAGE]))


def swap(data: bytearray, one: int, other: int, size: int) -> None:
    data[one : one + size], data[other : other + size] = data[other : other + size], data[one : one + size]


WAYS: dict[str, tuple[Callable[[bytearray, random.Random], None], int]] = {
    "flip": (flip, 400),
    "swap of words": (swap_words, 40),
    "swap of blocks": (swap_blocks, 40),
    "lost write": (lose_write, 20),
}
"""How, and how often."""


def read_rows(file: Path) -> object:
    """Everything in a file that a reader can see, whatever its order."""
    if file.suffix != ".duckdb":
        return file.read_bytes()
    with closing(duckdb.connect(str(file), read_only=True)) as con:
        tables = con.execute("SELECT t.table_name FROM duckdb_tables() AS t ORDER BY ALL").fetchall()
        return {name: sorted(map(repr, con.execute(f'FROM "{name}"').fetchall())) for (name,) in tables}


def damage(atlas: Path, how: str, seed: int) -> Outcome:
    """Damage one file of a copy, and see what verify says."""
    rng = random.Random(f"{how} {seed}")
    files = files_of(atlas)
    with TemporaryDirectory() as name:
        copy = Path(name) / "world"
        shutil.copytree(atlas.parent, copy)
        # the atlas itself every other time
        file = files[0] if rng.random() < 0.5 else rng.choice(files[1:])
        damaged = copy / file.relative_to(atlas.parent)
        data = bytearray(damaged.read_bytes())
        WAYS[how][0](data, rng)
        damaged.write_bytes(data)
        done = preloaded.run(VERIFY, str(copy / atlas.name))
        differs: bool | None = None
        if done.returncode == 0:
            with suppress(Exception):
                differs = read_rows(damaged) != read_rows(file)
        return Outcome(f"{how} {seed}", file.name, done.returncode, done.stderr, differs)


def outcomes(atlas: Path, share: float) -> Iterator[Outcome]:
    """Of every way, a share of the times."""
    with progress_bar() as bar:
        for how, (_, times) in WAYS.items():
            n = round(share * times)
            task = bar.add_task(how, total=n, unit="damages")
            for seed in range(n):
                yield damage(atlas, how, seed)
                bar.advance(task)


@click.command()
@click.option("--share", type=float, default=1, show_default=True, help="Of all damages.")
def main(share: float) -> None:
    """Print what came of each way, and each damage that went unnoticed. Exit code 1 if there is one."""
    counted: dict[tuple[str, str], int] = {}
    with TemporaryDirectory() as folder:
        for found in outcomes(write_world(Path(folder)), share):
            way = found.how.rpartition(" ")[0]
            counted[way, found.kind] = counted.get((way, found.kind), 0) + 1
            if found.kind.isupper():
                click.echo(f"{found}")
    for (way, kind), n in sorted(counted.items()):
        click.echo(f"{way:<16} {kind:<16} {n}")
    raise SystemExit(any(kind.isupper() for _, kind in counted))


if __name__ == "__main__":
    main()
