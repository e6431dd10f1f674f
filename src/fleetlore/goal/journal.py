"""The journal of one goal: the kernel's journal with the goal's fold, the goals that it is part of, and the listeners of its events.

The driver reads state and writes events only through this. The journal owns the goal's scope, so a driver that lost its
lease cannot write.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from fleetlore import tasks
from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Plan
from fleetlore.goal.events import GoalEvents, make_rejected_event
from fleetlore.kernel.journal import Journal, Steps
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Expect, Record
from fleetlore.log.seal import OperatorKey, SigningKey
from fleetlore.views import goals
from fleetlore.views.goal_state import GoalState

MAX_PARENTS = 16
MAX_QUEUED_EVENTS = 1000
CLOSE_TIMEOUT_SECONDS = 5.0
"""How long the end of a goal waits for slow sinks."""

EventWatcher = Callable[[Event], Awaitable[None]]
"""Called with every event of the goal once it is stored, in log order. Its errors stop the driver."""

_T = TypeVar("_T")


async def ignore_event(event: Event) -> None:
    """An `EventWatcher` that does nothing."""


# --- State


class GoalFold:
    """Folds a goal and the goals that it is part of. On a sealed log only signed events count, each by the key of its goal."""

    def __init__(self, goal: str, key: OperatorKey | None = None) -> None:
        self._goal, self._operator_key = goal, key
        self.keys: dict[str, SigningKey] = {} if key is None else {goal: key.goal_key(goal)}
        self.parents: dict[str, GoalState] = {}
        self.control_count = 0
        """Number of control requests read so far."""

    def initial(self) -> GoalState:
        """The goal before its first event."""
        return GoalState(id=self._goal)

    def apply(self, state: GoalState, event: Event) -> GoalState:
        """Apply an event of the goal, or of a parent."""
        goal = state if event.goal == state.id else self.parents.get(event.goal or "")
        if goal is None:
            return state
        if self.is_trusted(event):
            goals.apply_to_goal(goal, event)
            self.control_count += goal is state and event.kind == "control.requested"
        elif event.kind == "control.requested":
            goal.unsigned += 1
        goal.position = event.position or goal.position
        return state

    def is_trusted(self, event: Event) -> bool:
        """Whether an event is signed, where the log is sealed."""
        if not self.keys:
            return True
        key = self.keys.get(event.goal or "")
        return key is not None and key.has_signed(event)

    def add_parent(self, id: str) -> GoalState:
        """Fold the events of a parent goal, too."""
        if self._operator_key is not None:
            self.keys[id] = self._operator_key.goal_key(id)
        return self.parents.setdefault(id, GoalState(id=id))

    def drop_operator_key(self) -> None:
        """Keep only the keys of the goals that are folded."""
        self._operator_key = None

    def sign_event(self, event: Event, *, admit: Callable[[Event], Record] | None = None) -> Event:
        """Sign an event with the key of its goal."""
        key = self.keys.get(event.goal or "")
        return event if key is None else key.sign_event(event, admit=admit)


# --- Forwarding events to other places


class DriverEventSink(Protocol):
    """Receives the sixteen kinds of `driver.*` events, in order, after they are stored.

    Its errors are reported and stop nothing.
    """

    async def publish(self, event: Event) -> None:
        """Forward one event."""


class LogSink:
    """Copies events to another log; a `nats://` log publishes them on the subjects of the nexo dialect."""

    def __init__(self, log: Recorder) -> None:
        self._log = log

    async def publish(self, event: Event) -> None:
        """Store the event under the same id, so that repeating it stores it once."""
        await self._log.append([event])


class SinkForwarder:
    """Forwards events to each sink in a background task, so that a slow or failing sink delays neither the goal nor the others."""

    def __init__(self, sinks: Sequence[DriverEventSink], spawn: tasks.Spawn = tasks.spawn) -> None:
        self._queues = [_SinkQueue(sink, spawn) for sink in sinks]

    @property
    def last_failure(self) -> str | None:
        """Why a sink last failed, or `None`."""
        return next((queue.last_failure for queue in self._queues if queue.last_failure is not None), None)

    def enqueue_events(self, events: Sequence[Event]) -> None:
        """Queue the `driver.*` events among these."""
        for queue in self._queues:
            queue.enqueue_events([event for event in events if event.kind.startswith("driver.")])

    async def close(self) -> None:
        """Wait until the queues are empty, at most `CLOSE_TIMEOUT_SECONDS`."""
        running = [queue.task for queue in self._queues if queue.task is not None]
        if running:
            _, late = await asyncio.wait(running, timeout=CLOSE_TIMEOUT_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


class _SinkQueue:
    """The queue of one sink."""

    def __init__(self, sink: DriverEventSink, spawn: tasks.Spawn) -> None:
        self._sink, self._spawn, self._queued = sink, spawn, deque[Event]()
        self.task: asyncio.Task[None] | None = None
        self.last_failure: str | None = None

    def enqueue_events(self, events: Sequence[Event]) -> None:
        room = MAX_QUEUED_EVENTS - len(self._queued)
        if len(events) > room:
            self.last_failure = f"it is too slow: {len(events) - room} events were not handed on"
        self._queued.extend(events[:room])
        if self._queued and (self.task is None or self.task.done()):
            self.task = self._spawn(self._publish_queued())

    async def _publish_queued(self) -> None:
        while self._queued:
            try:
                await self._sink.publish(self._queued.popleft())
            except Exception as error:  # noqa: BLE001 - a sink may be third-party code
                self.last_failure = str(error) or type(error).__name__


# --- Journal


class GoalJournal(Journal[GoalState]):
    """The state of a goal and of its parents, and the events that wait to be stored."""

    def __init__(
        self,
        log: Recorder,
        goal: str,
        *,
        key: OperatorKey | None = None,
        sinks: Sequence[DriverEventSink] = (),
        watch: EventWatcher = ignore_event,
        **options: Any,
    ) -> None:
        self.scope = f"goal:{goal}"
        self.fold: GoalFold = GoalFold(goal, key)
        super().__init__(log, self.fold, scopes=(self.scope,), owns=self.scope, key=None if key is None else self.fold, **options)
        self.is_sealed = key is not None
        self.event_factory = GoalEvents(goal, agent="", scopes={}, now=self.now, new_id=self.new_id)
        self.forwarder = SinkForwarder(sinks, spawn=self.spawn)
        self.listeners: list[Callable[[Event], None]] = []
        """Called with every trusted event of the goal as soon as it is stored and applied, before `watch`."""
        self._watcher, self._unwatched, self._is_notifying = watch, deque[Event](), False

    @property
    def parents(self) -> list[GoalState]:
        """The goals that this one is part of, the nearest first."""
        return list(self.fold.parents.values())

    def current_time(self) -> datetime:
        """The current time, but never before the newest event: the clock may have been set back."""
        return max(self.now(), self.state.seen_at or self.now())

    def set_plan(self, plan: Plan) -> None:
        """Set the agent and the scopes that go with every event of the goal."""
        scopes = {"task": plan.task, "mission": plan.mission}
        self.event_factory.agent = plan.agent
        self.event_factory.scopes = {name: value for name, value in scopes.items() if value is not None}

    async def load_parents(self) -> None:
        """Read the goals that this one is part of. Raises `Invalid` if one is not in the log."""
        known_ids, parent_id = {self.state.id}, self.state.parent
        while parent_id is not None and parent_id not in known_ids and len(known_ids) <= MAX_PARENTS:
            known_ids.add(parent_id)
            parent = self.fold.add_parent(parent_id)
            self.add_scope(f"goal:{parent_id}")
            if parent.goal is None:
                await self.catch_up()
            if parent.goal is None:
                raise Invalid(f"the parent goal {parent_id} is not on this log; start it first, or remove `parent`")
            parent_id = parent.parent
        self.fold.drop_operator_key()

    # --- events

    def sign_recorded(self, event: Event) -> Event:
        """Return an event to record. An agent may send anything: what the log would refuse is replaced."""
        try:
            return super().sign_recorded(event)
        except Invalid as error:
            return super().sign_recorded(make_rejected_event(event, str(error)))

    def append_steps(self, events: list[Event], expect: Expect | None) -> Steps[list[Event]]:
        """Append events, and forward them to the sinks."""
        stored = yield from super().append_steps(events, expect)
        self.forwarder.enqueue_events(stored)
        return stored

    def apply_events(self, events: Sequence[Event]) -> list[Event]:
        """Apply stored events; listeners get those of the goal."""
        new = super().apply_events(events)
        for event in new:
            if event.goal == self.state.id and self.fold.is_trusted(event):
                self.state.position = event.position
                self._unwatched.append(event)
                for listener in self.listeners:
                    listener(event)
        return new

    async def _run_in_turn(self, steps: Steps[_T]) -> _T:
        result = await super()._run_in_turn(steps)
        await self._notify_watcher()
        return result

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
