"""One log carried into another: every event once, in order, whatever breaks on the way.

The shipper keeps nothing of its own. Each event bears `origin.log {id, position}`, so that the newest event of
`source:<log id>` at the target tells how far it has come; and each append expects that event to be still the newest,
so that two shippers of one log neither double nor mix anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime
from itertools import groupby
from threading import Event as Flag
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from fleetlore import clock
from fleetlore.errors import Busy, Conflict, Forgotten, Invalid, LogError, NoRoom, Unreachable
from fleetlore.events import codec
from fleetlore.events.envelope import Event, LogPlace, Origin
from fleetlore.events.ids import derive_id, is_uuid
from fleetlore.intake.deposit import ACTOR
from fleetlore.intake.outbox import Outbox
from fleetlore.intake.withholding import withhold
from fleetlore.log.admission import OWN_DIALECT
from fleetlore.log.base import MOST_BYTES, MOST_EVENTS, Expect, hash_of
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.sequence import to_sequence

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
TICK = 0.25
"""How long one look for new events lasts; then the shipper sees whether it shall stop."""

PASSING = (Unreachable, Busy, NoRoom)
"""Troubles that end by themselves, or by somebody's help; every other ends the shipping."""

TROUBLES: Mapping[type[LogError], str] = {
    Unreachable: "does not answer",
    Busy: "is held by another process",
    NoRoom: "has no room left",
    Conflict: "is being written by another shipper of this log",
}

Open = Callable[[], AbstractContextManager[BlockingRecorder]]
Side = Literal["source", "target"]
State = Literal["starting", "shipping", "caught up", "lost", "stopped"]


class Standing(Struct, omit_defaults=False):
    """How far the shipping has come, since it was started."""

    state: State = "starting"
    shipped: int = 0
    """Events that the target has taken, or had already."""
    to_go: int | None = None
    """Events that wait at the source; `None` where nobody can tell."""
    behind_seconds: float = 0.0
    """The age of the newest event shipped, as long as others wait."""
    position: str | None = None
    """The place in the source up to which everything was dealt with."""
    withheld: int = 0
    """Events of which some part stayed at home."""
    rejected: int = 0
    """Events that the target could not take; a `log.rejected` stands there for each."""
    forgotten: int = 0
    """Events that the target has erased for good, and does not take again."""
    returned: int = 0
    """Events that came from the target, and were not sent back."""
    erased: int = 0
    """Events erased at the target because the source has forgotten them."""
    lost: Side | None = None
    trouble: str | None = None
    """What is the matter with it, in a few words."""
    reason: str | None = None
    retry_in: float | None = None
    """Seconds until the next try, while something does not answer."""


class Lost(Exception):
    """One side does not answer for now; the cause says why."""

    def __init__(self, side: Side, error: LogError) -> None:
        self.side, self.error = side, error
        super().__init__(str(error))


class _Place(NamedTuple):
    """The newest event of this source at the target: its position there, and where it stood at the source."""

    head: str | None
    position: str | None


class Shipper:
    """Carries a log into another until it is told to stop. Opens both by itself, and again whenever one was lost."""

    def __init__(self, open_source: Open, open_target: Open, *, full: bool = False, now: clock.Clock = clock.now) -> None:
        self._open_source, self._open_target, self._full, self._now = open_source, open_target, full, now
        self._pause = FIRST_PAUSE
        self._tell: Callable[[Standing], None] = lambda standing: None
        self.standing = Standing()

    def run(self, stop: Flag, *, once: bool = False, on_progress: Callable[[Standing], None] = lambda standing: None) -> Standing:
        """Ship until `stop` is set; with `once`, until what is there now has been shipped.

        With `once` a side that does not answer is an error; else it is tried again for ever.
        """
        self._tell = on_progress
        while not self._session(stop, once=once):
            pass
        self.say("stopped")
        return self.standing

    def _session(self, stop: Flag, *, once: bool) -> bool:
        """Ship as long as nothing breaks; answers whether all is done."""
        try:
            with ExitStack() as stack:
                _Session(self, stack, self._open_source, self._open_target, stop).run(once=once)
        except Conflict as error:
            # Somebody else ships the same log, or the target was cut or put back: look again where it stands.
            return self._wait(stop, Lost("target", error), pause=self._pause - FIRST_PAUSE)
        except Lost as lost:
            if once:
                raise lost.error from lost
            return self._wait(stop, lost, pause=self._pause)
        return True

    def _wait(self, stop: Flag, lost: Lost, *, pause: float) -> bool:
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        if pause > 0:
            self.standing.lost, self.standing.reason, self.standing.retry_in = lost.side, str(lost.error), pause
            self.standing.trouble = next(words for kind, words in TROUBLES.items() if isinstance(lost.error, kind))
            self.say("lost")
        ended = stop.wait(pause)
        self.standing.lost = self.standing.trouble = self.standing.reason = self.standing.retry_in = None
        return ended

    def went_well(self) -> None:
        """Something was stored, or nothing is left: the next pause is a short one again."""
        self._pause = FIRST_PAUSE

    def say(self, state: State) -> None:
        """Tell where it stands."""
        self.standing.state = state
        self._tell(self.standing)

    def prepare(self, event: Event, source: str) -> Event:
        """The event as the target gets it: stamped, and without what stays at home."""
        stamped = stamp(event, source)
        if self._full:
            return stamped
        try:
            left = withhold(stamped)
        except RecursionError:
            self.standing.rejected += 1
            return rejection(stamped, source, "nested too deeply")
        if left is not stamped:
            self.standing.withheld += 1
        return left

    def age_of(self, at: datetime | None) -> float:
        """How long ago something happened."""
        return 0.0 if at is None else max(0.0, (self._now() - at).total_seconds())


