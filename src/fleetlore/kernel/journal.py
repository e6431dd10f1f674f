"""The journal: reads state from the log, and appends what follows from that state. All runtimes and edges write through it.

`decide` is optimistic: a function derives events from the state, and they are appended on the condition that a scope has
not changed. On a conflict the state is read again and the function repeated; its events get new ids. If the answer of the log is
lost, the same events are appended again under the same ids, so they are stored once.

`record` is for a process that owns what it writes: events change the state at once and are appended in order, by `flush` at the
latest. Flush before anything that has an effect outside.

`lease` is for what one process at a time may do: its block is cancelled when the lease is lost.

A runtime names the scope that it `owns`. Every append is then on the condition that the state has all events of that scope, so a
process that lost its lease without noticing writes nothing over its successor. Its own events are admitted first and applied as the
log will store them, redacted and cut, so they need not be read back.

The rules are generators that yield log calls (`Steps`), so the blocking journal of commands and requests and the asyncio journal
of runtimes run the same code.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from msgspec.structs import replace

from fleetlore import clock, tasks
from fleetlore.errors import Busy, Conflict, Invalid, StorageFull, TooLarge, Unreachable
from fleetlore.events import codec
from fleetlore.log.base import TOWN, Expect, Position, event_scopes

if TYPE_CHECKING:
    import asyncio

    from fleetlore.events.envelope import Event
    from fleetlore.kernel.lease import LeaseHolder
    from fleetlore.log.admission import Admission
    from fleetlore.log.async_recorder import Recorder
    from fleetlore.log.base import Record
    from fleetlore.log.coordination import Coordination
    from fleetlore.log.recorder import BlockingRecorder

MAX_CONFLICTS = 50
RETRY_SECONDS = 0.5
MAX_BATCH_EVENTS = 200
MAX_RECORDED_WITH_DECISION = 50
"""At most this many recorded events are stored in the same append as a decision; more are stored before it."""
MAX_SEEN_IDS = 100_000
RETRYABLE_ERRORS = (Busy, Unreachable, StorageFull)
"""Temporary errors. The events may be stored all the same."""

State = TypeVar("State")
Answer = TypeVar("Answer")
_T = TypeVar("_T")


class JournalDecision(NamedTuple, Generic[Answer]):
    """Events that follow from a state, and the answer to the caller once they are stored."""

    events: Sequence[Event]
    guard: str | Expect | None = None
    """The scope that must not have changed since the state was read, or its expected head if the state knows it."""
    answer: Answer = None  # type: ignore[assignment]


class StoredDecision(NamedTuple, Generic[Answer]):
    """A decision whose events are in the log, with their positions; no events if nothing was to be done."""

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


class EventSigner(Protocol):
    """Signs events on a sealed log."""

    def sign_event(self, event: Event, /, *, admit: Callable[[Event], Record] | None = None) -> Event:
        """Return the event signed, as the log will store it."""


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


class _EnsureHeld(NamedTuple):
    lease: LeaseHolder


LogCall: TypeAlias = _Read | _Head | _Get | _Append | _Wait | _EnsureHeld
Steps: TypeAlias = Generator[LogCall, Any, _T]
"""A computation that yields log calls and is sent their results."""


class JournalRules(Generic[State]):
    """What a journal knows and how it decides; `BlockingJournal` and `Journal` perform its log calls.

    It reads `scopes` and folds them in the order of the log. `retry_seconds` says how long temporary errors are retried, and
    `may_retry` can end that early, for example when a lease is lost. `owns` is one of the scopes; see the top of this module.
    """

    def __init__(
        self,
        fold: StateFold[State],
        *,
        scopes: Sequence[str] = (TOWN,),
        kinds: Sequence[str] = (),
        known: KnownState[State] | None = None,
        admission: Admission | None = None,
        key: EventSigner | None = None,
        owns: str | None = None,
        retry_seconds: float = 0.0,
        may_retry: Callable[[], bool] = lambda: True,
        now: clock.Clock = clock.now,
        new_id: Callable[[], str] = clock.uuid7,
        ticks: Callable[[], float] = clock.ticks,
    ) -> None:
        self.fold, self.state = fold, fold.initial() if known is None else known.state
        self._heads: dict[str, Position | None] = dict.fromkeys(scopes, None if known is None else known.position)
        self._is_hint, self._has_exact_heads = known is not None, known is not None or not kinds
        """Whether nothing else is in the scopes up to the known heads. Of a scope read by kinds only the newest of those is known."""
        self._kinds, self._key, self._admit = tuple(kinds), key, admission.admit if admission is not None else None
        self._owned = owns
        self._retry_seconds, self._may_retry = retry_seconds, may_retry
        self.now, self.new_id, self.ticks = now, new_id, ticks
        self._fence: LeaseHolder | None = None
        """The lease without which nothing may be appended."""
        self._is_cancelled = False
        """Whether the caller was cancelled, and waits only for what is under way."""
        self._seen_ids, self._seen_order = set[str](), deque[str]()
        self._recorded: dict[str, Event] = {}
        """By id, in order."""
        self._records: dict[str, Record] = {}
        """An owner's admitted events that are not stored yet, by id."""

    @property
    def position(self) -> Position | None:
        """The newest position that the state contains."""
        return max((head for head in self._heads.values() if head is not None), default=None)

    # --- reading

    def apply_events(self, events: Sequence[Event]) -> list[Event]:
        """Apply stored events of the journal's scopes; returns those that were not known to be stored, in order."""
        new = []
        for event in sorted(events, key=lambda one: one.position or ""):
            id = event.id or ""
            is_new = self._add_seen_id(id)
            if is_new:
                self.state = self.fold.apply(self.state, event)
            if self._drop_recorded(id) or is_new:
                new.append(event)
        return new

    def _drop_recorded(self, id: str) -> bool:
        self._records.pop(id, None)
        return self._recorded.pop(id, None) is not None

    def add_scope(self, scope: str) -> None:
        """Read another scope from now on."""
        self._heads.setdefault(scope, None)

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
        # The scope that was added last is read first. A decision guarded by it has then seen all that was stored together with it.
        for scope, head in reversed(list(self._heads.items())):
            found[scope] = yield _Read(scope, head, self._kinds)
        for scope, events in found.items():
            if events:
                self._heads[scope] = max(self._heads[scope] or "", events[-1].position or "")
        self._has_exact_heads = not self._kinds
        return self.apply_events([event for events in found.values() for event in events])

    # --- deciding

    def decide_steps(
        self, decide: Callable[[State], JournalDecision[Answer]], *, is_current: bool = False, unguarded: bool = False
    ) -> Steps[StoredDecision[Answer]]:
        """Store what `decide` derives from the state.

        With `is_current` the first try uses the state as it is. With `unguarded` the last try has no condition: for events that
        must not be kept out by a busy scope. Raises `Busy` after `MAX_CONFLICTS` conflicts.
        """
        has_read = False
        for tries_left in range(MAX_CONFLICTS - 1, -1, -1):
            if not is_current:
                yield from self._retry_steps(self.catch_up_steps)
                is_current = has_read = True
            decision = decide(self.state)
            if not decision.events:
                if has_read:
                    return StoredDecision([], decision.answer)
                is_current = False
                continue
            guard = None if unguarded and not tries_left else decision.guard or self._owned
            if isinstance(guard, str):
                guard = yield from self._expect_steps(guard)
                if guard is None:
                    has_read = True
                    continue
            try:
                stored = yield from self._append_decision_steps(decision.events, guard)
            except Conflict as conflict:
                yield from self._resolve_conflict_steps(conflict)
                has_read = True
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

    def _resolve_conflict_steps(self, conflict: Conflict) -> Steps[None]:
        """Read what others stored. If that is nothing, the newest event that the state knows was erased, and the head is another."""
        scope = conflict.scope
        known = self._heads.get(scope)
        yield from self._retry_steps(self.catch_up_steps)
        if scope in self._heads and self._heads[scope] == known:
            self._heads[scope] = conflict.actual

    def _append_decision_steps(self, events: Sequence[Event], guard: Expect | None) -> Steps[list[Event]]:
        """Append what was decided, after the recorded events that the state has: if possible, in one append."""
        signed = [self.sign_event(event) for event in events]
        if self._owned is None:
            return (yield from self.append_steps(signed, guard))
        signed, recorded = [self._admit_owned(event) for event in signed], list(self._recorded.values())
        try:
            if len(recorded) <= MAX_RECORDED_WITH_DECISION:
                stored = yield from self._append_owned_steps([*recorded, *signed], guard)
                return stored[len(recorded) :]
        except Invalid:  # too large together, or one of the recorded events is refused
            if not recorded:
                raise
        finally:
            for event in signed:
                self._records.pop(event.id or "", None)
        yield from self.flush_steps()
        raise Conflict(self._owned, None, self._heads[self._owned])  # the state may have changed: decide again

    def _admit_owned(self, event: Event) -> Event:
        """Return the event as the log will store it; its record is kept for the append."""
        if self._admit is None:
            return event
        record = self._records[event.id or ""] = self._admit(event)
        return codec.decode_event(record.raw)

    def _append_owned_steps(self, events: list[Event], guard: Expect | None) -> Steps[list[Event]]:
        """Append events. Under the condition of the owned scope's head they are all that is new there: they are applied unread."""
        if guard is None and self._owned is not None:
            guard = Expect(self._owned, self._heads[self._owned])
        stored = yield from self.append_steps(events, guard)
        if guard is not None and guard.scope == self._owned:
            in_scope = (event.position for event in reversed(stored) if guard.scope in (TOWN, *event_scopes(event)))
            self._heads[guard.scope] = next(in_scope, guard.head)
            self.apply_events(stored)
        return stored

    def sign_event(self, event: Event) -> Event:
        """Return the event with an id and a time, signed if the log is sealed."""
        stamped = event
        if event.id is None or event.at is None:
            stamped = replace(event, id=event.id or self.new_id(), at=event.at or self.now())
        return stamped if self._key is None else self._key.sign_event(stamped, admit=self._admit)

    def append_steps(self, events: list[Event], expect: Expect | None) -> Steps[list[Event]]:
        """Append stamped events, all or none; returns them with their positions. Temporary errors are retried."""
        deadline = self.ticks() + self._retry_seconds
        is_outcome_unknown = False
        while True:
            try:
                if self._fence is not None and self._fence.may_be_lost:
                    yield _EnsureHeld(self._fence)
                positions: list[Position] = yield _Append(events, expect)
                return [replace(event, position=at) for event, at in zip(events, positions, strict=True)]
            except Conflict:
                if is_outcome_unknown:
                    stored = yield from self._retry_steps(lambda: self._get_steps(events))
                    if len(stored) == len(events):  # the conflict is with our own events of the lost answer
                        by_id = {event.id: event for event in stored}
                        return [by_id[event.id] for event in events]
                raise
            except RETRYABLE_ERRORS:
                if not self._may_try_again(deadline):
                    raise
                is_outcome_unknown = True
            yield _Wait(RETRY_SECONDS)

    def _get_steps(self, events: list[Event]) -> Steps[list[Event]]:
        stored: list[Event] = yield _Get([event.id or "" for event in events])
        return stored

    def _retry_steps(self, start: Callable[[], Steps[_T]]) -> Steps[_T]:
        """Repeat reads after temporary errors."""
        deadline = self.ticks() + self._retry_seconds
        while True:
            try:
                return (yield from start())
            except RETRYABLE_ERRORS:
                if not self._may_try_again(deadline):
                    raise
            yield _Wait(RETRY_SECONDS)

    def _may_try_again(self, deadline: float) -> bool:
        is_in_time = self.ticks() < deadline if self._fence is None else not self._fence.lost.is_set()
        return is_in_time and not self._is_cancelled and self._may_retry()

    # --- recording

    def record(self, events: Sequence[Event]) -> list[Event]:
        """Apply events to the state at once and queue them for `flush`; returns them with ids and times."""
        stamped = [self.sign_recorded(event) for event in events]
        for event in stamped:
            if self._add_seen_id(event.id or ""):
                self.state = self.fold.apply(self.state, event)
            self._recorded[event.id or ""] = event
        return stamped

    def sign_recorded(self, event: Event) -> Event:
        """Return an event to record, signed and, for an owner, as the log will store it."""
        signed = self.sign_event(event)
        return signed if self._owned is None else self._admit_owned(signed)

    @property
    def recorded_count(self) -> int:
        """Number of recorded events that wait to be stored."""
        return len(self._recorded)

    def flush_steps(self) -> Steps[list[Event]]:
        """Store recorded events in order; returns them with their positions.

        An event that the log refuses raises `Invalid` once the others of its batch are stored.
        """
        flushed: list[Event] = []
        size = MAX_BATCH_EVENTS
        refused: Invalid | None = None
        while self._recorded:
            batch = list(islice(self._recorded.values(), size))
            try:
                flushed += yield from self._append_owned_steps(batch, None)
            except Conflict as conflict:
                yield from self._resolve_conflict_steps(conflict)
                continue
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
            for event in batch:
                self._drop_recorded(event.id or "")
        if refused is not None:
            raise refused
        return flushed


