"""Delivers log events to the agents of one worker: a follower per agent, or one shared follower if there are many."""

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
"""Up to this many agents have a follower each, which costs a thread and, on a server, a waiting request."""


class AgentSubscriptions:
    """Event streams for the agents of one worker; use it with `async with`."""

    def __init__(self, log: Recorder, *, after: Position | None = None, on_event: Callable[[Event], None] | None = None) -> None:
        """With `on_event` one follower serves all agents; it is called with every event after `after`, before the agent gets it."""
        self._log, self._after, self._on_event, self._is_shared = log, after, on_event, on_event is not None
        self._queues: dict[str, asyncio.Queue[Event | None]] = {}
        self._follower_task: asyncio.Task[None] | None = None

    @property
    def is_closed(self) -> bool:
        """Whether no more events will arrive, because the shared follower failed."""
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
        """Read the agent's events so far; `follow_agent` continues from there."""
        if self._is_shared:
            self._queues[agent] = asyncio.Queue()  # before reading the history, so that no event is missed
        return [event async for event in self._log.read(f"agent:{agent}", kinds=TOWN_KINDS)]

    async def follow_agent(self, agent: str, after: Position | None) -> AsyncGenerator[Event, None]:
        """Yield the agent's events after a position, each once, in order. Raises `Closed` when the log can no longer be followed."""
        if not self._is_shared:
            async with aclosing(self._log.follow(f"agent:{agent}", after=after)) as events:
                async for event in events:
                    yield event
            return
        try:
            while (queued := await self._queues[agent].get()) is not None:
                if (queued.position or "") > (after or ""):
                    yield queued
        finally:
            self._queues.pop(agent, None)
        raise Closed("the log cannot be followed any more")
