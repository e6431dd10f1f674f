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
from fleetlore.log.base import Position, Stored

SAMPLE = 2048
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ACTOR = "fleetlore"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode = msgspec.json.Decoder(Event).decode
_version, _raw, _position = attrgetter("v"), attrgetter("raw"), attrgetter("position")
_ONLY_OURS = {SCHEMA_VERSION}


def revive(stored: Stored) -> Event:
    """The event of a stored record, with its position."""
    try:
        event = codec.decode(stored.raw)
    except InvalidEvent as error:
        event = _rejected(stored.raw, str(error))
    force_setattr(event, "position", stored.position)  # nobody else holds this event yet
    return event


def revive_all(rows: Sequence[Stored]) -> list[Event]:
    """The events of several records, in less time than one by one."""
    events = unplaced(rows)
    put_in_place(events, rows)
    return events


def unplaced(rows: Sequence[Stored]) -> list[Event]:
    """The same, for those who do not ask an event for its position: most have none."""
    try:
        events = list(map(_decode, map(_raw, rows)))
    except _UNREADABLE:
        return list(map(revive, rows))  # which tells of each what is the matter with it
    return events if _ONLY_OURS.issuperset(map(_version, events)) else list(map(revive, rows))


def put_in_place(events: Iterable[Event], rows: Iterable[Stored]) -> None:
    """Give events that nobody else holds yet the positions of their records."""
    deque(map(force_setattr, events, repeat("position"), map(_position, rows)), maxlen=0)


def _rejected(raw: bytes, reason: str) -> Event:
    return Event(
        id=derive_id("log.rejected", raw),
        at=_EPOCH,
        kind="log.rejected",
        actor=_ACTOR,
        text="a stored record could not be read",
        visibility="system",
        data={"reason": reason, "bytes": len(raw), "sample": raw[:SAMPLE].decode(errors="replace")},
    )


def gap(after: Position | None, through: Position) -> Event:
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
