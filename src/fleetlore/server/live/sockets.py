"""`GET /ws`: the feed over WebSocket, one text frame per event. Messages from the client are ignored."""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress

import msgspec
from starlette.routing import WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from fleetlore.errors import FleetloreError
from fleetlore.server.live.stream import LET_GO, end_on_disconnect, make_abort, may_read, open_subscription
from fleetlore.server.live.subscription import SIGN_OF_LIFE, Subscription
from fleetlore.server.problems import Problem, to_problem
from fleetlore.server.security.guard import send_problem

COME_BACK = 1012
"""Close code of a dropped client: "service restart"."""


class EventSocket:
    """The route: every event from now on, or after a position."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until either side ends it."""
        websocket = WebSocket(scope, receive, send)
        async with AsyncExitStack() as stack:
            try:
                subscription = await stack.enter_async_context(open_subscription(websocket))
            except (Problem, FleetloreError) as error:
                await send_problem(error if isinstance(error, Problem) else to_problem(error), scope, receive, send)
                return
            await websocket.accept()
            subscription.cut = make_abort(receive)
            await stack.enter_async_context(end_on_disconnect(receive, subscription))
            with suppress(*LET_GO, OSError):  # OSError: the client has disconnected
                await _send_events(websocket, subscription, send)
            with suppress(OSError):
                await send({"type": "websocket.close", "code": COME_BACK})


async def _send_events(websocket: WebSocket, subscription: Subscription, send: Send) -> None:
    await send(_text_frame(msgspec.json.encode({"hello": {"head": subscription.head}})))
    while (batch := await subscription.next()) is not None:
        if batch is SIGN_OF_LIFE:
            await may_read(websocket)
        for entry in batch.entries:
            await send(_text_frame(entry.json))


def _text_frame(json: bytes) -> dict[str, str]:
    return {"type": "websocket.send", "text": json.decode()}


ROUTES = [WebSocketRoute("/ws", EventSocket())]
