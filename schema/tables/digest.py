"""What each table of a published atlas held when it was written."""

from sqlalchemy import BigInteger, MetaData, String

from schema.columns import REGISTRATION, column, table
from schema.table_digests import COMMENT, COMMENTS, STORED

ORDER = 22


def tables(m: MetaData, _: int) -> None:
    table(
        STORED,
        m,
        *(column(name, BigInteger if name == "n_rows" else String, comment) for name, comment in COMMENTS.items()),
        comment=COMMENT,
        grain=("table_name",),
        sort=("table_name",),
        filled_by=REGISTRATION,
        bytes_a_row=0,
    )
