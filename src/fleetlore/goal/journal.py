"""One goal on the log: read in order, written in order, signed where the log is sealed."""

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

# --- Events that are stored together or not at all, once, however often that is tried.

EventsOrFactory: TypeAlias = Sequence[Event] | Callable[[], Sequence[Event]]
"""Events, or what makes them."""


class ConditionalAppend:
    """Events that belong together, made when they are stored."""

    def __init__(self, events: EventsOrFactory, unless: Callable[[], bool]) -> None:
        self._events, self.should_skip = events, unless
        self._signed_events: Sequence[Event] | None = None
        self.is_stored = False

    def sign_events(self, sign: Callable[[Event], Event]) -> list[Event]:
        """As they are stored; the same each time that it is tried, so that they are stored once."""
        if self._signed_events is None:
            self._signed_events = [sign(event) for event in (self._events() if callable(self._events) else self._events)]
        return list(self._signed_events)

    def is_on_log(self, seen: Set[str]) -> bool:
        """Whether they are on the log, though nobody was told so."""
        return bool(self._signed_events) and all(event.id in seen for event in self._signed_events or ())

    def reset_events(self, seen: Set[str]) -> None:
        """Others wrote meanwhile: have them made by what is known now."""
        if callable(self._events) and not self.is_on_log(seen):
            self._signed_events = None


# ---

EventWatcher = Callable[[Event], Awaitable[None]]
"""Told every event of the goal, once it is stored, in the order of the log. An error of the watcher stops the driver."""

MAX_PARENTS = 16
MAX_BATCH_EVENTS = 200
MAX_QUEUED_WITH_BATCH = 50
"""So many that wait may go with others in one write."""
AGAIN_SECONDS = 0.5
MAX_SEEN_IDS = 100_000
RETRYABLE_ERRORS = (Busy, Unreachable, NoRoom)
"""What may pass: waited out for as long as nobody else can drive the goal."""


async def ignore_event(event: Event) -> None:
    """Watches nothing."""


