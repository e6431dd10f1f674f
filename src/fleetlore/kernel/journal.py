"""The journal: reads state from the log, and appends what follows from that state. All runtimes and edges write through it.

`decide` is optimistic: a function derives events from the state, and they are appended on the condition that a scope has
not changed. On a conflict the state is read again and the function repeated; its events get new ids. If the answer of the log is
lost, the same events are appended again under the same ids, so they are stored once.

`record` is for a process that owns what it writes: events change the state at once and are appended in order, by `flush` at the
latest. Flush before anything that has an effect outside.

The rules are generators that yield log calls (`Steps`), so the blocking journal of commands and requests and the asyncio journal
of runtimes run the same code.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import aclosing, suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.errors import Busy, Conflict, Invalid, NoRoom, TooLarge, Unreachable
from fleetlore.log.base import TOWN, Expect, Position

if TYPE_CHECKING:
    import asyncio

    from fleetlore.events.envelope import Event
    from fleetlore.log.admission import Admission
    from fleetlore.log.async_recorder import Recorder
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.log.seal import OperatorKey

MAX_CONFLICTS = 50
RETRY_SECONDS = 0.5
MAX_BATCH_EVENTS = 200
MAX_SEEN_IDS = 100_000
RETRYABLE_ERRORS = (Busy, Unreachable, NoRoom)
"""Temporary errors. The events may be stored all the same."""

State = TypeVar("State")
Answer = TypeVar("Answer")
_T = TypeVar("_T")


class Decision(NamedTuple, Generic[Answer]):
    """Events that follow from a state, and what the caller is told once they are stored."""

    events: Sequence[Event]
    guard: str | Expect | None = None
    """The scope that must not have changed since the state was read, or its expected head if the state knows it."""
    answer: Answer = None  # type: ignore[assignment]


class StoredDecision(NamedTuple, Generic[Answer]):
    """A decision whose events are on the log, with their positions; no events if nothing was to be done."""

    events: list[Event]
    answer: Answer


class KnownState(NamedTuple, Generic[State]):
    """A state that is believed to be current, which saves reading it, and the newest position of its scope."""

    state: State
    position: Position | None


class StateFold(Protocol[State]):
    """How state follows from events; obeys only signed events where the log is sealed."""

    def initial(self) -> State:
        """The state before the first event."""

    def apply(self, state: State, event: Event, /) -> State:
        """Return the state after one more event; may modify the given one."""


class NoState:
    """The fold of a journal that reads nothing itself: its decisions look at views that others keep current."""

    def initial(self) -> None:
        """Nothing."""

    def apply(self, state: None, event: Event, /) -> None:
        """Nothing."""


# --- log calls


class _Read(NamedTuple):
    scope: str
    after: Position | None
    kinds: tuple[str, ...]


class _Head(NamedTuple):
    scope: str


class _Get(NamedTuple):
    ids: list[str]


class _Append(NamedTuple):
    events: list[Event]
    expect: Expect | None


class _Wait(NamedTuple):
    seconds: float


LogCall: TypeAlias = _Read | _Head | _Get | _Append | _Wait
Steps: TypeAlias = Generator[LogCall, Any, _T]
"""A computation that yields log calls and is sent their results."""


class JournalRules(Generic[State]):
    """What a journal knows and how it decides; `BlockingJournal` and `Journal` perform its log calls.

    It reads `scopes` and folds them in the order of the log. `retry_seconds` says how long temporary errors are retried, and
    `may_retry` can end that early, for example when a lease is lost.
    """

    def __init__(
        self,
        fold: StateFold[State],
        *,
        scopes: Sequence[str] = (TOWN,),
        kinds: Sequence[str] = (),
        known: KnownState[State] | None = None,
        admission: Admission | None = None,
        key: OperatorKey | None = None,
        retry_seconds: float = 0.0,
        may_retry: Callable[[], bool] = lambda: True,
        now: clock.Clock = clock.now,
        new_id: Callable[[], str] = clock.uuid7,
        ticks: Callable[[], float] = monotonic,
    ) -> None:
        self.fold, self.state = fold, fold.initial() if known is None else known.state
        self._heads: dict[str, Position | None] = dict.fromkeys(scopes, None if known is None else known.position)
        self._is_hint, self._has_exact_heads = known is not None, known is not None or not kinds
        """Whether nothing else is in the scopes up to the known heads. Of a scope read by kinds only the newest of those is known."""
        self._kinds, self._key, self._admit = tuple(kinds), key, admission.admit if admission is not None else None
        self._retry_seconds, self._may_retry = retry_seconds, may_retry
        self._now, self._new_id, self._ticks = now, new_id, ticks
        self._seen_ids, self._seen_order = set[str](), deque[str]()
        self._recorded: list[Event] = []

    @property
    def position(self) -> Position | None:
        """The newest position that the state contains."""
        return max((head for head in self._heads.values() if head is not None), default=None)

    # --- reading

    def apply_events(self, events: Sequence[Event]) -> list[Event]:
        """Apply stored events of the journal's scopes; returns those that were new, in order."""
        new = []
        for event in sorted(events, key=lambda one: one.position or ""):
            if self._add_seen_id(event.id or ""):
                self.state = self.fold.apply(self.state, event)
                new.append(event)
        return new

    def _add_seen_id(self, id: str) -> bool:
        if id in self._seen_ids:
            return False
        self._seen_ids.add(id)
        self._seen_order.append(id)
        if len(self._seen_order) > MAX_SEEN_IDS:
            self._seen_ids.discard(self._seen_order.popleft())
        return True

    def catch_up_steps(self) -> Steps[list[Event]]:
        """Read and apply what is new; returns it. A known state is only a hint: it is replaced by what the log says."""
        if self._is_hint:
            self.state, self._is_hint, self._heads = self.fold.initial(), False, dict.fromkeys(self._heads)
        found: dict[str, list[Event]] = {}
        for scope, head in list(self._heads.items()):
            found[scope] = yield _Read(scope, head, self._kinds)
        for scope, events in found.items():
            if events:
                self._heads[scope] = max(self._heads[scope] or "", events[-1].position or "")
        self._has_exact_heads = not self._kinds
        return self.apply_events([event for events in found.values() for event in events])

    # --- deciding

    def decide_steps(
        self, decide: Callable[[State], Decision[Answer]], *, is_current: bool = False, unguarded: bool = False
    ) -> Steps[StoredDecision[Answer]]:
        """Store what `decide` derives from the state.

        With `is_current` the first try uses the state as it is. With `unguarded` the last try has no condition: for events that
        must not be kept out by a busy scope. Raises `Busy` after `MAX_CONFLICTS` conflicts.
        """
        for tries_left in range(MAX_CONFLICTS - 1, -1, -1):
            if not is_current:
                yield from self.catch_up_steps()
            decision = decide(self.state)
            if not decision.events:
                if not is_current:
                    return StoredDecision([], decision.answer)
                is_current = False
                continue
            is_current = False
            guard = None if unguarded and not tries_left else decision.guard
            if isinstance(guard, str):
                guard = yield from self._expect_steps(guard)
                if guard is None:
                    continue
            signed = [self.sign_event(event) for event in decision.events]
            try:
                stored = yield from self.append_steps(signed, guard)
            except Conflict as conflict:
                self._on_conflict(conflict)
                continue
            return StoredDecision(stored, decision.answer)
        raise Busy("others write to this all the time, and nothing was stored; try again")

    def _expect_steps(self, scope: str) -> Steps[Expect | None]:
        """The condition that a scope is as the state knows it; `None` if it already has newer events."""
        if scope in self._heads and self._has_exact_heads:
            return Expect(scope, self._heads[scope])
        head: Position | None = yield _Head(scope)
        is_newer = head is not None and (self.position is None or head > self.position)
        if not is_newer:
            return Expect(scope, head)
        before = self.position
        yield from self.catch_up_steps()
        if self.position == before:  # the scope's newest events are of no kind that the state depends on
            return Expect(scope, head)
        return None

    def _on_conflict(self, conflict: Conflict) -> None:
        """Learn the actual head of a scope whose newest event was erased: reading it again finds nothing."""
        actual = conflict.actual
        known = self._heads.get(conflict.scope)
        if conflict.scope in self._heads and (actual is None or (known is not None and actual < known)):
            self._heads[conflict.scope] = actual

    def sign_event(self, event: Event) -> Event:
        """Return the event with an id and a time, signed if the log is sealed."""
        stamped = event
        if event.id is None or event.at is None:
            stamped = replace(event, id=event.id or self._new_id(), at=event.at or self._now())
        return stamped if self._key is None else self._key.sign_event(stamped, admit=self._admit)

    def append_steps(self, events: list[Event], expect: Expect | None) -> Steps[list[Event]]:
        """Append stamped events, all or none; returns them with their positions. Temporary errors are retried."""
        deadline = self._ticks() + self._retry_seconds
        is_outcome_unknown = False
        while True:
            try:
                positions: list[Position] = yield _Append(events, expect)
                return [replace(event, position=at) for event, at in zip(events, positions, strict=True)]
            except Conflict:
                if is_outcome_unknown:
                    stored: list[Event] = yield _Get([event.id or "" for event in events])
                    if len(stored) == len(events):  # the conflict is with our own events of the lost answer
                        by_id = {event.id: event for event in stored}
                        return [by_id[event.id] for event in events]
                raise
            except RETRYABLE_ERRORS:
                if self._ticks() >= deadline or not self._may_retry():
                    raise
                is_outcome_unknown = True
            yield _Wait(RETRY_SECONDS)

    # --- recording

    def record(self, events: Sequence[Event]) -> list[Event]:
        """Apply events to the state at once and queue them for `flush`; returns them with ids and times."""
        stamped = [self.sign_event(event) for event in events]
        for event in stamped:
            if self._add_seen_id(event.id or ""):
                self.state = self.fold.apply(self.state, event)
        self._recorded += stamped
        return stamped

    @property
    def has_recorded(self) -> bool:
        """Whether recorded events wait to be stored."""
        return bool(self._recorded)

    def flush_steps(self) -> Steps[list[Event]]:
        """Store recorded events in order; returns them with their positions.

        An event that the log refuses raises `Invalid` once the others of its batch are stored.
        """
        flushed: list[Event] = []
        size = MAX_BATCH_EVENTS
        refused: Invalid | None = None
        while self._recorded:
            batch = self._recorded[:size]
            try:
                flushed += yield from self.append_steps(batch, None)
            except TooLarge as error:
                if len(batch) > 1:
                    size = len(batch) // 2
                    continue
                refused = refused or error
            except Invalid as error:
                if len(batch) > 1:
                    size = 1
                    continue
                refused = refused or error
            del self._recorded[: len(batch)]
        if refused is not None:
            raise refused
        return flushed


