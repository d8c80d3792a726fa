"""Loading of the atlas's own model, from any of the places where its weights may be."""

import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import duckdb

from ingest.model.gguf import find_folder_of_weights
from ingest.model.models import Model, load_model
from ingest.model.sources import PACKAGE, Unreadable, package_file
from schema.errors import AtlasError
from schema.reading import shorten_json

Tell = Callable[[str], None]


class WantedModel(NamedTuple):
    """The model from which an atlas was made."""

    name: str
    revision: str
    dtype: str
    weights_sha256: str


def wanted_model(con: duckdb.DuckDBPyConnection) -> WantedModel:
    """Read from which model an atlas was made.

    Raises AtlasError for an atlas without a model, or if weights_sha256 is not a SHA-256: a folder of the cache is found by it, and may be removed.
    """
    rows = con.execute("SELECT m.name, m.revision, m.dtype, m.weights_sha256 FROM model AS m LIMIT 1").fetchall()
    if not rows:
        raise AtlasError("this atlas is empty: it has no model yet. `atlas ingest` fills it.")
    wanted = WantedModel(*rows[0])
    if re.fullmatch("[0-9a-f]{64}", wanted.weights_sha256) is None:
        raise AtlasError(
            f"the weights of this atlas are {shorten_json(wanted.weights_sha256)}; a SHA-256 has 64 hexadecimal digits, so no model can be compared with it"
        )
    return wanted


def load_wanted(wanted: WantedModel, source: str | None, device: str, tell: Tell) -> Model:
    """Load the model with the atlas's weights. source: as for `atlas ingest`; None for the model that the atlas names.

    Raises AtlasError if the model is not found, or has other weights, with which every join with the atlas would be wrong.
    """
    # a file that is at hand says how its weights are read, which their digest does not
    kept = None if source is not None or is_packaged_model(wanted.name) else find_folder_of_weights(wanted.weights_sha256)
    if kept is not None and (model := load_kept(kept, wanted, device, tell)):
        return model
    tell("reading the weights")
    model = load_named(wanted, source, device, tell)
    if model.weights_sha256 != wanted.weights_sha256:
        raise AtlasError(
            f"the weights of {source or wanted.name} have SHA-256 {model.weights_sha256[:12]}…; the atlas was made from {wanted.name} with "
            f"{wanted.weights_sha256[:12]}…: name the atlas's own model with --model"
        )
    return model


def load_kept(folder: Path, wanted: WantedModel, device: str, tell: Tell) -> Model | None:
    """Load the model from a folder of the cache; if it is unreadable or holds other weights, remove the folder and return None."""
    tell("reading the cached weights")
    with suppress(Unreadable):
        model = load_model(str(folder), revision=None, dtype=wanted.dtype, device=device, tell=tell)
        if model.weights_sha256 == wanted.weights_sha256:
            return replace(model, name=wanted.name, revision=wanted.revision)
    shutil.rmtree(folder, ignore_errors=True)
    return None


def is_packaged_model(name: str) -> bool:
    """Tell whether a model of this name is installed as a package."""
    with suppress(AtlasError):
        return package_file().name == name
    return False


def load_named(wanted: WantedModel, source: str | None, device: str, tell: Tell) -> Model:
    if source is not None:
        return load_model(source, revision=None, dtype=wanted.dtype, device=device, tell=tell)
    if is_packaged_model(wanted.name):
        return load_model(PACKAGE, revision=None, dtype=wanted.dtype, device=device, tell=tell)
    # what is local has digits of its weights as its revision
    revision = None if wanted.weights_sha256.startswith(wanted.revision) else wanted.revision
    try:
        return load_model(wanted.name, revision=revision, dtype=wanted.dtype, device=device, tell=tell)
    except AtlasError as error:
        raise AtlasError(
            f"the atlas's model {wanted.name} was not found; start `atlas live` with --model, or give --model to this command, as for `atlas ingest` ({error})"
        ) from error
