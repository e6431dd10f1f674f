"""Ships one log into another: every event once and in order, across failures on either side.

The shipper keeps no state of its own. Each shipped event has `origin.log {id, position}`, so the newest event of
`source:<log id>` at the target says how far shipping has come. Each append expects that event to be still the newest,
so two shippers of one log cannot duplicate or interleave events. `ship_position.py` handles a source that was
restored to an earlier state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime
from threading import Event as Flag
from threading import Thread
from typing import Literal

from msgspec import Struct

from fleetlore import clock
from fleetlore.errors import Busy, Closed, Conflict, FleetloreError, Forgotten, Invalid, LogError, StorageFull, Unreachable
from fleetlore.events.envelope import Event
from fleetlore.ingest.read_ahead import LogReadAhead
from fleetlore.ingest.ship_filter import withhold_private
from fleetlore.ingest.ship_position import ShipLandmark, ShipMemory, Side, SideUnavailable, attribute_errors, find_start, has_landmark
from fleetlore.ingest.shipment import (
    forgotten_hashes,
    is_shipped_from,
    make_ship_rejection,
    shipped_place,
    split_parcels,
    stamp_shipped_place,
)
from fleetlore.log.base import MAX_APPEND_EVENTS, Expect, hash_event_id, to_sequence
from fleetlore.log.recorder import BlockingRecorder

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
POLL_SECONDS = 0.25
"""How long one poll for new events lasts; then the stop flag is checked."""

FINAL_CHECK_SECONDS = 1.0
"""How long the source may take, at the end, to say what is left."""

FAILURE_TEXTS: Mapping[type[LogError], str] = {
    Unreachable: "does not answer",
    Busy: "is held by another process",
    StorageFull: "has no room left",
    Closed: "was replaced by a new log",
    Conflict: "is being written by another shipper of this log",
}

LOG_BEGINNING = "its beginning"

OpenRecorder = Callable[[], AbstractContextManager[BlockingRecorder]]
ShipState = Literal["starting", "shipping", "caught up", "lost", "trying", "stopped"]


class ShipStatus(Struct, omit_defaults=False):
    """Progress of shipping since it was started."""

    state: ShipState = "starting"
    shipped: int = 0
    """Events that the target accepted or already had."""
    to_go: int | None = None
    """Events waiting at the source; `None` if unknown."""
    behind_seconds: float = 0.0
    """Age of the newest shipped event while others wait."""
    position: str | None = None
    """Position in the source up to which everything was handled."""
    empty: bool = False
    """Whether nothing was ever stored in the source."""
    went_back: str | None = None
    """The last position both sides agree on, if the source was restored or lost its newest events."""
    withheld: int = 0
    """Events sent without some of their content."""
    rejected: int = 0
    """Events that the target refused; each has a `log.rejected` there."""
    forgotten: int = 0
    """Events that the target erased for good and refuses."""
    returned: int = 0
    """Events that came from the target and were not sent back."""
    already: int = 0
    """Events shipped before between other logs that had already reached the target another way."""
    erased: int = 0
    """Events erased at the target because the source erased them."""
    lost: Side | None = None
    trouble: str | None = None
    """Short description of the failure."""
    reason: str | None = None
    retry_in: float | None = None
    """Seconds until the next attempt, while a side is unavailable."""


class _SourceWentBack(Exception):
    """The source no longer has what was shipped last: find the resume position again."""


class Shipper:
    """Ships a log into another until stopped. Opens both, and reopens them after a failure."""

    def __init__(
        self,
        open_source: OpenRecorder,
        open_target: OpenRecorder,
        *,
        full: bool = False,
        now: clock.Clock = clock.now,
        read_ahead: type[LogReadAhead] = LogReadAhead,
    ) -> None:
        self._open_source, self._open_target, self._full, self._now, self.read_ahead = open_source, open_target, full, now, read_ahead
        self._retry_pause = FIRST_PAUSE
        self._on_progress: Callable[[ShipStatus], None] = lambda status: None
        self.status = ShipStatus()
        self.memory: ShipMemory | None = None
        """What is known of both sides; `None` before the first connection."""

    def run(self, stop: Flag, *, once: bool = False, on_progress: Callable[[ShipStatus], None] = lambda status: None) -> ShipStatus:
        """Ship until `stop` is set; with `once`, until everything present now is shipped.

        With `once`, an unavailable side raises; otherwise it is retried forever. After Ctrl-C the status says what is
        left, as after any other end.
        """
        self._on_progress = on_progress
        try:
            while not self._run_session(stop, once=once):
                pass
        except KeyboardInterrupt:
            self._finish_status()
            raise
        if not once or stop.is_set():
            self._finish_status()
        self.report_state("stopped")
        return self.status

    def _run_session(self, stop: Flag, *, once: bool) -> bool:
        """Ship until something fails; return whether shipping is complete."""
        try:
            with ExitStack() as stack:
                _ShipSession(self, stack, self._open_source, self._open_target, stop).run(once=once)
        except _SourceWentBack:
            return self._wait_for_retry(stop, None, pause=self._retry_pause - FIRST_PAUSE)
        except Conflict as error:
            # Another process ships the same log, or the target was trimmed or restored: find the position again.
            return self._wait_for_retry(stop, SideUnavailable("target", error), pause=self._retry_pause - FIRST_PAUSE)
        except SideUnavailable as lost:
            if once:
                raise lost.error from lost
            return self._wait_for_retry(stop, lost, pause=self._retry_pause)
        return True

    def _wait_for_retry(self, stop: Flag, lost: SideUnavailable | None, *, pause: float) -> bool:
        self._retry_pause = min(2 * self._retry_pause, LONGEST_PAUSE)
        if lost is None or pause <= 0:
            return stop.wait(pause)
        self.status.lost, self.status.reason, self.status.retry_in = lost.side, str(lost.error), pause
        self.status.trouble = next(words for kind, words in FAILURE_TEXTS.items() if isinstance(lost.error, kind))
        self.report_state("lost")
        ended = stop.wait(pause)
        self.status.retry_in = None
        if not ended:
            self.report_state("trying")  # connecting may take a while too
        self._clear_failure()
        return ended

    def _clear_failure(self) -> None:
        self.status.lost = self.status.trouble = self.status.reason = self.status.retry_in = None

    def _finish_status(self) -> None:
        """Update the status with what is left; unknown if the source does not answer in time."""
        if not self.status.empty:
            answers: list[int | None] = []
            if self.memory is not None and self.status.lost != "source":
                thread = Thread(target=self._check_remaining, args=(answers,), name="fleetlore-last-look", daemon=True)
                thread.start()
                thread.join(FINAL_CHECK_SECONDS)
            self.status.to_go = answers[0] if answers else None
        self._clear_failure()
        self.status.state = "stopped"

    def _check_remaining(self, answers: list[int | None]) -> None:
        try:
            with self._open_source() as source:
                answers.append(count_remaining(self.status.position, source.head()))
        except (FleetloreError, OSError):
            return  # then it stays unknown

    def reset_backoff(self) -> None:
        """Use the shortest pause for the next retry: an append succeeded, or nothing is left."""
        self._retry_pause = FIRST_PAUSE

    def report_state(self, state: ShipState) -> None:
        """Set the state and report progress."""
        self.status.state = state
        self._on_progress(self.status)

    def prepare_event(self, event: Event, source: str) -> Event:
        """Return the event as the target gets it: stamped, and without withheld content."""
        stamped = stamp_shipped_place(event, source)
        if self._full:
            return stamped
        try:
            left = withhold_private(stamped)
        except RecursionError:
            self.status.rejected += 1
            return make_ship_rejection(stamped, source, "nested too deeply")
        if left is not stamped:
            self.status.withheld += 1
        return left

    def event_age(self, at: datetime | None) -> float:
        """Seconds since a time; 0 without one."""
        return 0.0 if at is None else max(0.0, (self._now() - at).total_seconds())


class _ShipSession:
    """Both logs open, until the next failure."""

    def __init__(self, shipper: Shipper, stack: ExitStack, open_source: OpenRecorder, open_target: OpenRecorder, stop: Flag) -> None:
        self._shipper, self._stack, self._stop = shipper, stack, stop
        self._status = shipper.status
        with attribute_errors("source"):
            self._source = stack.enter_context(open_source())
            if shipper.memory is not None:  # the number of waiting events is reported while the target is down, too
                self._status.to_go = count_remaining(self._status.position, self._source.head())
        with attribute_errors("target"):
            self._target = stack.enter_context(open_target())
        self._id = self._target_id = self._scope = ""
        self._head: str | None = None
        self._landmark: ShipLandmark | None = None

    def run(self, *, once: bool) -> None:
        """Ship everything after the newest event at the target."""
        if not self._read_log_ids(once=once):
            return
        with attribute_errors("source"):
            end = self._source.head()
        reader = self._start_reading()
        while not self._stop.is_set():
            is_done = self._update_progress() or has_reached(end, self._status.position)
            if once and is_done:
                return
            with attribute_errors("source"):
                events = reader.take_events(MAX_APPEND_EVENTS, timeout=POLL_SECONDS)
            if events:
                self._ship_batch(events)

    def _read_log_ids(self, *, once: bool) -> bool:
        """Read the ids of both logs; return whether there is anything to ship.

        A source without events has no id yet.
        """
        while True:
            with attribute_errors("source"):
                self._id = self._source.info().log_id
            self._status.empty = not self._id
            if self._id:
                break
            self._status.to_go = 0
            self._shipper.report_state("caught up")
            if once or self._stop.wait(POLL_SECONDS):
                return False
        with attribute_errors("target"):
            self._target_id = self._target.info().log_id
        if self._id == self._target_id:
            raise Invalid("the source and the target are the same log; name another with --to")
        self._scope = f"source:{self._id}"
        return True

    def _start_reading(self) -> LogReadAhead:
        start = find_start(self._source, self._target, self._id, self._shipper.memory)
        self._head = start.head
        self._set_landmark(start.landmark)
        if start.went_back:
            self._status.went_back = self._status.position or LOG_BEGINNING
        reader = self._shipper.read_ahead(self._source, after=self._status.position)
        self._stack.callback(reader.close)  # closed before the source, which ends its thread
        return reader

    def _set_landmark(self, landmark: ShipLandmark | None) -> None:
        """Remember that everything up to this position was handled."""
        self._landmark = landmark
        self._status.position = None if landmark is None else landmark.position
        self._shipper.memory = ShipMemory(self._id, self._head, landmark)

    def _ship_batch(self, events: Sequence[Event]) -> None:
        """Ship a batch, if it still follows what was shipped last.

        Progress is reported first, because storing may take a while.
        """
        self._check_landmark()
        with attribute_errors("source"):
            self._status.to_go = count_remaining(self._status.position, self._source.head())
        self._shipper.report_state("shipping")
        with attribute_errors("target"):
            self._ship_events(events)

    def _check_landmark(self) -> None:
        if self._landmark is not None and not has_landmark(self._source, self._landmark):
            raise _SourceWentBack

    def _ship_events(self, events: Sequence[Event]) -> None:
        """Ship events in order; what a `log.forgotten` names is erased at the target before it is sent."""
        reasons = {
            hash: str(fact.data.get("reason"))
            for fact in events
            if fact.kind == "log.forgotten" and not is_shipped_from(fact, self._target_id)
            for hash in forgotten_hashes(fact)
        }
        if reasons:
            self._erase_forgotten(reasons)
            # Do not send what was read just before it was erased.
            kept = [event for event in events if hash_event_id(str(event.id)).hex() not in reasons]
        else:
            kept = list(events)
        for parcel in split_parcels(self._prepare_events(kept)):
            self._store_or_split(parcel)
        last = events[-1]
        assert last.position is not None
        self._set_landmark(ShipLandmark(last.position, (str(last.id),)))
        self._status.behind_seconds = self._shipper.event_age(last.at)

    def _prepare_events(self, events: Sequence[Event]) -> Iterator[Event]:
        existing = self._find_existing_ids(events)
        for event in events:
            if is_shipped_from(event, self._target_id):
                self._status.returned += 1
            elif event.id in existing:
                self._status.already += 1
            else:
                with attribute_errors("source"):
                    whole = self._source.restore_whole(event)
                yield self._shipper.prepare_event(whole, self._id)

    def _find_existing_ids(self, events: Sequence[Event]) -> set[str | None]:
        """The ids of events shipped before between other logs that the target already has.

        A target that recognises duplicate ids only for a while would store them twice.
        """
        reshipped = [
            event.id for event in events if event.id is not None and shipped_place(event) and not is_shipped_from(event, self._target_id)
        ]
        return {event.id for event in self._target.get(reshipped)} if reshipped and self._target_id else set()

    def _store_or_split(self, events: Sequence[Event]) -> None:
        """Store events; one that the target refuses is found by bisection and does not block the others."""
        try:
            self._append_events(events)
        except Forgotten as error:
            left = [event for event in events if event.id not in error.ids]
            if len(left) == len(events):
                raise
            self._status.forgotten += len(events) - len(left)
            self._store_or_split(left)
        except Invalid as error:
            if len(events) > 1:
                middle = len(events) // 2
                self._store_or_split(events[:middle])
                self._store_or_split(events[middle:])
            else:
                self._append_events([make_ship_rejection(events[0], self._id, str(error))])
                self._status.rejected += 1

    def _append_events(self, events: Sequence[Event]) -> None:
        if not events:
            return
        positions = self._target.append(events, expect=Expect(self._scope, self._head))
        if not self._target_id:  # the first event creates the log and its id
            self._target_id = self._target.info().log_id
        head = self._target.head(self._scope)
        # An event that the target already had from elsewhere is not in this scope and does not move its head. Nor does one that it
        # lost again, because it syncs once a second and was restarted in between.
        is_stored = head in positions or (head == self._head and self._has_all(events))
        if not is_stored:
            raise Conflict(self._scope, self._head, head)
        self._head = head
        self._status.shipped += len(events)
        self._shipper.reset_backoff()

    def _has_all(self, events: Sequence[Event]) -> bool:
        ids = [event.id for event in events if event.id is not None]
        return len(self._target.get(ids)) == len(ids)

    def _erase_forgotten(self, reasons: Mapping[str, str]) -> None:
        """Erase at the target what the source erased. Idempotent."""
        if self._head is None:  # the target has nothing from this source
            return
        found: dict[str, list[str]] = {}
        for event in self._target.read(self._scope):
            if event.id is not None and (reason := reasons.get(hash_event_id(event.id).hex())) is not None:
                found.setdefault(reason, []).append(event.id)
        for reason, ids in found.items():
            self._status.erased += self._target.erase(ids, reason)
        if found:
            head = self._target.head(self._scope)
            if head is not None and head > self._head:
                raise Conflict(self._scope, self._head, head)
            self._head = head

    def _update_progress(self) -> bool:
        """Report progress; return whether nothing is left."""
        with attribute_errors("source"):
            head = self._source.head()
        position = self._status.position
        if head is not None and position is not None and head < position:
            self._check_landmark()
        self._status.to_go = count_remaining(position, head)
        done = has_reached(head, position)
        if done:
            self._status.behind_seconds = 0.0
            self._shipper.reset_backoff()
        self._shipper.report_state("caught up" if done else "shipping")
        return done


def has_reached(head: str | None, position: str | None) -> bool:
    """Whether everything up to a head was handled."""
    return head is None or (position is not None and position >= head)


def count_remaining(position: str | None, head: str | None) -> int | None:
    """Number of positions between a position and a head, erased events included; `None` if positions are not numbers."""
    if has_reached(head, position):
        return 0
    try:
        return max(0, to_sequence(head or "0") - to_sequence(position or "0"))
    except Invalid:
        return None
