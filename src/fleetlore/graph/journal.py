"""Records a session: each event is applied to the session at once and stored in order; only some kinds are waited for."""

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
"""Kinds that are stored before the action they announce."""
MAX_ATOMIC_EVENTS = 50
"""Up to this many events are stored in one append, all or none."""


class SessionLog(Protocol):
    """Stores events durably, in the order of the calls."""

    async def append(self, events: Sequence[Event]) -> object:
        """Store the events, all or none."""

    async def append_all(self, events: Iterable[Event]) -> object:
        """Store any number of events."""


class SessionJournal:
    """One session and its connection to the log."""

    def __init__(
        self, log: SessionLog, session: Conversation, *, now: clock.Clock = clock.now, new_id: Callable[[], str] = clock.uuid7
    ) -> None:
        self._log, self.session, self._now, self._new_id = log, session, now, new_id
        self._loop = asyncio.get_running_loop()
        self._pending_events: list[Event] = []
        self._is_store_scheduled = False
        self._store_task: asyncio.Task[None] | None = None
        self.storage_error: BaseException | None = None
        """The first error of storing events that were applied already. The session must then be read again."""

    def note(self, kind: str, data: Mapping[str, Any], **envelope: Any) -> str:
        """Record an event of the session without waiting; returns its id."""
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
            # Runs after the current callbacks, so that steps in quick succession share one append.
            self._loop.call_soon(self._start_storing)

    async def append(self, events: Sequence[Event]) -> None:
        """Record events for `ask_and_record`; waits for storage if one of them announces an external action."""
        for event in events:
            self._queue_event(event if event.at is not None else replace(event, at=self._now()))
        if any(event.kind in DURABLE_KINDS for event in events):
            await self.flush_events()

    async def flush_events(self) -> None:
        """Wait until all events are stored; raises the storage error if there was one."""
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
        """Take all pending events in one go, so that they are stored in order whichever task gets here first."""
        events, self._pending_events = self._pending_events, []
        try:
            await (self._log.append(events) if len(events) <= MAX_ATOMIC_EVENTS else self._log.append_all(events))
        except Exception as error:  # noqa: BLE001 - raised by the next `flush_events`, maybe in another task
            self.storage_error = self.storage_error or error
            if isinstance(error, Invalid) and len(events) > 1:
                await self._store_one_by_one(events)

    async def _store_one_by_one(self, events: list[Event]) -> None:
        """One event that the log refuses does not keep the others out."""
        for event in events:
            with suppress(Invalid, LogError):
                await self._log.append([event])
