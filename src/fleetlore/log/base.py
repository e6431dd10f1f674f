"""Contract between the recorders and the storage backends, and the rules for scopes.

The recorder stamps, validates and redacts events (`admission.py`) and hands them to a backend as `Record`s.
Backends are plain synchronous code; the async recorder adds threads. Every backend passes `tests/contract/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from time import monotonic
from typing import Any, NamedTuple, Protocol, TypeAlias

from msgspec import Struct, field
from msgspec.structs import astuple

from fleetlore.errors import Invalid, InvalidScope, LogError
from fleetlore.events.envelope import SCOPE_FIELDS, Event, is_name

Position: TypeAlias = str
"""Opaque text. Sorting positions as text gives log order; an event has the same position in every scope of its town."""

TOWN = "town"
SCOPE_KINDS = ("agent", "mission", "task", "goal", "run", "source")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
MAX_APPEND_EVENTS = 500
MAX_APPEND_BYTES = 1 << 20
PAGE_SIZE = 500
RECHECK_SECONDS = 60.0
"""How long a server's settings are trusted while a log is in use."""

# An agent's scope also holds what it did as a parent or a child.
_SCOPE_PREFIXES = tuple("agent:" if name in ("parent", "child") else f"{name}:" for name in SCOPE_FIELDS)
_SCOPE_FIELDS_SLICE = slice(Event.__struct_fields__.index(SCOPE_FIELDS[0]), Event.__struct_fields__.index(SCOPE_FIELDS[-1]) + 1)


# gc=False: records cannot be part of a reference cycle, and there are many, so the garbage collector can skip them.
class Record(Struct, frozen=True, gc=False):
    """An event ready to be stored: its canonical JSON and the values that a backend indexes."""

    id: str
    at: datetime
    kind: str
    scopes: tuple[str, ...]
    """Every scope that the event belongs to except `town`, without duplicates."""
    raw: bytes
    key: bytes
    """The id as 16 bytes."""
    moment: int
    """The time in microseconds since 1970."""
    minted: bool = False
    """Whether the id was generated just now, so that no log can contain it yet."""
    blobs: bytes = b""
    """Its whole texts, packed (`blobs.py`); empty if nothing was cut, or they are not kept."""


class StoredRecord(Struct, frozen=True, gc=False):
    """A stored record: its position and the bytes as they were written."""

    position: Position
    raw: bytes


class Expect(Struct, frozen=True):
    """Condition of an append: the scope's newest event is still at `head` (`None`: the scope is still empty)."""

    scope: str
    head: Position | None


class AppendBatch(Struct, frozen=True):
    """Records that are appended together: all are stored, or none."""

    records: Sequence[Record]
    expect: Expect | None = None


AppendOutcome: TypeAlias = list[Position] | LogError
"""Result of one batch: a position per record, or the error that says why nothing was stored."""


class LogQuery(Struct, frozen=True, kw_only=True):
    """Selects stored records."""

    scope: str = TOWN
    after: Position | None = None
    before: Position | None = None
    kinds: tuple[str, ...] = ()
    """Kinds, or families such as `town.*`; empty means all."""
    since: datetime | None = None
    newest_first: bool = False
    limit: int = PAGE_SIZE


class TailPage(NamedTuple):
    """New records for a follower. `gap` is the last position that was trimmed before the follower read it."""

    rows: list[StoredRecord]
    gap: Position | None = None


class LogTail(Protocol):
    """A cursor that waits for new records in one scope. It holds no read transaction while it waits."""

    def next_page(self, timeout: float) -> TailPage:
        """Return the next records; wait at most `timeout` seconds. The page is empty when nothing arrived."""

    def close(self) -> None:
        """Close the cursor. A `next_page` that waits in another thread returns at once."""


class LogInfo(Struct, frozen=True, kw_only=True):
    """What a log contains and what it guarantees."""

    backend: str
    town: str
    log_id: str
    """Identity of the town's log; stays the same when it is shipped elsewhere."""
    events: int
    first: Position | None
    head: Position | None
    trimmed_before: Position | None
    """Everything before this position was trimmed."""
    bytes: int
    dedup: str
    """How long a repeated id is recognised."""
    durability: str
    details: dict[str, Any] = field(default_factory=dict)


class PeriodicCheck:
    """Says when the settings of a server are to be checked again: every minute, and at every use while they are unsafe."""

    def __init__(self) -> None:
        self._next_at = 0.0
        self.mark_passed()

    def is_due(self) -> bool:
        """Return whether to check now."""
        return monotonic() >= self._next_at

    def mark_passed(self) -> None:
        """Wait for a minute before the next check."""
        self._next_at = monotonic() + RECHECK_SECONDS


