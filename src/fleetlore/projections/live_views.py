"""Keeps several views of one log up to date with one thread and one read. Used by the server and live commands."""

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
"""Events folded per step; between steps readers get the states."""
REST_SECONDS = 0.5
PATIENCE = (0.2, 1.0, 5.0)
"""Seconds to wait after an error, growing with each one."""
BEGIN_SECONDS = 5.0
"""How long readers wait for the first state; if the log cannot be read there is none."""
SURE_SECONDS = 1.0
"""How often to check that the log is still the one that was folded."""
JOIN_SECONDS = 10.0
SAVE_SECONDS = 0.02
"""How long checkpoints are saved between two steps of folding; at least one is."""

ViewStates = Mapping[str, Any]
"""View name → state. The states change with every event, so read them only inside `open_states`."""


FindStore = Callable[[], ProjectionStore | None]
"""Opens the store of a log, or returns the open one; a new log has none before its first event."""


class LiveViews:
    """The views of a log at its head and, on demand, as of any position. Call `start` and `close`."""

    def __init__(self, log: BlockingRecorder, views: Mapping[str, LogView[Any]], find_store: FindStore = lambda: None) -> None:
        self._log, self._views, self._find_store = log, views, find_store
        self._store: ProjectionStore | None = None
        self._runners: dict[str, Runner[Any]] = {name: Runner(log, view) for name, view in views.items()}
        self._fold_runs: dict[str, FoldRun[Any]] = {}
        self._changed = Condition()
        self._stop = Flag()
        self._pause_requests, self._paused_at = 0, 0.0
        self._thread = Thread(target=self._run_until_stopped, name="fleetlore-warm", daemon=True)
        self.caught_up = False
        """Whether the head was reached since the last restart."""
        self.last_failure: str | None = None
        """Why nothing is being folded."""
        self.total = 0
        self.restart_count = 0
        """Number of (re)starts. Results from before the last one may contain erased events."""
        self.on_other_log: Callable[[], object] = lambda: None
        """Called when the log was replaced by a backup: caches elsewhere are invalid too."""

    def start(self) -> None:
        """Start the folding thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to stop; `close` waits for it."""
        self._stop.set()

    def close(self) -> None:
        """Stop the thread and save checkpoints."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(JOIN_SECONDS)
        with self._changed, suppress(LogError):  # without the log nothing can be saved
            self._changed.notify_all()
            for run in self._fold_runs.values():
                run.save_if_worthwhile()

    # --- pausing

    @contextmanager
    def yield_to_others(self) -> Iterator[None]:
        """Pause folding while the block runs, for at most half of the time."""
        with self._changed:
            self._pause_requests += 1
        try:
            yield
        finally:
            with self._changed:
                self._pause_requests -= 1
                self._changed.notify_all()

    def pause_if_requested(self) -> None:
        """Wait while others work, unless there was a pause just now."""
        with self._changed:
            if self._pause_requests and monotonic() - self._paused_at >= REST_SECONDS:
                self._changed.wait_for(lambda: self._stop.is_set() or not self._pause_requests, REST_SECONDS)
                self._paused_at = monotonic()

    # --- reading

    @property
    def has_checkpoints(self) -> bool:
        """Whether checkpoints are saved."""
        return self._store is not None

    @property
    def position(self) -> Position | None:
        """The position that all views have reached."""
        return min((run.position or "" for run in self._fold_runs.values()), default="") or None

    @property
    def folded_count(self) -> int:
        """Number of folded events."""
        return min((run.events for run in self._fold_runs.values()), default=0)

    @contextmanager
    def open_states(self) -> Iterator[ViewStates]:
        """The states at the head. They do not change inside the block: be brief and keep no reference."""
        with self._changed:
            self._changed.wait_for(lambda: self._stop.is_set() or self._fold_runs, BEGIN_SECONDS)
            if not self._fold_runs:
                raise LogError(f"the log cannot be read just now ({self.last_failure or 'it is being begun anew'}); try again in a moment")
            yield {name: run.state for name, run in self._fold_runs.items()}

    def wait_for(self, position: Position | None, timeout: float) -> bool:
        """Wait until a position is folded; return whether it is."""
        with self._changed:
            self._changed.wait_for(lambda: self._stop.is_set() or (self.caught_up and self._has_reached(position)), timeout)
            return self._has_reached(position)

    def _has_reached(self, position: Position | None) -> bool:
        return (self.position or "") >= (position or "")

    def as_of(self, position: Position, names: Sequence[str]) -> dict[str, Any]:
        """Return some views as of a position; the caller owns the states."""
        agreement = None if self._store is None else self._store.sync_with_log(self._log)
        while True:
            runs = {name: self._runners[name].open_fold_run(position, agreement) for name in names}
            if advance_folds(self._log, list(runs.values()), upto=position, save=False):
                return {name: run.state for name, run in runs.items()}
            agreement = None

    # --- folding

    def _run_until_stopped(self) -> None:
        failures = 0
        while not self._stop.is_set():
            try:
                self._resume_folds()
                if self._catch_up():
                    failures = 0
                    self._follow_log()
            except Closed:
                return
            except Exception as error:  # noqa: BLE001  # any error: views that stop silently would be worse
                self.last_failure = str(error) or repr(error)
                self._stop.wait(PATIENCE[min(failures, len(PATIENCE) - 1)])
                failures += 1

    def _resume_folds(self) -> None:
        """Resume from checkpoints, saved here or by others."""
        if self._store is None and (store := self._find_store()) is not None:
            self._store = store
            self._runners = {name: Runner(self._log, view, store) for name, view in self._views.items()}
        agreement = None if self._store is None else self._store.sync_with_log(self._log)
        runs = {name: runner.open_fold_run(None, agreement) for name, runner in self._runners.items()}
        with self._changed:
            self._fold_runs, self.caught_up = runs, False
            self.restart_count += 1
            self._changed.notify_all()

    def _catch_up(self) -> bool:
        """Fold what is in the log; `False` if folding has to start again."""
        self.total = self._log.info().events
        for chunk in split_chunks(self._log.read(after=self.position), CHUNK):
            if self._stop.is_set() or not self._fold_batch(chunk):
                return False
        with self._changed:
            self.caught_up, self.last_failure = True, None
            self._changed.notify_all()
        return True

    def _follow_log(self) -> None:
        """Fold new events until stopped or a restart is needed.

        The first events of a new log need a restart too: now there is a store.
        """
        is_new = self.position is None
        anchor, checked_at = self._common_anchor(), monotonic()
        with closing(self._log.follow_pages(after=self.position)) as pages:
            for page in pages:
                if monotonic() - checked_at >= SURE_SECONDS:
                    if anchor is not None and not is_anchor_valid(self._log, anchor):
                        self._discard_states()
                        self.on_other_log()
                        return
                    anchor, checked_at = self._common_anchor(), monotonic()
                if self._stop.is_set() or (page.rows and (not self._fold_batch(decode_all_stored(page.rows)) or is_new)):
                    return

    def _fold_batch(self, events: list[Event]) -> bool:
        """Fold some events; `False` if the states are invalid because of an erasure or a restored backup."""
        self.pause_if_requested()
        with self._changed:
            runs = self._fold_runs.values()
            is_whole = all(run.fold_new_events(events) for run in runs) and self._save_due_checkpoints()
            if not is_whole:
                self._discard_states()
            self._changed.notify_all()
        return is_whole

    def _save_due_checkpoints(self) -> bool:
        """Save due checkpoints for a moment; saving all large ones at once would make readers wait. Whether the log is still the same.

        Looking at the past starts from the oldest checkpoint of the views it needs, so they should be close to each other.
        """
        end = monotonic() + SAVE_SECONDS
        for run in self._fold_runs.values():
            if run.is_checkpoint_due:
                if not run.save_if_due():
                    return False
                if monotonic() >= end:
                    break
        return True

    def _discard_states(self) -> None:
        with self._changed:
            self._fold_runs, self.caught_up = {}, False  # readers must not use it any more

    def _common_anchor(self) -> EventAnchor | None:
        """Anchor of the last event that all views know."""
        return min((anchor for run in self._fold_runs.values() if (anchor := run.anchor)), default=None, key=attrgetter("position"))
