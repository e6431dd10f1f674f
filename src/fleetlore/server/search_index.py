"""Full-text search of the server: updates the index in a thread, and scans the newest events until it is up to date."""

from __future__ import annotations

import logging
from threading import Event as Flag
from threading import Thread

from fleetlore.errors import Closed, LogError
from fleetlore.events.envelope import Event
from fleetlore.log.base import Position
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections import search
from fleetlore.projections.live_views import FindStore, LiveViews
from fleetlore.projections.search import SearchFilter
from fleetlore.projections.store import ProjectionStore

_logger = logging.getLogger(__name__)

TICK_SECONDS = 2.0
MAX_INLINE_EVENTS = 2000
"""A request indexes at most this many new events itself; with more, it scans only the newest."""


class SearchIndex:
    """Finds events by their words. Call `start` before, `close` after use; `find` blocks."""

    def __init__(self, log: BlockingRecorder, find_store: FindStore, live_views: LiveViews) -> None:
        self._log, self._find_store, self._live_views = log, find_store, live_views
        self._store: ProjectionStore | None = None
        self._indexed: Position | None = None
        self._stop = Flag()
        self._thread = Thread(target=self._run_until_stopped, name="fleetlore-index", daemon=True)

    def start(self) -> None:
        """Start the thread. It indexes once the views have caught up: people wait for those first."""
        self._store = self._find_store()
        self._thread.start()

    def close(self) -> None:
        """Stop the thread; waits at most 10 s."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10.0)

    def find(self, text: str, wanted: SearchFilter, limit: int) -> tuple[list[Event], bool]:
        """The newest events with these words, and whether older ones may be missing from the index."""
        if self._store is None or search.count_unindexed(self._log, self._store) <= MAX_INLINE_EVENTS:
            return search.find_events(self._log, text, wanted=wanted, limit=limit, store=self._store), False
        return search.find_events(self._log, text, wanted=wanted, limit=limit, scan_limit=search.NEWEST), True

    def _run_until_stopped(self) -> None:
        failure: str | None = None
        while not self._stop.wait(TICK_SECONDS):
            try:
                self._update_index()
                failure = None
            except Closed:
                return
            except LogError:
                continue  # tried again with the next tick
            except Exception as error:  # any error: an index that stops silently would be worse
                if repr(error) != failure:  # not with every tick
                    _logger.exception("the search index cannot be updated; trying again every %g s", TICK_SECONDS)
                failure = repr(error)

    def _update_index(self) -> None:
        if self._store is None and self._live_views.has_checkpoints:
            self._store = self._find_store()
        if not self._live_views.caught_up or self._store is None:
            return
        head = self._log.head()
        # Without the comparison every tick would count the log. `update_index` is false while another process holds the store: try again.
        if head != self._indexed and search.update_index(self._log, self._store, self._should_stop):
            self._indexed = head

    def _should_stop(self) -> bool:
        self._live_views.pause_if_requested()
        return self._stop.is_set()
