"""One log carried into another: every event once, in order, whatever breaks on the way.

The shipper keeps nothing of its own. Each event bears `origin.log {id, position}`, so that the newest event of
`source:<log id>` at the target tells how far it has come; and each append expects that event to be still the newest,
so that two shippers of one log neither double nor mix anything. `ship_place.py` tells what is done when the source
has gone back since.
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
from fleetlore.errors import Busy, Closed, Conflict, FleetloreError, Forgotten, Invalid, LogError, NoRoom, Unreachable
from fleetlore.events.envelope import Event
from fleetlore.ingest.read_ahead import LogReadAhead
from fleetlore.ingest.ship_filter import withhold
from fleetlore.ingest.ship_position import ShipLandmark, ShipMemory, Side, SideUnavailable, attribute_errors, find_start, has_landmark
from fleetlore.ingest.shipment import (
    forgotten_hashes,
    is_shipped_from,
    make_ship_rejection,
    shipped_place,
    split_parcels,
    stamp_shipped_place,
)
from fleetlore.log.base import MAX_APPEND_EVENTS, Expect, hash_event_id
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.sequence import to_sequence

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
POLL_SECONDS = 0.25
"""How long one look for new events lasts; then the shipper sees whether it shall stop."""

FINAL_CHECK_SECONDS = 1.0
"""How long the source may take to tell, at the end, what still waits."""

FAILURE_TEXTS: Mapping[type[LogError], str] = {
    Unreachable: "does not answer",
    Busy: "is held by another process",
    NoRoom: "has no room left",
    Closed: "was made anew",
    Conflict: "is being written by another shipper of this log",
}

LOG_BEGINNING = "its beginning"

OpenRecorder = Callable[[], AbstractContextManager[BlockingRecorder]]
ShipState = Literal["starting", "shipping", "caught up", "lost", "trying", "stopped"]


class ShipStatus(Struct, omit_defaults=False):
    """How far the shipping has come, since it was started."""

    state: ShipState = "starting"
    shipped: int = 0
    """Events that the target has taken, or had already."""
    to_go: int | None = None
    """Events that wait at the source; `None` where nobody can tell."""
    behind_seconds: float = 0.0
    """The age of the newest event shipped, as long as others wait."""
    position: str | None = None
    """The place in the source up to which everything was dealt with."""
    empty: bool = False
    """Whether nothing was ever stored in the source."""
    went_back: str | None = None
    """The last place of the source that the target agrees with, if the source was put back, or has lost its newest events."""
    withheld: int = 0
    """Events of which some part stayed at home."""
    rejected: int = 0
    """Events that the target could not take; a `log.rejected` stands there for each."""
    forgotten: int = 0
    """Events that the target has erased for good, and does not take again."""
    returned: int = 0
    """Events that came from the target, and were not sent back."""
    already: int = 0
    """Events that had been shipped before, from log to log, and had come to the target another way."""
    erased: int = 0
    """Events erased at the target because the source has forgotten them."""
    lost: Side | None = None
    trouble: str | None = None
    """What is the matter with it, in a few words."""
    reason: str | None = None
    retry_in: float | None = None
    """Seconds until the next try, while something does not answer."""


class _SourceWentBack(Exception):
    """The source no longer has what was shipped last: look again where to go on."""


class Shipper:
    """Carries a log into another until it is told to stop. Opens both by itself, and again whenever one was lost."""

    def __init__(self, open_source: OpenRecorder, open_target: OpenRecorder, *, full: bool = False, now: clock.Clock = clock.now) -> None:
        self._open_source, self._open_target, self._full, self._now = open_source, open_target, full, now
        self._retry_pause = FIRST_PAUSE
        self._on_progress: Callable[[ShipStatus], None] = lambda standing: None
        self.status = ShipStatus()
        self.memory: ShipMemory | None = None
        """What is known of both sides, once they were asked."""

    def run(self, stop: Flag, *, once: bool = False, on_progress: Callable[[ShipStatus], None] = lambda standing: None) -> ShipStatus:
        """Ship until `stop` is set; with `once`, until what is there now has been shipped.

        With `once` a side that does not answer is an error; else it is tried again for ever. Ctrl-C ends it too; the
        standing then tells what is left, as after any other end.
        """
        self._on_progress = on_progress
        try:
            while not self._run_session(stop, once=once):
                pass
        except KeyboardInterrupt:
            self._finish()
            raise
        if not once or stop.is_set():
            self._finish()
        self.report_state("stopped")
        return self.status

    def _run_session(self, stop: Flag, *, once: bool) -> bool:
        """Ship as long as nothing breaks; answers whether all is done."""
        try:
            with ExitStack() as stack:
                _ShipSession(self, stack, self._open_source, self._open_target, stop).run(once=once)
        except _SourceWentBack:
            return self._wait_for_retry(stop, None, pause=self._retry_pause - FIRST_PAUSE)
        except Conflict as error:
            # Somebody else ships the same log, or the target was cut or put back: look again where it stands.
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
            self.report_state("trying")  # to connect may take a while, too
        self._clear_failure()
        return ended

    def _clear_failure(self) -> None:
        self.status.lost = self.status.trouble = self.status.reason = self.status.retry_in = None

    def _finish(self) -> None:
        """Have the standing tell what is left now; what nobody answers in time is not known."""
        if not self.status.empty:
            answers: list[int | None] = []
            if self.memory is not None and self.status.lost != "source":
                look = Thread(target=self._check_remaining, args=(answers,), name="fleetlore-last-look", daemon=True)
                look.start()
                look.join(FINAL_CHECK_SECONDS)
            self.status.to_go = answers[0] if answers else None
        self._clear_failure()
        self.status.state = "stopped"

    def _check_remaining(self, answers: list[int | None]) -> None:
        try:
            with self._open_source() as source:
                answers.append(count_remaining(self.status.position, source.head()))
        except (FleetloreError, OSError):
            return  # then it is not known

    def reset_backoff(self) -> None:
        """Something was stored, or nothing is left: the next pause is a short one again."""
        self._retry_pause = FIRST_PAUSE

    def report_state(self, state: ShipState) -> None:
        """Tell where it stands."""
        self.status.state = state
        self._on_progress(self.status)

    def prepare_event(self, event: Event, source: str) -> Event:
        """The event as the target gets it: stamped, and without what stays at home."""
        stamped = stamp_shipped_place(event, source)
        if self._full:
            return stamped
        try:
            left = withhold(stamped)
        except RecursionError:
            self.status.rejected += 1
            return make_ship_rejection(stamped, source, "nested too deeply")
        if left is not stamped:
            self.status.withheld += 1
        return left

    def event_age(self, at: datetime | None) -> float:
        """How long ago something happened."""
        return 0.0 if at is None else max(0.0, (self._now() - at).total_seconds())


class _ShipSession:
    """Both logs open, from one trouble to the next."""

    def __init__(self, shipper: Shipper, stack: ExitStack, open_source: OpenRecorder, open_target: OpenRecorder, stop: Flag) -> None:
        self._shipper, self._stack, self._stop = shipper, stack, stop
        self._status = shipper.status
        with attribute_errors("source"):
            self._source = stack.enter_context(open_source())
            if shipper.memory is not None:  # what waits is told while the target is away, too
                self._status.to_go = count_remaining(self._status.position, self._source.head())
        with attribute_errors("target"):
            self._target = stack.enter_context(open_target())
        self._id = self._target_id = self._scope = ""
        self._head: str | None = None
        self._landmark: ShipLandmark | None = None

    def run(self, *, once: bool) -> None:
        """Go on behind the newest event at the target."""
        if not self._read_log_ids(once=once):
            return
        with attribute_errors("source"):
            goal = self._source.head()
        outbox = self._start_reading()
        while not self._stop.is_set():
            is_done = self._update_progress() or has_reached(goal, self._status.position)
            if once and is_done:
                return
            with attribute_errors("source"):
                events = outbox.take_events(MAX_APPEND_EVENTS, timeout=POLL_SECONDS)
            if events:
                self._ship_batch(events)

    def _read_log_ids(self, *, once: bool) -> bool:
        """Learn the ids of both logs; a source in which nothing was ever stored has none yet."""
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
            raise Invalid("the source and the target are the same log; say another with --to")
        self._scope = f"source:{self._id}"
        return True

    def _start_reading(self) -> LogReadAhead:
        start = find_start(self._source, self._target, self._id, self._shipper.memory)
        self._head = start.head
        self._set_landmark(start.landmark)
        if start.went_back:
            self._status.went_back = self._status.position or LOG_BEGINNING
        outbox = LogReadAhead(self._source, after=self._status.position)
        self._stack.callback(outbox.close)  # before the source is closed, which ends its thread
        return outbox

    def _set_landmark(self, landmark: ShipLandmark | None) -> None:
        """Everything up to this place was dealt with."""
        self._landmark = landmark
        self._status.position = None if landmark is None else landmark.position
        self._shipper.memory = ShipMemory(self._id, self._head, landmark)

    def _ship_batch(self, events: Sequence[Event]) -> None:
        """Ship what has come, if it still follows what was shipped last; to be stored may take a while, so it is told first."""
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
        """Events in their order; before a `log.forgotten` goes, what it speaks of is erased."""
        reasons = {
            hash: str(fact.data.get("reason"))
            for fact in events
            if fact.kind == "log.forgotten" and not is_shipped_from(fact, self._target_id)
            for hash in forgotten_hashes(fact)
        }
        if reasons:
            self._erase_forgotten(reasons)
            # What was read just before it was erased is not sent any more.
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
        there = self._find_existing_ids(events)
        for event in events:
            if is_shipped_from(event, self._target_id):
                self._status.returned += 1
            elif event.id in there:
                self._status.already += 1
            else:
                yield self._shipper.prepare_event(event, self._id)

    def _find_existing_ids(self, events: Sequence[Event]) -> set[str | None]:
        """Of events that were shipped before, from log to log, those that have come to the target another way.

        A target that knows an id again for a while only would store them twice.
        """
        chained = [
            event.id for event in events if event.id is not None and shipped_place(event) and not is_shipped_from(event, self._target_id)
        ]
        return {event.id for event in self._target.get(chained)} if chained and self._target_id else set()

    def _store_or_split(self, events: Sequence[Event]) -> None:
        """Store events; one that the target does not take is found by halving, and keeps no other back."""
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
        if not self._target_id:  # the first event makes the log, and its id
            self._target_id = self._target.info().log_id
        # An event that the target had already, from elsewhere, is not of this scope and moves nothing.
        head = self._target.head(self._scope)
        if head != self._head and head not in positions:
            raise Conflict(self._scope, self._head, head)
        self._head = head
        self._status.shipped += len(events)
        self._shipper.reset_backoff()

    def _erase_forgotten(self, reasons: Mapping[str, str]) -> None:
        """Have the target erase for good what the source has erased; done twice, it finds nothing the second time."""
        if self._head is None:  # it has nothing from here
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
        """Say where it stands; answers whether nothing is left."""
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
    """Whether everything up to a head was dealt with."""
    return head is None or (position is not None and position >= head)


def count_remaining(position: str | None, head: str | None) -> int | None:
    """How many events lie between a place and a head, erased ones included, if positions of this log are numbers."""
    if has_reached(head, position):
        return 0
    try:
        return max(0, to_sequence(head or "0") - to_sequence(position or "0"))
    except Invalid:
        return None
