"""`GET /ws/chat`: a chat with a graph session.

In: texts, actions and dashboard reports. Out: the screen, then every change.

Browsers cannot set headers on a WebSocket, and a token must not be in a URL: pages send it as a second subprotocol
next to `fleetlore.chat`. A client that reads too slowly is disconnected; it reconnects and gets the screen again.

Every `screen` and `controls` message has a number `n`. Clients send the last one they have drawn as `seen`; a
dashboard reported for an outdated screen is ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from starlette.routing import WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from fleetlore.errors import FleetloreError
from fleetlore.log.tokens import is_secret
from fleetlore.server import queries
from fleetlore.server.endpoints.chat import Dashboard, Id, Text
from fleetlore.server.live.stream import make_abort
from fleetlore.server.problems import Problem, to_problem
from fleetlore.server.security.guard import send_problem

if TYPE_CHECKING:
    from fleetlore.graph.session import Session
    from fleetlore.server.context import AppContext

PATH = "/ws/chat"
PROTOCOL = "fleetlore.chat"
MOST_WAITING, MOST_WAITING_BYTES = 4096, 4 << 20
"""Messages that a client may lag behind."""
MOST_TURNS = 8
"""Messages of one socket that may wait to be handled."""
LOOK_SECONDS = 15.0
"""Interval between token checks while nothing is sent."""
_NOT_ALLOWED, _COME_BACK = 1008, 1012


class SocketQuery(queries.Query, kw_only=True):
    """The session; a new one if none is named."""

    session: Id | None = None


class SentText(Struct, kw_only=True, tag_field="type", tag="text", forbid_unknown_fields=True):
    """The user sent a text."""

    text: Text
    dashboard: Dashboard | None = None
    seen: int | None = None


class UsedControl(Struct, kw_only=True, tag_field="type", tag="action", forbid_unknown_fields=True):
    """The user used a control."""

    action: Id
    data: Any = None
    dashboard: Dashboard | None = None
    seen: int | None = None


class ReportedDashboard(Struct, kw_only=True, tag_field="type", tag="report", forbid_unknown_fields=True):
    """The page's dashboard has changed."""

    dashboard: Dashboard
    seen: int | None = None


class StopTurn(Struct, kw_only=True, tag_field="type", tag="stop", forbid_unknown_fields=True):
    """The user stops the running turn."""


_decode = msgspec.json.Decoder(SentText | UsedControl | ReportedDashboard | StopTurn).decode
_HOW = 'send {"type": "text", "text": …}, {"type": "action", "action": …}, {"type": "report", "dashboard": […]} or {"type": "stop"}'


class ClientQueue:
    """A sink for a socket: queues messages for its client, up to a limit."""

    reports_screen = True
    """Its client says what it shows; the sensor notices one that does not."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(MOST_WAITING)
        self._bytes = 0
        self.shown = 0
        """Number of screens sent."""
        self.cut: Callable[[], object] = object
        """Aborts the connection of a client that cannot keep up."""

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message. Never raises or blocks."""
        if message["type"] in ("screen", "controls"):
            self.shown += 1
            message = {**message, "n": self.shown}
        try:
            raw = msgspec.json.encode(message, enc_hook=str)
        except (TypeError, ValueError, OverflowError):  # for example a lone surrogate: the client reconnects and gets the screen again
            self.cut()
            return
        if self._bytes + len(raw) > MOST_WAITING_BYTES or self._waiting.full():
            self.cut()
            return
        self._bytes += len(raw)
        self._waiting.put_nowait(raw)

    async def next(self) -> str:
        """Wait for the next message to send."""
        raw = await self._waiting.get()
        self._bytes -= len(raw)
        return raw.decode()


class ChatSocket:
    """The route."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one conversation until either side ends it."""
        websocket = WebSocket(_token_to_header(scope), receive, send)
        context: AppContext = scope["app"].state.context
        with ExitStack() as stack:
            try:
                stack.enter_context(context.limits.count_stream(scope))
                conversation = await ChatConnection.open_connection(websocket, context)
            except (Problem, FleetloreError) as error:
                await send_problem(error if isinstance(error, Problem) else to_problem(error), scope, receive, send)
                return
            await websocket.accept(PROTOCOL if PROTOCOL in scope.get("subprotocols", ()) else None)
            conversation.wire.cut = make_abort(receive)
            await conversation.serve_client(receive)