class Backend(Protocol):
    """Storage for the records of one town."""

    def commit(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome]:
        """Store several batches with one durable write; each batch is all or nothing by itself.

        The whole texts of a record are stored with it or before it.
        """

    def read(self, query: LogQuery) -> list[StoredRecord]:
        """Return at most `query.limit` records, in the requested order."""

    def tail(self, scope: str, after: Position | None) -> LogTail:
        """Return a cursor that waits for records after `after` in a scope."""

    def get(self, ids: Sequence[str]) -> list[StoredRecord]:
        """Return the records with these ids that exist, in log order."""

    def get_blobs(self, id: str) -> bytes | None:
        """Return the packed whole texts of a record, or `None`. The caller checks that the record exists."""

    def head(self, scope: str) -> Position | None:
        """Return the position of the newest record in a scope."""

    def trim(self, before: Position) -> int:
        """Delete every record of the town before a position, with their whole texts; return the number of records."""

    def erase(self, ids: Sequence[str], forgotten_event: Record) -> int:
        """Delete these records with their whole texts, reject their ids forever and store `forgotten_event`, in one step.

        Return how many existed.
        """

    def info(self) -> LogInfo:
        """Describe this log: backend, size, guarantees."""

    def close(self) -> None:
        """Close files and connections; waiting tails return."""


def event_scopes(event: Event) -> tuple[str, ...]:
    """Return every scope that an event belongs to, except `town`."""
    scopes = _cached_scopes(astuple(event)[_SCOPE_FIELDS_SLICE])
    if event.origin is not None and event.origin.log is not None:
        scopes = (*scopes, f"source:{event.origin.log.id}")
    return scopes


def scopes_from_names(names: tuple[str | None, ...]) -> tuple[str, ...]:
    """Return the scopes for the values of the envelope's scope fields, in the order of `SCOPE_FIELDS`."""
    scopes = [prefix + name for prefix, name in zip(_SCOPE_PREFIXES, names, strict=True) if name is not None]
    return tuple(dict.fromkeys(scopes))  # an agent may appear twice, as its own parent or child


_cached_scopes = lru_cache(maxsize=4096)(scopes_from_names)  # bounded: every task adds names that are not used again


def check_scope(scope: str) -> str:
    """Return the scope unchanged; raise `InvalidScope` if it is not one."""
    kind, colon, value = scope.partition(":")
    if scope == TOWN or (colon and kind in SCOPE_KINDS and is_name(value)):
        return scope
    raise InvalidScope(f"unknown scope: {scope!r}; use `town` or {', '.join(f'`{kind}:NAME`' for kind in SCOPE_KINDS)}")


def matches_kind(kind: str, wanted: Sequence[str]) -> bool:
    """Return whether a kind is one of `wanted` or belongs to a family such as `town.*`; empty `wanted` matches all."""
    return not wanted or any(kind.startswith(want[:-1]) if want.endswith(".*") else kind == want for want in wanted)


def epoch_microseconds(moment: datetime) -> int:
    """Convert a time to microseconds since 1970, the stored form."""
    return (moment - _EPOCH) // _MICROSECOND


def hash_event_id(id: str) -> bytes:
    """Return the SHA-256 of an id: all that is kept of an erased event."""
    return sha256(id.encode()).digest()


def position_after(position: Position) -> Position:
    """Return the smallest position greater than `position`."""
    return f"{int(position) + 1:0{len(position)}d}"


# --- positions of embedded backends: a sequence number, zero-padded so that text order is log order

_POSITION_DIGITS = 16  # enough for more events than the largest SQLite file can hold


def to_position(sequence: int) -> Position:
    """Convert a sequence number to a position."""
    return str(sequence).zfill(_POSITION_DIGITS)  # called for every event read; takes a third of the time of a format string


def to_stored_records(rows: Iterable[tuple[int, bytes]]) -> list[StoredRecord]:
    """Build stored records from (sequence, bytes) rows; inlines `to_position`, which is measurable when reading a log."""
    return [StoredRecord(str(sequence).zfill(_POSITION_DIGITS), raw) for sequence, raw in rows]


def to_sequence(position: Position) -> int:
    """Convert a position to a sequence number; raise `Invalid` if it is not a position of this log."""
    if position.isascii() and position.isdigit() and len(position) <= _POSITION_DIGITS:
        return int(position)
    raise Invalid(f"not a position of this log: {position!r}; take one as `lore events --json` prints it")


# --- leases, which `coordination.py` grants


class Lease(Struct, frozen=True, kw_only=True):
    """One acquisition of a lease: an exclusive right that expires.

    The holder passes its epoch (fencing token) on, and whatever it acts on rejects an epoch lower than it has seen, so a holder that
    was suspended past its expiry does no harm.
    """

    name: str
    holder: str
    epoch: int
    """Higher than every earlier epoch of this name on this log, forever; renewing keeps it."""
    until: datetime
    """Expiry unless renewed. A hint: the store decides by its own clock."""
    seconds: float
    """The requested duration."""


def next_epoch(last: int, now: int) -> int:
    """Return the epoch after `last` at time `now` (microseconds).

    It is at least the time, so epochs keep growing even if the last one was lost: after restoring a backup, or when a
    server lost its last second of writes.
    """
    return max(last + 1, now)


def seconds_to_microseconds(seconds: float) -> int:
    """Convert a lease duration to microseconds."""
    return timedelta(seconds=seconds) // _MICROSECOND


def make_lease(name: str, holder: str, epoch: int, until: int, seconds: float) -> Lease:
    """Build a lease from its stored values."""
    return Lease(name=name, holder=holder, epoch=epoch, until=_EPOCH + until * _MICROSECOND, seconds=seconds)
