"""One goal on the log: read in order, written in order, signed where the log is sealed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import msgspec

from fleetlore import clock
from fleetlore.errors import FleetloreError, Invalid, LeaseLost, TooLarge
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Plan
from fleetlore.log.base import Expect
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.runtime.driver.sinks import DriverEventSink
from fleetlore.runtime.driver.telling import Teller
from fleetlore.state.seal import OperatorKey, obeyed
from fleetlore.views import goals
from fleetlore.views.goal_state import GoalState

Watch = Callable[[Event], Awaitable[None]]
"""Told every event of the goal, once it is stored, in the order of the log. An error of the watcher stops the driver."""

MOST_ABOVE = 16
MOST_TOGETHER = 200
FEW = 50
"""So many that wait may go with others in one write."""


async def nobody(event: Event) -> None:
    """Watches nothing."""


class Book:
    """What the log says of a goal and of those above it, and what is still to be written."""

    def __init__(
        self,
        log: BlockingRecorder,
        goal: str,
        *,
        key: OperatorKey | None = None,
        sinks: Sequence[DriverEventSink] = (),
        watch: Watch = nobody,
        now: clock.Clock = clock.now,
        new_id: Callable[[], str] = clock.uuid7,
    ) -> None:
        self.log, self.state, self.above = log, GoalState(id=goal), list[GoalState]()
        self.now, self.new_id = now, new_id
        self._operator, self._sinks, self._watch = key, sinks, watch
        self._keys = {} if key is None else {goal: key.goal_key(goal)}
        self._seen: set[str] = set()
        self._later: list[Event] = []
        self._reading, self._writing = asyncio.Lock(), asyncio.Lock()
        self.teller = Teller(goal, agent="", scopes={}, now=now, new_id=new_id)
        self.listeners: list[Callable[[Event], None]] = []
        """Told every event of the goal that is obeyed, at once; before `watch` is."""
        self.lost: LeaseLost | None = None
        """Set when another process may drive the goal: from then on nothing is written."""
        self.trouble: str | None = None
        """Why a sink did not take what it was handed, the last time that it did not."""

    @property
    def scope(self) -> str:
        """The goal's."""
        return f"goal:{self.state.id}"

    @property
    def is_sealed(self) -> bool:
        """Whether only what is signed is believed."""
        return bool(self._keys)

    def moment(self) -> datetime:
        """Now, never before what the log says: clocks are set back."""
        return max(self.now(), self.state.seen_at or self.now())

    # --- reading

    async def catch_up(self) -> list[Event]:
        """Take in what is new, of the goals above, too; answers the goal's own new events that are obeyed."""
        async with self._reading:
            new = self._take_all(await asyncio.to_thread(self._read))
        await self._show(new)
        return new

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

    def _take_all(self, read: Sequence[Sequence[Event]]) -> list[Event]:
        new = [event for event in read[0] if self._take(self.state, event)]
        if self.state.plan is not None and not self.teller.agent:
            self.set_out(self.state.plan)
        for above, events in zip(self.above, read[1:], strict=True):
            for event in events:
                self._take(above, event)
        return new

    async def _show(self, events: Sequence[Event]) -> None:
        for event in events:
            await self._watch(event)

    def _take(self, goal: GoalState, event: Event) -> bool:
        """A fact counts once, though it may be stored again where ids are not known for ever."""
        is_new = event.id not in self._seen
        self._seen.add(event.id or "")
        is_obeyed = is_new and obeyed(event, self._keys.get(goal.id))
        if is_obeyed:
            goals.take(goal, event)
            for listener in self.listeners if goal is self.state else ():
                listener(event)
        elif is_new and event.kind == "control.requested":
            goal.unsigned += 1
        goal.position = event.position
        return is_obeyed

    def set_out(self, plan: Plan) -> None:
        """Say who works on the goal, and what else its events belong to."""
        scopes = {"task": plan.task, "mission": plan.mission}
        self.teller.agent = plan.agent
        self.teller.scopes = {name: value for name, value in scopes.items() if value is not None}

    async def find_above(self) -> None:
        """Learn of the goals that this one is part of."""
        known, parent = {self.state.id}, self.state.parent
        while parent is not None and parent not in known and len(self.above) < MOST_ABOVE:
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

    async def append(self, events: Sequence[Event] | Callable[[], Sequence[Event]], *, expect: str | None = None) -> None:
        """Store what waits and these, durably, and take them in. `expect`: only if the goal's newest event is still that.

        What waits goes with them in one write where it may; these are never parted. `events` may be what makes them, by work that blocks:
        it is called in the thread that stores, and the goal's state stays as it is meanwhile.
        """
        async with self._writing:
            if expect is not None or len(self._later) > FEW:
                await self._store_what_waits()
            self._check_held()
            expected, waiting = None if expect is None else Expect(self.scope, expect), list(self._later)
            async with self._reading:
                stored, read = await asyncio.to_thread(self._store_and_read, waiting, events, expected)
                new = self._take_all(read)
            del self._later[: len(waiting)]
            await self._publish(stored)
        await self._show(new)

    def _store_and_read(
        self, waiting: Sequence[Event], events: Sequence[Event] | Callable[[], Sequence[Event]], expect: Expect | None
    ) -> tuple[list[Event], list[list[Event]]]:
        """All in one thread: each change of threads costs as much as the reading does."""
        before = list(map(self._signed, waiting))
        signed = list(map(self._signed, events() if callable(events) else events))
        self._put(before, signed, expect)
        return [*before, *signed], self._read()

    def tell_later(self, events: Sequence[Event]) -> int:
        """Have events stored in their order, with the next that are; answers how many wait."""
        self._later += events
        return len(self._later)

    async def flush(self) -> None:
        """Store what waits."""
        async with self._writing:
            await self._store_what_waits()

    async def _store_what_waits(self) -> None:
        while self._later:
            part = [self._signed(event) for event in self._later[:MOST_TOGETHER]]
            self._check_held()
            await asyncio.to_thread(self.log.append_all, part)
            del self._later[: len(part)]
            await self._publish(part)

    def _check_held(self) -> None:
        if self.lost is not None:
            raise self.lost

    def _put(self, waiting: Sequence[Event], events: Sequence[Event], expect: Expect | None) -> None:
        try:
            self.log.append([*waiting, *events], expect=expect)
        except TooLarge:
            if expect is not None:
                raise
            self.log.append_all(waiting)
            self.log.append_all(events)

    def _signed(self, event: Event) -> Event:
        stamped = event if event.at is not None else msgspec.structs.replace(event, at=self.now())
        key = self._keys.get(event.goal or "")
        return stamped if key is None else key.sign(stamped, admit=self.log.admit)

    async def _publish(self, events: Sequence[Event]) -> None:
        for event in events if self._sinks else ():
            for sink in self._sinks if event.kind.startswith("driver.") else ():
                try:
                    await sink.publish(event)
                except (FleetloreError, OSError) as error:
                    self.trouble = str(error)
