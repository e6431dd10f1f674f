"""Runs folds over a log: from the nearest checkpoint to its head, on as it grows, and back to any position. docs/state.md tells more.

A view's `apply` consumes the state that it is given, so checkpoints are bytes, and whoever asks is given a state of his own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from queue import Empty, Full, Queue
from threading import Event as Flag
from threading import Thread
from time import monotonic
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct, field

from fleetlore.errors import Closed, Invalid
from fleetlore.events.envelope import Event
from fleetlore.log.base import Position
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.state.store import Checkpoint, Place, Store, fits
from fleetlore.views.reading import stamp_of

State = TypeVar("State")

CHUNK = 1000
SAVE_AFTER = 1000
"""Events that must have been folded for a checkpoint to be worth its while at the end."""
SAVE_EVERY = 10_000
"""And on the way: what `as_of` starts from later."""
SAVE_SHARE = 20
"""A checkpoint on the way is put off until folding has taken so many times as long as the last one took to save."""
STRIDE = 1000
"""Events from one mark of time to the next."""
TICK = 0.1

Progress = Callable[[int, int], None]
"""Told how many events are folded, and out of how many."""

# What makes a state that cannot be kept; it is folded again next time.
_NOT_KEPT = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)


class Fold(Protocol[State]):
    """A fold, as the modules of `fleetlore.views` are."""

    VERSION: int

    def initial(self) -> State:
        """The state before the first event."""

    def apply(self, state: State, event: Event, /) -> State:
        """The state after one more event; may consume the one that it is given. Never raises."""


@dataclass(frozen=True)
class View(Generic[State]):
    """A fold, by name. A checkpoint of another version is not used."""

    name: str
    version: int
    state: type[State]
    """Encodes to JSON and back."""
    initial: Callable[[], State]
    apply: Callable[[State, Event], State]


class Folded(NamedTuple, Generic[State]):
    """A fold as it stands; the state is the receiver's own."""

    state: State
    position: Position | None
    """Of the last event that is in it."""
    events: int
    """How many were folded since the fold began, which on a trimmed log may be later than the log did."""


def view_of(fold: Fold[State], name: str) -> View[State]:
    """The view that a module of `fleetlore.views` is: `view_of(fleet, "fleet")`."""
    return View(name=name, version=fold.VERSION, state=type(fold.initial()), initial=fold.initial, apply=fold.apply)