class BlockingJournal(JournalRules[State]):
    """A journal for threads: commands, requests and tools. Imports no asyncio."""

    def __init__(
        self, log: BlockingRecorder, fold: StateFold[State], *, sleep: Callable[[float], None] = clock.sleep, **options: Any
    ) -> None:
        super().__init__(fold, admission=log.backend_and_admission()[1], **options)
        self.log, self.sleep = log, sleep

    def catch_up(self) -> list[Event]:
        """Read and apply what is new; returns it."""
        return self._run_steps(self.catch_up_steps())

    def decide(self, decide: Callable[[State], JournalDecision[Answer]], **options: bool) -> StoredDecision[Answer]:
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
                    result = self._perform_call(call)
                except Exception as error:  # noqa: BLE001 - the rules decide what it means
                    call = steps.throw(error)
                else:
                    call = steps.send(result)
        except StopIteration as end:
            result_of_steps: _T = end.value
            return result_of_steps

    def _perform_call(self, call: LogCall) -> object:
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
                return self.sleep(seconds)
            case _EnsureHeld():
                raise NotImplementedError("only the asyncio journal holds leases")


class Journal(JournalRules[State]):
    """A journal for asyncio: the runtimes. Many tasks may use it at once.

    A runtime takes its clock, sleep, tasks and ids from its journal, so that they are replaced in one place.
    """

    def __init__(
        self,
        log: Recorder,
        fold: StateFold[State],
        *,
        sleep: tasks.Sleep = tasks.sleep,
        spawn: tasks.Spawn = tasks.spawn,
        make_holder: Callable[[], str] | None = None,
        flushes_soon: bool = False,
        **options: Any,
    ) -> None:
        """`make_holder` names this process in a lease.

        With `flushes_soon` recorded events are stored without waiting for `flush`, together with others of the same moment.
        """
        import asyncio  # not at the top: commands use the blocking journal, and importing asyncio takes 40 ms

        from fleetlore.kernel.lease import make_holder_name  # imports asyncio

        super().__init__(fold, admission=log.admission, **options)
        self.log, self.sleep, self.spawn, self._options = log, sleep, spawn, options
        self.make_holder = make_holder or make_holder_name
        self._flushes_soon = flushes_soon
        self._loop, self._lock = asyncio.get_running_loop(), asyncio.Lock()
        self._flush_task: asyncio.Task[None] | None = None
        self._is_flush_scheduled = False

    def narrow(self, fold: StateFold[_T], **options: Any) -> Journal[_T]:
        """A journal of its own for other scopes of the same log, with the same key, clock and retries."""
        same = self._options | {"sleep": self.sleep, "spawn": self.spawn, "make_holder": self.make_holder}
        return Journal(self.log, fold, **(same | options))

    async def wait_at_most(self, work: Coroutine[Any, Any, object], seconds: float) -> bool:
        """Run `work` for at most `seconds`; returns whether it ended in time."""
        return await tasks.wait_at_most(work, seconds, sleep=self.sleep, spawn=self.spawn)

    @asynccontextmanager
    async def lease(
        self,
        coordination: Coordination,
        name: str | None = None,
        *,
        ttl: float | None = None,
        renew: float | None = None,
        holder: str | None = None,
        fenced: bool = False,
    ) -> AsyncGenerator[LeaseHolder, None]:
        """Hold a lease during the block, by default the one named like the journal's scope; raises `LeaseHeld` if another process has it.

        If it is lost, the block is cancelled, and `LeaseLost` is raised. With `fenced` the journal appends only while it is
        held, and retries temporary errors as long; without, what the block covers is protected by the lease's epoch.
        """
        from fleetlore.kernel.lease import LeaseHolder  # imports asyncio

        if name is None:
            [name] = self._heads
        lease = LeaseHolder(
            coordination,
            name,
            holder=holder or self.make_holder(),
            seconds=ttl,
            renew=renew,
            ticks=self.ticks,
            sleep=self.sleep,
            spawn=self.spawn,
        )
        async with lease, lease.cancel_when_lost():
            self._fence = lease if fenced else self._fence
            try:
                yield lease
            finally:
                self._fence = None if fenced else self._fence

    async def catch_up(self) -> list[Event]:
        """Read and apply what is new; returns it."""
        return await self._run_in_turn(self.catch_up_steps())

    async def poll(self) -> None:
        """Catch up if something is new; cheap if not. Does nothing while another call runs, which reads it anyway."""
        if self._lock.locked():
            return
        heads = [await self.log.head(scope) for scope in self._heads]
        if heads != list(self._heads.values()):
            await self.catch_up()

    async def decide(self, decide: Callable[[State], JournalDecision[Answer]], **options: bool) -> StoredDecision[Answer]:
        """Store what `decide` derives from the state; see `JournalRules.decide_steps`."""
        return await self._run_in_turn(self.decide_steps(decide, **options))

    async def append(self, events: Sequence[Event], *, expect: Expect | None = None) -> list[Event]:
        """Append events, all or none; returns them with their positions."""
        if self._owned is not None and expect is None:
            return (await self.decide(lambda state: JournalDecision(events), is_current=True)).events
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
        if self._recorded:
            self._flush_task = self.spawn(self._flush_quietly())

    async def _flush_quietly(self) -> None:
        with suppress(Exception):  # the next flush repeats the append and raises the error
            await self.flush()

    async def flush(self) -> list[Event]:
        """Store recorded events."""
        if self._owned is not None:
            return await self._run_in_turn(self.flush_steps()) if self._recorded else []
        async with self._lock:
            return await self._run_steps(self.flush_steps())

    async def follow(self) -> AsyncGenerator[Event, None]:
        """Yield new events of the journal's one scope as they arrive, each after it was applied."""
        [scope] = self._heads
        async with aclosing(self.log.follow(scope, after=self._heads[scope])) as events:
            async for event in events:
                self._heads[scope] = max(self._heads[scope] or "", event.position or "")
                for new in self.apply_events([event]):
                    yield new

    async def _run_in_turn(self, steps: Steps[_T]) -> _T:
        """If a scope is owned, one call runs at a time, and to its end: nothing is written once a cancelled caller has gone on."""
        if self._owned is None:
            return await self._run_steps(steps)
        async with self._lock:
            self._is_cancelled = False
            calls = tasks.UncancelledCalls(on_cancel=self._end_retries)
            try:
                return await self._run_steps(steps, calls)
            finally:
                calls.raise_cancellation()

    def _end_retries(self) -> None:
        self._is_cancelled = True

    async def _run_steps(self, steps: Steps[_T], uncancelled: tasks.UncancelledCalls | None = None) -> _T:
        try:
            call = next(steps)
            while True:
                try:
                    work = self._start_call(call)
                    result = await (work if uncancelled is None else uncancelled.wait_for(work))
                except Exception as error:  # noqa: BLE001 - the rules decide what it means
                    call = steps.throw(error)
                else:
                    call = steps.send(result)
        except StopIteration as end:
            result_of_steps: _T = end.value
            return result_of_steps

    def _start_call(self, call: LogCall) -> Awaitable[object]:
        match call:
            case _Read(scope, after, kinds):
                return self._read_scope(scope, after, kinds)
            case _Head(scope):
                return self.log.head(scope)
            case _Get(ids):
                return self.log.get(ids)
            case _Append(events, expect) if self._owned is None:
                return self.log.append(events, expect=expect)
            case _Append(events, expect):
                return self.log.append_records([self._records[event.id or ""] for event in events], expect=expect)
            case _Wait(seconds):
                return self.sleep(seconds)
            case _EnsureHeld(lease):
                return lease.ensure_held()

    async def _read_scope(self, scope: str, after: Position | None, kinds: tuple[str, ...]) -> list[Event]:
        return [event async for event in self.log.read(scope, after=after, kinds=kinds)]
