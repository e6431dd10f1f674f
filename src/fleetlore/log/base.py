"""The seam between the recorder and its backends, and the rules of scopes.

A backend stores records that are already stamped, checked and redacted. It is plain synchronous
code; the recorder adds threads for asyncio. Every backend passes `tests/contract/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple, Protocol, TypeAlias

from msgspec import Struct, field
from msgspec.structs import astuple

from fleetlore.errors import InvalidScope, LogError
from fleetlore.events.envelope import SCOPE_FIELDS, Event
from fleetlore.events.names import is_name

Position: TypeAlias = str
"""Opaque; text order is log order; one and the same in every scope of a town."""

TOWN = "town"
SCOPE_KINDS = ("agent", "mission", "task", "goal", "run", "source")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
MAX_APPEND_EVENTS = 500
MAX_APPEND_BYTES = 1 << 20
PAGE_SIZE = 500

# An agent's scope also holds what it did as a parent or a child.
_SCOPE_PREFIXES = tuple("agent:" if name in ("parent", "child") else f"{name}:" for name in SCOPE_FIELDS)
_SCOPE_FIELDS_SLICE = slice(Event.__struct_fields__.index(SCOPE_FIELDS[0]), Event.__struct_fields__.index(SCOPE_FIELDS[-1]) + 1)


# Neither can be part of a cycle, and there are many of them: the garbage collector need not look at them.
class Record(Struct, frozen=True, gc=False):
    """One event, ready to be stored: what a backend indexes, and the canonical JSON."""

    id: str
    at: datetime
    kind: str
    scopes: tuple[str, ...]
    """Every scope that the event names, `town` excepted, none twice."""
    raw: bytes
    key: bytes
    """The sixteen bytes of the id."""
    moment: int
    """The time in microseconds since 1970."""
    minted: bool = False
    """Whether the id was made just now, so that no log can know it yet."""


class StoredRecord(Struct, frozen=True, gc=False):
    """One stored record: its position and its bytes as they were written."""

    position: Position
    raw: bytes


class Expect(Struct, frozen=True):
    """Append only if the scope's newest event is still at `head` (`None`: if it has none)."""

    scope: str
    head: Position | None


class AppendBatch(Struct, frozen=True):
    """One append: all of it is stored, or nothing."""

    records: Sequence[Record]
    expect: Expect | None = None


AppendOutcome: TypeAlias = list[Position] | LogError
"""What became of one batch: a position for each record, or the reason why nothing was stored."""


class LogQuery(Struct, frozen=True, kw_only=True):
    """Which stored records to read."""

    scope: str = TOWN
    after: Position | None = None
    before: Position | None = None
    kinds: tuple[str, ...] = ()
    """Kinds, or families such as `town.*`; none means all."""
    since: datetime | None = None
    newest_first: bool = False
    limit: int = PAGE_SIZE


class TailPage(NamedTuple):
    """What a follower is given at once. `gap` is the last position that was trimmed away before it was read."""

    rows: list[StoredRecord]
    gap: Position | None = None


class LogTail(Protocol):
    """A cursor that waits for what comes next in one scope. Holds no read transaction while it waits."""

    def next_page(self, timeout: float) -> TailPage:
        """The next records, waiting at most `timeout` seconds; an empty page when nothing came."""

    def close(self) -> None:
        """End it; a `next` that waits in another thread returns at once."""


class LogInfo(Struct, frozen=True, kw_only=True):
    """What a log is and what it promises."""

    backend: str
    town: str
    log_id: str
    """The town's log, wherever it is shipped to."""
    events: int
    first: Position | None
    head: Position | None
    trimmed_before: Position | None
    """Everything before this position was trimmed."""
    bytes: int
    dedup: str
    """For how long the same id is known again."""
    durability: str
    details: dict[str, Any] = field(default_factory=dict)


class Backend(Protocol):
    """One place to keep one town's records."""

    def commit(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome]:
        """Store several appends with one durable write; each is all or nothing by itself."""

    def read(self, query: LogQuery) -> list[StoredRecord]:
        """At most `query.limit` records, in the order asked for."""

    def tail(self, scope: str, after: Position | None) -> LogTail:
        """Wait for what follows `after` in a scope."""

    def get(self, ids: Sequence[str]) -> list[StoredRecord]:
        """The records with these ids that are here, in log order."""

    def head(self, scope: str) -> Position | None:
        """The position of the newest record in a scope."""

    def trim(self, before: Position) -> int:
        """Drop every record of the town before a position; answers how many."""

    def erase(self, ids: Sequence[str], fact: Record) -> int:
        """Drop these records, refuse their ids for ever, and store `fact`, all at once; answers how many were here."""

    def info(self) -> LogInfo:
        """What this log is, how large, and what it promises."""

    def close(self) -> None:
        """Let go of files and connections; waiting tails return."""


def event_scopes(event: Event) -> tuple[str, ...]:
    """Every scope that an event names, `town` excepted."""
    scopes = _cached_scopes(astuple(event)[_SCOPE_FIELDS_SLICE])
    if event.origin is not None and event.origin.log is not None:
        scopes = (*scopes, f"source:{event.origin.log.id}")
    return scopes


def scopes_from_names(names: tuple[str | None, ...]) -> tuple[str, ...]:
    """The scopes that the names in the envelope's scope fields come to."""
    scopes = [prefix + name for prefix, name in zip(_SCOPE_PREFIXES, names, strict=True) if name is not None]
    return tuple(dict.fromkeys(scopes))  # an agent may be named twice, as its own parent or child


_cached_scopes = lru_cache(maxsize=4096)(scopes_from_names)  # every task brings names that never come again


def check_scope(scope: str) -> str:
    """The scope itself, if it is one."""
    kind, colon, value = scope.partition(":")
    if scope == TOWN or (colon and kind in SCOPE_KINDS and is_name(value)):
        return scope
    raise InvalidScope(f"no such scope: {scope!r}; say `town`, or {', '.join(f'`{kind}:NAME`' for kind in SCOPE_KINDS)}")


def matches_kind(kind: str, wanted: Sequence[str]) -> bool:
    """Whether a kind is one of those wanted, or of a family such as `town.*`."""
    return not wanted or any(kind.startswith(want[:-1]) if want.endswith(".*") else kind == want for want in wanted)


def epoch_microseconds(moment: datetime) -> int:
    """A time as it is kept: microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def hash_event_id(id: str) -> bytes:
    """What is remembered of an erased event: the SHA-256 of its id."""
    return sha256(id.encode()).digest()


def position_after(position: Position) -> Position:
    """A place with nothing between it and a position."""
    return f"{int(position) + 1:0{len(position)}d}"
