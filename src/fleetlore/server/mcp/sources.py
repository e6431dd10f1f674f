"""What the MCP tools read: a log, its views at the head, and search.

`ServerSource` uses the views of the HTTP server; `OnDemandSource` folds them when asked, for `lore mcp`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, tzinfo
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fleetlore import clock
from fleetlore.events.envelope import Event
from fleetlore.log.base import Position
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections import name_lookup, outcomes, search
from fleetlore.projections.live_views import FindStore
from fleetlore.projections.outcomes import OutcomeQuery
from fleetlore.projections.runner import FoldRun, LogView, Runner, advance_folds
from fleetlore.projections.store import is_anchor_valid
from fleetlore.server.view_cache import ViewSnapshot
from fleetlore.story.brief import Brief
from fleetlore.story.reading import ReadPeriod, brief_of, read_records
from fleetlore.views.costs import Costs
from fleetlore.views.outcomes.record import Outcome

if TYPE_CHECKING:
    from fleetlore.server.context import AppContext

MAX_INLINE_EVENTS = 2000
"""Up to so many unindexed events are indexed within a search."""
INDEXING_SECONDS = 5.0
"""How long one search may update the index."""


class Caller(NamedTuple):
    """The caller: named by its token's label or by the options of `lore mcp`, never by the request."""

    name: str | None = None
    can_write: bool = False
    refusal: str = ""
    """Why it cannot write, and what to do about it."""


class ToolSource(Protocol):
    """What the tools read. All methods block."""

    @property
    def log(self) -> BlockingRecorder:
        """The log itself."""

    @property
    def town(self) -> str:
        """The town (partition of the log)."""

    @property
    def prices(self) -> str:
        """The date of the price list."""

    def snapshot(self, position: Position | None, views: Sequence[str]) -> AbstractContextManager[ViewSnapshot]:
        """Some views at the head."""

    def find(self, text: str, wanted: search.SearchFilter, limit: int) -> tuple[list[Event], bool]:
        """Events by their words, newest first; and whether older ones may be missing."""

    def find_outcomes(self, wanted: outcomes.OutcomeQuery) -> list[Outcome]:
        """The outcome records of sessions, the newest first."""

    def make_brief(self, wanted: OutcomeQuery, zone: tzinfo) -> Brief:
        """The brief of a period; without one, of the newest day with sessions."""

    def read_period(self, wanted: OutcomeQuery, zone: tzinfo, newest_event: datetime | None = None) -> ReadPeriod:
        """The records of a period; without one, of the newest day with sessions or with another event."""


def resolve_scope(source: ToolSource, scope: str) -> str:
    """The scope of the log for a scope with logged or displayed names; an error with suggestions if there is none."""
    return name_lookup.resolve_scope(source.log, scope, lambda: source.snapshot(None, name_lookup.NEEDS))


class ServerSource:
    """The views of the HTTP server, which are kept up to date."""

    def __init__(self, context: AppContext) -> None:
        self._context, self.log, self.town = context, context.log, context.town
        self.prices = context.view_cache.costs.prices.date

    def snapshot(self, position: Position | None, views: Sequence[str]) -> AbstractContextManager[ViewSnapshot]:
        """Some views at the head."""
        return self._context.view_cache.snapshot(position, views)

    def find(self, text: str, wanted: search.SearchFilter, limit: int) -> tuple[list[Event], bool]:
        """Events by their words."""
        return self._context.search_index.find(text, wanted, limit)

    def find_outcomes(self, wanted: outcomes.OutcomeQuery) -> list[Outcome]:
        """The outcome records of sessions."""
        return self._context.view_cache.find_outcomes(wanted)

    def make_brief(self, wanted: OutcomeQuery, zone: tzinfo) -> Brief:
        """The brief of a period."""
        return self._context.view_cache.make_brief(wanted, zone)

    def read_period(self, wanted: OutcomeQuery, zone: tzinfo, newest_event: datetime | None = None) -> ReadPeriod:
        """The records of a period."""
        return self._context.view_cache.read_period(wanted, zone, newest_event)


class OnDemandSource:
    """Views that are folded when a tool is called: many such processes may be idle beside one log.

    Folds are kept in memory and in the projection store, so that only new events are read. `refresh` is called before each read.
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
        self._folds: dict[str, FoldRun[Any]] = {}
        self._fold_lock = RLock()

    @contextmanager
    def snapshot(self, position: Position | None, views: Sequence[str]) -> Iterator[ViewSnapshot]:
        """Some views at the head. They do not change within the block."""
        assert position is None, "tools only read the head"
        with self._fold_lock:
            self._refresh()
            self._fold({"calendar", *views})
            states = {name: fold.state for name, fold in self._folds.items()}
            at = self._folds["calendar"].position
            yield ViewSnapshot(states, self.log, at, states["calendar"].newest, self._now(), True, True)

    def _fold(self, names: set[str]) -> None:
        """Bring these views up to the head. After an erasure or a restored backup they are folded anew."""
        if any(fold.anchor is not None and not is_anchor_valid(self.log, fold.anchor) for fold in self._folds.values()):
            self._folds = {}
        store = self._find_store()
        while True:
            for name in names - set(self._folds):
                self._folds[name] = Runner(self.log, self._views[name], store).open_fold_run()
            wanted = [self._folds[name] for name in names]
            if advance_folds(self.log, wanted):
                break
            self._folds = {}
        for fold in wanted:
            fold.save_if_worthwhile()

    def find_outcomes(self, wanted: outcomes.OutcomeQuery) -> list[Outcome]:
        """The outcome records of sessions."""
        self._refresh()
        return outcomes.find_outcomes(self.log, now=self._now(), costs=self._costs, wanted=wanted, store=self._find_store())

    def make_brief(self, wanted: OutcomeQuery, zone: tzinfo) -> Brief:
        """The brief of a period."""
        return brief_of(self.read_period(wanted, zone), zone)

    def read_period(self, wanted: OutcomeQuery, zone: tzinfo, newest_event: datetime | None = None) -> ReadPeriod:
        """The records of a period."""
        self._refresh()
        return read_records(
            self.log,
            now=self._now(),
            zone=zone,
            costs=self._costs,
            wanted=wanted,
            store=self._find_store(),
            newest_day=wanted.since is None and wanted.until is None,
            newest_event=newest_event,
        )

    def find(self, text: str, wanted: search.SearchFilter, limit: int) -> tuple[list[Event], bool]:
        """Events by their words. A long log is indexed a few seconds per call; until it is done, only the newest events are searched."""
        self._refresh()
        store, until = self._find_store(), monotonic() + INDEXING_SECONDS
        if store is not None and search.count_unindexed(self.log, store) > MAX_INLINE_EVENTS:
            search.update_index(self.log, store, lambda: monotonic() >= until)
        if store is None or search.count_unindexed(self.log, store) <= MAX_INLINE_EVENTS:
            return search.find(self.log, text, wanted=wanted, limit=limit, store=store), False
        return search.find(self.log, text, wanted=wanted, limit=limit, scan_limit=search.NEWEST), True