class GoalJournal:
    """What the log says of a goal and of those above it, and what is still to be written."""

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
        """Whether something was written since the log was read."""
        self._head: Position | None = None
        """Of the goal, as far as it was read or written here."""
        self._read_lock, self._write_lock = asyncio.Lock(), asyncio.Lock()
        self.event_factory = GoalEvents(goal, agent="", scopes={}, now=now, new_id=new_id)
        self.listeners: list[Callable[[Event], None]] = []
        """Told every event of the goal that is obeyed, at once; before `watch` is."""
        self.lease_holder: LeaseHolder | None = None
        """The right to write, once there is one to be lost."""
        self.should_retry = False
        """Whether troubles of the log are waited out."""
        self.control_count = 0
        """How often somebody steered."""

    @property
    def scope(self) -> str:
        """The goal's."""
        return f"goal:{self.state.id}"

    @property
    def is_sealed(self) -> bool:
        """Whether only what is signed is believed."""
        return bool(self._keys)

    def is_trusted(self, event: Event) -> bool:
        """Whether a fact of the goal is believed."""
        return is_trusted_event(event, self._keys.get(self.state.id))

    def current_time(self) -> datetime:
        """Now, never before what the log says: clocks are set back."""
        return max(self.now(), self.state.seen_at or self.now())

    # --- reading

    async def read_new_events(self) -> None:
        """Take in what is new, of the goals above, too."""
        await run_uncancelled(self._read_under_lock())
        await self._notify_watcher()

    async def _read_under_lock(self) -> None:
        async with self._read_lock:
            self._apply_events(await asyncio.to_thread(self._read_goals))

    async def poll_log(self) -> None:
        """Take in what others have told, if they have; cheap where they have not. Whoever writes just now takes it in, too."""
        if self._write_lock.locked() or self._read_lock.locked():
            return
        newest = await asyncio.to_thread(lambda: [self.log.head(f"goal:{goal.id}") for goal in (self.state, *self.parents)])
        if newest != [goal.position for goal in (self.state, *self.parents)]:
            await self.read_new_events()

    def _read_goals(self) -> list[list[Event]]:
        return [self._read_goal(goal) for goal in (self.state, *self.parents)]

    def _read_goal(self, goal: GoalState) -> list[Event]:
        return list(self.log.read(f"goal:{goal.id}", after=goal.position))

    def _apply_events(self, read: Sequence[Sequence[Event]]) -> None:
        self._has_unread_writes = False
        self._unwatched.extend([event for event in read[0] if self._apply_event(self.state, event)])
        self._head = self.state.position
        if self.state.plan is not None and not self.event_factory.agent:
            self.set_plan(self.state.plan)
        for above, events in zip(self.parents, read[1:], strict=True):
            for event in events:
                self._apply_event(above, event)

    async def _notify_watcher(self) -> None:
        """Each event once, in the order of the log, whoever read it."""
        if self._is_notifying:
            return
        self._is_notifying = True
        try:
            while self._unwatched:
                await self._watcher(self._unwatched.popleft())
        finally:
            self._is_notifying = False

    def _apply_event(self, goal: GoalState, event: Event) -> bool:
        """A fact counts once, though it may be stored again where ids are not known for ever."""
        is_believed = is_trusted_event(event, self._keys.get(goal.id))
        is_obeyed = is_believed and self._add_seen_id(event.id or "")
        if is_obeyed:
            goals.apply_to_goal(goal, event)
            self.control_count += goal is self.state and event.kind == "control.requested"
            for listener in self.listeners if goal is self.state else ():
                listener(event)
        elif not is_believed and event.kind == "control.requested":
            goal.unsigned += 1
        goal.position = event.position
        return is_obeyed

    def _add_seen_id(self, id: str) -> bool:
        if id in self._seen_ids:
            return False
        self._seen_ids.add(id)
        self._seen_order.append(id)
        if len(self._seen_order) > MAX_SEEN_IDS:
            self._seen_ids.discard(self._seen_order.popleft())
        return True

    def set_plan(self, plan: Plan) -> None:
        """Say who works on the goal, and what else its events belong to."""
        scopes = {"task": plan.task, "mission": plan.mission}
        self.event_factory.agent = plan.agent
        self.event_factory.scopes = {name: value for name, value in scopes.items() if value is not None}

    async def load_parents(self) -> None:
        """Learn of the goals that this one is part of."""
        known, parent = {self.state.id}, None if self.parents else self.state.parent
        while parent is not None and parent not in known and len(self.parents) < MAX_PARENTS:
            above = GoalState(id=parent)
            if self._operator_key is not None:
                self._keys[parent] = self._operator_key.goal_key(parent)
            for event in await asyncio.to_thread(self._read_goal, above):
                self._apply_event(above, event)
            if above.goal is None:
                raise Invalid(f"the goal above, {parent}, is not on this log; begin that one first, or leave `parent` out")
            self.parents.append(above)
            known.add(parent)
            parent = above.parent
        self._operator_key = None  # the keys of these goals are enough

    # --- writing

    async def append(self, events: EventsOrFactory, *, unless: Callable[[], bool] = lambda: False) -> bool:
        """Store what waits and these, durably, and take them in; answers whether they were stored: not if `unless` says so by then.

        What waits goes with them in one write where it may; these are never parted. `events` may be what makes them, by work that blocks:
        it is called in the thread that stores, and the goal's state stays as it is meanwhile. Cancelled, it ends first.
        """
        batch = ConditionalAppend(events, unless)
        await self._run_with_retry(lambda: self._append_batch(batch))
        await self._notify_watcher()
        return batch.is_stored

    async def flush(self) -> None:
        """Store what waits."""
        await self._run_with_retry(self._flush_under_lock)

    async def _run_with_retry(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do it; a trouble that may pass is no reason to give up, as long as the goal is held for certain."""
        while True:
            try:
                return await run_uncancelled(work())
            except RETRYABLE_ERRORS:
                if not self.should_retry or self.lease_holder is None or self.lease_holder.lost.is_set():
                    raise
                await asyncio.sleep(AGAIN_SECONDS)

    async def _append_batch(self, batch: ConditionalAppend) -> None:
        async with self._write_lock, self._read_lock:
            if len(self._queued) > MAX_QUEUED_WITH_BATCH:
                await self._store_queued()
            if self._has_unread_writes:
                self._apply_events(await asyncio.to_thread(self._read_goals))
            await self._ensure_lease()  # what was read may say that the goal is another's
            await self._store_batch(batch)

    async def _store_batch(self, batch: ConditionalAppend) -> None:
        while not (batch.is_on_log(self._seen_ids) or batch.should_skip()):
            waiting = list(self._queued)
            try:
                stored, read = await asyncio.to_thread(self._store_and_read, waiting, batch)
            except Conflict as error:
                await self._resolve_conflict(error)
                batch.reset_events(self._seen_ids)
            except Invalid:
                if not waiting:
                    raise
                await self._store_queued()
                self._apply_events(await asyncio.to_thread(self._read_goals))
                await self._ensure_lease()
            else:
                self._apply_events(read)
                del self._queued[: len(waiting)]
                self.forwarder.enqueue_events(stored)
                batch.is_stored = True
                return
        batch.is_stored = batch.is_on_log(self._seen_ids)

    def _store_and_read(self, waiting: Sequence[Event], batch: ConditionalAppend) -> tuple[list[Event], list[list[Event]]]:
        """All in one thread: each change of threads costs as much as the reading does."""
        stored = [*map(self._sign_event, waiting), *batch.sign_events(self._sign_event)]
        self._append_expecting_head(stored)
        return stored, self._read_goals()

    def _append_expecting_head(self, events: Sequence[Event]) -> None:
        """Behind all that is known, so that one who drives the goal no more, and does not know it yet, writes nothing."""
        self._head = max([self._head or "", *self.log.append(events, expect=Expect(self.scope, self._head))])

    async def _resolve_conflict(self, error: Conflict) -> None:
        """Somebody else wrote: take that in, which may be that the goal is theirs now."""
        before = self.state.position
        self._apply_events(await asyncio.to_thread(self._read_goals))
        if self.state.position == before:
            self._head = error.actual  # the newest may have been erased
        await self._ensure_lease()

    def enqueue_events(self, events: Sequence[Event]) -> int:
        """Have events stored in their order, with the next that are; answers how many wait."""
        self._queued += events
        return len(self._queued)

    async def _flush_under_lock(self) -> None:
        async with self._write_lock, self._read_lock:
            await self._store_queued()

    async def _store_queued(self) -> None:
        together = MAX_BATCH_EVENTS
        while self._queued:
            part = self._queued[:together]
            await self._ensure_lease()
            try:
                stored = await asyncio.to_thread(self._store_events, part)
            except Conflict as error:
                await self._resolve_conflict(error)
                continue
            except TooLarge:
                if len(part) == 1:
                    raise
                together = len(part) // 2
                continue
            self._has_unread_writes = True
            del self._queued[: len(part)]
            self.forwarder.enqueue_events(stored)

    def _store_events(self, events: Sequence[Event]) -> list[Event]:
        try:
            stored = list(map(self._sign_event, events))
            self._append_expecting_head(stored)
        except Invalid:  # what an agent tells may be anything, and stands in nobody's way
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
