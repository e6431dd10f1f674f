"""What is sent when a log is shipped: events stamped with the place that they came from, in parcels that one append may hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from fleetlore.events import codec
from fleetlore.events.envelope import Event, LogPlace, Origin
from fleetlore.events.ids import derive_id, is_uuid
from fleetlore.ingest.batch_writer import IMPORT_ACTOR
from fleetlore.log.admission import OWN_DIALECT
from fleetlore.log.base import MAX_APPEND_BYTES, MAX_APPEND_EVENTS


def shipped_place(event: Event) -> LogPlace | None:
    """The log and the position that an event was shipped from."""
    return event.origin.log if event.origin is not None else None


def strip_shipped_place(event: Event) -> Event:
    """The event without `origin.log`: a shipper goes by it, so nobody else may say it."""
    if event.origin is None or event.origin.log is None:
        return event
    left = replace(event.origin, log=None)
    return replace(event, origin=None if left == Origin(dialect=OWN_DIALECT) else left)


def is_shipped_from(event: Event, log_id: str) -> bool:
    """Whether an event was shipped from a log; from one that has no id yet, none was."""
    place = shipped_place(event)
    return bool(log_id) and place is not None and place.id == log_id


def forgotten_hashes(fact: Event) -> list[str]:
    """The hashes of ids that a `log.forgotten` names; a stored fact may hold anything."""
    hashes = fact.data.get("id_hashes")
    return [hash for hash in hashes if isinstance(hash, str)] if isinstance(hashes, list) else []


def stamp_shipped_place(event: Event, source: str) -> Event:
    """The event with the place that it was shipped from; an earlier one, from a log before, is replaced."""
    assert event.position is not None
    place = LogPlace(id=source, position=event.position)
    if event.kind == "log.gap" and event.origin is None and event.data.get("through") == event.position:
        # Made by the reader: two logs may have lost the same positions, and each is to be told.
        gap = f"{source}/{event.data.get('after')}/{event.position}"
        event = replace(event, id=derive_id("log.gap", gap.encode()))
    origin = Origin(dialect=OWN_DIALECT, log=place) if event.origin is None else replace(event.origin, log=place)
    return replace(event, origin=origin, position=None)


def make_ship_rejection(event: Event, source: str, reason: str) -> Event:
    """What stands at the target for an event that it could not take."""
    assert event.origin is not None
    return Event(
        id=derive_id("log.rejected", f"{source}/{event.id}".encode()),
        at=event.at,
        kind="log.rejected",
        actor=IMPORT_ACTOR,
        cause=event.id if event.id is not None and is_uuid(event.id) else None,
        text=f"an event could not be shipped: {reason}",
        visibility="system",
        data={"reason": reason, "source": source},
        origin=Origin(dialect=OWN_DIALECT, log=event.origin.log),
    )


def split_parcels(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Events in groups that one append may hold, as they are now, stamped."""
    group: list[Event] = []
    size = 0
    for event in events:
        own = _encoded_size(event)
        if group and (len(group) >= MAX_APPEND_EVENTS or size + own > MAX_APPEND_BYTES):
            yield group
            group, size = [], 0
        group.append(event)
        size += own
    if group:
        yield group


def _encoded_size(event: Event) -> int:
    try:
        return len(codec.encode(event))
    except (ValueError, TypeError, RecursionError):  # the target will say what is wrong with it
        return 0
