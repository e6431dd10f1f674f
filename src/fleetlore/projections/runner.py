"""Runs folds over a log: from the nearest checkpoint to its head, on as it grows, and back to any position. docs/state.md tells more.

A view's `apply` consumes the state that it is given, so checkpoints are bytes, and whoever asks is given a state of his own.
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
from fleetlore.events.installed_kinds import beats as foreign_beats
from fleetlore.events.installed_kinds import marked
from fleetlore.log.base import Position
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.store import EventAnchor, ProjectionStore, StoreAgreement, ViewCheckpoint, is_anchor_valid

State = TypeVar("State")

CHUNK = 1000
SAVE_AFTER = 1000
"""Events that must have been folded for a checkpoint to be worth its while at the end."""
SAVE_EVERY = 10_000
"""And on the way: what `as_of` starts from later."""
SAVE_COST_FACTOR = 8
"""A checkpoint on the way is put off until folding has taken so many times as long as the last one took to save."""
POLL_SECONDS = 0.1

ProgressCallback = Callable[[int, int], None]
"""Told how many events are folded, and out of how many."""

# What makes a state that cannot be kept; it is folded again next time.
_STATE_CODEC_ERRORS = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)


class Fold(Protocol[State]):
    """A fold, as the modules of `fleetlore.views` are."""

    VERSION: int

    def initial(self) -> State:
        """The state before the first event."""

    def apply(self, state: State, event: Event, /) -> State:
        """The state after one more event; may consume the one that it is given. Never raises."""


@dataclass(frozen=True)
class LogView(Generic[State]):
    """A fold, by name. A checkpoint of another version is not used."""

    name: str
    version: int
    state: type[State]
    """Encodes to bytes and back."""
    initial: Callable[[], State]
    apply: Callable[[State, Event], State]
    encode: Callable[[State], bytes] = msgspec.json.encode
    decode: Callable[[bytes], State] | None = None
    """Where the type alone does not say how."""
    heeds_beats: bool = True
    """Whether the beats of kinds have a say in it: else what packages add changes nothing, and what it knows of a trimmed log is kept."""

    def decode_state(self, state: bytes) -> State:
        """The state that a checkpoint holds."""
        return msgspec.json.decode(state, type=self.state) if self.decode is None else self.decode(state)


class FoldResult(NamedTuple, Generic[State]):
    """A fold as it stands; the state is the receiver's own."""

    state: State
    position: Position | None
    """Of the last event that is in it."""
    events: int
    """How many were folded since the fold began, which on a trimmed log may be later than the log did."""


def view_of(fold: Fold[State], name: str) -> LogView[State]:
    """The view that a module of `fleetlore.views` is: `view_of(fleet, "fleet")`."""
    heeds = getattr(fold, "HEEDS_BEATS", True)
    return LogView(name=name, version=fold.VERSION, state=type(fold.initial()), initial=fold.initial, apply=fold.apply, heeds_beats=heeds)


