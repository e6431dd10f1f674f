"""The journal of a session: each event is applied at once and stored in order; only some kinds are waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.kernel.journal import Journal, JournalDecision
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Expect
from fleetlore.views.conversation_state import Conversation
from fleetlore.views.conversations import apply_to_session, is_session_start

DURABLE_KINDS = frozenset(("model.called", "tool.called", "process.started"))
"""Kinds that are stored before the action they announce."""


class _SessionFold:
    """Folds one session, and knows whether the run with its id is one."""

    def __init__(self, id: str) -> None:
        self._id = id
        self.is_started = self.is_other_run = False

    def initial(self) -> Conversation:
        return Conversation(id=self._id)

    def apply(self, state: Conversation, event: Event) -> Conversation:
        if not self.is_started:
            self.is_started, self.is_other_run = True, not is_session_start(event)
        apply_to_session(state, event)
        return state


class SessionJournal(Journal[Conversation]):
    """One session and its connection to the log."""

    def __init__(self, log: Recorder, id: str, **options: Any) -> None:
        self._session_fold = _SessionFold(id)
        super().__init__(log, self._session_fold, scopes=(f"run:{id}",), flushes_soon=True, **options)
        self.storage_error: Exception | None = None
        """The first error of storing events that were applied already. The session must then be read again."""

    @property
    def session(self) -> Conversation:
        """The conversation, as far as it was read and recorded."""
        return self.state

    @property
    def is_other_run(self) -> bool:
        """Whether the id belongs to a run that is no session of a graph."""
        return self._session_fold.is_other_run

    async def load_or_start(self, started: Event) -> None:
        """Read the session; store this event if it has none yet. If another process starts it first, use that one."""

        def decide(_: Conversation) -> JournalDecision[None]:
            return JournalDecision(() if self._session_fold.is_started else (started,), guard=f"run:{started.run}")

        self.apply_events((await self.decide(decide)).events)

    def note(self, kind: str, data: Mapping[str, Any], **envelope: Any) -> str:
        """Record an event of the session without waiting; returns its id."""
        id: str = envelope.pop("id", None) or self.new_id()
        event = Event(
            id=id,
            at=self.now(),
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
