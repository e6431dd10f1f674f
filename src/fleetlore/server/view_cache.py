"""The desk: every view that the control room shows, kept warm at the log's head, and to be had as of any moment."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, tzinfo
from threading import Lock
from typing import Any, NamedTuple

from fleetlore import clock
from fleetlore.chronicle import arcbook
from fleetlore.chronicle.arcbook import Arcbook
from fleetlore.chronicle.naming import Naming, naming_of
from fleetlore.chronicle.vocabulary import installed
from fleetlore.errors import Invalid, LogError
from fleetlore.events.installed_kinds import marked
from fleetlore.log.base import Position
from fleetlore.log.coordination import Coordination
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections import name_lookup
from fleetlore.projections.live_views import FindStore, LiveViews, ViewStates
from fleetlore.projections.outcomes import Wanted, find_outcomes
from fleetlore.projections.runner import LogView, view_of
from fleetlore.projections.signed_goals import SignedGoalsFold
from fleetlore.projections.signed_town import SignedTownFold
from fleetlore.projections.time_index import TIME_INDEX_VIEW, position_at_from
from fleetlore.story.brief import Brief
from fleetlore.story.reading import brief_of, read_records
from fleetlore.views import activity, conversations, fleet, names, stage, threads, time_ranges
from fleetlore.views.costs import Costs
from fleetlore.views.outcomes.record import Outcome
from fleetlore.views.time_ranges import Block, TimeIndex

PATIENCE = 1.0
"""Seconds that an answer waits for what was stored before it was asked for."""
A_MOMENT = 0.25
"""The same while the log is still being read: a short one is done by then, and is not shown by half."""
MOST_ANSWERS = 256
MOST_ANSWER_BYTES = 8 << 20
MOST_OF_THE_HEAD = 8
"""An answer about the newest state is of use to those who ask at the same time, and to nobody when the log has gone on."""
_LONGEST_DATE = len("20261115")

ARCS: LogView[Arcbook] = LogView(
    name="arcs",
    version=arcbook.VERSION,
    state=Arcbook,
    initial=arcbook.initial,
    apply=arcbook.apply,
    encode=arcbook.encode,
    decode=arcbook.decode,
)


def views_with(costs: Costs, goals: SignedGoalsFold, town: SignedTownFold | None = None) -> dict[str, LogView[Any]]:
    """All that the desk keeps."""
    town = town or SignedTownFold()
    return {
        "calendar": TIME_INDEX_VIEW,
        "fleet": view_of(fleet, "fleet"),
        "goals": view_of(goals, goals.name),
        "names": view_of(names, "names"),
        "pace": view_of(activity, "pace"),
        "sessions": view_of(conversations, "sessions"),
        "stage": view_of(stage, "stage"),
        "threads": view_of(threads, "threads"),
        "town": view_of(town, town.name),
        "costs": view_of(costs, costs.name),
        "arcs": replace(ARCS, version=marked(ARCS.version, installed().arcs)),
    }


class Look(NamedTuple):
    """Views as they stand at one moment. Those of the head are to be read at once, and not kept."""

    states: ViewStates
    log: BlockingRecorder
    position: Position | None
    at: datetime | None
    """The newest time that is known there."""
    now: datetime
    is_live: bool
    caught_up: bool

    @property
    def naming(self) -> Naming:
        """What everybody is called."""
        return naming_of(self.states["names"])

    def head(self) -> dict[str, Any]:
        """What every answer begins with."""
        return {"as_of": self.position, "at": self.at, "live": self.is_live, "caught_up": self.caught_up}


class Desk:
    """The views of one log. `start` it, `close` it; all verbs block, and may be called by any thread."""

    def __init__(
        self,
        log: BlockingRecorder,
        find_store: FindStore,
        *,
        costs: Costs,
        goals: SignedGoalsFold,
        town: SignedTownFold | None = None,
        shared: Coordination,
        now: clock.Clock = clock.now,
    ) -> None:
        self.log, self._now, self.costs, self.goals = log, now, costs, goals
        self._find_store = find_store
        self._shared = shared
        self.warm = LiveViews(log, views_with(costs, goals, town), find_store)
        self._answers, self._newest = Answers(), Answers(MOST_OF_THE_HEAD)
        self._back = Lock()
        """Views of the past are as large as those of the head, and nobody's for long: there is one set of them at a time."""

    def start(self) -> None:
        """Begin to fold."""
        self.warm.start()

    def stop(self) -> None:
        """Have it end soon; `close` waits for that."""
        self.warm.stop()

    def close(self) -> None:
        """End it, and keep what was folded."""
        self.warm.close()

    def place(self, as_of: str | None) -> Position | None:
        """The position that a request means: one of the log's own, or the last that was known at a moment; `None` for the head."""
        if as_of is None:
            return None
        if as_of.isdecimal() and len(as_of) > _LONGEST_DATE:
            return self._past_position(as_of)
        moment = moment_of(as_of, "as_of")
        self._keep_up()  # else a moment before the newest event may seem to be after all that is known
        with self.warm.open_states() as states:
            known: TimeIndex = states["calendar"]
            if known.newest is None or moment >= known.newest:
                return None
            before = time_ranges.segment_end_before(known, moment)
        return position_at_from(self.log, before, moment) or ""

    def newest_blocks(self) -> list[Block]:
        """For `read_newest`; none while the log is still being read."""
        with self.warm.open_states() as states:
            return time_ranges.newest_blocks(states["calendar"]) if self.warm.caught_up else []

    def first(self) -> Position | None:
        """The position of the first event that is there."""
        return next((event.position for event in self.log.read(limit=1)), None)

    def outcomes(self, wanted: Wanted) -> list[Outcome]:
        """The outcome records of sessions, the newest first."""
        store = self._find_store()
        return find_outcomes(self.log, now=self._now(), costs=self.costs, wanted=wanted, store=store)

    def brief(self, wanted: Wanted, zone: tzinfo) -> Brief:
        """The brief of a period; without one, of the newest day with sessions."""
        newest_day = wanted.since is None and wanted.until is None
        store = self._find_store()
        now = self._now()
        found = read_records(self.log, now=now, zone=zone, costs=self.costs, wanted=wanted, store=store, newest_day=newest_day)
        return brief_of(found, zone)

    def driver_of(self, goal: str) -> str | None:
        """Who drives a goal just now; `None` if nobody does."""
        lease = self._shared.find_lease(f"goal:{goal}")
        return None if lease is None else lease.holder

    def check_place(self, place: Position | None, name: str) -> Position | None:
        """A position that a request names, if it is written as those of this log are: else it cannot be compared with them."""
        if place is not None and (head := self.log.head()) is not None and len(place) != len(head):
            raise Invalid(f"{name}: not a position of this log: {place!r}; take one as the API gives it")
        return place

    def _past_position(self, as_of: str) -> Position | None:
        head = self.log.head()
        if head is None or len(as_of) != len(head) or not as_of.isascii():
            raise Invalid(f"as_of: not a position of this log: {as_of!r}; take one as the API gives it, or a time")
        return None if as_of >= head else as_of

    def scope(self, scope: str, *, may_be_new: bool = False) -> str:
        """The scope of the log that a request means, by names as they are in the log or as they are shown."""
        return name_lookup.resolve_scope(self.log, scope, lambda: self.looking(None, name_lookup.NEEDS), may_be_new=may_be_new)

    @contextmanager
    def looking(self, position: Position | None, views: Sequence[str]) -> Iterator[Look]:
        """Some views, at the head or as of a position. At the head all that was stored is in them, unless the log is still being read."""
        if position is not None:
            with self._back:
                past = self.warm.as_of(position, ["calendar", *views])
                try:
                    yield self._past(position, past)
                finally:
                    past.clear()  # a look may be held for as long as it is told of, and the next one need not wait for that
            return
        if not self._keep_up():
            self._check_erasures()
        with self.warm.open_states() as states:
            yield Look(states, self.log, self.warm.position, states["calendar"].newest, self._now(), True, self.warm.caught_up)

    def _keep_up(self) -> bool:
        """Have what is stored by now folded; whether it is."""
        return self.warm.wait_for(self.log.head(), PATIENCE if self.warm.caught_up else A_MOMENT)

    def _check_erasures(self) -> None:
        """Views that fall behind are shown as they are, but never with what was erased."""
        if self.warm.caught_up and any(self.log.read(after=self.warm.position, kinds=("log.forgotten",), limit=1)):
            raise LogError("something was erased just now, and the views are being folded anew; try again in a moment")

    def _past(self, position: Position, states: ViewStates) -> Look:
        at = states["calendar"].newest
        return Look(states, self.log, position or None, at, at or self._now(), False, True)

    def answer(self, key: tuple[Any, ...], position: Position | None, make: Callable[[], bytes], *, is_newest: bool = False) -> bytes:
        """An answer as of a position, made once: what was does not change, unless something of it is erased."""
        if position is None or not self.warm.caught_up or not self._keep_up():  # what was erased just now is not known to be, yet
            return make()
        return (self._newest if is_newest else self._answers).get((self.warm.restart_count, position, *key), make)


class Answers:
    """The newest answers, up to some size."""

    def __init__(self, most: int = MOST_ANSWERS) -> None:
        self._most = most
        self._known: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._bytes, self._lock = 0, Lock()

    def get(self, key: tuple[Any, ...], make: Callable[[], bytes]) -> bytes:
        """The answer that is known, or is made now."""
        with self._lock:
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return known
        made = make()
        with self._lock:
            if key not in self._known:
                self._known[key] = made
                self._bytes += len(made)
            while len(self._known) > self._most or self._bytes > MOST_ANSWER_BYTES:
                self._bytes -= len(self._known.popitem(last=False)[1])
        return made


def moment_of(text: str, name: str) -> datetime:
    """A time that a request names."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{name}: not a time: {text!r}; say it as 2026-11-15T20:00:00Z") from None
    if moment.tzinfo is None:
        raise Invalid(f"{name}: {text!r} has no time zone; add Z for UTC")
    return moment