class Runner(Generic[State]):
    """One view of one log. With a store it starts from what it folded before, without one at the beginning each time."""

    def __init__(self, log: BlockingRecorder, view: LogView[State], store: ProjectionStore | None = None) -> None:
        # What packages add to the kinds changes what is folded, so a checkpoint made without them, or with others, is not used.
        added = foreign_beats() if view.heeds_beats else {}
        self._log, self._view, self._store = log, replace(view, version=marked(view.version, added)), store

    def catch_up(self, progress: ProgressCallback | None = None) -> FoldResult[State]:
        """The state at the log's head."""
        return self._fold_to(None, progress).to_result()

    def as_of(self, position: Position) -> FoldResult[State]:
        """The state as known at a position: all up to it, and nothing behind it."""
        check_position(self._log, position)
        return self._fold_to(position, None).to_result()

    def keep_checkpoint(self, position: Position) -> None:
        """Keep a checkpoint of what is known at a position, and none of earlier: whoever trims the log up to there calls this first."""
        if self._store is not None:
            run = self._fold_to(position, None)
            self._store.drop_checkpoints(self._view.name, before=run.position)
            run.save_checkpoint()

    def keep_newest_checkpoint(self) -> None:
        """Drop every checkpoint but the newest: of a state that is large, and that nobody looks back at."""
        if self._store is not None and (newest := self._store.newest_checkpoint(self._view.name, self._view.version)) is not None:
            self._store.drop_checkpoints(self._view.name, before=newest.place.position)

    def rebuild(self, progress: ProgressCallback | None = None) -> FoldResult[State]:
        """The state at the log's head, folded from the beginning; older checkpoints are dropped."""
        if self._store is not None:
            self._store.drop_checkpoints(self._view.name)
        return self._fold_to(None, progress).to_result()

    def follow(self, stop: Flag | None = None) -> Iterator[tuple[State, Event | None]]:
        """The state at the log's head with no event, and then the state after each event that comes, with the event.

        The state goes on changing: read it before the next step. Ends when the log is closed, or soon after `stop` is set. A
        `log.gap`, which is not in the log, is handed on and not folded.
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
        """The fold as it was last kept, up to a position or at all; `go_on` takes it further. What the store agreed on may be given."""
        if self._store is None:
            return self._new_fold(None)
        holds = self._store.is_synced_with(self._log) if agreement is None else agreement.holds
        return self._resume_fold(self._store, upto) if holds else self._new_fold(None)

    def _fold_to(self, upto: Position | None, progress: ProgressCallback | None) -> FoldRun[State]:
        """Fold up to a position, or to the head."""
        agreement = None if self._store is None else self._store.sync_with_log(self._log)
        course = self.open_fold_run(upto, agreement)
        total = 0 if progress is None else (self._log.info() if agreement is None else agreement.info).events
        while not advance_folds(self._log, [course], upto=upto, progress=progress, total=total):
            course = self._new_fold(self._store if agreement is not None and agreement.holds else None)
        course.save_if_worthwhile()
        return course

    def _resume_fold(self, store: ProjectionStore, upto: Position | None) -> FoldRun[State]:
        heeded = store.swept_position
        checkpoint = store.newest_checkpoint(self._view.name, self._view.version, upto=upto)
        if checkpoint is None:
            return self._new_fold(store)
        try:
            state = self._view.decode_state(checkpoint.state)
        except _STATE_CODEC_ERRORS:
            store.drop_checkpoints(self._view.name)
            return self._new_fold(store)
        return FoldRun(
            self._log, self._view, store, FoldResult(state, checkpoint.place.position, checkpoint.events), heeded, checkpoint.place
        )

    def _new_fold(self, store: ProjectionStore | None) -> FoldRun[State]:
        # What was erased up to now is not read any more.
        return FoldRun(self._log, self._view, store, FoldResult(self._view.initial(), None, 0), self._log.head())


class FoldRun(Generic[State]):
    """A fold on its way: a state, and how far the log is in it."""

    def __init__(
        self,
        log: BlockingRecorder,
        view: LogView[State],
        store: ProjectionStore | None,
        start: FoldResult[State],
        heeded: Position | None,
        place: EventAnchor | None = None,
    ) -> None:
        self._log, self._view, self._store = log, view, store
        self.state, self.events = start.state, start.events
        self._erasures_seen_to = heeded or ""
        self._anchor = self._verified_anchor = place
        self._saved_events, self._saved_at, self._save_seconds = start.events, monotonic(), 0.0

    @property
    def position(self) -> Position | None:
        """Of the last event that is in it."""
        return None if self._anchor is None else self._anchor.position

    @property
    def anchor(self) -> EventAnchor | None:
        """Where that event is, to ask later whether it still is."""
        return self._anchor

    def to_result(self) -> FoldResult[State]:
        """What is handed out."""
        return FoldResult(self.state, self.position, self.events)

    def has_erasure_in(self, events: Iterable[Event]) -> bool:
        """Whether events were erased after we began to read."""
        return any(event.kind == "log.forgotten" and (event.position or "") > self._erasures_seen_to for event in events)

    def fold_new_events(self, events: Sequence[Event]) -> bool:
        """Fold what is new among these; `False`, and nothing is folded, if one of them says that something was erased after we began."""
        behind = self.position
        new = (
            events
            if behind is None or not events or (events[0].position or "") > behind
            else [event for event in events if (event.position or "") > behind]
        )
        if self.has_erasure_in(new):
            return False
        if new:
            self.fold_events(new)
        return True

    def fold_events(self, events: Sequence[Event]) -> None:
        """Fold some more."""
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
        """Whether enough was folded since the last checkpoint for another one."""
        return self.events - self._saved_events >= SAVE_EVERY and monotonic() - self._saved_at >= SAVE_COST_FACTOR * self._save_seconds

    def save_if_due(self) -> bool:
        """Keep a checkpoint for later looks back, if enough was folded since the last; `False` if the log is not the one it was."""
        return self._store_checkpoint() if self.is_checkpoint_due else True

    def save_if_worthwhile(self) -> None:
        """Keep a checkpoint to go on from, if it is worth its while."""
        if self.events - self._saved_events >= SAVE_AFTER:
            self._store_checkpoint()

    def save_checkpoint(self) -> None:
        """Keep a checkpoint, however little was folded."""
        self._store_checkpoint()

    def _store_checkpoint(self) -> bool:
        if self._store is None or self._anchor is None or self._verified_anchor is None:
            return True
        start = monotonic()
        if not is_anchor_valid(
            self._log, self._verified_anchor
        ):  # a backup was restored, or this erased, while we read: next time it is settled
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
    """Refuse what cannot be a position of a log."""
    head = log.head()
    if head is not None and (len(position) != len(head) or not position.isascii()):
        raise Invalid(f"not a position of this log: {position!r}; take one as `lore events --json` prints it")


def advance_folds(
    log: BlockingRecorder,
    courses: Sequence[FoldRun[Any]],
    *,
    upto: Position | None = None,
    progress: ProgressCallback | None = None,
    total: int = 0,
    save: bool = True,
) -> bool:
    """Take several folds up to a position, or to the head, with one reading; `False` if something was erased while we read.

    What they hold may then be what was erased: they are to be begun anew. Checkpoints are kept on the way unless told otherwise.
    """
    known = [course.position for course in courses]
    after = None if None in known else min(filter(None, known), default=None)
    for chunk in split_chunks(log.read(after=after), CHUNK):
        events = [event for event in chunk if upto is None or (event.position or "") <= upto]
        for course in courses:
            if not course.fold_new_events(events):
                return False
        if progress is not None:
            done = max(course.events for course in courses)
            progress(done, max(total, done))
        if len(events) < len(chunk):
            break
        for course in courses if save else ():
            course.save_if_due()
    return True


def split_chunks(events: Iterable[Event], size: int) -> Iterator[list[Event]]:
    """Events, so many at a time."""
    each = iter(events)
    while chunk := list(islice(each, size)):
        yield chunk


# --- living on


def follow_events(log: BlockingRecorder, after: Position | None, stop: Flag | None) -> Iterator[Event]:
    """What comes behind a position, until the log is closed or `stop` is set.

    With `stop` a thread of its own waits for the log, so that a quiet one can be left too; that thread ends with the
    next event, or when the log is closed.
    """
    if stop is None:
        yield from log.follow(after=after)
        return
    arrived: Queue[Event | BaseException | None] = Queue(CHUNK)
    left = Flag()
    Thread(target=_forward_events, args=(log, after, arrived, left), name="fleetlore-follow", daemon=True).start()
    try:
        while not stop.is_set():
            try:
                event = arrived.get(timeout=POLL_SECONDS)
            except Empty:
                continue
            if event is None:
                return
            if isinstance(event, BaseException):
                raise event
            yield event
    finally:
        left.set()


def _forward_events(log: BlockingRecorder, after: Position | None, arrived: Queue[Event | BaseException | None], left: Flag) -> None:
    try:
        for event in log.follow(after=after):
            if not _put_unless_left(arrived, event, left):
                return
        _put_unless_left(arrived, None, left)
    except BaseException as error:  # noqa: BLE001 - it belongs to the one who follows, not to this thread
        _put_unless_left(arrived, error, left)


def _put_unless_left(arrived: Queue[Event | BaseException | None], thing: Event | BaseException | None, left: Flag) -> bool:
    while not left.is_set():
        try:
            arrived.put(thing, timeout=POLL_SECONDS)
        except Full:
            continue
        return True
    return False


def _is_gap_event(event: Event) -> bool:
    """Whether this was made for a follower whose place was trimmed away, and is not itself in the log."""
    return event.kind == "log.gap" and event.data.get("through") == event.position