class BlockingJournal(JournalRules[State]):
    """A journal for threads: commands, requests and tools. Imports no asyncio."""

    def __init__(self, log: BlockingRecorder, fold: StateFold[State], *, wait: Callable[[float], None] = sleep, **options: Any) -> None:
        super().__init__(fold, admission=log.backend_and_admission()[1], **options)
        self.log, self._wait = log, wait

    def catch_up(self) -> list[Event]:
        """Read and apply what is new; returns it."""
        return self._run_steps(self.catch_up_steps())

    def decide(self, decide: Callable[[State], Decision[Answer]], **options: bool) -> StoredDecision[Answer]:
        """Store what `decide` derives from the state; see `JournalRules.decide_steps`."""
        return self._run_steps(self.decide_steps(decide, **options))

    def append(self, events: Sequence[Event], *, expect: Expect | None = None) -> list[Event]:
        """Append events, all or none; returns them with their positions."""
        return self._run_steps(self.append_steps([self.sign_event(event) for event in events], expect))

    def flush(self) -> list[Event]:
        """Store recorded events."""
        return self._run_steps(self.flush_steps())

    def _run_steps(self, steps: Steps[_T]) -> _T:
        try:
            call = next(steps)
            while True:
                try:
                    result = self._perform(call)
                except Exception as error:  # noqa: BLE001 - the rules decide what it means
                    call = steps.throw(error)
                else:
                    call = steps.send(result)
        except StopIteration as end:
            result_of_steps: _T = end.value
            return result_of_steps

    def _perform(self, call: LogCall) -> object:
        match call:
            case _Read(scope, after, kinds):
                return list(self.log.read(scope, after=after, kinds=kinds))
            case _Head(scope):
                return self.log.head(scope)
            case _Get(ids):
                return self.log.get(ids)
            case _Append(events, expect):
                return self.log.append(events, expect=expect)
            case _Wait(seconds):
                return self._wait(seconds)


