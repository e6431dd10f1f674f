"""The journal of one goal: reads its events in order, appends new ones, and signs them if the log is sealed.

The driver reads state and writes events only through this. Appends are conditional on the head of the goal, so a driver
that lost its lease cannot write.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence, Set
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from fleetlore import clock
from fleetlore.errors import Busy, Conflict, Invalid, NoRoom, TooLarge, Unreachable
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Plan
from fleetlore.goal.events import GoalEvents
from fleetlore.goal.sinks import DriverEventSink, SinkForwarder
from fleetlore.goal.truncate import make_rejected_event
from fleetlore.kernel.lease import LeaseHolder
from fleetlore.log.base import Expect, Position
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import OperatorKey, is_trusted_event
from fleetlore.process.shield import run_uncancelled
from fleetlore.views import goals
from fleetlore.views.goal_state import GoalState

# --- Atomic, idempotent append

EventsOrFactory: TypeAlias = Sequence[Event] | Callable[[], Sequence[Event]]
"""Events, or a function that makes them when they are stored."""


class ConditionalAppend:
    """A batch of events that is stored as a whole and at most once, however often the append is retried."""

    def __init__(self, events: EventsOrFactory, should_skip: Callable[[], bool]) -> None:
        self._events, self.should_skip = events, should_skip
        self._signed_events: Sequence[Event] | None = None
        self.is_stored = False

    def sign_events(self, sign: Callable[[Event], Event]) -> list[Event]:
        """The signed events; the same ones on every retry."""
        if self._signed_events is None:
            self._signed_events = [sign(event) for event in (self._events() if callable(self._events) else self._events)]
        return list(self._signed_events)

    def is_on_log(self, seen: Set[str]) -> bool:
        """Whether an earlier attempt stored the events although it failed (`seen`: ids read from the log)."""
        return bool(self._signed_events) and all(event.id in seen for event in self._signed_events or ())

    def reset_events(self, seen: Set[str]) -> None:
        """Other events were stored first: call the factory again with the new state."""
        if callable(self._events) and not self.is_on_log(seen):
            self._signed_events = None


# --- Journal

EventWatcher = Callable[[Event], Awaitable[None]]
"""Called with every event of the goal once it is stored, in log order. Its errors stop the driver."""

MAX_PARENTS = 16
MAX_BATCH_EVENTS = 200
MAX_QUEUED_WITH_BATCH = 50
"""At most this many queued events are stored in the same write as a batch."""
RETRY_SECONDS = 0.5
MAX_SEEN_IDS = 100_000
RETRYABLE_ERRORS = (Busy, Unreachable, NoRoom)
"""Temporary errors: retried as long as the lease is certain."""


async def ignore_event(event: Event) -> None:
    """An `EventWatcher` that does nothing."""


class GoalJournal:
    """State of a goal and of its parents as read from the log, and the events that wait to be written."""

    def __init__(
        self,
        log: BlockingRecorder,
        goal: str,
        *,
        key: OperatorKey | None = None,
        sinks: Sequence[DriverEventSink] = (),
        watch: EventWatcher = ignore_event,
        now: clock.Clock = clock.now,
        new_id: Callable[[], str] = clock.uuid7,
    ) -> None:
        self.log, self.state, self.parents = log, GoalState(id=goal), list[GoalState]()
        self.now, self.new_id = now, new_id
        self._operator_key, self._watcher, self.forwarder = key, watch, SinkForwarder(sinks)
        self._keys = {} if key is None else {goal: key.goal_key(goal)}
        self._seen_ids, self._seen_order = set[str](), deque[str]()
        self._queued, self._unwatched, self._is_notifying = list[Event](), deque[Event](), False
        self._has_unread_writes = False
        """Whether something was written since the log was last read."""
        self._head: Position | None = None
        """The newest position of the goal that was read or written here."""
        self._read_lock, self._write_lock = asyncio.Lock(), asyncio.Lock()
        self.event_factory = GoalEvents(goal, agent="", scopes={}, now=now, new_id=new_id)
        self.listeners: list[Callable[[Event], None]] = []
        """Called with every trusted event of the goal as soon as it is applied, before `watch`."""
        self.lease_holder: LeaseHolder | None = None
        """The goal's lease, once it is acquired."""
        self.should_retry = False
        """Whether temporary errors of the log are retried."""
        self.control_count = 0
        """Number of control requests read so far."""

    @property
    def scope(self) -> str:
        """The goal's scope in the log."""
        return f"goal:{self.state.id}"

    @property
    def is_sealed(self) -> bool:
        """Whether only signed events are trusted."""
        return bool(self._keys)

    def is_trusted(self, event: Event) -> bool:
        """Whether an event of the goal is signed, where the log is sealed."""
        return is_trusted_event(event, self._keys.get(self.state.id))

    def current_time(self) -> datetime:
        """The current time, but never before the newest event: the clock may have been set back."""
        return max(self.now(), self.state.seen_at or self.now())

    # --- reading

    async def read_new_events(self) -> None:
        """Read and apply new events of the goal and its parents."""
        await run_uncancelled(self._read_under_lock())
        await self._notify_watcher()

    async def _read_under_lock(self) -> None:
        async with self._read_lock:
            self._apply_events(await asyncio.to_thread(self._read_goals))

    async def poll_log(self) -> None:
        """Read new events if there are any; cheap if not.

        Does nothing while another read or write is running, which reads them anyway.
        """
        if self._write_lock.locked() or self._read_lock.locked():
            return
        heads = await asyncio.to_thread(lambda: [self.log.head(f"goal:{goal.id}") for goal in (self.state, *self.parents)])
        if heads != [goal.position for goal in (self.state, *self.parents)]:
            await self.read_new_events()

    def _read_goals(self) -> list[list[Event]]:
        return [self._read_goal(goal) for goal in (self.state, *self.parents)]

    def _read_goal(self, goal: GoalState) -> list[Event]:
        return list(self.log.read(f"goal:{goal.id}", after=goal.position))

    def _apply_events(self, events_by_goal: Sequence[Sequence[Event]]) -> None:
        self._has_unread_writes = False
        self._unwatched.extend([event for event in events_by_goal[0] if self._apply_event(self.state, event)])
        self._head = self.state.position
        if self.state.plan is not None and not self.event_factory.agent:
            self.set_plan(self.state.plan)
        for parent, events in zip(self.parents, events_by_goal[1:], strict=True):
            for event in events:
                self._apply_event(parent, event)

    async def _notify_watcher(self) -> None:
        """Pass each event on once and in log order, also when several tasks have read events."""
        if self._is_notifying:
            return
        self._is_notifying = True
        try:
            while self._unwatched:
                await self._watcher(self._unwatched.popleft())
        finally:
            self._is_notifying = False

    def _apply_event(self, goal: GoalState, event: Event) -> bool:
        """Apply an event once, even if it is stored twice: some logs forget old ids."""
        is_trusted = is_trusted_event(event, self._keys.get(goal.id))
        is_new = is_trusted and self._add_seen_id(event.id or "")
        if is_new:
            goals.apply_to_goal(goal, event)
            self.control_count += goal is self.state and event.kind == "control.requested"
            for listener in self.listeners if goal is self.state else ():
                listener(event)
        elif not is_trusted and event.kind == "control.requested":
            goal.unsigned += 1
        goal.position = event.position
        return is_new

    def _add_seen_id(self, id: str) -> bool:
        if id in self._seen_ids:
            return False
        self._seen_ids.add(id)
        self._seen_order.append(id)
        if len(self._seen_order) > MAX_SEEN_IDS:
            self._seen_ids.discard(self._seen_order.popleft())
        return True

    def set_plan(self, plan: Plan) -> None:
        """Set the agent and the scopes that go with every event of the goal."""
        scopes = {"task": plan.task, "mission": plan.mission}
        self.event_factory.agent = plan.agent
        self.event_factory.scopes = {name: value for name, value in scopes.items() if value is not None}

    async def load_parents(self) -> None:
        """Read the goals that this one is part of. Raises `Invalid` if one is not in the log."""
        known_ids, parent_id = {self.state.id}, None if self.parents else self.state.parent
        while parent_id is not None and parent_id not in known_ids and len(self.parents) < MAX_PARENTS:
            parent = GoalState(id=parent_id)
            if self._operator_key is not None:
                self._keys[parent_id] = self._operator_key.goal_key(parent_id)
            for event in await asyncio.to_thread(self._read_goal, parent):
                self._apply_event(parent, event)
            if parent.goal is None:
                raise Invalid(f"the parent goal {parent_id} is not on this log; start it first, or remove `parent`")
            self.parents.append(parent)
            known_ids.add(parent_id)
            parent_id = parent.parent
        self._operator_key = None  # only the keys of these goals are needed from here on

    # --- writing

    async def append(self, events: EventsOrFactory, *, unless: Callable[[], bool] = lambda: False) -> bool:
        """Store these events durably and apply them. Returns whether they were stored.

        They are not if `unless` returns true by then. Queued events go first, in the same write if they are few; the
        given events are always stored together. `events` may be a factory that blocks: it runs in the storing thread,
        and the goal's state does not change meanwhile. On cancellation, the append finishes first.
        """
        batch = ConditionalAppend(events, unless)
        await self._run_with_retry(lambda: self._append_batch(batch))
        await self._notify_watcher()
        return batch.is_stored

    async def flush(self) -> None:
        """Store queued events."""
        await self._run_with_retry(self._flush_under_lock)

    async def _run_with_retry(self, make_attempt: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Retry temporary errors as long as the lease is certain."""
        while True:
            try:
                return await run_uncancelled(make_attempt())
            except RETRYABLE_ERRORS:
                if not self.should_retry or self.lease_holder is None or self.lease_holder.lost.is_set():
                    raise
                await asyncio.sleep(RETRY_SECONDS)

    async def _append_batch(self, batch: ConditionalAppend) -> None:
        async with self._write_lock, self._read_lock:
            if len(self._queued) > MAX_QUEUED_WITH_BATCH:
                await self._store_queued()
            if self._has_unread_writes:
                self._apply_events(await asyncio.to_thread(self._read_goals))
            await self._ensure_lease()  # the events just read may show that another driver took the lease
            await self._store_batch(batch)

    async def _store_batch(self, batch: ConditionalAppend) -> None:
        while not (batch.is_on_log(self._seen_ids) or batch.should_skip()):
            queued = list(self._queued)
            try:
                stored, events_by_goal = await asyncio.to_thread(self._store_and_read, queued, batch)
            except Conflict as error:
                await self._resolve_conflict(error)
                batch.reset_events(self._seen_ids)
            except Invalid:
                if not queued:
                    raise
                await self._store_queued()
                self._apply_events(await asyncio.to_thread(self._read_goals))
                await self._ensure_lease()
            else:
                self._apply_events(events_by_goal)
                del self._queued[: len(queued)]
                self.forwarder.enqueue_events(stored)
                batch.is_stored = True
                return
        batch.is_stored = batch.is_on_log(self._seen_ids)

    def _store_and_read(self, queued: Sequence[Event], batch: ConditionalAppend) -> tuple[list[Event], list[list[Event]]]:
        """Store and read in one thread: switching threads costs as much as the read."""
        stored = [*map(self._sign_event, queued), *batch.sign_events(self._sign_event)]
        self._append_expecting_head(stored)
        return stored, self._read_goals()

    def _append_expecting_head(self, events: Sequence[Event]) -> None:
        """Append only if the head is what we know, so that a driver that lost its lease writes nothing."""
        self._head = max([self._head or "", *self.log.append(events, expect=Expect(self.scope, self._head))])

    async def _resolve_conflict(self, error: Conflict) -> None:
        """Read the events of other writers; they may show that another driver took the lease."""
        before = self.state.position
        self._apply_events(await asyncio.to_thread(self._read_goals))
        if self.state.position == before:
            self._head = error.actual  # the newest event may have been erased
        await self._ensure_lease()

    def enqueue_events(self, events: Sequence[Event]) -> int:
        """Queue events to be stored, in order, with the next write. Returns the number of queued events."""
        self._queued += events
        return len(self._queued)

    async def _flush_under_lock(self) -> None:
        async with self._write_lock, self._read_lock:
            await self._store_queued()

    async def _store_queued(self) -> None:
        batch_size = MAX_BATCH_EVENTS
        while self._queued:
            batch = self._queued[:batch_size]
            await self._ensure_lease()
            try:
                stored = await asyncio.to_thread(self._store_events, batch)
            except Conflict as error:
                await self._resolve_conflict(error)
                continue
            except TooLarge:
                if len(batch) == 1:
                    raise
                batch_size = len(batch) // 2
                continue
            self._has_unread_writes = True
            del self._queued[: len(batch)]
            self.forwarder.enqueue_events(stored)

    def _store_events(self, events: Sequence[Event]) -> list[Event]:
        try:
            stored = list(map(self._sign_event, events))
            self._append_expecting_head(stored)
        except Invalid:  # an agent may send anything; replace only what the log rejects
            stored = [self._sign_event(self._replace_if_rejected(event)) for event in events]
            self._append_expecting_head(stored)
        return stored

    def _replace_if_rejected(self, event: Event) -> Event:
        try:
            self.log.admit(event)
        except Invalid as error:
            return make_rejected_event(event, str(error))
        return event

    async def _ensure_lease(self) -> None:
        if self.lease_holder is not None:
            await self.lease_holder.ensure_held()

    def _sign_event(self, event: Event) -> Event:
        stamped = event if event.at is not None else msgspec.structs.replace(event, at=self.now())
        key = self._keys.get(event.goal or "")
        return stamped if key is None else key.sign_event(stamped, admit=self.log.admit)
