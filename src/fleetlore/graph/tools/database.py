"""Addresses of databases, query limits and result tables.

    sqlite:shop.db                                             a file, relative to the working directory
    postgresql://reader@db.house/shop?password_env=SHOP_KEY    the password is in $SHOP_KEY
    mysql://reader:secret@127.0.0.1:3306/shop                  also MariaDB; `mariadb://` is the same

Addresses come from this machine's settings. They are never shown to a model or in an error; both see only the database's name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from msgspec import Struct

from fleetlore.errors import ConfigError

DatabaseKind: TypeAlias = Literal["sqlite", "postgresql", "mysql"]
Cell: TypeAlias = "str | int | float | bool | None"

_KIND_BY_SCHEME: dict[str, DatabaseKind] = {"postgresql": "postgresql", "postgres": "postgresql", "mysql": "mysql", "mariadb": "mysql"}
_DEFAULT_PORTS: dict[DatabaseKind, int] = {"postgresql": 5432, "mysql": 3306}
_OPTIONS = ("password_env", "socket", "tls")
_LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost")


class Database(Struct, frozen=True, kw_only=True):
    """A configured database. Its `repr` shows only name and kind, never the password."""

    name: str
    kind: DatabaseKind
    path: str = ""
    """For SQLite."""
    host: str = ""
    port: int = 0
    socket: str = ""
    """Local socket, instead of host and port."""
    user: str = ""
    password: str = ""
    database: str = ""
    tls: bool = False

    def __repr__(self) -> str:
        return f"Database({self.name!r}, {self.kind})"


class QueryLimits(Struct, frozen=True, kw_only=True):
    """Limits of one query."""

    rows: int = 200
    bytes: int = 262_144
    """Limit for the rendered result, and for any single row while it is read."""
    cell: int = 2_000
    """Characters of one value; longer ones are truncated."""
    seconds: float = 10.0


class Table(Struct, frozen=True, kw_only=True):
    """The result of a query; all values are plain JSON."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    cut: str | None = None
    """Why it was truncated, such as `after 200 rows`; `None` if it is complete."""

    def as_dict(self) -> dict[str, Any]:
        """The table as a dict."""
        return {"columns": list(self.columns), "rows": [list(row) for row in self.rows], "cut": self.cut}


def parse_database_address(name: str, address: str, *, environ: Mapping[str, str] = os.environ) -> Database:
    """Parse an address; raises `ConfigError`, without the address in its text."""
    scheme, _, rest = address.partition(":")
    if scheme == "sqlite":
        if not rest or rest.startswith("//"):
            raise ConfigError(f"database {name}: the path of the file is missing, or begins with //; write sqlite:PATH")
        return Database(name=name, kind="sqlite", path=os.path.expanduser(rest))
    if scheme not in _KIND_BY_SCHEME:
        raise ConfigError(
            f"database {name}: unknown type; its URL must start with sqlite:, postgresql:// or mysql:// (also postgres:// and mariadb://)"
        )
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises ValueError if the port is not valid
    except ValueError as error:
        raise ConfigError(f"database {name}: its address cannot be read; write {scheme}://USER@HOST:PORT/DATABASE") from error
    return _parse_server_address(name, _KIND_BY_SCHEME[scheme], parts, environ)


def _parse_server_address(name: str, kind: DatabaseKind, parts: SplitResult, environ: Mapping[str, str]) -> Database:
    options = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
    if unknown := next((key for key in options if key not in _OPTIONS), None):
        raise ConfigError(f"database {name}: unknown option ?{unknown[:40]}=; choose from {', '.join(_OPTIONS)}")
    database = unquote(parts.path.removeprefix("/"))
    if not parts.username or not database:
        raise ConfigError(f"database {name}: user or database is missing, as in {parts.scheme}://USER@HOST:PORT/DATABASE")
    host = parts.hostname or "127.0.0.1"
    is_local = bool(options.get("socket")) or host in _LOCAL_HOSTS
    return Database(
        name=name,
        kind=kind,
        host=host,
        port=parts.port or _DEFAULT_PORTS[kind],
        socket=options.get("socket", ""),
        user=unquote(parts.username),
        password=_resolve_password(name, unquote(parts.password or ""), options.get("password_env"), environ),
        database=database,
        tls=_should_use_tls(name, options.get("tls"), is_local),
    )


def _resolve_password(name: str, password: str, variable: str | None, environ: Mapping[str, str]) -> str:
    if variable is None:
        return password
    if not environ.get(variable):
        raise ConfigError(f"database {name}: the environment variable {variable} is empty or not set; export the password in it")
    return environ[variable]


def _should_use_tls(name: str, setting: str | None, is_local: bool) -> bool:
    if setting not in (None, "on", "off"):
        raise ConfigError(f"database {name}: unknown value of tls; write tls=on or tls=off")
    return not is_local if setting is None else setting == "on"
