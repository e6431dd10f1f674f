"""The one frozen envelope that every deed is recorded in."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field

Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]
"""A time that says in which zone: others cannot be compared with it."""
Visibility = Literal["public", "private", "system"]

SCHEMA_VERSION = 1

SCOPE_FIELDS = ("agent", "parent", "child", "task", "mission", "goal", "run")
"""The envelope's fields that place an event in a scope."""


class Cut(Struct, frozen=True, kw_only=True):
    """A string that was too long: where it stood, its full size, and its SHA-256 in hex."""

    path: str
    bytes: int
    sha256: str


class LogPlace(Struct, frozen=True, kw_only=True):
    """The log and the position from which an event was shipped."""

    id: str
    position: str


class Origin(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the envelope cannot hold of a foreign record, so that export gives it back whole."""

    dialect: str
    source: str | None = None
    """File or stream that it came from."""
    n: int | None = None
    """Its place in that source: the line number, from one."""
    id: str | None = None
    """The record's own id, where that is no UUID."""
    at: str | None = None
    """The record's own time, where `at` cannot say it as it was written."""
    rest: Any = None
    """Whatever else the dialect needs to write the record again."""
    cut: tuple[Cut, ...] = ()
    redacted: int = 0
    """How many secrets were taken out."""
    log: LogPlace | None = None


class Mac(Struct, frozen=True, kw_only=True):
    """A seal over the canonical JSON: the key's name and the HMAC-SHA-256 in hex."""

    key: str
    hex: str


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One deed. Only `kind` and someone who did it are needed; the log fills `id` and `at`."""

    id: str | None = None
    at: Moment | None = None
    """When it happened: aware; kept in UTC to the microsecond."""
    kind: str
    actor: str | None = None
    """Who did it; `agent` where it is not given."""
    agent: str | None = None
    parent: str | None = None
    child: str | None = None
    task: str | None = None
    mission: str | None = None
    goal: str | None = None
    run: str | None = None
    cause: str | None = None
    """Id of the event that led to this one."""
    trace: str | None = None
    """W3C `traceparent`."""
    old_state: str | None = None
    new_state: str | None = None
    text: str | None = None
    """One human line. Always treat it as hostile."""
    visibility: Visibility = "public"
    data: dict[str, Any] = field(default_factory=dict)
    origin: Origin | None = None
    mac: Mac | None = None
    # A factory, because a plain default would be omitted from the JSON.
    v: int = field(default_factory=lambda: SCHEMA_VERSION)
    position: str | None = None
    """Where the log keeps it. Given by the log, ignored on input, no part of the canonical JSON."""
