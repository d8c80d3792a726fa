"""Which files beside the atlas hold the keys that neighbours are looked for among."""

from sqlalchemy import BigInteger, Integer, MetaData, String

from schema.columns import FilledBy, column, corpus_id, layer, one_of, table
from schema.key_files import KEY_DTYPE, KEY_SITE

ORDER = 46
KEYS = FilledBy("keys", "--model … --corpus … --keys", unit="positions", counted="SELECT c.n_positions FROM corpus AS c WHERE c.corpus_id = r.corpus_id")


def tables(m: MetaData, _: int) -> None:
    table(
        "key_file",
        m,
        corpus_id(),
        column("first_position_id", BigInteger, "The first of its entries.", "position.position_id"),
        column("last_position_id", BigInteger, "The last of its entries; those of other files lie before or behind.", "position.position_id"),
        column("name", String, "Name of the file in the folder NAME.keys beside the atlas NAME.duckdb."),
        column("key_site", String, "Which state a key is: ffn_in, the input of the up projection (of the FFN's norm, where one precedes, its output)."),
        layer(),
        column("min_index", Integer, "Positions of a smaller index in their sequence are no entries: they have seen little."),
        column("dtype", String, "Number format of the stored keys."),
        column("n_entries", BigInteger, "Entries in the file: positions that a token follows."),
        column("n_bytes", BigInteger, "Length of the file in bytes."),
        column("sha256", String, "SHA-256 of the file: keys of another model or of an earlier ingest have another."),
        one_of("key_site", (KEY_SITE,)),
        one_of("dtype", (KEY_DTYPE,)),
        comment="Files of keys beside the atlas, a row each. A key is the state at a position; its value is the token that follows (Khandelwal et al. 2020).",
        grain=("corpus_id", "first_position_id"),
        sort=("corpus_id", "first_position_id"),
        filled_by=KEYS,
        bytes_a_row=0,
    )
