"""An atlas in a lake: DuckLake tables with their catalogue in PostgreSQL, and Parquet files in a folder or on S3-compatible storage.

NAME.lake, a small file, says where both are, and can be given wherever the path of an atlas can. It never contains passwords: PostgreSQL's are read as by
libpq (PGPASSWORD, ~/.pgpass), and the storage's from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION and AWS_ENDPOINT_URL.

ATLAS_LAKE_TIMEOUT is how many seconds a server may be silent before the request to it is given up.

    main    every table as readers see it; triggers and statistics merged
    parts   triggers and statistics as the shards brought them, and the one row of `committer`

Readers see the lake as it was when it was last published (a snapshot whose commit message is PUBLISHED), through views with the columns' own types.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import duckdb

from schema.durable import put_in_place
from schema.errors import AtlasError, NotAnAtlas, Unreachable
from schema.open.catalogue_address import check_address
from schema.open.drafts import new_draft
from schema.open.logs import refuse_strange
from schema.open.names import escape_quotes

if TYPE_CHECKING:
    from psycopg import Connection

SUFFIX = ".lake"
CATALOG = "lake"
PUBLISHED = "published"
EXTENSIONS = ("httpfs", "postgres_scanner", "ducklake")
TIMEOUT = "ATLAS_LAKE_TIMEOUT"
TIMEOUT_S = 30
LAKE_TYPES = {"JSON": "VARCHAR"}
"""Types of an atlas that have another name in a lake; vectors are lists there."""


LAST_PUBLISHED = """
SELECT s.snapshot_id, (extract(epoch FROM s.snapshot_time) * 1000000)::BIGINT
FROM ducklake_snapshot AS s
INNER JOIN ducklake_snapshot_changes AS c ON s.snapshot_id = c.snapshot_id
WHERE c.commit_message = %s
ORDER BY s.snapshot_id DESC
LIMIT 1
"""


class Version(NamedTuple):
    """A snapshot of a lake and when it was made, µs since 1970."""

    snapshot_id: int
    time: int


@dataclass(frozen=True)
class Lake:
    """catalogue: address of a PostgreSQL database. data: folder, or s3://bucket/prefix, for the Parquet files."""

    catalogue: str
    data: str


def is_lake(path: Path | str) -> bool:
    return Path(path).suffix == SUFFIX


def read_lake(path: Path) -> Lake:
    """Read the file that describes a lake. Raises NotAnAtlas if it describes none, and AtlasError for a password in it or for unsuitable storage."""
    refuse_strange(path)
    try:
        lake = Lake(**json.loads(path.read_text(encoding="utf-8")))
        if not isinstance(lake.catalogue, str) or not isinstance(lake.data, str):
            raise TypeError("its catalogue and its data must be text")
    except FileNotFoundError as error:
        raise NotAnAtlas(f"no atlas at {path}: no such file; `atlas ingest {path} --lake postgresql://… --data s3://…` makes it") from error
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise NotAnAtlas(f"{path} does not describe a lake: {error}") from error
    check_address(lake.catalogue, str(path))
    # somebody else may have written it: an address in it could send what is read with, and the session's token, elsewhere
    storage(lake.data)
    return lake


def describe(path: Path, lake: Lake) -> None:
    """Write the file that says where a lake is. Raises the errors of `check_description`."""
    check_description(path, lake)
    draft = new_draft(path)
    draft.write_text(json.dumps(asdict(lake), indent=2) + "\n")
    put_in_place(draft, path)


def check_description(path: Path, lake: Lake) -> None:
    """Raise AtlasError if `path` does not end in .lake or describes another lake, or if the catalogue's address is not valid or contains a password."""
    if not is_lake(path):
        raise AtlasError(f"the file that describes a lake ends in {SUFFIX}: {path.with_suffix(SUFFIX)}, not {path}")
    check_address(lake.catalogue, "--lake")
    if path.exists() and (there := read_lake(path)) != lake:
        raise AtlasError(f"{path} describes another lake: {there.catalogue} with files in {there.data}")


