"""Writes a session down: every fact is folded at once, goes to the log in order, and is waited for only where it must be durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.errors import Invalid, LogError
from fleetlore.events.envelope import Event
from fleetlore.views.conversation_state import Conversation
from fleetlore.views.conversations import apply_to_session

DURABLE_KINDS = frozenset(("model.called", "tool.called", "process.started"))
"""What is durable before it is done."""
MAX_ATOMIC_EVENTS = 50
"""So many events are one append: all or nothing."""


class SessionLog(Protocol):
    """Whatever stores events, durably, in the order in which it is asked to."""

    async def append(self, events: Sequence[Event]) -> object:
        """Store some, all or none."""

    async def append_all(self, events: Iterable[Event]) -> object:
        """Store any number."""


class SessionJournal:
    """Holds one session and the way to its log."""

    def __init__(
        self, log: SessionLog, session: Conversation, *, now: clock.Clock = clock.now, new_id: Callable[[], str] = clock.uuid7
    ) -> None:
        self._log, self.session, self._now, self._new_id = log, session, now, new_id
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Event] = []
        self._is_scheduled = False
        self._storing: asyncio.Task[None] | None = None
        self.broken: BaseException | None = None
        """Why something that was folded is not on the log, once that happened: the session has to be read again."""

    def note(self, kind: str, data: Mapping[str, Any], **envelope: Any) -> str:
        """Tell one fact of the session, without waiting; answers its id."""
        id: str = envelope.pop("id", None) or self._new_id()
        event = Event(
            id=id,
            at=self._now(),
            kind=kind,
            agent=self.session.agent,
            run=self.session.id,
            data=data if type(data) is dict else dict(data),
            **envelope,
        )
        self._put(event)
        return id

    def _put(self, event: Event) -> None:
        apply_to_session(self.session, event)
        self._waiting.append(event)
        if not self._is_scheduled:
            self._is_scheduled = True
            # At the end of this turn of the loop, so that steps that follow each other at once go together.
            self._loop.call_soon(self._start_storing)

    async def append(self, events: Sequence[Event]) -> None:
        """What `recording.asked` tells: durable before an outward act, in order without waiting after it."""
        for event in events:
            self._put(event if event.at is not None else replace(event, at=self._now()))
        if any(event.kind in DURABLE_KINDS for event in events):
            await self.durable()

    async def durable(self) -> None:
        """Wait until everything told is on the disk; raises what kept it off."""
        if self._waiting:
            await self._store()
        elif self._storing is not None and not self._storing.done():
            await asyncio.wait([self._storing])
        if self.broken is not None:
            raise self.broken

    def _start_storing(self) -> None:
        self._is_scheduled = False
        if self._waiting:
            self._storing = asyncio.ensure_future(self._store())

    async def _store(self) -> None:
        """What waits is taken and handed to the log in one go, so that the log's order is ours whoever comes here first."""
        events, self._waiting = self._waiting, []
        try:
            await (self._log.append(events) if len(events) <= MAX_ATOMIC_EVENTS else self._log.append_all(events))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the disk next, and that may be another task
            self.broken = self.broken or error
            if isinstance(error, Invalid) and len(events) > 1:
                await self._store_one_by_one(events)

    async def _store_one_by_one(self, events: list[Event]) -> None:
        """One that the log cannot take does not keep the others out."""
        for event in events:
            with suppress(Invalid, LogError):
                await self._log.append([event])
