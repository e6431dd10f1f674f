"""Where a shipper goes on: behind the newest event that the target has from the source and the source still has itself.

A source may have gone back: it was restored from a backup, or has lost its newest events, and gives their positions to
others now. And what the target has may bear a place that no shipper wrote. So no place is trusted by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Literal, NamedTuple

from fleetlore.errors import Busy, Closed, Invalid, LogError, NoRoom, Unreachable
from fleetlore.events.envelope import Event
from fleetlore.ingest.shipment import forgotten_hashes, shipped_place
from fleetlore.log.base import PAGE_SIZE, hash_event_id
from fleetlore.log.recorder import BlockingRecorder

TRANSIENT_ERRORS = (Unreachable, Busy, NoRoom, Closed)
"""Troubles that end by themselves, or by somebody's help; every other ends the shipping."""

Side = Literal["source", "target"]

_MAX_POSITION_CHARS = 64


class SideUnavailable(Exception):
    """One side does not answer for now; the cause says why."""

    def __init__(self, side: Side, error: LogError) -> None:
        self.side, self.error = side, error
        super().__init__(str(error))


@contextmanager
def attribute_errors(side: Side) -> Iterator[None]:
    """Say of a passing trouble on which side it is."""
    try:
        yield
    except TRANSIENT_ERRORS as error:
        raise SideUnavailable(side, error) from error


class ShipLandmark(NamedTuple):
    """A place in the source, and the ids that the event there may bear."""

    position: str
    ids: tuple[str, ...]


class ShipMemory(NamedTuple):
    """What a shipper remembers from one trouble to the next."""

    source: str
    """The id of the source's log."""
    head: str | None
    """Where the newest event of the source was at the target."""
    landmark: ShipLandmark | None
    """The last event of the source that was dealt with."""


class ShipStart(NamedTuple):
    """Where to go on."""

    head: str | None
    """The position, at the target, of the newest event from the source."""
    landmark: ShipLandmark | None
    """What lies behind it in the source is still to be shipped; `None`: everything."""
    went_back: bool = False
    """Whether the source no longer has what the target's newest event says."""


def find_start(source: BlockingRecorder, target: BlockingRecorder, log_id: str, memory: ShipMemory | None) -> ShipStart:
    """Ask both sides where to go on."""
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
    """A target that has let go of all that it had from here cannot tell; whoever still remembers need not begin again.

    One that was put back to a time before it had anything has not let go of it: there it begins again.
    """
    if memory is None or memory.source != log_id or memory.head is None or memory.landmark is None:
        return None
    with attribute_errors("target"):
        trimmed = target.info().trimmed_before
    is_let_go = trimmed is not None and trimmed > memory.head
    return memory.landmark if is_let_go and has_landmark(source, memory.landmark) else None


def make_landmark(shipped: Event) -> ShipLandmark | None:
    """What an event at the target says of the source."""
    place = shipped_place(shipped)
    if place is None or not (place.position.isascii() and place.position.isdigit() and len(place.position) <= _MAX_POSITION_CHARS):
        return None
    # A `log.rejected` may stand for an event that the target could not take.
    names = (shipped.id, shipped.cause if shipped.kind == "log.rejected" else None)
    return ShipLandmark(place.position, tuple(id for id in names if id is not None))


def has_landmark(source: BlockingRecorder, landmark: ShipLandmark) -> bool:
    """Whether the source has, or had and has let go of, this very event at this very place."""
    position = landmark.position
    with attribute_errors("source"):
        try:
            found = next(source.read(after=position_before(position), limit=1), None)
        except Invalid:  # no position of this log
            return False
        if found is not None and found.position == position:
            return found.id in landmark.ids
        info = source.info()
        if info.trimmed_before is not None and _is_lower_position(position, info.trimmed_before):
            return True
        if found is None:  # the newest event lies before it
            return False
        if info.first is not None and _is_lower_position(position, info.first):
            return True  # another program has cut off the oldest
        return _was_erased(source, landmark)


def _was_erased(source: BlockingRecorder, landmark: ShipLandmark) -> bool:
    hashes = {hash_event_id(id).hex() for id in landmark.ids}
    facts = source.read(after=landmark.position, kinds=["log.forgotten"])
    return any(not hashes.isdisjoint(forgotten_hashes(fact)) for fact in facts)


def _find_common_landmark(source: BlockingRecorder, target: BlockingRecorder, scope: str) -> ShipLandmark | None:
    """The newest event at the target that the source still has at its place."""
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
    """Whether it is a position of the same log, and a lower one."""
    return len(position) == len(other) and position < other


def position_before(position: str) -> str | None:
    """A place with nothing between it and a position; `None`: the beginning."""
    number = int(position)
    return f"{number - 1:0{len(position)}d}" if number else None
