"""Tables of NAME.annotations.duckdb, the file beside an atlas that holds what people say of its keys and values.

annotation_tables.sql is their DDL, for whoever attaches them and has no time for SQLAlchemy; `python -m schema.annotation_tables` writes it anew.
It is no part of the snapshot, so that ingesting again leaves it alone; a row carries the text that was shown, so that it stays readable
without the atlas, and a reference that no longer holds can be told.
"""

from functools import partial
from pathlib import Path

from sqlalchemy import BigInteger, Boolean, DateTime, Integer, MetaData, PrimaryKeyConstraint, SmallInteger, String

from schema import terms
from schema.build import table_ddl
from schema.columns import column, layer, one_of
from schema.experiments.declaring import declared


def annotation_metadata() -> MetaData:
    """All tables of an annotation file, under the name they are attached by."""
    m = MetaData(schema=terms.ANNOTATION_CATALOG)
    declare = partial(declared, m)
    declare(
        "annotation_schema",
        column("version", Integer, "Version of the tables in this file."),
        column("derived_sha256", String, "SHA-256 over the definitions of its views and questions."),
        comment="What wrote this file; one row.",
        grain=(),
    )
    declare(
        "annotation",
        column("annotation_id", Integer, "Counted from 0; renewed where an annotation is replaced."),
        column("subject", String, "What was looked at: a key (the texts that trigger it), or the tokens of a value, a random_vector or an ffn_update."),
        column("corpus_id", Integer, "The corpus whose texts were read; null for values and random vectors.", null=True),
        layer(),
        column("item", BigInteger, "Neuron of a key or value; number of the random vector; position_id of the update (control_token.item)."),
        column("n_items", SmallInteger, "Texts or tokens that were shown: 25 of a key, 30 of a value, less where the atlas holds less."),
        column("annotator", String, "Who annotated, as the person calls herself; miner for what the program proposes."),
        column("is_proposed", Boolean, "Proposed by the program, not found by a person."),
        column("weights_sha256", String, "model.weights_sha256 of the atlas annotated."),
        column("created_at", DateTime(timezone=True), "When it was loaded, UTC."),
        PrimaryKeyConstraint("annotation_id"),
        one_of("subject", terms.SUBJECTS),
        comment="One annotator's look at one key, value, random vector or FFN update; with no patterns, the annotator found none.",
        grain=("subject", "corpus_id", "layer", "item", "annotator", "weights_sha256"),
    )
    declare(
        "annotation_item",
        column("annotation_id", Integer, "The look at which it was shown.", "annotation.annotation_id"),
        column("rank", SmallInteger, "From 1: rank of the trigger or of the token when it was shown."),
        column("position_id", BigInteger, "Where the text of a key ends; null for tokens.", null=True),
        column("token_id", Integer, "The token; of a text the token it ends with."),
        column("is_stop_word", Boolean, "token.is_stop_word when it was shown."),
        column("text_before", String, "Characters shown before the token; null for tokens.", null=True),
        column("token", String, "Characters of the token."),
        comment="One text or token that was shown to an annotator, explained or not.",
        grain=("annotation_id", "rank"),
    )
    declare(
        "pattern",
        column("pattern_id", Integer, "Counted from 0."),
        column("annotation_id", Integer, "The look at which it was found.", "annotation.annotation_id"),
        column("kind", String, "Of a key shallow or semantic; of tokens semantic, syntactic or names."),
        column("description", String, "What its texts or tokens have in common, in the annotator's words."),
        PrimaryKeyConstraint("pattern_id"),
        one_of("kind", terms.PATTERN_KINDS),
        comment="A pattern in at least 3 texts of a key (Geva et al. 2021, section 3), or a concept of at least 4 tokens (Geva et al. 2022, section 4).",
        grain=("pattern_id",),
    )
    declare(
        "pattern_match",
        column("pattern_id", Integer, "The pattern.", "pattern.pattern_id"),
        column("rank", SmallInteger, "Rank of the text or token it explains: annotation_item.rank of the same annotation."),
        comment="Which texts or tokens a pattern explains.",
        grain=("pattern_id", "rank"),
    )
    return m


def ddl() -> str:
    """SQL that creates them, and their comments."""
    return ";\n".join(statement.strip() for table in annotation_metadata().tables.values() for statement in table_ddl(table)) + "\n"


if __name__ == "__main__":
    Path(__file__).with_suffix(".sql").write_text(ddl(), encoding="utf-8")