class Runner(Generic[State]):
    """One view of one log. With a store it starts from what it folded before, without one at the beginning each time."""

    def __init__(self, log: BlockingRecorder, view: View[State], store: Store | None = None) -> None:
        self._log, self._view, self._store = log, view, store

    def catch_up(self, progress: Progress | None = None) -> Folded[State]:
        """The state at the log's head."""
        return self._run(None, progress).folded()

    def as_of(self, position: Position) -> Folded[State]:
        """The state as known at a position: all up to it, and nothing behind it."""
        head = self._log.head()
        if head is not None and (len(position) != len(head) or not position.isascii()):
            raise Invalid(f"not a position of this log: {position!r}; take one as `lore events --json` prints it")
        return self._run(position, None).folded()

    def keep(self, position: Position) -> None:
        """Keep a checkpoint of what is known at a position, and none of earlier: whoever trims the log up to there calls this first."""
        if self._store is not None:
            run = self._run(position, None)
            self._store.drop(self._view.name, before=run.position)
            run.save_now()

    def rebuild(self, progress: Progress | None = None) -> Folded[State]:
        """The state at the log's head, folded from the beginning; older checkpoints are dropped."""
        if self._store is not None:
            self._store.drop(self._view.name)
        return self._run(None, progress).folded()

    def follow(self, stop: Flag | None = None) -> Iterator[tuple[State, Event | None]]:
        """The state at the log's head with no event, and then the state after each event that comes, with the event.

        The state goes on changing: read it before the next step. Ends when the log is closed, or soon after `stop` is set. A
        `log.gap`, which is not in the log, is handed on and not folded.
        """
        run = self._run(None, None)
        yield run.state, None
        with suppress(Closed):
            for event in live(self._log, run.position, stop):
                if event.kind == "log.forgotten":
                    run = self._run(event.position, None)
                elif not _is_gap(event):
                    run.add([event])
                    if not run.save_on_the_way():
                        run = self._run(event.position, None)
                yield run.state, event

    def _run(self, upto: Position | None, progress: Progress | None) -> _Run[State]:
        """Fold up to a position, or to the head."""
        agreement = None if self._store is None else self._store.agree(self._log)
        store = self._store if agreement is not None and agreement.holds else None
        run = self._fresh(None) if store is None else self._start(store, upto)
        total = 0 if progress is None else (self._log.info() if agreement is None else agreement.info).events
        while not self._go(run, upto, progress, total):
            run = self._fresh(store)  # erased while we read: what we hold may be what was erased
        run.save_at_the_end()
        return run

    def _go(self, run: _Run[State], upto: Position | None, progress: Progress | None, total: int) -> bool:
        events: Iterable[Event] = self._log.read(after=run.position)
        for chunk in chunks(events, CHUNK):
            known = [event for event in chunk if upto is None or (event.position or "") <= upto]
            if run.is_undone_by(known):
                return False
            if known:
                run.add(known)
            if progress is not None:
                progress(run.events, max(total, run.events))
            if len(known) < len(chunk):
                break
            run.save_on_the_way()
        return True

    def _start(self, store: Store, upto: Position | None) -> _Run[State]:
        heeded = store.swept
        checkpoint = store.newest(self._view.name, self._view.version, upto=upto)
        if checkpoint is None:
            return self._fresh(store)
        try:
            state = msgspec.json.decode(checkpoint.state, type=self._view.state)
        except _NOT_KEPT:
            store.drop(self._view.name)
            return self._fresh(store)
        return _Run(self._log, self._view, store, Folded(state, checkpoint.place.position, checkpoint.events), heeded, checkpoint.place)

    def _fresh(self, store: Store | None) -> _Run[State]:
        # What was erased up to now is not read any more.
        return _Run(self._log, self._view, store, Folded(self._view.initial(), None, 0), self._log.head())


class _Run(Generic[State]):
    """A fold on its way."""

    def __init__(
        self,
        log: BlockingRecorder,
        view: View[State],
        store: Store | None,
        start: Folded[State],
        heeded: Position | None,
        place: Place | None = None,
    ) -> None:
        self._log, self._view, self._store = log, view, store
        self.state, self.events = start.state, start.events
        self._heeded = heeded or ""
        self._place = self._base = place
        self._saved, self._saved_at, self._cost = start.events, monotonic(), 0.0

    @property
    def position(self) -> Position | None:
        """Of the last event that is in it."""
        return None if self._place is None else self._place.position

    def folded(self) -> Folded[State]:
        """What is handed out."""
        return Folded(self.state, self.position, self.events)

    def is_undone_by(self, events: Iterable[Event]) -> bool:
        """Whether events were erased after we began to read."""
        return any(event.kind == "log.forgotten" and (event.position or "") > self._heeded for event in events)

    def add(self, events: list[Event]) -> None:
        """Fold some more."""
        state, apply = self.state, self._view.apply
        for event in events:
            state = apply(state, event)
        self.state = state
        self.events += len(events)
        previous = events[-2].position if len(events) > 1 else self.position
        self._place = Place(events[-1].position or "", previous, events[-1].id or "")
        self._base = self._base or self._place

    def save_on_the_way(self) -> bool:
        """Keep a checkpoint for later looks back, if enough was folded since the last; `False` if the log is not the one it was."""
        if self.events - self._saved >= SAVE_EVERY and monotonic() - self._saved_at >= SAVE_SHARE * self._cost:
            return self._save()
        return True

    def save_at_the_end(self) -> None:
        """Keep a checkpoint to go on from, if it is worth its while."""
        if self.events - self._saved >= SAVE_AFTER:
            self._save()

    def save_now(self) -> None:
        """Keep a checkpoint, however little was folded."""
        self._save()

    def _save(self) -> bool:
        if self._store is None or self._place is None or self._base is None:
            return True
        start = monotonic()
        if not fits(self._log, self._base):  # a backup was restored, or this erased, while we read: next time it is settled
            return False
        try:
            state = msgspec.json.encode(self.state)
        except _NOT_KEPT:
            state = b""
        if state:
            checkpoint = Checkpoint(view=self._view.name, version=self._view.version, place=self._place, events=self.events, state=state)
            self._store.save(checkpoint, heeded=self._heeded)
        self._base = self._place
        self._saved, self._saved_at = self.events, monotonic()
        self._cost = self._saved_at - start
        return True