class _Session:
    """Both logs open, from one trouble to the next."""

    def __init__(self, shipper: Shipper, stack: ExitStack, open_source: Open, open_target: Open, stop: Flag) -> None:
        self._shipper, self._stack, self._stop = shipper, stack, stop
        self._standing = shipper.standing
        with _blaming("source"):
            self._source = stack.enter_context(open_source())
            if self._standing.position is not None:  # what waits is told while the target is away, too
                self._standing.to_go = distance(self._standing.position, self._source.head())
        with _blaming("target"):
            self._target = stack.enter_context(open_target())
        self._id = self._target_id = self._scope = ""
        self._head: str | None = None

    def run(self, *, once: bool) -> None:
        """Go on behind the newest event at the target."""
        if not self._identify(once=once):
            return
        with _blaming("source"):
            goal = self._source.head()
        outbox = self._read_on()
        while not self._stop.is_set():
            is_done = self._tell() or is_past(goal, self._standing.position)
            if once and is_done:
                return
            with _blaming("source"):
                events = outbox.take(MOST_EVENTS, timeout=TICK)
            with _blaming("target"):
                self._ship(events)

    def _identify(self, *, once: bool) -> bool:
        """Learn the ids of both logs; a source in which nothing was ever stored has none yet."""
        while True:
            with _blaming("source"):
                self._id = self._source.info().log_id
            if self._id:
                break
            self._shipper.say("caught up")
            if once or self._stop.wait(TICK):
                return False
        with _blaming("target"):
            self._target_id = self._target.info().log_id
        if self._id == self._target_id:
            raise Invalid("the source and the target are the same log; say another with --to")
        self._scope = f"source:{self._id}"
        return True

    def _read_on(self) -> Outbox:
        with _blaming("target"):
            place = self._locate()
        self._head, self._standing.position = place
        outbox = Outbox(self._source, after=place.position)
        self._stack.callback(outbox.close)  # before the source is closed, which ends its thread
        return outbox

    def _locate(self) -> _Place:
        newest = next(self._target.read(self._scope, newest_first=True, limit=1), None)
        if newest is not None:
            place = newest.origin.log if newest.origin is not None else None
            return _Place(newest.position, place.position if place is not None else None)
        # A target that has let go of all that it had from here cannot tell; whoever still remembers need not begin again.
        return _Place(None, self._standing.position if self._target.info().trimmed_before is not None else None)

    def _ship(self, events: Sequence[Event]) -> None:
        """Events in their order; before a `log.forgotten` goes, what it speaks of is erased."""
        for is_fact, group in groupby(events, lambda event: event.kind == "log.forgotten"):
            run = list(group)
            if is_fact:
                self._forget(run)
            for parcel in parcels(self._prepared(run)):
                self._put(parcel)
            self._standing.position = run[-1].position
            self._standing.behind_seconds = self._shipper.age_of(run[-1].at)

    def _prepared(self, events: Sequence[Event]) -> Iterator[Event]:
        for event in events:
            if self._target_id and came_from(event, self._target_id):
                self._standing.returned += 1
            else:
                yield self._shipper.prepare(event, self._id)

    def _put(self, events: Sequence[Event]) -> None:
        """Store events; one that the target does not take is found by halving, and keeps no other back."""
        try:
            self._store(events)
        except Forgotten as error:
            left = [event for event in events if event.id not in error.ids]
            if len(left) == len(events):
                raise
            self._standing.forgotten += len(events) - len(left)
            self._put(left)
        except Invalid as error:
            if len(events) > 1:
                middle = len(events) // 2
                self._put(events[:middle])
                self._put(events[middle:])
            else:
                self._store([rejection(events[0], self._id, str(error))])
                self._standing.rejected += 1

    def _store(self, events: Sequence[Event]) -> None:
        if not events:
            return
        positions = self._target.append(events, expect=Expect(self._scope, self._head))
        if not self._target_id:  # the first event makes the log, and its id
            self._target_id = self._target.info().log_id
        # An event that the target had already, from elsewhere, is not of this scope and moves nothing.
        self._head = self._target.head(self._scope)
        if self._head != positions[-1]:
            sent = events[-1].origin
            self._settle(sent.log.position if sent is not None and sent.log is not None else None)
        self._standing.shipped += len(events)
        self._shipper.went_well()

    def _settle(self, reached: str | None) -> None:
        """Learn the head that goes with what was shipped; a `Conflict` if another shipper is ahead of it by now."""
        place = self._locate()
        if place.position is not None and (reached is None or place.position > reached):
            raise Conflict(self._scope, self._head, place.head)
        self._head = place.head

    def _forget(self, facts: Sequence[Event]) -> None:
        """Have the target erase for good what the source has erased; done twice, it finds nothing the second time."""
        reasons = {
            hash: str(fact.data.get("reason"))
            for fact in facts
            if not (self._target_id and came_from(fact, self._target_id))
            for hash in hashes_in(fact)
        }
        found: dict[str, list[str]] = {}
        for event in self._target.read(self._scope) if reasons else ():
            if event.id is not None and (reason := reasons.get(hash_of(event.id).hex())) is not None:
                found.setdefault(reason, []).append(event.id)
        for reason, ids in found.items():
            self._standing.erased += self._target.erase(ids, reason)
        if found:
            self._settle(self._standing.position)

    def _tell(self) -> bool:
        """Say where it stands; answers whether nothing is left."""
        with _blaming("source"):
            head = self._source.head()
        done = is_past(head, self._standing.position)
        if done:
            self._standing.to_go, self._standing.behind_seconds = 0, 0.0
            self._shipper.went_well()
        else:
            self._standing.to_go = distance(self._standing.position, head)
        self._shipper.say("caught up" if done else "shipping")
        return done


