"""Runs folds over a log: from the nearest checkpoint to the head, on as the log grows, and back to any position.

A view's `apply` may modify the state it is given, so checkpoints are bytes and every caller gets a state of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from queue import Empty, Full, Queue
from threading import Event as Flag
from threading import Thread
from time import monotonic
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from fleetlore.errors import Closed, Invalid
from fleetlore.events.envelope import Event
from fleetlore.events.installed_kinds import combine_version
from fleetlore.events.installed_kinds import installed_beats as foreign_beats
from fleetlore.log.base import Position, position_after
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.store import EventAnchor, ProjectionStore, StoreAgreement, ViewCheckpoint, is_anchor_valid

State = TypeVar("State")

CHUNK = 1000
SAVE_AFTER = 1000
"""Folded events that make a checkpoint at the end worthwhile."""
SAVE_EVERY = 5_000
"""Events between checkpoints during a fold; `as_of` starts from them."""
SAVE_COST_FACTOR = 8
"""A checkpoint during a fold waits until folding took this many times as long as the last save."""
POLL_SECONDS = 0.1

ProgressCallback = Callable[[int, int], None]
"""Called with the number of folded events, and the total."""

# Errors for states that cannot be encoded or decoded; they are folded again next time.
_STATE_CODEC_ERRORS = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)


class Fold(Protocol[State]):
    """A fold, as the modules of `fleetlore.views` are."""

    VERSION: int

    def initial(self) -> State:
        """The state before the first event."""

    def apply(self, state: State, event: Event, /) -> State:
        """Return the state after one more event; may modify the given one. Never raises."""


@dataclass(frozen=True)
class LogView(Generic[State]):
    """A named fold. Checkpoints of other versions are not used."""

    name: str
    version: int
    state: type[State]
    """Can be encoded to bytes and back."""
    initial: Callable[[], State]
    apply: Callable[[State, Event], State]
    encode: Callable[[State], bytes] = msgspec.json.encode
    decode: Callable[[bytes], State] | None = None
    """Needed if the type alone does not say how to decode."""
    heeds_beats: bool = True
    """Whether beats of event kinds affect it. If not, kinds added by packages do not invalidate its checkpoints."""

    def decode_state(self, state: bytes) -> State:
        """Decode the state of a checkpoint."""
        return msgspec.json.decode(state, type=self.state) if self.decode is None else self.decode(state)


class FoldResult(NamedTuple, Generic[State]):
    """The result of a fold; the caller owns the state."""

    state: State
    position: Position | None
    """Position of the last folded event."""
    events: int
    """Number of events folded; on a trimmed log this may include trimmed ones."""


def make_view(fold: Fold[State], name: str) -> LogView[State]:
    """The view of a module of `fleetlore.views`: `make_view(fleet, "fleet")`."""
    heeds = getattr(fold, "HEEDS_BEATS", True)
    return LogView(name=name, version=fold.VERSION, state=type(fold.initial()), initial=fold.initial, apply=fold.apply, heeds_beats=heeds)


class Runner(Generic[State]):
    """One view of one log.

    With a store it resumes from checkpoints; without one it starts at the beginning each time.
    """

    def __init__(self, log: BlockingRecorder, view: LogView[State], store: ProjectionStore | None = None) -> None:
        # Kinds added by packages change the result, so checkpoints made with other packages are not used.
        added = foreign_beats() if view.heeds_beats else {}
        self._log, self._view, self._store = log, replace(view, version=combine_version(view.version, added)), store

    def catch_up(self, progress: ProgressCallback | None = None) -> FoldResult[State]:
        """Return the state at the log's head."""
        return self._fold_to(None, progress).to_result()

    def as_of(self, position: Position) -> FoldResult[State]:
        """Return the state at a position: everything up to it and nothing after it."""
        check_position(self._log, position)
        return self._fold_to(position, None).to_result()

    def keep_checkpoint(self, position: Position) -> None:
        """Save a checkpoint at a position and drop earlier ones; called before the log is trimmed up to there."""
        if self._store is not None:
            run = self._fold_to(position, None)
            self._store.drop_checkpoints(self._view.name, before=run.position)
            run.save_checkpoint()

    def keep_newest_checkpoint(self) -> None:
        """Drop every checkpoint but the newest, for large states that nobody looks back at."""
        if self._store is not None and (newest := self._store.newest_checkpoint(self._view.name, self._view.version)) is not None:
            self._store.drop_checkpoints(self._view.name, before=newest.place.position)

    def rebuild(self, progress: ProgressCallback | None = None) -> FoldResult[State]:
        """Return the state at the log's head, folded from the beginning; older checkpoints are dropped."""
        if self._store is not None:
            self._store.drop_checkpoints(self._view.name)
        return self._fold_to(None, progress).to_result()

    def follow(self, stop: Flag | None = None) -> Iterator[tuple[State, Event | None]]:
        """Yield the state at the head with no event, then the state after each new event, with the event.

        The state keeps changing: read it before the next step. Ends when the log is closed, or soon after `stop` is
        set. A `log.gap`, which is not in the log, is yielded but not folded.
        """
        run = self._fold_to(None, None)
        yield run.state, None
        with suppress(Closed):
            for event in follow_events(self._log, run.position, stop):
                if event.kind == "log.forgotten":
                    run = self._fold_to(event.position, None)
                elif not _is_gap_event(event):
                    run.fold_events([event])
                    if not run.save_if_due():
                        run = self._fold_to(event.position, None)
                yield run.state, event

    def open_fold_run(self, upto: Position | None = None, agreement: StoreAgreement | None = None) -> FoldRun[State]:
        """Return a fold that resumes from the newest checkpoint up to a position.

        `agreement` saves asking the store again.
        """
        if self._store is None:
            return self._new_fold(None)
        holds = self._store.is_synced_with(self._log) if agreement is None else agreement.holds
        return self._resume_fold(self._store, upto) if holds else self._new_fold(None)

    def _fold_to(self, upto: Position | None, progress: ProgressCallback | None) -> FoldRun[State]:
        agreement = None if self._store is None else self._store.sync_with_log(self._log)
        run = self.open_fold_run(upto, agreement)
        total = 0 if progress is None else (self._log.info() if agreement is None else agreement.info).events
        while not advance_folds(self._log, [run], upto=upto, progress=progress, total=total):
            run = self._new_fold(self._store if agreement is not None and agreement.holds else None)
        run.save_if_worthwhile()
        return run

    def _resume_fold(self, store: ProjectionStore, upto: Position | None) -> FoldRun[State]:
        swept = store.swept_position
        checkpoint = store.newest_checkpoint(self._view.name, self._view.version, upto=upto)
        if checkpoint is None:
            return self._new_fold(store)
        try:
            state = self._view.decode_state(checkpoint.state)
        except _STATE_CODEC_ERRORS:
            store.drop_checkpoints(self._view.name)
            return self._new_fold(store)
        return FoldRun(
            self._log, self._view, store, FoldResult(state, checkpoint.place.position, checkpoint.events), swept, checkpoint.place
        )

    def _new_fold(self, store: ProjectionStore | None) -> FoldRun[State]:
        # Events erased so far are not read any more.
        return FoldRun(self._log, self._view, store, FoldResult(self._view.initial(), None, 0), self._log.head())