def chunks(events: Iterable[Event], size: int) -> Iterator[list[Event]]:
    """Events, so many at a time."""
    each = iter(events)
    while chunk := list(islice(each, size)):
        yield chunk


# --- living on


def live(log: BlockingRecorder, after: Position | None, stop: Flag | None) -> Iterator[Event]:
    """What comes behind a position, until the log is closed or `stop` is set.

    With `stop` a thread of its own waits for the log, so that a quiet one can be left too; that thread ends with the
    next event, or when the log is closed.
    """
    if stop is None:
        yield from log.follow(after=after)
        return
    arrived: Queue[Event | BaseException | None] = Queue(CHUNK)
    left = Flag()
    Thread(target=_listen, args=(log, after, arrived, left), name="fleetlore-follow", daemon=True).start()
    try:
        while not stop.is_set():
            try:
                event = arrived.get(timeout=TICK)
            except Empty:
                continue
            if event is None:
                return
            if isinstance(event, BaseException):
                raise event
            yield event
    finally:
        left.set()


def _listen(log: BlockingRecorder, after: Position | None, arrived: Queue[Event | BaseException | None], left: Flag) -> None:
    try:
        for event in log.follow(after=after):
            if not _hand_over(arrived, event, left):
                return
        _hand_over(arrived, None, left)
    except BaseException as error:  # noqa: BLE001 - it belongs to the one who follows, not to this thread
        _hand_over(arrived, error, left)


def _hand_over(arrived: Queue[Event | BaseException | None], thing: Event | BaseException | None, left: Flag) -> bool:
    while not left.is_set():
        try:
            arrived.put(thing, timeout=TICK)
        except Full:
            continue
        return True
    return False


def _is_gap(event: Event) -> bool:
    """Whether this was made for a follower whose place was trimmed away, and is not itself in the log."""
    return event.kind == "log.gap" and event.data.get("through") == event.position


# --- from moments to positions


class Times(Struct, kw_only=True):
    """How the newest time grew along the log: a mark every so many events."""

    events: int = 0
    newest: datetime = datetime.min.replace(tzinfo=UTC)
    marks: list[tuple[Position, datetime]] = field(default_factory=list)
    """A position, and the newest `at` up to it."""


def _note_time(times: Times, event: Event) -> Times:
    times.events += 1
    times.newest = max(times.newest, stamp_of(event)[0])
    if times.events % STRIDE == 0:
        times.marks.append((event.position or "", times.newest))
    return times


TIMES = View(name="times", version=1, state=Times, initial=Times, apply=_note_time)


def position_at(
    log: BlockingRecorder, moment: datetime, *, store: Store | None = None, progress: Progress | None = None
) -> Position | None:
    """The last position at which nothing newer than a moment was known; `None` if the first event is newer already.

    A late event does not turn the clock back: what counts is the newest `at` up to each position.
    """
    if moment.tzinfo is None:
        raise Invalid("a moment needs a time zone, as datetime.now(UTC) has")
    marks = Runner(log, TIMES, store).catch_up(progress).state.marks
    index = bisect_right(marks, moment, key=lambda mark: mark[1])
    position = marks[index - 1][0] if index else None
    for event in log.read(after=position):  # what was newest up to the mark is not after the moment, and cannot end this
        if stamp_of(event)[0] > moment:
            break
        position = event.position
    return position
