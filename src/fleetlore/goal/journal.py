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
        self._events, self.unless = events, unless
        self._made: Sequence[Event] | None = None
        self.is_stored = False

    def signed(self, sign: Callable[[Event], Event]) -> list[Event]:
        """As they are stored; the same each time that it is tried, so that they are stored once."""
        if self._made is None:
            self._made = [sign(event) for event in (self._events() if callable(self._events) else self._events)]
        return list(self._made)

    def is_known(self, seen: Set[str]) -> bool:
        """Whether they are on the log, though nobody was told so."""
        return bool(self._made) and all(event.id in seen for event in self._made or ())

    def make_anew(self, seen: Set[str]) -> None:
        """Others wrote meanwhile: have them made by what is known now."""
        if callable(self._events) and not self.is_known(seen):
            self._made = None


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
        self.log, self.state, self.above = log, GoalState(id=goal), list[GoalState]()
        self.now, self.new_id = now, new_id
        self._operator, self._watch, self.outbox = key, watch, SinkForwarder(sinks)
        self._keys = {} if key is None else {goal: key.goal_key(goal)}
        self._seen, self._seen_in_order = set[str](), deque[str]()
        self._later, self._unshown, self._is_showing = list[Event](), deque[Event](), False
        self._is_behind = False
        """Whether something was written since the log was read."""
        self._head: Position | None = None
        """Of the goal, as far as it was read or written here."""
        self._reading, self._writing = asyncio.Lock(), asyncio.Lock()
        self.teller = GoalEvents(goal, agent="", scopes={}, now=now, new_id=new_id)
        self.listeners: list[Callable[[Event], None]] = []
        """Told every event of the goal that is obeyed, at once; before `watch` is."""
        self.hold: LeaseHolder | None = None
        """The right to write, once there is one to be lost."""
        self.is_patient = False
        """Whether troubles of the log are waited out."""
        self.steered = 0
        """How often somebody steered."""

    @property
    def scope(self) -> str:
        """The goal's."""
        return f"goal:{self.state.id}"

    @property
    def is_sealed(self) -> bool:
        """Whether only what is signed is believed."""
        return bool(self._keys)

    def obeys(self, event: Event) -> bool:
        """Whether a fact of the goal is believed."""
        return is_trusted_event(event, self._keys.get(self.state.id))

    def moment(self) -> datetime:
        """Now, never before what the log says: clocks are set back."""
        return max(self.now(), self.state.seen_at or self.now())

    # --- reading

    async def catch_up(self) -> None:
        """Take in what is new, of the goals above, too."""
        await run_uncancelled(self._catch_up())
        await self._show()

    async def _catch_up(self) -> None:
        async with self._reading:
            self._take_all(await asyncio.to_thread(self._read))

    async def hear(self) -> None:
        """Take in what others have told, if they have; cheap where they have not. Whoever writes just now takes it in, too."""
        if self._writing.locked() or self._reading.locked():
            return
        newest = await asyncio.to_thread(lambda: [self.log.head(f"goal:{goal.id}") for goal in (self.state, *self.above)])
        if newest != [goal.position for goal in (self.state, *self.above)]:
            await self.catch_up()

    def _read(self) -> list[list[Event]]:
        return [self._new(goal) for goal in (self.state, *self.above)]

    def _new(self, goal: GoalState) -> list[Event]:
        return list(self.log.read(f"goal:{goal.id}", after=goal.position))

    def _take_all(self, read: Sequence[Sequence[Event]]) -> None:
        self._is_behind = False
        self._unshown.extend([event for event in read[0] if self._take(self.state, event)])
        self._head = self.state.position
        if self.state.plan is not None and not self.teller.agent:
            self.set_out(self.state.plan)
        for above, events in zip(self.above, read[1:], strict=True):
            for event in events:
                self._take(above, event)

    async def _show(self) -> None:
        """Each event once, in the order of the log, whoever read it."""
        if self._is_showing:
            return
        self._is_showing = True
        try:
            while self._unshown:
                await self._watch(self._unshown.popleft())
        finally:
            self._is_showing = False

    def _take(self, goal: GoalState, event: Event) -> bool:
        """A fact counts once, though it may be stored again where ids are not known for ever."""
        is_believed = is_trusted_event(event, self._keys.get(goal.id))
        is_obeyed = is_believed and self._is_new(event.id or "")
        if is_obeyed:
            goals.apply_to_goal(goal, event)
            self.steered += goal is self.state and event.kind == "control.requested"
            for listener in self.listeners if goal is self.state else ():
                listener(event)
        elif not is_believed and event.kind == "control.requested":
            goal.unsigned += 1
        goal.position = event.position
        return is_obeyed

    def _is_new(self, id: str) -> bool:
        if id in self._seen:
            return False
        self._seen.add(id)
        self._seen_in_order.append(id)
        if len(self._seen_in_order) > MAX_SEEN_IDS:
            self._seen.discard(self._seen_in_order.popleft())
        return True

    def set_out(self, plan: Plan) -> None:
        """Say who works on the goal, and what else its events belong to."""
        scopes = {"task": plan.task, "mission": plan.mission}
        self.teller.agent = plan.agent
        self.teller.scopes = {name: value for name, value in scopes.items() if value is not None}

    async def find_above(self) -> None:
        """Learn of the goals that this one is part of."""
        known, parent = {self.state.id}, None if self.above else self.state.parent
        while parent is not None and parent not in known and len(self.above) < MAX_PARENTS:
            above = GoalState(id=parent)
            if self._operator is not None:
                self._keys[parent] = self._operator.goal_key(parent)
            for event in await asyncio.to_thread(self._new, above):
                self._take(above, event)
            if above.goal is None:
                raise Invalid(f"the goal above, {parent}, is not on this log; begin that one first, or leave `parent` out")
            self.above.append(above)
            known.add(parent)
            parent = above.parent
        self._operator = None  # the keys of these goals are enough

    # --- writing

    async def append(self, events: EventsOrFactory, *, unless: Callable[[], bool] = lambda: False) -> bool:
        """Store what waits and these, durably, and take them in; answers whether they were stored: not if `unless` says so by then.

        What waits goes with them in one write where it may; these are never parted. `events` may be what makes them, by work that blocks:
        it is called in the thread that stores, and the goal's state stays as it is meanwhile. Cancelled, it ends first.
        """
        batch = ConditionalAppend(events, unless)
        await self._patiently(lambda: self._append(batch))
        await self._show()
        return batch.is_stored

    async def flush(self) -> None:
        """Store what waits."""
        await self._patiently(self._flush)

    async def _patiently(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do it; a trouble that may pass is no reason to give up, as long as the goal is held for certain."""
        while True:
            try:
                return await run_uncancelled(work())
            except RETRYABLE_ERRORS:
                if not self.is_patient or self.hold is None or self.hold.lost.is_set():
                    raise
                await asyncio.sleep(AGAIN_SECONDS)

    async def _append(self, batch: ConditionalAppend) -> None:
        async with self._writing, self._reading:
            if len(self._later) > MAX_QUEUED_WITH_BATCH:
                await self._store_what_waits()
            if self._is_behind:
                self._take_all(await asyncio.to_thread(self._read))
            await self._check_held()  # what was read may say that the goal is another's
            await self._store(batch)

    async def _store(self, batch: ConditionalAppend) -> None:
        while not (batch.is_known(self._seen) or batch.unless()):
            waiting = list(self._later)
            try:
                stored, read = await asyncio.to_thread(self._store_and_read, waiting, batch)
            except Conflict as error:
                await self._learn(error)
                batch.make_anew(self._seen)
            except Invalid:
                if not waiting:
                    raise
                await self._store_what_waits()
                self._take_all(await asyncio.to_thread(self._read))
                await self._check_held()
            else:
                self._take_all(read)
                del self._later[: len(waiting)]
                self.outbox.put(stored)
                batch.is_stored = True
                return
        batch.is_stored = batch.is_known(self._seen)

    def _store_and_read(self, waiting: Sequence[Event], batch: ConditionalAppend) -> tuple[list[Event], list[list[Event]]]:
        """All in one thread: each change of threads costs as much as the reading does."""
        stored = [*map(self._signed, waiting), *batch.signed(self._signed)]
        self._put(stored)
        return stored, self._read()

    def _put(self, events: Sequence[Event]) -> None:
        """Behind all that is known, so that one who drives the goal no more, and does not know it yet, writes nothing."""
        self._head = max([self._head or "", *self.log.append(events, expect=Expect(self.scope, self._head))])

    async def _learn(self, error: Conflict) -> None:
        """Somebody else wrote: take that in, which may be that the goal is theirs now."""
        before = self.state.position
        self._take_all(await asyncio.to_thread(self._read))
        if self.state.position == before:
            self._head = error.actual  # the newest may have been erased
        await self._check_held()

    def tell_later(self, events: Sequence[Event]) -> int:
        """Have events stored in their order, with the next that are; answers how many wait."""
        self._later += events
        return len(self._later)

    async def _flush(self) -> None:
        async with self._writing, self._reading:
            await self._store_what_waits()

    async def _store_what_waits(self) -> None:
        together = MAX_BATCH_EVENTS
        while self._later:
            part = self._later[:together]
            await self._check_held()
            try:
                stored = await asyncio.to_thread(self._store_all, part)
            except Conflict as error:
                await self._learn(error)
                continue
            except TooLarge:
                if len(part) == 1:
                    raise
                together = len(part) // 2
                continue
            self._is_behind = True
            del self._later[: len(part)]
            self.outbox.put(stored)

    def _store_all(self, events: Sequence[Event]) -> list[Event]:
        try:
            stored = list(map(self._signed, events))
            self._put(stored)
        except Invalid:  # what an agent tells may be anything, and stands in nobody's way
            stored = [self._signed(self._admissible(event)) for event in events]
            self._put(stored)
        return stored

    def _admissible(self, event: Event) -> Event:
        try:
            self.log.admit(event)
        except Invalid as error:
            return make_rejected_event(event, str(error))
        return event

    async def _check_held(self) -> None:
        if self.hold is not None:
            await self.hold.assure()

    def _signed(self, event: Event) -> Event:
        stamped = event if event.at is not None else msgspec.structs.replace(event, at=self.now())
        key = self._keys.get(event.goal or "")
        return stamped if key is None else key.sign(stamped, admit=self.log.admit)
