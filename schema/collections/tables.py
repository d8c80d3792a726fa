"""All tables of a file of collections, as metadata and as SQL."""

from functools import partial
from pathlib import Path

from sqlalchemy import BigInteger, DateTime, Integer, MetaData, PrimaryKeyConstraint, SmallInteger, String

from schema import terms
from schema.build import table_ddl
from schema.columns import column, one_of
from schema.experiments.declaring import declared

THING = ("layer", "neuron", "head", "position_id", "token_id")
"""Columns of a member that say which thing it is."""


def collection_metadata() -> MetaData:
    """All tables of a file of collections, under the name they are attached by."""
    m = MetaData(schema=terms.COLLECTION_CATALOG)
    declare = partial(declared, m)
    declare(
        "collection_schema",
        column("version", Integer, "Version of the tables in this file."),
        column("derived_sha256", String, "SHA-256 over the definitions of its views and questions."),
        comment="What wrote this file; one row.",
        grain=(),
    )
    declare(
        "collection",
        column("collection_id", Integer, "Counted from 0."),
        column("name", String, "Its name: letters, digits, spaces and .,:+()_-; no other has the same, whatever the case."),
        column("note", String, "What it is of, in the words of who made it; '' if that was not said."),
        column("made_by", String, "Who made it, as the person calls herself."),
        column("created_at", DateTime(timezone=True), "When it was made, UTC."),
        PrimaryKeyConstraint("collection_id"),
        comment="A set of components, positions or tokens that somebody put together and gave a name.",
        grain=("name",),
    )
    declare(
        "collection_member",
        column("collection_id", Integer, "The collection.", "collection.collection_id"),
        column("number", Integer, "Order in which members were added, from 0; one that is removed leaves a gap."),
        column("kind", String, "What it is: a neuron, a head, a position or a token."),
        column("layer", SmallInteger, "Transformer block of a neuron or head, from 0; null for others.", null=True),
        column("neuron", Integer, "FFN hidden unit of the layer, from 0; null for others.", null=True),
        column("head", SmallInteger, "Attention head of the layer, from 0; null for others.", null=True),
        column("position_id", BigInteger, "The position, as in the atlas it was added from; null for others.", null=True),
        column("token_id", Integer, "The token of the vocabulary; null for others.", null=True),
        column("text", String, "What the atlas showed of it: tokens that a value promotes, the text up to a position, a token's characters; '' for heads."),
        column("note", String, "What was said of this member; '' if nothing was."),
        column("added_by", String, "Who added it."),
        column("weights_sha256", String, "model.weights_sha256 of the atlas it was added from."),
        column("added_at", DateTime(timezone=True), "When it was added, UTC."),
        one_of("kind", terms.MEMBER_KINDS),
        comment="What is in a collection. A row carries what the atlas showed, so that it stays readable without it.",
        grain=("collection_id", *THING, "weights_sha256"),
    )
    return m


def ddl() -> str:
    """SQL that creates them, and their comments."""
    return ";\n".join(statement.strip() for table in collection_metadata().tables.values() for statement in table_ddl(table)) + "\n"


if __name__ == "__main__":
    Path(__file__).with_suffix(".sql").write_text(ddl(), encoding="utf-8")
