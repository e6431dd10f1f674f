"""The event envelope: one frozen struct for everything that is recorded."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field

Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]
"""A timezone-aware time."""
Visibility = Literal["public", "private", "system"]

SCHEMA_VERSION = 1

SCOPE_FIELDS = ("agent", "parent", "child", "task", "mission", "goal", "run")
"""Envelope fields that assign an event to a scope."""


class Cut(Struct, frozen=True, kw_only=True):
    """A string that was truncated: its path, full size, and SHA-256 in hex."""

    path: str
    bytes: int
    sha256: str


class LogPlace(Struct, frozen=True, kw_only=True):
    """The log and position from which an event was shipped."""

    id: str
    position: str


class Origin(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the envelope cannot hold of a foreign record, so that export can restore it completely."""

    dialect: str
    source: str | None = None
    """File or stream that it came from."""
    n: int | None = None
    """Its line number in that source, from one."""
    id: str | None = None
    """The record's own id, if it is not a UUID."""
    at: str | None = None
    """The record's own time, if `at` cannot represent it as written."""
    rest: Any = None
    """Whatever else the dialect needs to write the record again."""
    cut: tuple[Cut, ...] = ()
    redacted: int = 0
    """Number of secrets removed."""
    log: LogPlace | None = None


class Mac(Struct, frozen=True, kw_only=True):
    """A signature over the canonical JSON: key id and HMAC-SHA-256 in hex."""

    key: str
    hex: str


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One recorded event. Only `kind` and an actor are required; the log adds `id` and `at`."""

    id: str | None = None
    at: Moment | None = None
    """When it happened: timezone-aware; stored in UTC with microseconds."""
    kind: str
    actor: str | None = None
    """Who did it; defaults to `agent`."""
    agent: str | None = None
    parent: str | None = None
    child: str | None = None
    task: str | None = None
    mission: str | None = None
    goal: str | None = None
    run: str | None = None
    cause: str | None = None
    """Id of the event that caused this one."""
    trace: str | None = None
    """W3C `traceparent`."""
    old_state: str | None = None
    new_state: str | None = None
    text: str | None = None
    """One line for people. Always treat it as untrusted."""
    visibility: Visibility = "public"
    data: dict[str, Any] = field(default_factory=dict)
    origin: Origin | None = None
    mac: Mac | None = None
    # A factory because a plain default would be omitted from the JSON.
    v: int = field(default_factory=lambda: SCHEMA_VERSION)
    position: str | None = None
    """Position in the log. Set by the log, ignored on input, not part of the canonical JSON."""


LONGEST_NAME = 200
"""Bytes of UTF-8."""


def is_name(value: str) -> bool:
    """Return whether a value can name a scope: 1 to 200 bytes of UTF-8, no control characters."""
    if value.isascii():
        return 0 < len(value) <= LONGEST_NAME and value.isprintable()
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return False
    return size <= LONGEST_NAME and not any(character < " " or "\x7f" <= character <= "\x9f" for character in value)
