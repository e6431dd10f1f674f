"""Ring buffer of the newest events, each encoded once for all clients. Pure: the feed fills it, clients read it.

Entries are numbered from the ring's first one; a client is the number it reads next. Clients at the same number with
the same filter share one `Batch`, so a thousand of them share the same bytes.
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
"""Bytes written to a client at once. A slow client costs this and what its socket buffers."""
MOST_BATCHES = 64
"""Batches shared at once. Without a limit, clients that reconnect at many positions would each leave one behind."""

ERASURE = "log.forgotten"

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode = msgspec.json.Decoder(Event).decode
_position = attrgetter("position")


# `gc=False`: there are many of them, and they are never part of a cycle.
class EncodedEvent(Struct, frozen=True, gc=False):
    """One event, encoded for sending."""

    position: Position
    kind: str
    scopes: tuple[str, ...] | None
    """`None`: sent to everybody, whatever they asked for."""
    chunk: bytes
    """As a server-sent event."""
    start: int
    """Offset of the JSON in the chunk."""

    @property
    def json(self) -> bytes:
        """The event's JSON with its position."""
        return self.chunk[self.start : -2]


class EventFilter(Struct, frozen=True):
    """What a client asked for. Gaps are sent to everybody."""

    scope: str = TOWN
    kinds: tuple[str, ...] = ()

    @property
    def is_all(self) -> bool:
        """Whether nothing is filtered out."""
        return self.scope == TOWN and not self.kinds

    def select_entries(self, entries: Sequence[EncodedEvent]) -> Sequence[EncodedEvent]:
        """The entries that match."""
        if self.is_all:
            return entries
        # Computed once for all entries: thousands of clients may each name many kinds.
        families = tuple(kind[:-1] for kind in self.kinds if kind.endswith(".*"))
        return [entry for entry in entries if entry.scopes is None or self._matches_event(entry, entry.scopes, families)]

    def _matches_event(self, entry: EncodedEvent, scopes: tuple[str, ...], families: tuple[str, ...]) -> bool:
        if self.scope != TOWN and self.scope not in scopes:
            return False
        return not self.kinds or entry.kind in self.kinds or entry.kind.startswith(families)


class Batch:
    """Consecutive entries that are sent together; an empty one is a heartbeat."""

    def __init__(self, entries: Sequence[EncodedEvent]) -> None:
        self.entries = entries

    @cached_property
    def chunks(self) -> bytes:
        """All of them as server-sent events."""
        return b"".join([entry.chunk for entry in self.entries])


class Ring:
    """A bounded, gapless sequence of entries; the oldest are dropped first."""

    def __init__(self, *, most_events: int = MOST_EVENTS, most_bytes: int = MOST_BYTES) -> None:
        self._most_events, self._most_bytes = most_events, most_bytes
        self._entries: list[EncodedEvent] = []
        self._ends: list[int] = []
        """Cumulative bytes up to and including each entry, since the first entry ever."""
        self._dropped_bytes = 0
        self._batches: dict[tuple[EventFilter, int, int], Batch] = {}
        self.first = 0
        """Number of the oldest entry in the ring."""
        self.base: Position = ""
        """Everything after this position is in the ring."""

    @property
    def end(self) -> int:
        """The number of the next entry."""
        return self.first + len(self._entries)

    @property
    def newest(self) -> Position:
        """The position up to which the log was read."""
        return self._entries[-1].position if self._entries else self.base

    def add(self, entries: Sequence[EncodedEvent]) -> None:
        """Add entries and drop old ones beyond the limits."""
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
            self._drop_oldest(excess)

    def _place_of_erasure(self, start: int) -> int:
        """Index of the newest `log.forgotten`: entries before it may have been erased and must not be sent any more."""
        return max((n for n in range(start, len(self._entries)) if self._entries[n].kind == ERASURE), default=0)

    def _drop_oldest(self, count: int) -> None:
        self.base = self._entries[count - 1].position
        self._dropped_bytes = self._ends[count - 1]
        self.first += count
        del self._entries[:count], self._ends[:count]

    def clear(self) -> None:
        """Drop everything; new entries follow after it."""
        self._batches.clear()
        if self._entries:
            self._drop_oldest(len(self._entries))

    def find_place(self, position: Position) -> int:
        """The number of the first entry after a position in the ring."""
        return self.first + bisect_right(self._entries, position, key=_position)

    def holds_position(self, position: Position) -> bool:
        """Whether everything after a position is or will be here. Only positions of equal length can be compared."""
        newest = self.newest
        return len(position) == len(newest) and self.base <= position <= newest

    def make_batch(self, wanted: EventFilter, start: int) -> tuple[Batch, int]:
        """The next batch at a number, and the number after it."""
        index = start - self.first
        before = self._ends[index - 1] if index else self._dropped_bytes
        stop = max(index + 1, bisect_right(self._ends, before + BATCH_BYTES, index))
        key = (wanted, start, self.first + stop)
        batch = self._batches.get(key)
        if batch is None:
            if len(self._batches) >= MOST_BATCHES:
                self._batches.clear()
            batch = self._batches[key] = Batch(wanted.select_entries(self._entries[index:stop]))
        return batch, key[2]


def iterate_entries(page: TailPage, after: Position | None) -> Iterator[EncodedEvent]:
    """Encode a follower's page; the gap comes first."""
    if page.gap is not None:
        event = make_gap_event(after, page.gap)
        yield _make_entry(page.gap, codec.encode_with_position(event), event.kind, None)
    for stored in page.rows:
        event, json = decode_with_json(stored)
        yield _make_entry(stored.position, json, event.kind, event_scopes(event))


def decode_with_json(stored: StoredRecord) -> tuple[Event, bytes]:
    """Decode a stored record; also return its JSON with the position, reusing the stored bytes if possible."""
    raw = stored.raw
    try:
        event = _decode(raw)
    except _UNREADABLE:
        return _reencode_record(stored)
    if event.v != SCHEMA_VERSION or event.position is not None or raw[-1:] != b"}" or b"\n" in raw or b"\r" in raw:
        return _reencode_record(stored)
    return event, b'%b,"position":"%b"}' % (raw[:-1], stored.position.encode())


def _reencode_record(stored: StoredRecord) -> tuple[Event, bytes]:
    """Re-encode a record of an older version, one with line breaks, or one that cannot be read."""
    event = decode_stored(stored)
    return event, codec.encode_with_position(event)


def _make_entry(position: Position, json: bytes, kind: str, scopes: tuple[str, ...] | None) -> EncodedEvent:
    head = b"id: %b\ndata: " % position.encode()
    return EncodedEvent(position, kind, scopes, b"%b%b\n\n" % (head, json), len(head))
