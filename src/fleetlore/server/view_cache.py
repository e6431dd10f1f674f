"""`ViewCache`: all views of the API, kept up to date at the head of the log, and rebuilt on request as of a past position.

Behind it is `projections/live_views.py`, which folds the log in a thread. Routes and `answers/` read snapshots from here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, tzinfo
from threading import Lock
from typing import TYPE_CHECKING, Any

from fleetlore import clock
from fleetlore.errors import Invalid, LogError
from fleetlore.events.envelope import Event
from fleetlore.log.base import Position
from fleetlore.log.coordination import Coordination
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import OperatorKey
from fleetlore.operations.sources import ViewSnapshot as ViewSnapshot
from fleetlore.operations.sources import build_views
from fleetlore.projections import name_lookup
from fleetlore.projections.live_views import FindStore, LiveViews, ViewStates
from fleetlore.projections.outcomes import OutcomeQuery, find_outcomes, list_active_times, list_tasks
from fleetlore.projections.search import SearchFilter
from fleetlore.projections.signed_views import SignedGoalsFold, SignedTownFold
from fleetlore.projections.time_index import position_at_from
from fleetlore.server.search_index import SearchIndex
from fleetlore.settings import Settings
from fleetlore.story.reading import ReadPeriod, read_records
from fleetlore.views import time_ranges
from fleetlore.views.outcomes.record import Outcome
from fleetlore.views.outcomes.rules import OutcomeRules
from fleetlore.views.task_outcomes import TaskOutcome
from fleetlore.views.time_ranges import TimeBlock, TimeIndex

if TYPE_CHECKING:
    from fleetlore.graph.settings import GraphSettings

CATCH_UP_SECONDS = 1.0
"""How long a request waits until the views include everything stored before it."""
STARTUP_CATCH_UP_SECONDS = 0.25
"""The same while the log is first read: a short log is done by then and is not shown in part."""
MAX_ANSWERS = 256
MAX_ANSWER_BYTES = 8 << 20
MAX_HEAD_ANSWERS = 8
"""Answers about the head only serve simultaneous requests: the next event makes them stale."""
_MAX_DATE_DIGITS = len("20261115")


class ViewCache:
    """The views of one log, and the `ViewSource` of operations. Call `start` before, `close` after use.

    All methods block and are thread-safe.
    """

    def __init__(
        self,
        log: BlockingRecorder,
        find_store: FindStore,
        *,
        find_index_store: FindStore,
        settings: Settings,
        rules: OutcomeRules,
        coordination: Coordination,
        operator: OperatorKey | None = None,
        graph: Callable[[], GraphSettings] | None = None,
        now: clock.Clock = clock.now,
    ) -> None:
        """`find_index_store` opens a connection of its own, so that a long update of the search index does not delay checkpoints."""
        seal = coordination.load_seal()
        self.log, self.settings, self.town, self.now = log, settings, settings.town.value, now
        self.rules, self.costs_fold, self.goals_fold = rules, rules.costs, SignedGoalsFold(seal, operator)
        self.find_store, self.coordination, self._operator, self._graph = find_store, coordination, operator, graph
        self.live_views = LiveViews(log, build_views(rules.costs, self.goals_fold, SignedTownFold(seal, operator)), find_store)
        self.search_index = SearchIndex(log, find_index_store, self.live_views)
        self._past_answers, self._head_answers = AnswerCache(), AnswerCache(MAX_HEAD_ANSWERS)
        self._past_lock = Lock()
        """Past states take as much memory as those of the head, so there is one set at a time."""

    def start(self) -> None:
        """Start to follow the log."""
        self.live_views.start()

    def stop(self) -> None:
        """Ask the thread to stop; `close` waits for it."""
        self.live_views.stop()

    def close(self) -> None:
        """Stop, and save checkpoints."""
        self.live_views.close()

    def find_key(self, why: str) -> OperatorKey | None:
        """The operator key that the server was started with; tokens have no right to admin without it."""
        return self._operator

    def find(self, text: str, wanted: SearchFilter, limit: int) -> tuple[list[Event], bool]:
        """Events by their words, newest first; and whether older ones may be missing."""
        return self.search_index.find(text, wanted, limit)

    def load_graph_settings(self) -> GraphSettings:
        """The settings of graph agents that the server was started with."""
        from fleetlore.graph.settings import GraphSettings

        return GraphSettings() if self._graph is None else self._graph()

    def show_progress(self) -> AbstractContextManager[None]:
        """Nobody can be shown anything."""
        return nullcontext()

    def resolve_position(self, as_of: str | None) -> Position | None:
        """The position for `as_of`, a position or a time; `Invalid` if it is neither.

        `None` is the head, "" is before the first event.
        """
        if as_of is None:
            return None
        if as_of.isdecimal() and len(as_of) > _MAX_DATE_DIGITS:
            return self._past_position(as_of)
        time = parse_time(as_of, "as_of")
        self._catch_up()  # otherwise a time before the newest event may seem to be after it
        with self.live_views.open_states() as states:
            time_index: TimeIndex = states["calendar"]
            if time_index.newest is None or time >= time_index.newest:
                return None
            before = time_ranges.segment_end_before(time_index, time)
        return position_at_from(self.log, before, time) or ""

    def newest_blocks(self) -> list[TimeBlock]:
        """The blocks that `read_newest` needs; none while the log is still being read."""
        is_whole = self._catch_up()  # otherwise events that were imported late would be missing in the order for a moment
        with self.live_views.open_states() as states:
            return time_ranges.newest_blocks(states["calendar"]) if is_whole else []

    def find_outcomes(self, wanted: OutcomeQuery, now: datetime | None = None) -> list[Outcome]:
        """The outcome records of sessions, the newest first."""
        store = self.find_store()
        return find_outcomes(self.log, now=now or self.now(), rules=self.rules, wanted=wanted, store=store)

    def list_tasks(self, wanted: OutcomeQuery) -> list[TaskOutcome]:
        """What happened to tasks, the newest last."""
        return list_tasks(self.log, rules=self.rules, wanted=wanted, store=self.find_store())

    def read_period(self, wanted: OutcomeQuery, zone: tzinfo, newest_event: datetime | None = None, *, whole: bool = False) -> ReadPeriod:
        """The records of a period; without one, of everything if `whole`, else of the newest day with sessions or with another event."""
        return read_records(
            self.log,
            now=self.now(),
            zone=zone,
            rules=self.rules,
            wanted=wanted,
            store=self.find_store(),
            newest_day=wanted.since is None and wanted.until is None and not whole,
            newest_event=newest_event,
        )

    def list_active_times(self, wanted: OutcomeQuery) -> list[datetime]:
        """When sessions and tasks began and when they were last active."""
        return list_active_times(self.log, now=self.now(), rules=self.rules, wanted=wanted, store=self.find_store())

    def _past_position(self, as_of: str) -> Position | None:
        head = self.log.head()
        if head is None or len(as_of) != len(head) or not as_of.isascii():
            raise Invalid(f"as_of: not a position of this log: {as_of!r}; take one as the API gives it, or a time")
        return None if as_of >= head else as_of

    def resolve_scope(self, scope: str, *, may_be_new: bool = False) -> str:
        """The scope of the log for a scope with logged or displayed names; an error with suggestions if there is none."""
        return name_lookup.resolve_scope(self.log, scope, lambda: self.snapshot(None, name_lookup.NEEDS), may_be_new=may_be_new)

    @contextmanager
    def snapshot(self, position: Position | None, views: Sequence[str]) -> Iterator[ViewSnapshot]:
        """Some views, at the head (`None`) or as of a past position.

        At the head they include all stored events, once the log has been read.
        """
        if position is not None:
            with self._past_lock:
                past = self.live_views.as_of(position, ["calendar", *views])
                try:
                    yield self._past_snapshot(position, past)
                finally:
                    past.clear()  # free the memory even if the caller keeps the snapshot
            return
        if not self._catch_up():
            self._check_erasures()
        with self.live_views.open_states() as states:
            yield ViewSnapshot(
                states, self.log, self.live_views.position, states["calendar"].newest, self.now(), True, self.live_views.caught_up
            )

    @contextmanager
    def open_view(self, name: str, key: OperatorKey | None = None) -> Iterator[tuple[Any, bool]]:
        """One view at the head, and whether all of the log is in it. Signatures are verified with the server's own key."""
        with self.snapshot(None, [name]) as snapshot:
            yield snapshot.states[name], snapshot.caught_up

    def _catch_up(self) -> bool:
        """Wait until the views include all stored events; whether they do."""
        return self.live_views.wait_for(self.log.head(), CATCH_UP_SECONDS if self.live_views.caught_up else STARTUP_CATCH_UP_SECONDS)

    def _check_erasures(self) -> None:
        """Views may lag behind the log, but must not show erased events."""
        if self.live_views.caught_up and any(self.log.read(after=self.live_views.position, kinds=("log.forgotten",), limit=1)):
            raise LogError("something was erased just now, and the views are being folded anew; try again in a moment")

    def _past_snapshot(self, position: Position, states: ViewStates) -> ViewSnapshot:
        at = states["calendar"].newest
        return ViewSnapshot(states, self.log, position or None, at, at or self.now(), False, True)

    def cached_answer(
        self, key: tuple[Any, ...], position: Position | None, make: Callable[[], bytes], *, is_newest: bool = False
    ) -> bytes:
        """The answer for a key as of a position, made once: the past only changes by erasures, which restart the views."""
        if position is None or not self.live_views.caught_up or not self._catch_up():  # a recent erasure may not be known yet
            return make()
        return (self._head_answers if is_newest else self._past_answers).get((self.live_views.restart_count, position, *key), make)


class AnswerCache:
    """A thread-safe LRU cache of encoded answers, bounded in number and bytes."""

    def __init__(self, max_answers: int = MAX_ANSWERS) -> None:
        self._max_answers = max_answers
        self._answers: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._bytes, self._lock = 0, Lock()

    def get(self, key: tuple[Any, ...], make: Callable[[], bytes]) -> bytes:
        """The cached answer, or the one that `make` returns."""
        with self._lock:
            if (cached := self._answers.get(key)) is not None:
                self._answers.move_to_end(key)
                return cached
        made = make()
        with self._lock:
            if key not in self._answers:
                self._answers[key] = made
                self._bytes += len(made)
            while len(self._answers) > self._max_answers or self._bytes > MAX_ANSWER_BYTES:
                self._bytes -= len(self._answers.popitem(last=False)[1])
        return made


def parse_time(text: str, name: str) -> datetime:
    """An ISO time with a zone; `Invalid` naming the parameter otherwise."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{name}: not a time: {text!r}; use 2026-11-15T20:00:00Z") from None
    if time.tzinfo is None:
        raise Invalid(f"{name}: {text!r} has no time zone; add Z for UTC")
    return time