class Journal(JournalRules[State]):
    """A journal for asyncio: the runtimes. Many tasks may use it at once."""

    def __init__(
        self,
        log: Recorder,
        fold: StateFold[State],
        *,
        wait: Callable[[float], Awaitable[object]] | None = None,
        flushes_soon: bool = False,
        **options: Any,
    ) -> None:
        """With `flushes_soon` recorded events are stored without waiting for `flush`, together with others of the same moment."""
        import asyncio  # not at the top: commands use the blocking journal, and importing asyncio takes 40 ms

        super().__init__(fold, admission=log.admission, **options)
        self.log, self._wait, self._options, self._flushes_soon = log, wait or asyncio.sleep, options, flushes_soon
        self._loop, self._flush_lock = asyncio.get_running_loop(), asyncio.Lock()
        self._flush_task: asyncio.Task[None] | None = None
        self._is_flush_scheduled = False

    def narrow(self, fold: StateFold[_T], **options: Any) -> Journal[_T]:
        """A journal of its own for other scopes of the same log, with the same key, clock and retries."""
        return Journal(self.log, fold, wait=self._wait, **(self._options | options))

    async def catch_up(self) -> list[Event]:
        """Read and apply what is new; returns it."""
        return await self._run_steps(self.catch_up_steps())

    async def decide(self, decide: Callable[[State], Decision[Answer]], **options: bool) -> StoredDecision[Answer]:
        """Store what `decide` derives from the state; see `JournalRules.decide_steps`."""
        return await self._run_steps(self.decide_steps(decide, **options))

    async def append(self, events: Sequence[Event], *, expect: Expect | None = None) -> list[Event]:
        """Append events, all or none; returns them with their positions."""
        return await self._run_steps(self.append_steps([self.sign_event(event) for event in events], expect))

    async def append_all(self, events: Iterable[Event]) -> None:
        """Append any number of events in order, in several steps."""
        await self.log.append_all(map(self.sign_event, events))

    def record(self, events: Sequence[Event]) -> list[Event]:
        """Apply events to the state at once and queue them for `flush`; returns them with ids and times."""
        recorded = super().record(events)
        if self._flushes_soon and not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            # Runs after the current callbacks, so that steps in quick succession share one append.
            self._loop.call_soon(self._start_flush)
        return recorded

    def _start_flush(self) -> None:
        self._is_flush_scheduled = False
        if self.has_recorded:
            self._flush_task = self._loop.create_task(self._flush_quietly())

    async def _flush_quietly(self) -> None:
        with suppress(Exception):  # the next flush repeats the append and raises the error
            await self.flush()

    async def flush(self) -> list[Event]:
        """Store recorded events."""
        async with self._flush_lock:
            return await self._run_steps(self.flush_steps())

    async def follow(self) -> AsyncGenerator[Event, None]:
        """Yield new events of the journal's one scope as they arrive, each after it was applied."""
        [scope] = self._heads
        async with aclosing(self.log.follow(scope, after=self._heads[scope])) as events:
            async for event in events:
                self._heads[scope] = event.position
                for new in self.apply_events([event]):
                    yield new

    async def _run_steps(self, steps: Steps[_T]) -> _T:
        try:
            call = next(steps)
            while True:
                try:
                    result = await self._perform(call)
                except Exception as error:  # noqa: BLE001 - the rules decide what it means
                    call = steps.throw(error)
                else:
                    call = steps.send(result)
        except StopIteration as end:
            result_of_steps: _T = end.value
            return result_of_steps

    async def _perform(self, call: LogCall) -> object:
        match call:
            case _Read(scope, after, kinds):
                return [event async for event in self.log.read(scope, after=after, kinds=kinds)]
            case _Head(scope):
                return await self.log.head(scope)
            case _Get(ids):
                return await self.log.get(ids)
            case _Append(events, expect):
                return await self.log.append(events, expect=expect)
            case _Wait(seconds):
                return await self._wait(seconds)