@contextmanager
def _blaming(side: Side) -> Iterator[None]:
    """Say of a passing trouble on which side it is."""
    try:
        yield
    except PASSING as error:
        raise Lost(side, error) from error


def is_past(head: str | None, position: str | None) -> bool:
    """Whether everything up to a head was dealt with."""
    return head is None or (position is not None and position >= head)


def distance(position: str | None, head: str | None) -> int | None:
    """How many events lie between two places, erased ones included, if positions of this log are numbers."""
    try:
        return max(0, to_sequence(head or "0") - to_sequence(position or "0"))
    except Invalid:
        return None


def hashes_in(fact: Event) -> list[str]:
    """The hashes of ids that a `log.forgotten` names; a stored fact may hold anything."""
    hashes = fact.data.get("id_hashes")
    return [hash for hash in hashes if isinstance(hash, str)] if isinstance(hashes, list) else []


def came_from(event: Event, log_id: str) -> bool:
    """Whether an event was shipped from a log."""
    return event.origin is not None and event.origin.log is not None and event.origin.log.id == log_id


def stamp(event: Event, source: str) -> Event:
    """The event with the place that it was shipped from; an earlier one, from a log before, is replaced."""
    assert event.position is not None
    place = LogPlace(id=source, position=event.position)
    if event.kind == "log.gap" and event.origin is None and event.data.get("through") == event.position:
        # Made by the reader: two logs may have lost the same positions, and each is to be told.
        gap = f"{source}/{event.data.get('after')}/{event.position}"
        event = replace(event, id=derive_id("log.gap", gap.encode()))
    origin = Origin(dialect=OWN_DIALECT, log=place) if event.origin is None else replace(event.origin, log=place)
    return replace(event, origin=origin, position=None)


def rejection(event: Event, source: str, reason: str) -> Event:
    """What stands at the target for an event that it could not take."""
    assert event.origin is not None
    return Event(
        id=derive_id("log.rejected", f"{source}/{event.id}".encode()),
        at=event.at,
        kind="log.rejected",
        actor=ACTOR,
        cause=event.id if event.id is not None and is_uuid(event.id) else None,
        text=f"an event could not be shipped: {reason}",
        visibility="system",
        data={"reason": reason, "source": source},
        origin=Origin(dialect=OWN_DIALECT, log=event.origin.log),
    )


def parcels(events: Iterator[Event]) -> Iterator[list[Event]]:
    """Events in groups that one append may hold, as they are now, stamped."""
    group: list[Event] = []
    size = 0
    for event in events:
        own = _size(event)
        if group and (len(group) >= MOST_EVENTS or size + own > MOST_BYTES):
            yield group
            group, size = [], 0
        group.append(event)
        size += own
    if group:
        yield group


def _size(event: Event) -> int:
    try:
        return len(codec.encode(event))
    except (ValueError, TypeError, RecursionError):  # the target will say what is wrong with it
        return 0
