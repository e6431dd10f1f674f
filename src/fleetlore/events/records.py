"""`notify.*`, `log.*`: events about notifications and the log itself."""

from __future__ import annotations

from typing import ClassVar

from fleetlore.events.payload import Beat, Payload


class NotifySent(Payload, frozen=True, kw_only=True):
    """A notification was sent."""

    kind: ClassVar[str] = "notify.sent"
    beat: ClassVar[Beat] = "pulse"
    rule: str
    event: str | None = None
    """Id of the event that triggered it."""
    when: str | None = None
    """What the rule waits for: `needs you`, a kind, an arc."""
    arc: str | None = None
    via: str | None = None
    """`webhook`, `command` or `browser`."""
    to: str | None = None
    """The host of a webhook or the program of a command; the rest may be secret."""
    ok: bool | None = None
    attempts: int | None = None
    error: str | None = None


class LogGap(Payload, frozen=True, kw_only=True):
    """A reader missed events that were trimmed before it read them."""

    kind: ClassVar[str] = "log.gap"
    beat: ClassVar[Beat] = "pulse"
    after: str | None = None
    """The position up to which it had read."""
    through: str
    """The last trimmed position; the reader continues after it."""


class LogRejected(Payload, frozen=True, kw_only=True):
    """A record could not be imported or read."""

    kind: ClassVar[str] = "log.rejected"
    beat: ClassVar[Beat] = "pulse"
    reason: str
    source: str | None = None
    """File or stream."""
    n: int | None = None
    """Its line or number in the source, from one."""
    dialect: str | None = None
    sample: str | None = None
    """Its first 2 KiB, redacted."""
    bytes: int | None = None


class LogTrimmed(Payload, frozen=True, kw_only=True):
    """The oldest part of the log was deleted."""

    kind: ClassVar[str] = "log.trimmed"
    beat: ClassVar[Beat] = "pulse"
    before: str
    events: int | None = None
    last: str | None = None
    """The last deleted position."""
    log: str | None = None
    """The id of the log that was trimmed; copies of it were not."""
    counts: dict[str, int] | None = None
    """Number of events per kind."""
    agents: dict[str, int] | None = None
    """Number of events per agent, for the busiest agents."""
    input: int | None = None
    """Tokens, as on `model.replied`."""
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    usd: float | None = None
    first_at: str | None = None
    last_at: str | None = None


class LogForgotten(Payload, frozen=True, kw_only=True):
    """Events were erased permanently."""

    kind: ClassVar[str] = "log.forgotten"
    beat: ClassVar[Beat] = "pulse"
    count: int
    reason: str
    id_hashes: tuple[str, ...]
    """SHA-256 of each id, in hex: enough to reject the id, not to recover it."""
