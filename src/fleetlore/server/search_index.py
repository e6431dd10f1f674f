"""The search over all text: an index that is brought up to date behind the scenes, and the newest events until it is."""

from __future__ import annotations

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

TICK = 2.0
NEAR = 2000
"""So many events are indexed while somebody waits."""


class Finder:
    """Finds events by their words. `start` it, `close` it."""

    def __init__(self, log: BlockingRecorder, find_store: FindStore, warm: LiveViews) -> None:
        self._log, self._find_store, self._warm = log, find_store, warm
        self._store: ProjectionStore | None = None
        self._indexed: Position | None = None
        self._stop = Flag()
        self._thread = Thread(target=self._run, name="fleetlore-index", daemon=True)

    def start(self) -> None:
        """Begin to index, once the views are there: they are what people wait for."""
        self._store = self._find_store()
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10.0)

    def find(self, text: str, wanted: SearchFilter, limit: int) -> tuple[list[Event], bool]:
        """The newest events with these words, and whether older ones may be missing because they are not indexed yet."""
        if self._store is None or search.count_unindexed(self._log, self._store) <= NEAR:
            return search.find(self._log, text, wanted=wanted, limit=limit, store=self._store), False
        return search.find(self._log, text, wanted=wanted, limit=limit, scan_limit=search.NEWEST), True

    def _run(self) -> None:
        while not self._stop.wait(TICK):
            try:
                self._bring_up()
            except Closed:
                return
            except LogError:
                continue  # it is tried again with the next tick

    def _bring_up(self) -> None:
        if self._store is None and self._warm.has_checkpoints:
            self._store = self._find_store()
        if not self._warm.caught_up or self._store is None:
            return
        head = self._log.head()
        # Else the log would be counted with every tick. Where the store was in another's hands, it is tried again.
        if head != self._indexed and search.update_index(self._log, self._store, self._is_over):
            self._indexed = head

    def _is_over(self) -> bool:
        self._warm.pause_if_requested()
        return self._stop.is_set()
