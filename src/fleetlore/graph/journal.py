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
        self._pending_events: list[Event] = []
        self._is_store_scheduled = False
        self._store_task: asyncio.Task[None] | None = None
        self.storage_error: BaseException | None = None
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
        self._queue_event(event)
        return id

    def _queue_event(self, event: Event) -> None:
        apply_to_session(self.session, event)
        self._pending_events.append(event)
        if not self._is_store_scheduled:
            self._is_store_scheduled = True
            # At the end of this turn of the loop, so that steps that follow each other at once go together.
            self._loop.call_soon(self._start_storing)

    async def append(self, events: Sequence[Event]) -> None:
        """What `recording.asked` tells: durable before an outward act, in order without waiting after it."""
        for event in events:
            self._queue_event(event if event.at is not None else replace(event, at=self._now()))
        if any(event.kind in DURABLE_KINDS for event in events):
            await self.flush_events()

    async def flush_events(self) -> None:
        """Wait until everything told is on the disk; raises what kept it off."""
        if self._pending_events:
            await self._store_pending_events()
        elif self._store_task is not None and not self._store_task.done():
            await asyncio.wait([self._store_task])
        if self.storage_error is not None:
            raise self.storage_error

    def _start_storing(self) -> None:
        self._is_store_scheduled = False
        if self._pending_events:
            self._store_task = asyncio.ensure_future(self._store_pending_events())

    async def _store_pending_events(self) -> None:
        """What waits is taken and handed to the log in one go, so that the log's order is ours whoever comes here first."""
        events, self._pending_events = self._pending_events, []
        try:
            await (self._log.append(events) if len(events) <= MAX_ATOMIC_EVENTS else self._log.append_all(events))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the disk next, and that may be another task
            self.storage_error = self.storage_error or error
            if isinstance(error, Invalid) and len(events) > 1:
                await self._store_one_by_one(events)

    async def _store_one_by_one(self, events: list[Event]) -> None:
        """One that the log cannot take does not keep the others out."""
        for event in events:
            with suppress(Invalid, LogError):
                await self._log.append([event])
