"""Where answers come from: a log, its views at the head, and the search. The server has them warm; a process of its own folds on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import tzinfo
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fleetlore import clock
from fleetlore.events.envelope import Event
from fleetlore.log.base import Position
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections import name_lookup, outcomes, search
from fleetlore.projections.live_views import FindStore
from fleetlore.projections.outcomes import Wanted
from fleetlore.projections.runner import FoldRun, LogView, Runner, advance_folds
from fleetlore.projections.store import is_anchor_valid
from fleetlore.server.view_cache import Look
from fleetlore.story.brief import Brief
from fleetlore.story.reading import brief_of, read_records
from fleetlore.views.costs import Costs
from fleetlore.views.outcomes.record import Outcome

if TYPE_CHECKING:
    from fleetlore.server.context import House

NEAR = 2000
"""So many events that are not in the index are put there in passing."""
INDEXING_SECONDS = 5.0
"""How long one question may bring the index up where nobody does it behind the scenes."""


class Caller(NamedTuple):
    """Who asks, as far as that is known: by the token's label, or by what its process was told. Never by what the request says."""

    name: str | None = None
    may_write: bool = False
    why_not: str = ""
    """Why it may not write, and what to do about it."""


class Source(Protocol):
    """What the tools read. All verbs block."""

    @property
    def log(self) -> BlockingRecorder:
        """The log itself."""

    @property
    def town(self) -> str:
        """Whose log it is."""

    @property
    def prices(self) -> str:
        """Of when the prices are that costs are counted with."""

    def looking(self, position: Position | None, views: Sequence[str]) -> AbstractContextManager[Look]:
        """Some views at the head."""

    def find(self, text: str, wanted: search.SearchFilter, limit: int) -> tuple[list[Event], bool]:
        """Events by their words, newest first; and whether older ones may be missing."""

    def outcomes(self, wanted: outcomes.Wanted) -> list[Outcome]:
        """The outcome records of sessions, the newest first."""

    def brief(self, wanted: Wanted, zone: tzinfo) -> Brief:
        """The brief of a period; without one, of the newest day with sessions."""


def meant(source: Source, scope: str) -> str:
    """The scope of the log that a question means; an error with suggestions if there is none."""
    return name_lookup.resolve_scope(source.log, scope, lambda: source.looking(None, name_lookup.NEEDS))


class Served:
    """A house that keeps its views warm."""

    def __init__(self, house: House) -> None:
        self._house, self.log, self.town = house, house.log, house.town
        self.prices = house.desk.costs.prices.date

    def looking(self, position: Position | None, views: Sequence[str]) -> AbstractContextManager[Look]:
        """Some views at the head."""
        return self._house.desk.looking(position, views)

    def find(self, text: str, wanted: search.SearchFilter, limit: int) -> tuple[list[Event], bool]:
        """Events by their words."""
        return self._house.finder.find(text, wanted, limit)

    def outcomes(self, wanted: outcomes.Wanted) -> list[Outcome]:
        """The outcome records of sessions."""
        return self._house.desk.outcomes(wanted)

    def brief(self, wanted: Wanted, zone: tzinfo) -> Brief:
        """The brief of a period."""
        return self._house.desk.brief(wanted, zone)


class OnDemand:
    """A log that is folded when somebody asks, and left alone otherwise: many such processes may wait beside one log.

    What was folded is kept, in the process and in the log's store, so that only what is new is read. `refresh` is called first each time.
    """

    def __init__(
        self,
        log: BlockingRecorder,
        views: Mapping[str, LogView[Any]],
        find_store: FindStore = lambda: None,
        *,
        town: str,
        costs: Costs,
        refresh: Callable[[], None] = lambda: None,
        now: clock.Clock = clock.now,
    ) -> None:
        self.log, self.town, self.prices, self._costs = log, town, costs.prices.date, costs
        self._views, self._find_store, self._refresh, self._now = views, find_store, refresh, now
        self._courses: dict[str, FoldRun[Any]] = {}
        self._folding = RLock()

    @contextmanager
    def looking(self, position: Position | None, views: Sequence[str]) -> Iterator[Look]:
        """Some views at the head. They stand still as long as the block lasts."""
        assert position is None  # nobody asks for the past here
        with self._folding:
            self._refresh()
            self._fold({"calendar", *views})
            states = {name: course.state for name, course in self._courses.items()}
            at = self._courses["calendar"].position
            yield Look(states, self.log, at, states["calendar"].newest, self._now(), True, True)

    def _fold(self, names: set[str]) -> None:
        """Bring these up to the head. What was erased meanwhile, or replaced by a backup, is not believed any more."""
        if any(course.anchor is not None and not is_anchor_valid(self.log, course.anchor) for course in self._courses.values()):
            self._courses = {}
        store = self._find_store()
        while True:
            for name in names - set(self._courses):
                self._courses[name] = Runner(self.log, self._views[name], store).open_fold_run()
            wanted = [self._courses[name] for name in names]
            if advance_folds(self.log, wanted):
                break
            self._courses = {}
        for course in wanted:
            course.save_if_worthwhile()

    def outcomes(self, wanted: outcomes.Wanted) -> list[Outcome]:
        """The outcome records of sessions."""
        self._refresh()
        return outcomes.find_outcomes(self.log, now=self._now(), costs=self._costs, wanted=wanted, store=self._find_store())

    def brief(self, wanted: Wanted, zone: tzinfo) -> Brief:
        """The brief of a period."""
        self._refresh()
        newest_day = wanted.since is None and wanted.until is None
        store = self._find_store()
        now = self._now()
        found = read_records(self.log, now=now, zone=zone, costs=self._costs, wanted=wanted, store=store, newest_day=newest_day)
        return brief_of(found, zone)

    def find(self, text: str, wanted: search.SearchFilter, limit: int) -> tuple[list[Event], bool]:
        """Events by their words. A long log is indexed a few seconds at a time; until that is done, only the newest are looked through."""
        self._refresh()
        store, until = self._find_store(), monotonic() + INDEXING_SECONDS
        if store is not None and search.count_unindexed(self.log, store) > NEAR:
            search.update_index(self.log, store, lambda: monotonic() >= until)
        if store is None or search.count_unindexed(self.log, store) <= NEAR:
            return search.find(self.log, text, wanted=wanted, limit=limit, store=store), False
        return search.find(self.log, text, wanted=wanted, limit=limit, most=search.NEWEST), True
