"""Address of a lake's catalogue in a form that may be stored: PostgreSQL's own library reads it, and it contains no secret.

No error message of this module repeats the address.
"""

from collections.abc import Mapping

from schema.errors import AtlasError

SECRETS = {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
"""Parameters of PostgreSQL's library that nobody else may read."""

SCHEMES = ("postgresql://", "postgres://")


def check_address(address: str, where: str) -> None:
    """Raise AtlasError if `address` is no postgresql:// address, or contains a password. where: the option or file that holds it, for the message."""
    if not address.startswith(SCHEMES):
        raise AtlasError(
            f"the catalogue of a lake is a PostgreSQL database: the address in {where} must begin with postgresql://, as in postgresql://user@host/database"
        )
    found = parameters(address, where)
    # a password with a slash in it is read as the beginning of the database's name
    secret = sorted(SECRETS & found.keys()) or ["password"] * ("@" in found.get("dbname", ""))
    if secret:
        raise AtlasError(f"leave the password out of {where}, where others could read it ({secret[0]}): set PGPASSWORD, or put it into ~/.pgpass")


def parameters(address: str, where: str) -> Mapping[str, str]:
    """Parse host, dbname, … of an address as PostgreSQL's library does, which recognises more parts as passwords than urllib does."""
    try:
        from psycopg import Error
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise AtlasError(f"a lake needs the extra `lake`: pip install 'activation-atlas[lake]' ({error})") from error
    try:
        return {name: str(value) for name, value in conninfo_to_dict(address).items()}
    except (Error, ValueError):
        # what it says would repeat a part of the address
        raise AtlasError(
            f"PostgreSQL cannot read the address in {where}: write postgresql://user@host/database, and after a ? only parameters that PostgreSQL has"
        ) from None
