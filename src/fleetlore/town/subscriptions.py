"""How the agents of one worker hear: each follows its own scope; where they are many, one follower of the town serves all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Self

from fleetlore.errors import Closed
from fleetlore.events.envelope import Event
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Position
from fleetlore.town.journal import TOWN_KINDS

MAX_SEPARATE_FOLLOWERS = 8
"""So many agents have a follower each: a thread, and for a server a request that waits."""


class AgentSubscriptions:
    """What reaches the agents of one worker, inside `async with`."""

    def __init__(self, log: Recorder, *, after: Position | None = None, hear: Callable[[Event], None] | None = None) -> None:
        """With `hear` there are many, and it is told of every event of the town behind `after`, before the agent whom that concerns."""
        self._log, self._after, self._on_event, self._is_shared = log, after, hear, hear is not None
        self._queues: dict[str, asyncio.Queue[Event | None]] = {}
        self._follower_task: asyncio.Task[None] | None = None

    @property
    def is_closed(self) -> bool:
        """Whether nothing will be heard any more: the log failed while it was followed for all."""
        return self._follower_task is not None and self._follower_task.done()

    async def __aenter__(self) -> Self:
        if self._is_shared:
            self._follower_task = asyncio.create_task(self._dispatch_events())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._follower_task is not None:
            self._follower_task.cancel()
            await asyncio.gather(self._follower_task, return_exceptions=True)

    async def _dispatch_events(self) -> None:
        assert self._on_event is not None
        try:
            async with aclosing(self._log.follow(after=self._after)) as events:
                async for event in events:
                    self._on_event(event)
                    for name in {event.agent, event.parent, event.child}:
                        if name is not None and (queue := self._queues.get(name)) is not None:
                            queue.put_nowait(event)
        finally:
            for queue in self._queues.values():
                queue.put_nowait(None)

    async def read_history(self, agent: str) -> list[Event]:
        """What is known of an agent so far; what comes from now on `follow` gives."""
        if self._is_shared:
            self._queues[agent] = asyncio.Queue()  # before the past is read, so that nothing falls between
        return [event async for event in self._log.read(f"agent:{agent}", kinds=TOWN_KINDS)]

    async def follow_agent(self, agent: str, after: Position | None) -> AsyncGenerator[Event, None]:
        """The agent's events behind a position, each once, in order."""
        if not self._is_shared:
            async with aclosing(self._log.follow(f"agent:{agent}", after=after)) as events:
                async for event in events:
                    yield event
            return
        try:
            while (heard := await self._queues[agent].get()) is not None:
                if (heard.position or "") > (after or ""):
                    yield heard
        finally:
            self._queues.pop(agent, None)
        raise Closed("the log cannot be followed any more")
