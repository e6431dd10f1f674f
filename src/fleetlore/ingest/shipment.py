"""Prepares events for shipping: stamps them with their source position and splits them into appendable batches."""

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
    """The log and position that an event was shipped from; `None` if it was not shipped."""
    return event.origin.log if event.origin is not None else None


def strip_shipped_place(event: Event) -> Event:
    """Remove `origin.log`: only a shipper may set it, since shippers resume by it."""
    if event.origin is None or event.origin.log is None:
        return event
    left = replace(event.origin, log=None)
    return replace(event, origin=None if left == Origin(dialect=OWN_DIALECT) else left)


def is_shipped_from(event: Event, log_id: str) -> bool:
    """Whether an event was shipped from this log; an empty `log_id` means a log without events."""
    place = shipped_place(event)
    return bool(log_id) and place is not None and place.id == log_id


def forgotten_hashes(fact: Event) -> list[str]:
    """The id hashes in a `log.forgotten`; anything invalid is ignored."""
    hashes = fact.data.get("id_hashes")
    return [hash for hash in hashes if isinstance(hash, str)] if isinstance(hashes, list) else []


def stamp_shipped_place(event: Event, source: str) -> Event:
    """Set the source position of an event; one from an earlier shipment is replaced."""
    assert event.position is not None
    place = LogPlace(id=source, position=event.position)
    if event.kind == "log.gap" and event.origin is None and event.data.get("through") == event.position:
        # Created while reading: two logs may have lost the same positions, and each gap needs its own id.
        gap = f"{source}/{event.data.get('after')}/{event.position}"
        event = replace(event, id=derive_id("log.gap", gap.encode()))
    origin = Origin(dialect=OWN_DIALECT, log=place) if event.origin is None else replace(event.origin, log=place)
    return replace(event, origin=origin, position=None)


def make_ship_rejection(event: Event, source: str, reason: str) -> Event:
    """The `log.rejected` stored at the target in place of an event that it refused."""
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
    """Group events so that each group fits into one append."""
    batch: list[Event] = []
    size = 0
    for event in events:
        event_size = _encoded_size(event)
        if batch and (len(batch) >= MAX_APPEND_EVENTS or size + event_size > MAX_APPEND_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += event_size
    if batch:
        yield batch


def _encoded_size(event: Event) -> int:
    try:
        return len(codec.encode_event(event))
    except (ValueError, TypeError, RecursionError):  # the target reports the error
        return 0
