"""Several views of one log, kept up to date by one thread and one reading, for whoever asks again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from operator import attrgetter
from threading import Condition, Thread
from threading import Event as Flag
from time import monotonic
from typing import Any

from fleetlore.errors import Closed, LogError
from fleetlore.events.envelope import Event
from fleetlore.log.base import Position
from fleetlore.log.reading import decode_all_stored
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.runner import FoldRun, LogView, Runner, advance_folds, split_chunks
from fleetlore.projections.store import EventAnchor, ProjectionStore, is_anchor_valid

CHUNK = 250
"""Events that are folded before others may look."""
REST_SECONDS = 0.5
PATIENCE = (0.2, 1.0, 5.0)
"""Seconds to wait after a trouble with the log, longer each time."""
BEGIN_SECONDS = 5.0
"""How long whoever looks waits for the first state; where the log cannot be read there is none."""
SURE_SECONDS = 1.0
"""How often the log is asked whether it still is the one that was folded."""
JOIN_SECONDS = 10.0

ViewStates = Mapping[str, Any]
"""View → its state. That of the head goes on changing: it is looked at inside `looking` alone."""


FindStore = Callable[[], ProjectionStore | None]
"""Opens the store of a log, or answers with the one that it opened; a new log has none before its first event."""


class LiveViews:
    """The views of a log at its head, and on demand as of any position. `start` it, `close` it."""

    def __init__(self, log: BlockingRecorder, views: Mapping[str, LogView[Any]], find_store: FindStore = lambda: None) -> None:
        self._log, self._views, self._find_store = log, views, find_store
        self._store: ProjectionStore | None = None
        self._runners: dict[str, Runner[Any]] = {name: Runner(log, view) for name, view in views.items()}
        self._fold_runs: dict[str, FoldRun[Any]] = {}
        self._changed = Condition()
        self._stop = Flag()
        self._yielding_count, self._rested_at = 0, 0.0
        self._thread = Thread(target=self._run, name="fleetlore-warm", daemon=True)
        self.caught_up = False
        """Whether the head was reached since all was last begun."""
        self.last_failure: str | None = None
        """Why nothing is folded just now."""
        self.total = 0
        self.restart_count = 0
        """How often all was begun, at first and anew: what was answered before the last time may hold what was erased."""
        self.on_other_log: Callable[[], object] = lambda: None
        """Called when a backup was put in the log's place: what others keep of it is not to be believed any more, either."""

    def start(self) -> None:
        """Begin to fold."""
        self._thread.start()

    def stop(self) -> None:
        """Have it end soon; `close` waits for that."""
        self._stop.set()

    def close(self) -> None:
        """End it, and keep what was folded."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(JOIN_SECONDS)
        with self._changed, suppress(LogError):  # where the log is gone, nothing can be kept
            self._changed.notify_all()
            for course in self._fold_runs.values():
                course.save_if_worthwhile()

    # --- giving way

    @contextmanager
    def yield_to_others(self) -> Iterator[None]:
        """Let others work as long as the block lasts: folding rests, half of the time at the most."""
        with self._changed:
            self._yielding_count += 1
        try:
            yield
        finally:
            with self._changed:
                self._yielding_count -= 1
                self._changed.notify_all()

    def rest(self) -> None:
        """Wait while somebody else works, unless it was rested just now."""
        with self._changed:
            if self._yielding_count and monotonic() - self._rested_at >= REST_SECONDS:
                self._changed.wait_for(lambda: self._stop.is_set() or not self._yielding_count, REST_SECONDS)
                self._rested_at = monotonic()

    # --- looking

    @property
    def has_checkpoints(self) -> bool:
        """Whether checkpoints are kept."""
        return self._store is not None

    @property
    def position(self) -> Position | None:
        """Up to where all views know the log."""
        return min((course.position or "" for course in self._fold_runs.values()), default="") or None

    @property
    def folded_count(self) -> int:
        """How many events are folded."""
        return min((course.events for course in self._fold_runs.values()), default=0)

    @contextmanager
    def open_states(self) -> Iterator[ViewStates]:
        """The states at the head, which stand still as long as the block lasts: be brief, and keep nothing of them."""
        with self._changed:
            self._changed.wait_for(lambda: self._stop.is_set() or self._fold_runs, BEGIN_SECONDS)
            if not self._fold_runs:
                raise LogError(f"the log cannot be read just now ({self.last_failure or 'it is being begun anew'}); try again in a moment")
            yield {name: course.state for name, course in self._fold_runs.items()}

    def wait_for(self, position: Position | None, timeout: float) -> bool:
        """Wait until a position is known; whether it is."""
        with self._changed:
            self._changed.wait_for(lambda: self._stop.is_set() or (self.caught_up and self._has_reached(position)), timeout)
            return self._has_reached(position)

    def _has_reached(self, position: Position | None) -> bool:
        return (self.position or "") >= (position or "")

    def as_of(self, position: Position, names: Sequence[str]) -> dict[str, Any]:
        """Some views as known at a position, the receiver's own."""
        agreement = None if self._store is None else self._store.sync_with_log(self._log)
        while True:
            courses = {name: self._runners[name].open_fold_run(position, agreement) for name in names}
            if advance_folds(self._log, list(courses.values()), upto=position, save=False):
                return {name: course.state for name, course in courses.items()}
            agreement = None

    # --- folding

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            try:
                self._begin()
                if self._catch_up():
                    failures = 0
                    self._follow_log()
            except Closed:
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, views that stand still and do not say so help nobody
                self.last_failure = str(error) or repr(error)
                self._stop.wait(PATIENCE[min(failures, len(PATIENCE) - 1)])
                failures += 1

    def _begin(self) -> None:
        """Take up what was folded before, here or by others."""
        if self._store is None and (store := self._find_store()) is not None:
            self._store = store
            self._runners = {name: Runner(self._log, view, store) for name, view in self._views.items()}
        agreement = None if self._store is None else self._store.sync_with_log(self._log)
        courses = {name: runner.open_fold_run(None, agreement) for name, runner in self._runners.items()}
        with self._changed:
            self._fold_runs, self.caught_up = courses, False
            self.restart_count += 1
            self._changed.notify_all()

    def _catch_up(self) -> bool:
        """Fold what is there; `False` if it has to be begun anew."""
        self.total = self._log.info().events
        for chunk in split_chunks(self._log.read(after=self.position), CHUNK):
            if self._stop.is_set() or not self._take(chunk):
                return False
        with self._changed:
            self.caught_up, self.last_failure = True, None
            self._changed.notify_all()
        return True

    def _follow_log(self) -> None:
        """Fold what comes, until told to stop or all has to be begun anew: after the first events of all, too, for now there is a store."""
        is_new = self.position is None
        known, looked_at = self._common_anchor(), monotonic()
        with closing(self._log.follow_pages(after=self.position)) as pages:
            for page in pages:
                if monotonic() - looked_at >= SURE_SECONDS:
                    if known is not None and not is_anchor_valid(self._log, known):
                        self._discard_states()
                        self.on_other_log()
                        return
                    known, looked_at = self._common_anchor(), monotonic()
                if self._stop.is_set() or (page.rows and (not self._take(decode_all_stored(page.rows)) or is_new)):
                    return

    def _take(self, events: list[Event]) -> bool:
        """Fold some events; `False` if what is folded is not to be believed any more: something was erased, or a backup put in place."""
        self.rest()
        with self._changed:
            courses = self._fold_runs.values()
            is_whole = all(course.fold_new_events(events) for course in courses) and self._save_due_checkpoint()
            if not is_whole:
                self._discard_states()
            self._changed.notify_all()
        return is_whole

    def _save_due_checkpoint(self) -> bool:
        """Keep one of the checkpoints that are due: whoever looks waits for it, and need not wait for all. `False` as `save_on_the_way`."""
        return next((course.save_if_due() for course in self._fold_runs.values() if course.is_checkpoint_due), True)

    def _discard_states(self) -> None:
        with self._changed:
            self._fold_runs, self.caught_up = {}, False  # nobody looks at it any more

    def _common_anchor(self) -> EventAnchor | None:
        """Of the last event that all views know."""
        return min((place for course in self._fold_runs.values() if (place := course.anchor)), default=None, key=attrgetter("position"))
