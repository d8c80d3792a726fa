"""Checks that refuse an ingest before it writes anything."""

from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import duckdb
import torch

from ingest.model.checks import check_attention, check_identities
from ingest.model.gpus import no_gpu
from ingest.model.models import Model
from ingest.model.neighbours import check_texts
from ingest.passes import passes
from ingest.request import Request
from ingest.store.register import check_registered_model
from ingest.text.sequences import bos_token
from schema.errors import AtlasError, Locked, NotAnAtlas
from schema.open.kinds import kind_of
from schema.open.lake import Lake, check_description, is_lake, read_lake, storage
from schema.open.logs import check_log
from schema.open.store import open_reader, require_whole
from schema.patient import defer_interrupts, make_interrupt_safe
from schema.plain import check_plain
from schema.tables import metadata


def check_target(request: Request) -> None:
    """Refuse a target that is not an atlas and cannot become one."""
    target = request.target
    if not target.parent.is_dir():
        raise AtlasError(f"cannot make {target}: there is no folder {target.parent}")
    if target.is_symlink() and not (is_lake(target) and target.exists()):
        raise AtlasError(f"cannot make {target}: it is a link, which a new file would replace; name the file that it leads to, {target.resolve()}")
    if target.is_dir():
        raise AtlasError(f"cannot make {target}: it is a folder; name a file such as {target}/atlas.duckdb")
    if kind := kind_of(target):
        raise AtlasError(f"cannot make {target}: names that end in {kind.name}.duckdb are for the {kind.name} of an atlas; give another name")
    if request.lake is not None and request.data is not None:
        check_description(target, Lake(request.lake, storage(request.data)))
    elif is_lake(target):
        read_lake(target)
    else:
        check_file(target)


def check_file(target: Path) -> None:
    """Refuse a file that a snapshot must not replace."""
    check_log(target)
    if not target.exists():
        return
    try:
        with closing(open_atlas(target)) as con:
            check_plain(target)
            require_whole(con, target)
            check_tables(con, target)
    except (Locked, NotAnAtlas):
        raise
    except AtlasError as error:
        raise AtlasError(f"{error}. `atlas doctor {target}` says what can be done.") from error


def open_atlas(target: Path) -> duckdb.DuckDBPyConnection:
    return make_interrupt_safe(defer_interrupts(lambda: open_reader(target)))


def check_tables(con: duckdb.DuckDBPyConnection, target: Path) -> None:
    """Refuse an atlas with tables that are not an atlas's: a snapshot is written afresh and would drop them."""
    there = {name for (name,) in con.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()").fetchall()}
    if foreign := sorted(there - set(metadata(1).tables)):
        raise NotAnAtlas(f"{target} has tables that an ingest would drop: {', '.join(foreign)}. Move them into a file of their own and drop them here.")


def check_workers(request: Request, n_gpus: int) -> None:
    """Refuse several workers without Ray, on a device that they cannot use, or with too few GPUs. n_gpus: of this machine."""
    if request.is_alone:
        return
    if find_spec("ray") is None:
        raise AtlasError("several workers need Ray: pip install 'activation-atlas[ray]'")
    if request.device not in ("cpu", "cuda"):
        raise AtlasError(f"--device {request.device} is for one worker alone; several use --device cuda (a GPU each) or cpu (a share of the processors)")
    if request.device == "cuda" and request.ray is None and n_gpus < request.workers:
        why = "" if n_gpus else f": {no_gpu()}"
        raise AtlasError(f"--workers {request.workers} with --device cuda needs one GPU per worker, and torch {torch.__version__} sees {n_gpus}{why}")


def check_fit(request: Request, model: Model) -> None:
    """Refuse a context the model cannot read, a BOS it does not have, and a model that is not the published atlas's."""
    if model.max_context is not None and model.max_context < 1:
        raise AtlasError(f"model {model.name}: its config.json says that it was made for {model.max_context} positions, and a model needs at least 1")
    if request.corpus is not None and model.max_context is not None and request.context > model.max_context:
        raise AtlasError(
            f"a context of {request.context} tokens is more than the {model.max_context} that {model.name} was made for; use --context {model.max_context}"
        )
    if request.corpus:
        bos_token(model.tokenizer, request.bos)
    if request.target.exists() and not is_lake(request.target):
        with closing(open_atlas(request.target)) as con:
            check_registered_model(con, model)


def check_model(request: Request, model: Model) -> None:
    """Refuse a request that its passes cannot fulfil, and a model that, in the parts that these passes read, is not as its architecture entry says."""
    wanted = [each for each in passes().values() if each.is_wanted(request)]
    for each in wanted:
        each.check(request)
        each.check_model(request, model)
    check_identities(model)
    if request.corpus is not None:
        check_texts(model, request.context)
    if readers := [f"--{each.name.replace('_', '-')}" for each in wanted if each.reads_heads]:
        try:
            check_attention(model)
        except AtlasError as error:
            raise AtlasError(f"{error}. Without {', '.join(readers)} its FFNs can be recorded") from error
