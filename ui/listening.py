"""Addresses that a server may listen at, and whether other machines reach it there."""

import ipaddress
import socket

import click


def places(address: str) -> list[tuple[socket.AddressFamily, str]]:
    """Resolve an address or a host name. Raises OSError if it stands for nothing, and UnicodeError if it cannot be a name."""
    # as Streamlit chooses it, which listens at no IPv6 address that a name stands for
    kind = socket.AF_INET6 if ":" in address else socket.AF_INET
    return [(family, str(place[0])) for family, _, _, _, place in socket.getaddrinfo(address, None, kind, socket.SOCK_STREAM)]


def is_loopback(address: str) -> bool:
    """Tell whether only this machine reaches an address."""
    return all(ipaddress.ip_address(place).is_loopback for _, place in places(address))


def checked_address(_context: click.Context, _parameter: click.Parameter, given: str) -> str:
    """Check that this machine can listen at an address, on any free port. Raises BadParameter if not."""
    try:
        # an empty one would stand for all
        if not given:
            raise OSError("it is empty")
        for family, place in places(given):
            with socket.socket(family, socket.SOCK_STREAM) as one:
                one.bind((place, 0))
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise click.BadParameter(
            f"this machine cannot listen at {given!r} ({reason}): give 127.0.0.1 for this machine alone, 0.0.0.0 for all its networks, "
            "or an address or name of its own, without scheme or port"
        ) from error
    return given
