"""Names and addresses: what a Host header says, which hosts are ours, and where it is safe to listen without tokens.

A page of another site can have its own name point to 127.0.0.1 (DNS rebinding); the browser then takes this server for that
site. It cannot do so without a name, and the browser tells the name: so addresses pass, and of names only those that are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from fleetlore.errors import ConfigError, Invalid

LOCALHOST = "localhost"
HIGHEST_PORT = 65_535
_LONGEST = 260
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9._-]{1,253}))(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*", re.ASCII)


class Host(NamedTuple):
    """Where a request says that it goes."""

    name: str
    """In lower case; an address of IPv6 in its one short form, without brackets."""
    port: int | None
    is_address: bool


def parse(text: str) -> Host | None:
    """What a Host header says; `None` if that is no host."""
    return _parse(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=1024)
def _parse(text: str) -> Host | None:
    found = _HOST.fullmatch(text)
    if found is None or int(found["port"] or 0) > HIGHEST_PORT:
        return None
    port = None if found["port"] is None else int(found["port"])
    if found["v6"] is None:
        name = found["name"].lower()
        return Host(name, port, _address(name) is not None)
    address = _address(found["v6"])
    return Host(str(address), port, True) if isinstance(address, IPv6Address) else None


def parse_origin(text: str) -> tuple[str, Host] | None:
    """The scheme and the host of an origin, its port left out where it is the scheme's own; `None` for `null` and all else."""
    scheme, separator, rest = text.lower().partition("://")
    host = parse(rest) if separator and scheme in _PORTS else None
    return None if host is None else (scheme, without_usual_port(scheme, host))


def without_usual_port(scheme: str, host: Host) -> Host:
    """The host as browsers write it for a scheme."""
    return host._replace(port=None) if host.port == _PORTS.get(scheme) else host


def names(given: Iterable[str]) -> frozenset[str]:
    """The names that are ours, with those that `--allow-host` gives; a wrong one is refused."""
    return frozenset({LOCALHOST, *map(_name, given)})


def _name(text: str) -> str:
    name = text.strip().lower()
    if _NAME.fullmatch(name):
        return name
    raise Invalid(f"--allow-host {text!r}: a name is needed, without scheme, port and dot at its end, as in fleet.example.org")


def is_loopback(host: str) -> bool:
    """Whether what listens there is reached from this machine only."""
    name = host.strip().lower().removeprefix("[").removesuffix("]")
    if name == LOCALHOST:
        return True
    address = _address(name)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address is not None and address.is_loopback


def check_address(host: str, *, has_tokens: bool) -> None:
    """Refuse to listen where others can reach us while there is no token that would keep them out. Loopback is free."""
    if is_loopback(host) or has_tokens:
        return
    raise ConfigError(
        f"--host {host}: others could reach this address, and no token was given out that would let in the right ones; "
        "make one with `lore token create --scope read`, then start again, or leave --host out to listen on this machine only"
    )


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


_PORTS = {"http": 80, "https": 443}
