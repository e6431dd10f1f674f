"""`GET /ws/chat`: a conversation word by word. In: what the user says, presses and sees; out: the screen first, then all that changes.

A browser can set no header on a WebSocket, and a token must not be in an address: pages name theirs beside the protocol
`fleetlore.chat`, as a second one. Whoever reads too slowly is let go; he comes back and is told the screen.

Every `screen` and every `controls` has a number `n`; who tells what he shows says with `seen` up to which he has drawn. What is told of a
screen that has changed meanwhile is no news, and not passed on.
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
from fleetlore.server.live.stream import cutter
from fleetlore.server.problems import Problem, to_problem
from fleetlore.server.security.guard import refuse

if TYPE_CHECKING:
    from fleetlore.graph.session import Session
    from fleetlore.server.context import AppContext

PATH = "/ws/chat"
PROTOCOL = "fleetlore.chat"
MOST_WAITING, MOST_WAITING_BYTES = 4096, 4 << 20
"""Messages that a reader may be behind."""
MOST_TURNS = 8
"""Things that one socket may have said and that wait for their turn."""
LOOK_SECONDS = 15.0
"""Between two looks whether a token is still good, while nothing is said."""
_NOT_ALLOWED, _COME_BACK = 1008, 1012


class SocketQuery(queries.Query, kw_only=True):
    """Which session; a new one if none is named."""

    session: Id | None = None


class Said(Struct, kw_only=True, tag_field="type", tag="text", forbid_unknown_fields=True):
    """The user said something."""

    text: Text
    dashboard: Dashboard | None = None
    seen: int | None = None


class Pressed(Struct, kw_only=True, tag_field="type", tag="action", forbid_unknown_fields=True):
    """The user pressed a control."""

    action: Id
    data: Any = None
    dashboard: Dashboard | None = None
    seen: int | None = None


class Reported(Struct, kw_only=True, tag_field="type", tag="report", forbid_unknown_fields=True):
    """The page shows something else than before."""

    dashboard: Dashboard
    seen: int | None = None


_decode = msgspec.json.Decoder(Said | Pressed | Reported).decode
_HOW = 'send {"type": "text", "text": …}, {"type": "action", "action": …} or {"type": "report", "dashboard": […]}'


class Wire:
    """A sink that leads to a socket: holds what waits for its reader, up to a limit."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(MOST_WAITING)
        self._bytes = 0
        self.shown = 0
        """How many screens were sent."""
        self.cut: Callable[[], object] = object
        """Breaks the connection of a reader that cannot keep up."""

    def send(self, message: dict[str, Any]) -> None:
        """Take one message. Never raises, never waits."""
        if message["type"] in ("screen", "controls"):
            self.shown += 1
            message = {**message, "n": self.shown}
        try:
            raw = msgspec.json.encode(message, enc_hook=str)
        except (TypeError, ValueError, OverflowError):  # half a character, for one: its reader comes back, and is told the screen
            self.cut()
            return
        if self._bytes + len(raw) > MOST_WAITING_BYTES or self._waiting.full():
            self.cut()
            return
        self._bytes += len(raw)
        self._waiting.put_nowait(raw)

    async def next(self) -> str:
        """The next that is to be sent."""
        raw = await self._waiting.get()
        self._bytes -= len(raw)
        return raw.decode()


class Socket:
    """The route."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One conversation, until one of the two ends it."""
        websocket = WebSocket(_bearing(scope), receive, send)
        house: AppContext = scope["app"].state.context
        with ExitStack() as stack:
            try:
                stack.enter_context(house.limits.stream())
                talking = await Talking.begin(websocket, house)
            except (Problem, FleetloreError) as error:
                await refuse(error if isinstance(error, Problem) else to_problem(error), scope, receive, send)
                return
            await websocket.accept(PROTOCOL if PROTOCOL in scope.get("subprotocols", ()) else None)
            talking.wire.cut = cutter(receive)
            await talking.go_on(receive)


class Talking:
    """One socket and the session that it is for."""

    def __init__(self, websocket: WebSocket, house: AppContext, session: Session) -> None:
        self._websocket, self._house, self._session = websocket, house, session
        self.wire = Wire()
        self._turns = 0

    @classmethod
    async def begin(cls, websocket: WebSocket, house: AppContext) -> Talking:
        """Open the session that is asked for; a `Problem` if it cannot be."""
        identity = await house.chats.resolve_identity(websocket, "write")
        query = queries.parse_query(websocket, SocketQuery)
        return cls(websocket, house, await house.chats.open_session(query.session, identity))

    async def go_on(self, receive: Receive) -> None:
        """Hear and speak until the client goes."""
        self._show()
        speaking = asyncio.create_task(self._speak())
        try:
            while (message := await receive())["type"] == "websocket.receive":
                await self._hear(message.get("text") or message.get("bytes") or "")
        finally:
            self._session.detach_sink(self.wire)
            speaking.cancel()
            with suppress(asyncio.CancelledError, WebSocketDisconnect):
                await speaking

    def _show(self) -> None:
        """The screen, and from there on whatever changes: nothing can come in between."""
        self.wire.send({"type": "screen", **msgspec.to_builtins(self._session.build_screen())})
        self._session.attach_sink(self.wire)

    async def _speak(self) -> None:
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
        """Whether its token is still good."""
        try:
            await self._house.keys.holder(self._websocket, "write")
        except Problem as problem:
            await self._websocket.close(_NOT_ALLOWED, problem.detail[:100])
            return False
        return True

    async def _hear(self, raw: str | bytes) -> None:
        try:
            said = _decode(raw)
            identity = await self._house.chats.resolve_identity(self._websocket, "write")
            await self._reopen(identity)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._complain(f"{error}; {_HOW}")
        except (Problem, FleetloreError) as error:
            self._complain(str(error))
        else:
            if self._turns >= MOST_TURNS:
                self._complain("too much was said at once; wait for the answer")
                return
            self._turns += 1
            self._house.chats.start_turn(self._take(said))

    async def _reopen(self, identity: str) -> None:
        """A session that nobody used for long was closed; it goes on where the log ends."""
        session = await self._house.chats.open_session(self._session.id, identity)
        if session is not self._session:
            self._session.detach_sink(self.wire)
            self._session = session
            self._show()

    async def _take(self, said: Said | Pressed | Reported) -> None:
        dashboard = said.dashboard if said.seen in (None, self.wire.shown) else None
        try:
            match said:
                case Said():
                    await self._session.handle_text(said.text, dashboard)
                case Pressed():
                    await self._session.handle_action(said.action, said.data, dashboard)
                case Reported() if dashboard is not None:
                    await self._session.report_dashboard(dashboard)
        except FleetloreError as error:
            self._complain(str(error))
        finally:
            self._turns -= 1

    def _complain(self, why: str) -> None:
        self.wire.send({"type": "error", "message": why})
        self.wire.send({"type": "done"})


def _bearing(scope: Scope) -> Scope:
    """The same request with the token in its header that a page has named beside the protocol."""
    named = [word for word in scope.get("subprotocols", ()) if is_secret(word)]
    has_header = any(name.lower() == b"authorization" for name, _ in scope["headers"])
    if len(named) != 1 or has_header:
        return scope
    return {**scope, "headers": [*scope["headers"], (b"authorization", b"Bearer " + named[0].encode())]}


ROUTES = [WebSocketRoute(PATH, Socket())]
