"""Finds where a shipper resumes: after the newest event of the source at the target that the source still has.

Positions alone are not trusted. A source that was restored from a backup, or lost its newest events, gives their
positions to other events. And the target may hold an event with a position that no shipper wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Literal, NamedTuple

from fleetlore.errors import Busy, Closed, Invalid, LogError, StorageFull, Unreachable
from fleetlore.events.envelope import Event
from fleetlore.ingest.shipment import forgotten_hashes, shipped_place
from fleetlore.log.base import PAGE_SIZE, hash_event_id
from fleetlore.log.recorder import BlockingRecorder

TRANSIENT_ERRORS = (Unreachable, Busy, StorageFull, Closed)
"""Errors that pass by themselves or can be fixed meanwhile; any other error ends shipping."""

Side = Literal["source", "target"]

_MAX_POSITION_CHARS = 64


class SideUnavailable(Exception):
    """One side is unavailable; `error` has the reason."""

    def __init__(self, side: Side, error: LogError) -> None:
        self.side, self.error = side, error
        super().__init__(str(error))


@contextmanager
def attribute_errors(side: Side) -> Iterator[None]:
    """Turn transient errors into `SideUnavailable` for this side."""
    try:
        yield
    except TRANSIENT_ERRORS as error:
        raise SideUnavailable(side, error) from error


class ShipLandmark(NamedTuple):
    """A position in the source and the ids that the event there may have."""

    position: str
    ids: tuple[str, ...]


class ShipMemory(NamedTuple):
    """What a shipper remembers between sessions."""

    source: str
    """The id of the source log."""
    head: str | None
    """Position, at the target, of the newest event from the source."""
    landmark: ShipLandmark | None
    """The last event of the source that was handled."""


class ShipStart(NamedTuple):
    """Where to resume."""

    head: str | None
    """Position, at the target, of the newest event from the source."""
    landmark: ShipLandmark | None
    """Events after this one still have to be shipped; `None` for all."""
    went_back: bool = False
    """Whether the source no longer has the newest event at the target."""


def find_start(source: BlockingRecorder, target: BlockingRecorder, log_id: str, memory: ShipMemory | None) -> ShipStart:
    """Ask both sides where to resume. Raises `SideUnavailable` if one does not answer."""
    scope = f"source:{log_id}"
    with attribute_errors("target"):
        newest = next(target.read(scope, newest_first=True, limit=1), None)
    if newest is None:
        return ShipStart(None, _find_remembered(source, target, log_id, memory))
    landmark = make_landmark(newest)
    if landmark is not None and has_landmark(source, landmark):
        return ShipStart(newest.position, landmark)
    return ShipStart(newest.position, _find_common_landmark(source, target, scope), went_back=True)


def _find_remembered(source: BlockingRecorder, target: BlockingRecorder, log_id: str, memory: ShipMemory | None) -> ShipLandmark | None:
    """Resume from memory if the target has trimmed everything it had from the source.

    A target that was restored to an earlier state has not trimmed it; there shipping starts again.
    """
    if memory is None or memory.source != log_id or memory.head is None or memory.landmark is None:
        return None
    with attribute_errors("target"):
        trimmed = target.info().trimmed_before
    was_trimmed = trimmed is not None and trimmed > memory.head
    return memory.landmark if was_trimmed and has_landmark(source, memory.landmark) else None


def make_landmark(shipped: Event) -> ShipLandmark | None:
    """The source position and ids of an event at the target; `None` if its position is not valid."""
    place = shipped_place(shipped)
    if place is None or not (place.position.isascii() and place.position.isdigit() and len(place.position) <= _MAX_POSITION_CHARS):
        return None
    # A `log.rejected` may stand for an event that the target refused.
    names = (shipped.id, shipped.cause if shipped.kind == "log.rejected" else None)
    return ShipLandmark(place.position, tuple(id for id in names if id is not None))


def has_landmark(source: BlockingRecorder, landmark: ShipLandmark) -> bool:
    """Whether the source has this event at this position, or had it before trimming or erasing it."""
    position = landmark.position
    with attribute_errors("source"):
        try:
            found = next(source.read(after=position_before(position), limit=1), None)
        except Invalid:  # not a position of this log
            return False
        if found is not None and found.position == position:
            return found.id in landmark.ids
        info = source.info()
        if info.trimmed_before is not None and _is_lower_position(position, info.trimmed_before):
            return True
        if found is None:  # the newest event is before it
            return False
        if info.first is not None and _is_lower_position(position, info.first):
            return True  # the oldest events were removed by another program
        return _was_erased(source, landmark)


def _was_erased(source: BlockingRecorder, landmark: ShipLandmark) -> bool:
    hashes = {hash_event_id(id).hex() for id in landmark.ids}
    facts = source.read(after=landmark.position, kinds=["log.forgotten"])
    return any(not hashes.isdisjoint(forgotten_hashes(fact)) for fact in facts)


def _find_common_landmark(source: BlockingRecorder, target: BlockingRecorder, scope: str) -> ShipLandmark | None:
    """Find the newest event at the target that the source still has at its position."""
    with attribute_errors("source"):
        trimmed = source.info().trimmed_before
    shipped = target.read(scope, newest_first=True)
    while True:
        with attribute_errors("target"):
            events = list(islice(shipped, PAGE_SIZE))
        if not events:
            return None
        found = _find_newest_common(source, [landmark for event in events if (landmark := make_landmark(event))], trimmed)
        if found is not None:
            return found


def _find_newest_common(source: BlockingRecorder, landmarks: Sequence[ShipLandmark], trimmed: str | None) -> ShipLandmark | None:
    with attribute_errors("source"):
        events = source.get([id for landmark in landmarks for id in landmark.ids])
    positions: Mapping[str | None, str | None] = {event.id: event.position for event in events}
    for landmark in landmarks:
        is_trimmed = trimmed is not None and _is_lower_position(landmark.position, trimmed)
        if (is_trimmed or landmark.position in map(positions.get, landmark.ids)) and has_landmark(source, landmark):
            return landmark
    return None


def _is_lower_position(position: str, other: str) -> bool:
    """Whether `position` belongs to the same log and is lower."""
    return len(position) == len(other) and position < other


def position_before(position: str) -> str | None:
    """The position directly before; `None` for the beginning."""
    number = int(position)
    return f"{number - 1:0{len(position)}d}" if number else None
