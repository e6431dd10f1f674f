"""Parses hosts and origins, and decides which hosts are ours and where listening without tokens is safe.

With DNS rebinding, a page of another site points its own name to 127.0.0.1, and the browser takes this server for
that site. That needs a name, and the browser sends it in the Host header: so addresses pass, and only known names do.
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
    """The host that a request names."""

    name: str
    """In lower case; an IPv6 address in its short form, without brackets."""
    port: int | None
    is_address: bool


def parse_host(text: str) -> Host | None:
    """Parse a Host header; `None` if it is invalid."""
    return _parse_host_text(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=1024)
def _parse_host_text(text: str) -> Host | None:
    match = _HOST.fullmatch(text)
    if match is None or int(match["port"] or 0) > HIGHEST_PORT:
        return None
    port = None if match["port"] is None else int(match["port"])
    if match["v6"] is None:
        name = match["name"].lower()
        return Host(name, port, _parse_address(name) is not None)
    address = _parse_address(match["v6"])
    return Host(str(address), port, True) if isinstance(address, IPv6Address) else None


def parse_origin(text: str) -> tuple[str, Host] | None:
    """The scheme and host of an origin, without the scheme's default port; `None` for `null` and anything invalid."""
    scheme, separator, rest = text.lower().partition("://")
    host = parse_host(rest) if separator and scheme in _PORTS else None
    return None if host is None else (scheme, without_usual_port(scheme, host))


def without_usual_port(scheme: str, host: Host) -> Host:
    """The host as browsers write it for a scheme."""
    return host._replace(port=None) if host.port == _PORTS.get(scheme) else host


def own_host_names(given: Iterable[str]) -> frozenset[str]:
    """Our host names, including those from `--allow-host`; raises `Invalid` for a wrong one."""
    return frozenset({LOCALHOST, *map(_check_host_name, given)})


def _check_host_name(text: str) -> str:
    name = text.strip().lower()
    if _NAME.fullmatch(name):
        return name
    raise Invalid(f"--allow-host {text!r}: a name is needed, without scheme, port and dot at its end, as in fleet.example.org")


def is_loopback(host: str) -> bool:
    """Whether a server there can be reached only from this machine."""
    name = host.strip().lower().removeprefix("[").removesuffix("]")
    if name == LOCALHOST:
        return True
    address = _parse_address(name)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address is not None and address.is_loopback


def check_address(host: str, *, has_tokens: bool) -> None:
    """Refuse to listen where others can reach us while there is no token. Loopback is always allowed."""
    if is_loopback(host) or has_tokens:
        return
    raise ConfigError(
        f"--host {host}: others could reach this address, and there is no token yet that they could use; "
        "make one with `lore token create --scope read`, then start again, or leave --host out to listen on this machine only"
    )


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


_PORTS = {"http": 80, "https": 443}
