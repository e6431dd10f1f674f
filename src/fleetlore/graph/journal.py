"""The journal of a session: each event is applied at once and stored in order; only some kinds are waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fleetlore import clock
from fleetlore.events.envelope import Event
from fleetlore.kernel.journal import Journal
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Expect
from fleetlore.views.conversation_state import Conversation
from fleetlore.views.conversations import apply_to_session

DURABLE_KINDS = frozenset(("model.called", "tool.called", "process.started"))
"""Kinds that are stored before the action they announce."""


class _SessionFold:
    """Continues the fold of one session."""

    def __init__(self, session: Conversation) -> None:
        self._session = session

    def initial(self) -> Conversation:
        return self._session

    def apply(self, state: Conversation, event: Event) -> Conversation:
        apply_to_session(state, event)
        return state


class SessionJournal(Journal[Conversation]):
    """One session and its connection to the log."""

    def __init__(
        self, log: Recorder, session: Conversation, *, now: clock.Clock = clock.now, new_id: Callable[[], str] = clock.uuid7
    ) -> None:
        super().__init__(log, _SessionFold(session), scopes=(f"run:{session.id}",), flushes_soon=True, now=now, new_id=new_id)
        self.session = session
        self.storage_error: Exception | None = None
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
        self.record([event])
        return id

    async def append(self, events: Sequence[Event], *, expect: Expect | None = None) -> list[Event]:
        """Record events for `ask_and_record`; waits for storage if one of them announces an external action."""
        recorded = self.record(events)
        if any(event.kind in DURABLE_KINDS for event in events):
            await self.flush()
        return recorded

    async def flush(self) -> list[Event]:
        """Wait until all events are stored. After the first error nothing more is stored, and it is raised every time."""
        if self.storage_error is None:
            try:
                return await super().flush()
            except Exception as error:  # noqa: BLE001 - also raised by the next flush, maybe in another task
                self.storage_error = error
        raise self.storage_error
