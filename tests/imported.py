"""What an ingest imports only on its way, imported at once: two seconds that no process forked from this one then spends. It starts no thread."""

import _strptime  # noqa: F401
import importlib
import pkgutil

import dateutil.easter  # noqa: F401
import duckdb_sqlalchemy  # noqa: F401
import pandas  # noqa: F401
import pyarrow.dataset
import pyarrow.pandas_compat  # noqa: F401
from numba.core.registry import cpu_target
from transformers.models.opt import modeling_opt  # noqa: F401

import ingest.recorders
import schema.tables

for package in (schema.tables, ingest.recorders):
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)

# numba knows the types of what a compiled loop may hold; a loop read from its cache needs them all
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
