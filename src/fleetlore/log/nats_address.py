"""What the address of a NATS server says: where to go, and how to be let in.

What is refused is not repeated in the error: a password may be in it.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from fleetlore.errors import InvalidUrl

_is_host = re.compile(r"([\w.~-]+|\[[0-9A-Fa-f:.]+(%\w+)?\])(:\d{1,5})?").fullmatch


class Address(NamedTuple):
    """The servers hold no secret, so that they may be shown; the rest may not."""

    servers: list[str]
    user: str | None = None
    password: str | None = None
    token: str | None = None

    @property
    def is_tls(self) -> bool:
        """Whether nothing may be sent in the clear."""
        return self.servers[0].startswith("tls:")


def parse(address: str) -> Address:
    """The parts of `nats://user:password@one:4222,two:4222` or `nats://token@one`; what stands before the `@` may be escaped."""
    scheme, found, rest = address.partition("://")
    if not found:
        scheme, _, rest = address.partition(":")
        host = rest.rpartition("@")[2]
        raise InvalidUrl(f"{scheme}: two slashes are missing; did you mean {scheme}://{host if _is_host(host) else 'HOST:4222'}?")
    names, at, hosts = rest.rpartition("@")
    if "://" in rest or ("@" in names and "," in names):
        raise InvalidUrl(f"{scheme}: several servers share one name and one password: say {scheme}://USER:PASSWORD@ONE:4222,TWO:4222")
    servers = [f"{scheme}://{host}" for host in _hosts(scheme, hosts)]
    if not at:
        return Address(servers)
    user, colon, password = names.partition(":")
    return Address(servers, unquote(user), unquote(password)) if colon else Address(servers, token=unquote(user))


def _hosts(scheme: str, hosts: str) -> list[str]:
    hosts, _, path = hosts.partition("/")
    if path:
        raise InvalidUrl(f"{scheme}: there is a path behind the server, which means nothing to NATS; a town is named with ?town=NAME")
    found = hosts.split(",")
    if not all(map(_is_real_host, found)):
        raise InvalidUrl(
            f"{scheme}: not an address of a NATS server; say {scheme}://HOST:4222, and escape / ? @ : in a password (%2F %3F %40 %3A)"
        )
    return found


def _is_real_host(host: str) -> bool:
    found = _is_host(host)
    return found is not None and int((found[3] or ":1")[1:]) in range(1, 65536)
