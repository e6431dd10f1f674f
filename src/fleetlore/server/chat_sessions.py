"""Chat sessions of the server, opened with the first chat request and closed with the `AppContext`.

The graph runtime is imported only then: most servers are never used for chat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from fleetlore.errors import ConfigError, Invalid, ModelError
from fleetlore.events import codec
from fleetlore.events.envelope import Event, is_name
from fleetlore.server.problems import Problem
from fleetlore.server.security.jwt import JwtReader

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from fleetlore.graph.session import Session
    from fleetlore.graph.sessions import SessionManager
    from fleetlore.log.tokens import TokenScope
    from fleetlore.server.context import AppContext

CHANNEL = "web"
_RUNTIME_MODULE = "fleetlore.graph.sessions"
_RETRY_LATER = {"retry-after": "5"}
_T = TypeVar("_T")


class ChatSessions:
    """The chat sessions of one context. Not thread-safe: use it on the context's event loop."""

    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._open_lock = asyncio.Lock()
        self._exit_stack = AsyncExitStack()
        self._manager: SessionManager | None = None
        self._identity_header: str | None = None
        self._token_reader: JwtReader | None = None
        self._turns: set[asyncio.Task[Any]] = set()

    async def get_manager(self) -> SessionManager:
        """The session manager, opened by the first call; a `Problem` 503 if the graph settings cannot be used."""
        if self._manager is None:
            async with self._open_lock:
                if self._manager is None:
                    try:
                        self._manager = await self._open_manager()
                    except (ConfigError, Invalid, ModelError) as error:  # wrong settings, not a wrong request
                        raise Problem(503, f"nobody can be talked to here yet: {error}") from error
        return self._manager

    async def _open_manager(self) -> SessionManager:
        await self._context.run(import_module, _RUNTIME_MODULE)  # in a thread: the import is slow and would block the event loop
        from fleetlore.graph.sessions import SessionManager
        from fleetlore.log.async_recorder import Recorder

        settings = self._context.view_cache.load_graph_settings()
        self._identity_header = settings.proxy_header
        if settings.jwt:
            self._token_reader = await self._context.run(JwtReader, settings.jwt)
        async with AsyncExitStack() as stack:
            recorder = Recorder.from_blocking(self._context.log)
            stack.push_async_callback(recorder.close)
            manager = await stack.enter_async_context(SessionManager(recorder, settings, now=self._context.clock))
            self._exit_stack = stack.pop_all()
        return manager

    async def resolve_identity(self, connection: HTTPConnection, scope: TokenScope) -> str:
        """The user of a request: by the identity provider's signed token, or the trusted proxy's header, else the label of its token.

        A `Problem` if the token lacks the scope, or if what names the user cannot be trusted.
        """
        token = await self._context.keys.require_scope(connection, scope)
        await self.get_manager()  # reads the settings
        if self._token_reader is not None and (jwt := connection.headers.get(self._token_reader.header)):
            return self._as_stored(self._token_reader.read_user(jwt, self._context.clock()))
        users = connection.headers.getlist(self._identity_header) if self._identity_header else []
        if not users:
            return self._as_stored(token.label or token.id)
        if len(users) > 1 or not is_name(users[0]):
            raise Problem(400, f"the header {self._identity_header} names no user; it is needed once, with at most 200 bytes")
        return self._as_stored(users[0])

    def _as_stored(self, name: str) -> str:
        """The name as the log stores it: redaction may replace names of people (docs/privacy.md)."""
        record = self._context.log.admit(Event(kind="session.started", actor=name, data={"person": name}))
        return str(codec.decode_event(record.raw).data["person"])

    async def open_session(self, id: str | None, identity: str) -> Session:
        """A session of this user, a new one if no id is given. A `Problem` 404 if it belongs to another user."""
        manager = await self.get_manager()
        from fleetlore.graph.sessions import NoSuchSession, TooManySessions

        try:
            return await manager.open_session(id or manager.new_id(), identity=identity, channel=CHANNEL)
        except NoSuchSession as error:
            raise Problem(404, str(error)) from error
        except TooManySessions as error:
            raise Problem(503, str(error), headers=_RETRY_LATER) from error

    def start_turn(self, turn: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Run a turn as a task of its own, so that it finishes even if the client disconnects."""
        task = asyncio.create_task(turn)
        self._turns.add(task)
        task.add_done_callback(self._turns.discard)
        return task

    async def close(self) -> None:
        """End every session, then wait for running turns to be logged."""
        await self._exit_stack.aclose()
        if self._turns:
            await asyncio.wait(self._turns)
