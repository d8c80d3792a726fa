"""Every table of an atlas, as SQLAlchemy metadata: the one source of the DDL, the data dictionary, the generated audits, and what fills which table.

Its files are found by listing; another distribution adds a module by an entry point. Each has `tables(m, d_model)`, which declares its tables by
`schema.columns.table`, and `ORDER`, the place of its tables in lists of them.
Uniqueness and references are audits and not constraints on the big tables, where an index costs twenty times the insert and does not exist on a lake.
"""

from functools import cache
from importlib import import_module
from types import ModuleType

from sqlalchemy import MetaData

from schema.columns import check_tables
from schema.release import added_modules, table_modules


@cache
def modules() -> tuple[ModuleType, ...]:
    """Ours by their order, then those that other distributions add, by name."""
    ours = [import_module(f"{__name__}.{name}") for name in table_modules()]
    return (*sorted(ours, key=lambda module: (module.ORDER, module.__name__)), *map(import_module, added_modules()))


@cache
def metadata(d_model: int) -> MetaData:
    """All tables of an atlas whose residual stream is `d_model` wide: the same object each time, to be read alone.

    Raises AtlasError for a table that leaves out what every table says of itself.
    """
    m = MetaData()
    for module in modules():
        module.tables(m, d_model)
    check_tables(m)
    return m