def storage(data: str) -> str:
    """Convert --data to the form that is stored: s3://bucket/prefix, or an absolute path. Raises AtlasError for unsuitable storage, or keys in the address."""
    if data.startswith("s3://") and ("?" in data or "@" in data):
        raise AtlasError("--data s3://bucket/prefix takes no keys, others could read them: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    if "://" in data and not data.startswith("s3://"):
        raise AtlasError(f"the files of a lake must be in a folder or on S3-compatible storage: --data s3://bucket/prefix, not {data.partition('://')[0]}://…")
    if "://" in data:
        place = data.rstrip("/")
        if strange := {"", ".", ".."} & {*place.removeprefix("s3://").split("/")}:
            raise AtlasError(
                f"--data s3://bucket/prefix needs a name between any two slashes, and {data} has {min(strange)!r}, which S3 clients read differently"
            )
        return place
    folder = Path(data).resolve()
    if folder == folder.parent:
        raise AtlasError("the files of a lake need a folder of their own: --data FOLDER, not the root of the file system")
    return str(folder)


def s3_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Read KEY_ID, SECRET, SESSION_TOKEN, REGION, ENDPOINT and SCHEME from AWS's environment variables, those that are set."""
    names = {"KEY_ID": "AWS_ACCESS_KEY_ID", "SECRET": "AWS_SECRET_ACCESS_KEY", "SESSION_TOKEN": "AWS_SESSION_TOKEN", "REGION": "AWS_REGION"}
    found = {key: environment[name] for key, name in names.items() if environment.get(name)}
    if address := environment.get("AWS_ENDPOINT_URL"):
        endpoint = urlsplit(address)
        found |= {"ENDPOINT": endpoint.netloc, "SCHEME": endpoint.scheme}
    return found


def timeout_s(environment: Mapping[str, str] = os.environ) -> int:
    """Read from ATLAS_LAKE_TIMEOUT the seconds that a server may be silent. Raises AtlasError unless they are a whole number from 1 to 86,400."""
    said = environment.get(TIMEOUT, str(TIMEOUT_S))
    if not said.isdecimal() or not 0 < int(said) <= 86_400:
        raise AtlasError(f"{TIMEOUT} is how many seconds a lake's servers may be silent, a whole number from 1 to 86400, not {said[:40]!r}")
    return int(said)


def limit_waiting(con: duckdb.DuckDBPyConnection) -> None:
    """Have DuckDB give up on storage that is silent for the timeout; each request is tried twice within it."""
    con.execute(f"SET http_timeout = {-(-timeout_s() // 2)}")
    con.execute("SET http_retries = 1")


def limit_connecting() -> None:
    """Have PostgreSQL's library, here and in DuckDB, give up on a catalogue that is silent; an address or the environment may set another limit."""
    os.environ.setdefault("PGCONNECT_TIMEOUT", str(timeout_s()))


def load_extensions(con: duckdb.DuckDBPyConnection) -> None:
    """Load the extensions from the packages of the extra `lake`, so that nothing is downloaded at run time."""
    for name in EXTENSIONS:
        try:
            folder = files(f"duckdb_extension_{name}") / "extensions" / f"v{duckdb.__version__}"
        except ModuleNotFoundError as error:
            raise AtlasError(f"a lake needs the extra `lake`: pip install 'activation-atlas[lake]' ({error})") from error
        file = folder / f"{name}.duckdb_extension"
        if not file.is_file():
            raise AtlasError(f"the installed package of DuckDB's extension {name} is not for DuckDB {duckdb.__version__}: pip install 'activation-atlas[lake]'")
        con.execute(f"LOAD '{file}'")


def create_secret(con: duckdb.DuckDBPyConnection) -> None:
    """Create the secret that DuckDB needs for the storage."""
    found = s3_settings()
    parts = [f"{key} '{found[key]}'" for key in ("KEY_ID", "SECRET", "SESSION_TOKEN", "REGION", "ENDPOINT") if key in found]
    if "ENDPOINT" in found:
        # a server of one's own has no name for every bucket
        parts += ["URL_STYLE 'path'", f"USE_SSL {str(found['SCHEME'] == 'https').lower()}"]
    con.execute(f"CREATE SECRET storage ({', '.join(['TYPE s3', *parts])})")


def forget_environment(con: duckdb.DuckDBPyConnection) -> None:
    """Clear AWS's keys from DuckDB's settings, to which loading httpfs copies them from the environment: SQL can read settings, but no secrets."""
    for name in ("s3_access_key_id", "s3_secret_access_key", "s3_session_token"):
        con.execute(f"SET GLOBAL {name} = ''")


def attach(con: duckdb.DuckDBPyConnection, lake: Lake, *options: str) -> None:
    """Attach a lake as `lake`. Raises Unreachable if its catalogue or its files cannot be reached."""
    place = f"DATA_PATH '{escape_quotes(lake.data)}/'"
    try:
        con.execute(f"ATTACH 'ducklake:postgres:{escape_quotes(lake.catalogue)}' AS {CATALOG} ({', '.join([place, *options])})")
    except duckdb.Error as error:
        raise Unreachable(f"cannot open the lake {lake.catalogue}: {' '.join(str(error).split())}") from error


def connect(lake: Lake, config: dict) -> duckdb.DuckDBPyConnection:
    """Open a connection that can attach lakes, with nothing attached."""
    limit_connecting()
    con = duckdb.connect(":memory:", config=config)
    try:
        load_extensions(con)
        forget_environment(con)
        limit_waiting(con)
        if lake.data.startswith("s3://"):
            create_secret(con)
    except BaseException:
        con.close()
        raise
    return con


@contextmanager
def catalogue(lake: Lake, name: str = "atlas") -> Iterator["Connection"]:
    """Open a session on the PostgreSQL server that holds the catalogue; the server lists the session under `name`.

    Raises Unreachable if the server does not answer.
    """
    try:
        import psycopg
    except ImportError as error:
        raise AtlasError(f"a lake needs the extra `lake`: pip install 'activation-atlas[lake]' ({error})") from error
    limit_connecting()
    try:
        with psycopg.connect(lake.catalogue, autocommit=True, application_name=name) as session:
            yield session
    except psycopg.Error as error:
        silent = f" ({TIMEOUT} says how many seconds to wait)" if isinstance(error, psycopg.errors.ConnectionTimeout) else ""
        raise Unreachable(f"the catalogue {lake.catalogue} of the lake does not answer: {' '.join(str(error).split())}{silent}") from error


def has_catalogue(session: "Connection") -> bool:
    """Tell whether the database is a lake's catalogue, empty or not."""
    return bool(session.execute("SELECT FROM information_schema.tables WHERE table_name = 'ducklake_snapshot_changes'").fetchall())


def published_version(lake: Lake) -> Version | None:
    """Find the snapshot of a lake that readers see; None before the first publication."""
    with catalogue(lake) as session:
        if not has_catalogue(session):
            return None
        found = session.execute(LAST_PUBLISHED, [PUBLISHED]).fetchall()
    return Version(*found[0]) if found else None


def attach_published(con: duckdb.DuckDBPyConnection, lake: Lake, path: Path) -> None:
    """Attach a lake read-only, as it was last published. Raises NotAnAtlas if it was never published."""
    version = published_version(lake)
    if version is None:
        raise NotAnAtlas(f"nothing has been published in the lake of {path} yet; `atlas ingest {path}` fills it")
    attach(con, lake, "READ_ONLY", f"SNAPSHOT_VERSION {version.snapshot_id}")


def lake_type(kind: str) -> str:
    """Translate an atlas's type to a lake's: FLOAT[192] becomes a list, and JSON becomes text."""
    return "FLOAT[]" if kind.startswith("FLOAT[") else LAKE_TYPES.get(kind, kind)


def lake_bytes(con: duckdb.DuckDBPyConnection) -> int:
    """Add up the sizes, in bytes, of the files of the attached lake's tables."""
    return int(con.execute(f"SELECT coalesce(sum(file_size_bytes), 0) FROM ducklake_table_info('{CATALOG}')").fetchall()[0][0])


def open_published(path: Path, config: dict) -> duckdb.DuckDBPyConnection:
    """Open the last published version of the lake that the file at `path` describes, with tables, views and questions named as in an atlas file."""
    # here, because whoever opens a file needs none of it, and SQLAlchemy takes longer to import than a file to open
    from schema.open.older import install_stand_ins

    lake = read_lake(path)
    con = connect(lake, config)
    try:
        attach_published(con, lake, path)
        install_stand_ins(con, CATALOG)
        # what is left open when other files are shut
        con.execute(f"SET allowed_directories = ['{escape_quotes(lake.data)}/']")
    except BaseException:
        con.close()
        raise
    return con
