"""A reader for files that hold all sessions of a program, such as its database: one `SessionReader` for each session."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct, field

from fleetlore.dialects.recording import parse_record
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.session_reader import SessionReader, TranscriptState, put_bounded

MAX_SESSIONS = 20
"""Sessions whose state is kept; one that continues after that is started again, with the same ids."""
MAX_TOTALS = 5_000

FindSession = Callable[[Record], str | None]
"""Returns the session that a record belongs to."""


class SessionStates(Struct, kw_only=True):
    """The states of the sessions that were written to last."""

    sessions: dict[str, TranscriptState] = field(default_factory=dict)
    totals: dict[str, Any] = field(default_factory=dict)
    """`extra["total"]` of other sessions: what was counted once must not count again."""


class ManySessionsReader:
    """Reads records of several sessions."""

    def __init__(self, saved: SessionStates, session_type: type[SessionReader], find_session: FindSession) -> None:
        self._session_type, self._find_session, self._totals = session_type, find_session, saved.totals
        self._sessions = {key: session_type(each) for key, each in saved.sessions.items()}

    def read(self, raw: bytes) -> list[Event]:
        """The events of one record."""
        record = parse_record(raw)
        session = self._find_session(record)
        return [] if session is None else self._open_session(session).read_record(record, raw)

    def _open_session(self, session: str) -> SessionReader:
        """The session's reader; the one that was not used for longest is closed."""
        reader = self._sessions.pop(session, None)
        if reader is None:
            total = self._totals.pop(session, None)
            reader = self._session_type(TranscriptState(session=session, extra={} if total is None else {"total": total}))
        self._sessions[session] = reader
        if len(self._sessions) > MAX_SESSIONS:
            oldest = next(iter(self._sessions))
            if (total := self._sessions.pop(oldest).state.extra.get("total")) is not None:
                put_bounded(self._totals, oldest, total, MAX_TOTALS)
        return reader

    def flush_complete(self) -> list[Event]:
        """Nothing is held back."""
        return []

    def end(self, now: datetime | None = None) -> list[Event]:
        """Ends of turns that no event marks."""
        return [event for reader in self._sessions.values() for event in reader.end(now)]

    def save(self) -> bytes:
        """The states, as JSON."""
        return msgspec.json.encode(SessionStates(sessions={key: each.state for key, each in self._sessions.items()}, totals=self._totals))


def open_sessions(session_type: type[SessionReader], find_session: FindSession) -> Callable[[bytes | None], ManySessionsReader]:
    """What `Recording.open` needs."""

    def open_reader(saved: bytes | None) -> ManySessionsReader:
        states = msgspec.json.decode(saved, type=SessionStates) if saved else SessionStates()
        return ManySessionsReader(states, session_type, find_session)

    return open_reader