class ChatConnection:
    """One socket and its session."""

    def __init__(self, websocket: WebSocket, context: AppContext, session: Session) -> None:
        self._websocket, self._context, self._session = websocket, context, session
        self.wire = ClientQueue()
        self._turns = 0

    @classmethod
    async def open_connection(cls, websocket: WebSocket, context: AppContext) -> ChatConnection:
        """Open the requested session; raises a `Problem` if that is impossible."""
        identity = await context.chats.resolve_identity(websocket, "write")
        query = queries.parse_query(websocket, SocketQuery)
        return cls(websocket, context, await context.chats.open_session(query.session, identity))

    async def serve_client(self, receive: Receive) -> None:
        """Receive and send until the client disconnects."""
        self._send_screen()
        sender = asyncio.create_task(self._send_messages())
        try:
            while (message := await receive())["type"] == "websocket.receive":
                await self._receive_message(message.get("text") or message.get("bytes") or "")
        finally:
            self._session.detach_sink(self.wire)
            sender.cancel()
            with suppress(asyncio.CancelledError, WebSocketDisconnect):
                await sender

    def _send_screen(self) -> None:
        """Send the screen, then attach to the session; nothing can change in between."""
        self.wire.send({"type": "screen", **msgspec.to_builtins(self._session.build_screen())})
        self._session.attach_sink(self.wire)

    async def _send_messages(self) -> None:
        while True:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    text = await self.wire.next()
            except TimeoutError:
                if not await self._may_go_on():
                    return
            else:
                await self._websocket.send_text(text)

    async def _may_go_on(self) -> bool:
        """Whether the token is still valid."""
        try:
            await self._context.keys.require_scope(self._websocket, "write")
        except Problem as problem:
            await self._websocket.close(_NOT_ALLOWED, problem.detail[:100])
            return False
        return True

    async def _receive_message(self, raw: str | bytes) -> None:
        try:
            received = _decode(raw)
            identity = await self._context.chats.resolve_identity(self._websocket, "write")
            await self._reopen_session(identity)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._send_error(f"{error}; {_HOW}")
        except (Problem, FleetloreError) as error:
            self._send_error(str(error))
        else:
            if isinstance(received, StopTurn):
                self._session.stop_turn()
                return
            if self._turns >= MOST_TURNS:
                self._send_error("too much was said at once; wait for the answer")
                return
            self._turns += 1
            self._context.chats.start_turn(self._run_turn(received))

    async def _reopen_session(self, identity: str) -> None:
        """Reopen a session that was closed because nobody used it; it resumes from the log."""
        session = await self._context.chats.open_session(self._session.id, identity)
        if session is not self._session:
            self._session.detach_sink(self.wire)
            self._session = session
            self._send_screen()

    async def _run_turn(self, received: SentText | UsedControl | ReportedDashboard) -> None:
        dashboard = received.dashboard if received.seen in (None, self.wire.shown) else None
        try:
            match received:
                case SentText():
                    await self._session.handle_text(received.text, dashboard)
                case UsedControl():
                    await self._session.handle_action(received.action, received.data, dashboard)
                case ReportedDashboard() if dashboard is not None:
                    await self._session.report_dashboard(dashboard)
        except FleetloreError as error:
            self._send_error(str(error))
        finally:
            self._turns -= 1

    def _send_error(self, message: str) -> None:
        self.wire.send({"type": "error", "message": message})
        self.wire.send({"type": "done"})


def _token_to_header(scope: Scope) -> Scope:
    """Copy a token from the subprotocols to the Authorization header."""
    tokens = [word for word in scope.get("subprotocols", ()) if is_secret(word)]
    has_header = any(name.lower() == b"authorization" for name, _ in scope["headers"])
    if len(tokens) != 1 or has_header:
        return scope
    return {**scope, "headers": [*scope["headers"], (b"authorization", b"Bearer " + tokens[0].encode())]}


ROUTES = [WebSocketRoute(PATH, ChatSocket())]