class FoldRun(Generic[State]):
    """A fold in progress: a state and the position it has reached."""

    def __init__(
        self,
        log: BlockingRecorder,
        view: LogView[State],
        store: ProjectionStore | None,
        start: FoldResult[State],
        erasures_seen_to: Position | None,
        anchor: EventAnchor | None = None,
    ) -> None:
        self._log, self._view, self._store = log, view, store
        self.state, self.events = start.state, start.events
        self._erasures_seen_to = erasures_seen_to or ""
        self._anchor = self._verified_anchor = anchor
        self._saved_events, self._saved_at, self._save_seconds = start.events, monotonic(), 0.0

    @property
    def position(self) -> Position | None:
        """Position of the last folded event."""
        return None if self._anchor is None else self._anchor.position

    @property
    def anchor(self) -> EventAnchor | None:
        """Anchor of the last folded event, to check later that it is still there."""
        return self._anchor

    def to_result(self) -> FoldResult[State]:
        """Return the current state."""
        return FoldResult(self.state, self.position, self.events)

    def has_erasure_in(self, events: Iterable[Event]) -> bool:
        """Whether events were erased after this fold began to read."""
        return any(event.kind == "log.forgotten" and (event.position or "") > self._erasures_seen_to for event in events)

    def fold_new_events(self, events: Sequence[Event]) -> bool:
        """Fold those of the events that are new.

        Returns `False`, without folding any, if one of them reports an erasure after this fold began.
        """
        position = self.position
        new = (
            events
            if position is None or not events or (events[0].position or "") > position
            else [event for event in events if (event.position or "") > position]
        )
        if self.has_erasure_in(new):
            return False
        if new:
            self.fold_events(new)
        return True

    def fold_events(self, events: Sequence[Event]) -> None:
        """Fold events that follow the last one."""
        state, apply = self.state, self._view.apply
        for event in events:
            state = apply(state, event)
        self.state = state
        self.events += len(events)
        previous = events[-2].position if len(events) > 1 else self.position
        self._anchor = EventAnchor(events[-1].position or "", previous, events[-1].id or "")
        self._verified_anchor = self._verified_anchor or self._anchor

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether enough was folded since the last checkpoint."""
        return self.events - self._saved_events >= SAVE_EVERY and monotonic() - self._saved_at >= SAVE_COST_FACTOR * self._save_seconds

    def save_if_due(self) -> bool:
        """Save a checkpoint if one is due; `False` if the log is no longer the same."""
        return self._store_checkpoint() if self.is_checkpoint_due else True

    def save_if_worthwhile(self) -> None:
        """Save a checkpoint to resume from, if enough was folded."""
        if self.events - self._saved_events >= SAVE_AFTER:
            self._store_checkpoint()

    def save_checkpoint(self) -> None:
        """Save a checkpoint, however little was folded."""
        self._store_checkpoint()

    def _store_checkpoint(self) -> bool:
        if self._store is None or self._anchor is None or self._verified_anchor is None:
            return True
        start = monotonic()
        if not is_anchor_valid(
            self._log, self._verified_anchor
        ):  # a backup was restored, or this event erased, while reading; settled next time
            return False
        try:
            state = self._view.encode(self.state)
        except _STATE_CODEC_ERRORS:
            state = b""
        if state:
            checkpoint = ViewCheckpoint(
                view=self._view.name, version=self._view.version, place=self._anchor, events=self.events, state=state
            )
            self._store.save_checkpoint(checkpoint, heeded=self._erasures_seen_to)
        self._verified_anchor = self._anchor
        self._saved_events, self._saved_at = self.events, monotonic()
        self._save_seconds = self._saved_at - start
        return True


def check_position(log: BlockingRecorder, position: Position) -> None:
    """Raise `Invalid` for something that cannot be a position of this log."""
    head = log.head()
    if head is not None and (len(position) != len(head) or not (position.isascii() and position.isdecimal())):
        raise Invalid(f"not a position of this log: {position!r}; take one as `lore events --json` prints it")


def advance_folds(
    log: BlockingRecorder,
    runs: Sequence[FoldRun[Any]],
    *,
    upto: Position | None = None,
    progress: ProgressCallback | None = None,
    total: int = 0,
    save: bool = True,
) -> bool:
    """Advance several folds to a position or the head with one read; `False` if something was erased meanwhile.

    After `False` the folds may contain erased events and must be restarted. Checkpoints are saved on the way if
    `save`.
    """
    positions = [run.position for run in runs]
    after = None if None in positions else min(filter(None, positions), default=None)
    if upto == "":  # before the first event
        return True
    before = None if upto is None else position_after(upto)
    for events in split_chunks(log.read(after=after, before=before), CHUNK):
        for run in runs:
            if not run.fold_new_events(events):
                return False
        if progress is not None:
            done = max(run.events for run in runs)
            progress(done, max(total, done))
        for run in runs if save else ():
            run.save_if_due()
    return True


def split_chunks(events: Iterable[Event], size: int) -> Iterator[list[Event]]:
    """Split events into lists of at most `size`."""
    iterator = iter(events)
    while chunk := list(islice(iterator, size)):
        yield chunk


# --- following


def follow_events(log: BlockingRecorder, after: Position | None, stop: Flag | None) -> Iterator[Event]:
    """Yield the events after a position until the log is closed or `stop` is set.

    With `stop`, a separate thread waits for the log, so that a quiet log can be left. The thread ends with the next
    event, or when the log is closed.
    """
    if stop is None:
        yield from log.follow(after=after)
        return
    queue: Queue[Event | BaseException | None] = Queue(CHUNK)
    closed = Flag()
    Thread(target=_forward_events, args=(log, after, queue, closed), name="fleetlore-follow", daemon=True).start()
    try:
        while not stop.is_set():
            try:
                event = queue.get(timeout=POLL_SECONDS)
            except Empty:
                continue
            if event is None:
                return
            if isinstance(event, BaseException):
                raise event
            yield event
    finally:
        closed.set()


def _forward_events(log: BlockingRecorder, after: Position | None, queue: Queue[Event | BaseException | None], closed: Flag) -> None:
    try:
        for event in log.follow(after=after):
            if not _put_unless_closed(queue, event, closed):
                return
        _put_unless_closed(queue, None, closed)
    except BaseException as error:  # noqa: BLE001  # raised by `follow_events` instead
        _put_unless_closed(queue, error, closed)


def _put_unless_closed(queue: Queue[Event | BaseException | None], item: Event | BaseException | None, closed: Flag) -> bool:
    while not closed.is_set():
        try:
            queue.put(item, timeout=POLL_SECONDS)
        except Full:
            continue
        return True
    return False


def _is_gap_event(event: Event) -> bool:
    """Whether the event was made for a follower whose position was trimmed; it is not in the log."""
    return event.kind == "log.gap" and event.data.get("through") == event.position
