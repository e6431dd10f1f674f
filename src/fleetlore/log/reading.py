"""Stored records given back as events; one that cannot be read becomes a `log.rejected`, never an exception."""

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
    """The event of a stored record, with its position."""
    try:
        event = codec.decode(stored.raw)
    except InvalidEvent as error:
        event = _make_rejected_event(stored.raw, str(error))
    force_setattr(event, "position", stored.position)  # nobody else holds this event yet
    return event


def decode_all_stored(rows: Sequence[StoredRecord]) -> list[Event]:
    """The events of several records, in less time than one by one."""
    events = decode_without_positions(rows)
    assign_positions(events, rows)
    return events


def decode_without_positions(rows: Sequence[StoredRecord]) -> list[Event]:
    """The same, for those who do not ask an event for its position: most have none."""
    try:
        events = list(map(_decode, map(_get_raw, rows)))
    except _DECODE_ERRORS:
        return list(map(decode_stored, rows))  # which tells of each what is the matter with it
    return events if _CURRENT_VERSIONS.issuperset(map(_get_version, events)) else list(map(decode_stored, rows))


def assign_positions(events: Iterable[Event], rows: Iterable[StoredRecord]) -> None:
    """Give events that nobody else holds yet the positions of their records."""
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
    """What a follower is told when events that it had not seen were trimmed away; it goes on behind them."""
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
