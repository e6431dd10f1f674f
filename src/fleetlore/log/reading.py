"""Decodes stored records into events for the recorders. An unreadable record becomes a `log.rejected` event, not an exception."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import repeat
from operator import attrgetter

import msgspec
from msgspec.structs import force_setattr

from fleetlore import clock
from fleetlore.errors import InvalidEvent
from fleetlore.events import codec
from fleetlore.events.envelope import SCHEMA_VERSION, Event
from fleetlore.events.ids import derive_id
from fleetlore.log.base import Position, StoredRecord

REJECTED_SAMPLE_BYTES = 2048
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ACTOR = "fleetlore"
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode = msgspec.json.Decoder(Event).decode
_get_version, _get_raw, _get_position = attrgetter("v"), attrgetter("raw"), attrgetter("position")
_CURRENT_VERSIONS = {SCHEMA_VERSION}


def decode_stored(stored: StoredRecord) -> Event:
    """Decode a stored record; the event carries its position."""
    try:
        event = codec.decode_event(stored.raw)
    except InvalidEvent as error:
        event = _make_rejected_event(stored.raw, str(error))
    force_setattr(event, "position", stored.position)  # safe: nobody else has a reference to this event yet
    return event


def decode_all_stored(rows: Sequence[StoredRecord]) -> list[Event]:
    """Decode several records; faster than one by one."""
    events = decode_without_positions(rows)
    assign_positions(events, rows)
    return events


def decode_without_positions(rows: Sequence[StoredRecord]) -> list[Event]:
    """Like `decode_all_stored`, but leaves `position` unset, for callers that do not need it."""
    try:
        events = list(map(_decode, map(_get_raw, rows)))
    except _DECODE_ERRORS:
        return list(map(decode_stored, rows))  # the slow path reports each unreadable record
    return events if _CURRENT_VERSIONS.issuperset(map(_get_version, events)) else list(map(decode_stored, rows))


def assign_positions(events: Iterable[Event], rows: Iterable[StoredRecord]) -> None:
    """Set the positions of freshly decoded events from their records."""
    deque(map(force_setattr, events, repeat("position"), map(_get_position, rows)), maxlen=0)


def _make_rejected_event(raw: bytes, reason: str) -> Event:
    return Event(
        id=derive_id("log.rejected", raw),
        at=_EPOCH,
        kind="log.rejected",
        actor=_ACTOR,
        text="a stored record could not be read",
        visibility="system",
        data={"reason": reason, "bytes": len(raw), "sample": raw[:REJECTED_SAMPLE_BYTES].decode(errors="replace")},
    )


def make_gap_event(after: Position | None, through: Position) -> Event:
    """Return the `log.gap` event for a follower: events up to `through` were trimmed before it read them."""
    return Event(
        id=derive_id("log.gap", f"{after}/{through}".encode()),
        at=clock.now(),
        kind="log.gap",
        actor=_ACTOR,
        text="older events were trimmed away before they were read",
        visibility="system",
        data={"after": after, "through": through},
        position=through,
    )
