"""The newest events of the log, each encoded once for everybody who watches. Pure: the feed fills it, its clients read it.

An entry's number counts from the ring's first one and never changes; a client is the number that it reads next. Whoever
stands at the same number and wants the same is given the same `Batch`, so that a thousand of them share one piece of bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from operator import attrgetter

import msgspec
from msgspec import Struct

from fleetlore.events import codec
from fleetlore.events.envelope import SCHEMA_VERSION, Event
from fleetlore.log.base import TOWN, Position, StoredRecord, TailPage, event_scopes
from fleetlore.log.reading import decode_stored, make_gap_event

MOST_EVENTS = 16_384
MOST_BYTES = 64 << 20
BATCH_BYTES = 64 << 10
"""What is written to a client at once; so much, and what the socket holds, is all that a slow one costs."""
MOST_BATCHES = 64
"""So many are shared at once: while nothing new comes, clients that come back at many places would each leave theirs behind."""

ERASURE = "log.forgotten"

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode = msgspec.json.Decoder(Event).decode
_position = attrgetter("position")


# Never part of a cycle, and there are many of them: the garbage collector need not look at them.
class Entry(Struct, frozen=True, gc=False):
    """One event, ready to be sent."""

    position: Position
    kind: str
    scopes: tuple[str, ...] | None
    """`None`: it concerns everybody, whatever they asked for."""
    chunk: bytes
    """As server-sent event."""
    start: int
    """Where the JSON begins in the chunk."""

    @property
    def json(self) -> bytes:
        """The event's JSON with its position."""
        return self.chunk[self.start : -2]


class Wanted(Struct, frozen=True):
    """What a client asked for. A gap is told to everybody."""

    scope: str = TOWN
    kinds: tuple[str, ...] = ()

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.scope == TOWN and not self.kinds

    def chosen(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Those that are wanted."""
        if self.is_all:
            return entries
        # Told apart once for all entries: thousands of clients may each name many kinds.
        families = tuple(kind[:-1] for kind in self.kinds if kind.endswith(".*"))
        return [entry for entry in entries if entry.scopes is None or self._wants(entry, entry.scopes, families)]

    def _wants(self, entry: Entry, scopes: tuple[str, ...], families: tuple[str, ...]) -> bool:
        if self.scope != TOWN and self.scope not in scopes:
            return False
        return not self.kinds or entry.kind in self.kinds or entry.kind.startswith(families)


class Batch:
    """Some entries in a row, to be sent together; an empty one is a sign of life."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries

    @cached_property
    def chunks(self) -> bytes:
        """All of them as server-sent events."""
        return b"".join([entry.chunk for entry in self.entries])


class Ring:
    """A bounded run of entries without a hole; what is oldest goes first."""

    def __init__(self, *, most_events: int = MOST_EVENTS, most_bytes: int = MOST_BYTES) -> None:
        self._most_events, self._most_bytes = most_events, most_bytes
        self._entries: list[Entry] = []
        self._ends: list[int] = []
        """Bytes up to and with each entry, counted from the first that ever was."""
        self._dropped_bytes = 0
        self._batches: dict[tuple[Wanted, int, int], Batch] = {}
        self.first = 0
        """The number of the oldest entry that is still here."""
        self.base: Position = ""
        """Everything behind this position is here."""

    @property
    def end(self) -> int:
        """The number that the next entry will have."""
        return self.first + len(self._entries)

    @property
    def newest(self) -> Position:
        """The position up to which the log was read."""
        return self._entries[-1].position if self._entries else self.base

    def add(self, entries: Sequence[Entry]) -> None:
        """Take entries in, and let go of as many old ones as it takes."""
        self._batches.clear()
        total = self._ends[-1] if self._ends else self._dropped_bytes
        for entry in entries:
            total += len(entry.chunk)
            self._ends.append(total)
        self._entries += entries
        excess = max(
            len(self._entries) - self._most_events,
            bisect_right(self._ends, total - self._most_bytes),
            self._place_of_erasure(len(self._entries) - len(entries)),
        )
        if excess > 0:
            self._drop(excess)

    def _place_of_erasure(self, start: int) -> int:
        """What stands before a `log.forgotten` may have been erased: nobody is given it from here any more."""
        return max((n for n in range(start, len(self._entries)) if self._entries[n].kind == ERASURE), default=0)

    def _drop(self, count: int) -> None:
        self.base = self._entries[count - 1].position
        self._dropped_bytes = self._ends[count - 1]
        self.first += count
        del self._entries[:count], self._ends[:count]

    def clear(self) -> None:
        """Let go of everything; what comes next comes behind it."""
        self._batches.clear()
        if self._entries:
            self._drop(len(self._entries))

    def place_of(self, position: Position) -> int:
        """The number of the first entry behind a position that lies in the ring."""
        return self.first + bisect_right(self._entries, position, key=_position)

    def holds(self, position: Position) -> bool:
        """Whether all that follows a position is here, or will be. Only positions of equal length can be compared."""
        newest = self.newest
        return len(position) == len(newest) and self.base <= position <= newest

    def batch(self, wanted: Wanted, start: int) -> tuple[Batch, int]:
        """What comes next at a number, as much as is sent at once, and the number behind it."""
        index = start - self.first
        before = self._ends[index - 1] if index else self._dropped_bytes
        stop = max(index + 1, bisect_right(self._ends, before + BATCH_BYTES, index))
        key = (wanted, start, self.first + stop)
        batch = self._batches.get(key)
        if batch is None:
            if len(self._batches) >= MOST_BATCHES:
                self._batches.clear()
            batch = self._batches[key] = Batch(wanted.chosen(self._entries[index:stop]))
        return batch, key[2]


def entries_of(page: TailPage, after: Position | None) -> Iterator[Entry]:
    """A follower's page, ready to be sent: the gap first."""
    if page.gap is not None:
        event = make_gap_event(after, page.gap)
        yield _entry(page.gap, codec.encode_with_position(event), event.kind, None)
    for stored in page.rows:
        event, json = told(stored)
        yield _entry(stored.position, json, event.kind, event_scopes(event))


def told(stored: StoredRecord) -> tuple[Event, bytes]:
    """A stored record as an event, and as JSON with its position: its own bytes, wherever they can be sent as they are."""
    raw = stored.raw
    try:
        event = _decode(raw)
    except _UNREADABLE:
        return _told_anew(stored)
    if event.v != SCHEMA_VERSION or event.position is not None or raw[-1:] != b"}" or b"\n" in raw or b"\r" in raw:
        return _told_anew(stored)
    return event, b'%b,"position":"%b"}' % (raw[:-1], stored.position.encode())


def _told_anew(stored: StoredRecord) -> tuple[Event, bytes]:
    """One that is of an older version, spread over lines, or not readable at all."""
    event = decode_stored(stored)
    return event, codec.encode_with_position(event)


def _entry(position: Position, json: bytes, kind: str, scopes: tuple[str, ...] | None) -> Entry:
    head = b"id: %b\ndata: " % position.encode()
    return Entry(position, kind, scopes, b"%b%b\n\n" % (head, json), len(head))
