"""Keep experiments: the former name of atlas.beside.experiments.store, for this version."""

from atlas.beside.experiments.store import add, remove, remove_if_bare, save
from atlas.beside.experiments.store import find_unfinished as unfinished

__all__ = ["add", "remove", "remove_if_bare", "save", "unfinished"]
