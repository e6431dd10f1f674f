"""What the address of a NATS server says: where to go, and how to be let in."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote


class Address(NamedTuple):
    """The servers hold no secret, so that they may be shown; the rest may not."""

    servers: list[str]
    user: str | None = None
    password: str | None = None
    token: str | None = None


def parse(address: str) -> Address:
    """The parts of `nats://user:password@one:4222,two:4222` or `nats://token@one`; what stands before the `@` may be escaped."""
    scheme, _, rest = address.partition("://")
    names, at, hosts = rest.rpartition("@")
    servers = [f"{scheme}://{host}" for host in hosts.split(",")]
    if not at:
        return Address(servers)
    user, colon, password = names.partition(":")
    return Address(servers, unquote(user), unquote(password)) if colon else Address(servers, token=unquote(user))
