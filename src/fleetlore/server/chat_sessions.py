"""Where people talk to agents: the sessions of a house, opened when somebody first does, and ended with it.

Nothing of the graph runtime is loaded before that: most who start a server only look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from fleetlore.errors import ConfigError, Invalid, MindError
from fleetlore.events import codec
from fleetlore.events.envelope import Event
from fleetlore.events.names import is_name
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from fleetlore.graph.session import Session
    from fleetlore.graph.sessions import SessionManager
    from fleetlore.graph.settings import GraphSettings
    from fleetlore.log.tokens import TokenScope
    from fleetlore.server.context import House

CHANNEL = "web"
_RUNTIME = "fleetlore.graph.sessions"
_LATER = {"retry-after": "5"}
_Answer = TypeVar("_Answer")


class Talk:
    """The sessions of one house. For its event loop."""

    def __init__(self, house: House, settings: Callable[[], GraphSettings] | None = None) -> None:
        self._house, self._settings = house, settings
        self._opening = asyncio.Lock()
        self._open_rooms = AsyncExitStack()
        self._sessions: SessionManager | None = None
        self._header: str | None = None
        self._turns: set[asyncio.Task[Any]] = set()

    async def sessions(self) -> SessionManager:
        """The sessions, opened by whoever asks first."""
        if self._sessions is None:
            async with self._opening:
                if self._sessions is None:
                    try:
                        self._sessions = await self._open()
                    except (ConfigError, Invalid, MindError) as error:  # in the settings, not in what was asked
                        raise Problem(503, f"nobody can be talked to here yet: {error}") from error
        return self._sessions

    async def _open(self) -> SessionManager:
        await self._house.run(import_module, _RUNTIME)  # in a thread: it takes a while, and streams go on
        from fleetlore.graph.sessions import SessionManager
        from fleetlore.graph.settings import GraphSettings
        from fleetlore.log.async_recorder import Recorder

        settings = GraphSettings() if self._settings is None else self._settings()
        self._header = settings.proxy_header
        async with AsyncExitStack() as stack:
            recorder = Recorder.from_blocking(self._house.log)
            stack.push_async_callback(recorder.close)
            sessions = await stack.enter_async_context(SessionManager(recorder, settings, now=self._house.clock))
            self._open_rooms = stack.pop_all()
        return sessions

    async def identity(self, connection: HTTPConnection, scope: TokenScope) -> str:
        """As whom a request speaks: who the trusted proxy says it is, if one is named, else the label of its token."""
        token = await self._house.keys.holder(connection, scope)
        await self.sessions()
        said = connection.headers.getlist(self._header) if self._header else []
        if not said:
            return self._as_stored(token.label or token.id)
        if len(said) > 1 or not is_name(said[0]):
            raise Problem(400, f"the header {self._header} names no user; it is needed once, with at most 200 bytes")
        return self._as_stored(said[0])

    def _as_stored(self, name: str) -> str:
        """What the log makes of a name: where names are not to be kept, it knows its people by others (docs/privacy.md)."""
        record = self._house.log.admit(Event(kind="session.started", actor=name, data={"person": name}))
        return str(codec.decode(record.raw).data["person"])

    async def open(self, id: str | None, identity: str) -> Session:
        """A session of somebody; a new one if none is named. A `Problem` if it is not his."""
        sessions = await self.sessions()
        from fleetlore.graph.sessions import NoSuchSession, TooManySessions

        try:
            return await sessions.open_session(id or sessions.new_id(), identity=identity, channel=CHANNEL)
        except NoSuchSession as error:
            raise Problem(404, str(error)) from error
        except TooManySessions as error:
            raise Problem(503, str(error), headers=_LATER) from error

    def begin(self, turn: Coroutine[Any, Any, _Answer]) -> asyncio.Task[_Answer]:
        """Let a turn be taken, whoever goes away meanwhile: what was begun is told to its end."""
        task = asyncio.create_task(turn)
        self._turns.add(task)
        task.add_done_callback(self._turns.discard)
        return task

    async def close(self) -> None:
        """End every session; what they were doing is told to the log."""
        await self._open_rooms.aclose()
        if self._turns:
            await asyncio.wait(self._turns)
